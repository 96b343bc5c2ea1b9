"""What can be set about the comparison of filters. Nothing is measured here."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import Field

from pipelines.filters.toxicity.params import LabelledSample
from pipelines.profile import Params


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
