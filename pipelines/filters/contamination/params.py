"""What can be set about the search for evaluation examples. Limits stand in `FilterParams`."""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field

from pipelines.profile import Params


class EvaluationSet(Params):
    """One evaluation set: a file of examples as JSON Lines or one JSON list, plain or compressed, told by content."""

    path: str = Field(min_length=1, description="local file; a relative path starts at the profile's folder")
    fields: list[str] = Field(
        min_length=1,
        description="fields whose text counts, in order: [question, answer], or [prompt, canonical_solution]",
    )
    id: str | None = Field(
        default=None, description="field that names an example; null: its number in the file, from 0"
    )


class ContaminationParams(Params):
    """Which evaluation sets are looked for in the documents. Words are compared without case and punctuation."""

    sets: dict[str, EvaluationSet] = Field(
        default={}, description="evaluation sets by name; empty: nothing is looked for, and no document is read"
    )
    ngram: int = Field(
        default=13,
        ge=8,
        le=13,
        description="consecutive words that make a match (13: GPT-3, 8: PaLM); an example with fewer is looked for "
        "whole, with fewer than 8 not at all",
    )
    common_examples: int = Field(
        default=10,
        ge=1,
        le=255,
        description="n-grams that more examples than this share are phrases, and not looked for",
    )

    @property
    def recorded(self) -> dict[str, Any]:
        """The values without the paths: a set is known by its content."""
        sets = {name: wanted.model_dump(mode="json", exclude={"path"}) for name, wanted in self.sets.items()}
        return super().recorded | {"sets": sets}

    @classmethod
    def restored(cls, recorded: Mapping[str, Any], here: Self) -> dict[str, Any]:
        """The values that were recorded, each set with the path that it has here, if it is here."""
        sets = {
            name: {**wanted, **({"path": here.sets[name].path} if name in here.sets else {})}
            for name, wanted in recorded["sets"].items()
        }
        return {**recorded, "sets": sets}
