"""What can be set about scoring and filtering, with ranges. Nothing is computed here.

Scores have parameters of their own (`ToxicityParams`, `PerplexityParams`, `ContaminationParams`); thresholds stand in
`FilterParams` alone, so that a threshold can change without anything being scored again.
"""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field

from pipelines.profile import Params


class ToxicityParams(Params):
    """How documents are screened for toxic language."""

    languages: list[str] = Field(
        default=["en"],
        description="ISO 639 codes of the languages the screen is trusted with; a document in any other gets no score",
    )
    window_bytes: int = Field(
        default=500,
        ge=50,
        le=1_000_000,
        description="length of the passages that are scored one by one, bytes; a document scores as its worst passage",
    )


class PerplexityParams(Params):
    """How the n-gram language model is trained, and how much of a document it reads."""

    order: int = Field(default=5, ge=2, le=5, description="length of the longest n-grams, words")
    max_megabytes: float = Field(
        default=50.0,
        gt=0,
        le=2000,
        description="text that each half of the reference may train on, 10^6 bytes; training needs 25 to 40 times as "
        "much memory for each of the two halves",
    )
    max_vocabulary: int = Field(
        default=500_000, ge=100, le=10_000_000, description="most frequent words kept; all others are unknown words"
    )
    min_count: int = Field(
        default=2,
        ge=1,
        le=1000,
        description="n-grams of three and more words seen less often are dropped from the model, after they counted "
        "for the estimates",
    )
    min_tokens: int = Field(
        default=1000, ge=1, le=1_000_000_000, description="tokens without which half a reference is called too small"
    )
    max_scored_tokens: int = Field(
        default=1_000_000, ge=1, le=1_000_000_000, description="tokens read of one document when it is scored"
    )


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


class FilterParams(Params):
    """Which scores let a document pass. A limit set to null is not applied."""

    max_toxicity: float | None = Field(
        default=0.95, ge=0, le=1, description="documents whose worst passage is more likely toxic than this are dropped"
    )
    max_perplexity_percentile: float | None = Field(
        default=99.0,
        ge=0,
        le=100,
        description="percentile of the reference's own perplexities, each half scored by the model of the other",
    )
    max_perplexity_factor: float = Field(
        default=10.0,
        gt=0,
        le=1000,
        description="documents are dropped above this many times the perplexity at that percentile",
    )
    max_perplexity: float | None = Field(
        default=None, ge=1, description="absolute limit in the model's own units; the stricter of both limits holds"
    )
    min_perplexity: float | None = Field(
        default=5.0,
        ge=1,
        description="documents below are dropped: to a model that never saw it, only text copied from the reference or "
        "boilerplate is this predictable",
    )
    max_contamination: float | None = Field(
        default=0.0,
        ge=0,
        le=1,
        description="largest share of a document's words that may stand in passages of evaluation examples; 0: one "
        "such passage is too much",
    )
    decontaminate: Literal["document", "paragraph"] = Field(
        default="document",
        description="beyond max_contamination 'document' drops the document; 'paragraph' cuts the paragraphs that hold "
        "such passages, and drops a document of which nothing is left",
    )
