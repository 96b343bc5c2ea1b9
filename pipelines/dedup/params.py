"""What the user can set about deduplication. How bands and rows follow from the threshold stands in `lsh.py`."""

from typing import Literal

from pydantic import Field, model_validator

from pipelines.dedup.lsh import Banding, banding_for
from pipelines.profile import Params
from pipelines.text.codepoints import Normalisation


class NormalisationParams(Params):
    """What does not matter when words are compared. White space never does."""

    case: Literal["fold", "keep"] = Field("fold", description="'fold': upper and lower case are the same")
    marks: Literal["keep", "drop"] = Field("keep", description="'drop': letters are the same with and without accents")
    digits: Literal["keep", "zero"] = Field("keep", description="'zero': all digits are the same")
    punctuation: Literal["drop", "keep"] = Field(
        "drop", description="'drop': punctuation only separates words; 'keep': each sign is a word"
    )

    @property
    def plain(self) -> Normalisation:
        """The same for the compiled code."""
        return Normalisation(self.case, self.marks, self.digits, self.punctuation)


class RepeatParams(Params):
    """What is cut out of a document that holds it twice: the first occurrence stays. All but white space counts."""

    lines: bool = Field(False, description="cut lines that stood in the document before; not for code")
    paragraphs: bool = Field(False, description="cut paragraphs that stood in the document before")
    min_characters: int = Field(
        30, ge=1, le=1_000_000, description="shorter lines and paragraphs stay, however often they occur"
    )

    @property
    def wanted(self) -> bool:
        """Whether anything is to be cut."""
        return self.lines or self.paragraphs


class SimHashParams(Params):
    """Near-copies by fingerprints of 64 bits: fewer bytes than MinHash, and less exact."""

    enabled: bool = Field(False, description="remove documents whose fingerprints differ in few bits")
    distance: int = Field(3, ge=0, le=16, description="bits in which two fingerprints may differ (Hamming distance)")
    shingle_length: int = Field(3, ge=1, le=50, description="consecutive words, or characters, in a feature")
    blocks: int | None = Field(
        None,
        ge=1,
        le=20,
        description="blocks that a fingerprint is cut into; left out, one more than distance. More blocks: more "
        "tables, shorter lists in them, the same pairs",
    )

    @property
    def blocks_used(self) -> int:
        """Blocks as given, else the fewest with which no pair is missed."""
        return self.distance + 1 if self.blocks is None else self.blocks

    @model_validator(mode="after")
    def _blocks_suffice(self) -> "SimHashParams":
        if self.blocks is not None and self.blocks <= self.distance:
            raise ValueError(
                f"blocks = {self.blocks} must be more than distance = {self.distance}, or pairs would be missed; "
                "raise it, or leave it out"
            )
        return self


class DedupParams(Params):
    """How alike two documents must be for one of them to go."""

    exact: bool = Field(True, description="remove documents whose words are the same, in the same order")
    exact_text: Literal["normalised", "verbatim"] = Field(
        "normalised", description="what counts as the same text: the same words, or the same bytes"
    )
    minhash: bool = Field(True, description="remove documents that share most of their shingles")
    threshold: float = Field(
        0.75, ge=0.1, le=1.0, description="Jaccard similarity of the shingle sets from which on a document is removed"
    )
    verify: Literal["shingles", "signature"] = Field(
        "shingles",
        description="what tells how similar a pair is: the sets of shingles themselves, at 4 bytes of disk a shingle, "
        "or the share of equal signature values, an estimate",
    )
    shingle_of: Literal["words", "characters"] = Field(
        "words",
        description="what shingles consist of; a word of a script without spaces is a single character either way",
    )
    shingle_length: int = Field(5, ge=1, le=50, description="consecutive words, or characters, in a shingle")
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
    bucket_limit: int = Field(
        1000,
        ge=1,
        le=1_000_000,
        description="kept documents of one bucket that a document is compared with, the next ones in priority; keeps "
        "the time linear where one template makes thousands of distinct documents, at worst it misses a pair",
    )
    simhash: SimHashParams = SimHashParams()
    repeats: RepeatParams = RepeatParams()
    normalisation: NormalisationParams = NormalisationParams()
    against: list[str] = Field(
        [],
        description="sources that are only compared with: what resembles one of their documents goes, and so do they",
    )
    append_only: bool = Field(
        False, description="documents that the last version kept stay, whatever arrives later: their tokens stay valid"
    )

    @property
    def banding(self) -> Banding | None:
        """Bands and rows as given, else those that follow from the threshold; None without the level."""
        if not self.minhash:
            return None
        if self.bands is not None and self.rows is not None:
            return Banding(self.bands, self.rows)
        return banding_for(self.threshold, self.permutations, self.missed_pair_weight)

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
