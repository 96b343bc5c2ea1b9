"""What can be set about the comparison of filters. Nothing is measured here."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import Field, field_validator

from pipelines.filters.toxicity.neural_params import language_codes
from pipelines.profile import Params


class LabelledSample(Params):
    """Texts that people have labelled: CSV with a header, or JSON Lines, UTF-8. `corpusmill review` makes one."""

    path: str | None = Field(
        default=None, description="local file; a relative path starts at the profile's folder; null: none is measured"
    )
    text: str = Field(default="text", min_length=1, description="field that holds the text")
    label: str = Field(default="label", min_length=1, description="field that holds what people call it")
    toxic: list[str] = Field(default=["1"], min_length=1, description="values of the label that mean toxic")
    language: str = Field(default="en", description="ISO 639 code of the language of all texts")

    _code = field_validator("language")(language_codes)


class ComparisonParams(Params):
    """What the filters are compared on: each is set on one half of the sample and measured on the other."""

    sample: LabelledSample = LabelledSample()
    documents: int = Field(
        default=2000, ge=20, le=1_000_000, description="texts of the sample that are used at most, always the same ones"
    )

    def placed(self, folder: Path) -> Self:
        """The same, with a relative path that starts at a folder."""
        path = self.sample.path and str(folder / Path(self.sample.path).expanduser())
        return self.model_copy(update={"sample": self.sample.model_copy(update={"path": path})})

    @property
    def recorded(self) -> dict[str, Any]:
        """The values without the path: the sample is known by its content."""
        said = self.model_dump(mode="json", exclude={"sample": {"path"}})
        said["sample"]["given"] = self.sample.path is not None
        return said

    @classmethod
    def restored(cls, recorded: Mapping[str, Any], here: Self) -> dict[str, Any]:
        """The values that were recorded, with the path that the sample has here, if it was given."""
        sample = dict(recorded["sample"])
        sample["path"] = here.sample.path if sample.pop("given") else None
        return {**recorded, "sample": sample}
