"""What the user can set about deduplication. How bands and rows follow from the threshold stands in `lsh.py`."""

from pydantic import Field, model_validator

from pipelines.profile import Params


class DedupParams(Params):
    """How alike two documents must be for one of them to go."""

    exact: bool = Field(True, description="remove documents whose words are the same, in the same order")
    minhash: bool = Field(True, description="remove documents that share most of their shingles")
    threshold: float = Field(
        0.75, ge=0.1, le=1.0, description="Jaccard similarity of the shingle sets from which on a document is removed"
    )
    shingle_words: int = Field(5, ge=1, le=50, description="consecutive words in a shingle")
    permutations: int = Field(112, ge=16, le=1024, description="values in a MinHash signature, 4 bytes each")
    seed: int = Field(1, ge=0, le=2**32 - 1, description="seed of the permutations, as in datasketch")
    missed_pair_weight: float = Field(
        0.9,
        gt=0.0,
        lt=1.0,
        description="weight of missed pairs, against pairs compared in vain, where bands and rows are derived",
    )
    bands: int | None = Field(None, ge=1, le=1024, description="LSH bands; left out, they follow from the threshold")
    rows: int | None = Field(None, ge=1, le=1024, description="signature values in a band; to be given with bands")

    @model_validator(mode="after")
    def _bands_fit(self) -> "DedupParams":
        if (self.bands is None) != (self.rows is None):
            given, missing = ("bands", "rows") if self.rows is None else ("rows", "bands")
            raise ValueError(f"{given} is given without {missing}; give both, or neither to derive them")
        if self.bands and self.rows and self.bands * self.rows > self.permutations:
            raise ValueError(
                f"bands × rows = {self.bands} × {self.rows} = {self.bands * self.rows} needs more values than "
                f"permutations = {self.permutations} gives; lower one or raise permutations"
            )
        return self
