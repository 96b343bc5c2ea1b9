"""What the user may set, and what is refused."""

import pytest
from pydantic import ValidationError

from pipelines.dedup.lsh import Banding
from pipelines.dedup.params import DedupParams


def test_bands_and_rows_follow_from_the_threshold_unless_given() -> None:
    assert DedupParams(threshold=0.75).banding == Banding(16, 7)
    assert DedupParams(bands=14, rows=8).banding == Banding(14, 8)


def test_bands_without_rows_are_refused() -> None:
    with pytest.raises(ValidationError, match="bands is given without rows"):
        DedupParams(bands=14)
    with pytest.raises(ValidationError, match="rows is given without bands"):
        DedupParams(rows=8)


def test_more_bands_than_the_signature_holds_are_refused() -> None:
    with pytest.raises(ValidationError, match=r"20 × 13 = 260 needs more values than permutations = 112"):
        DedupParams(bands=20, rows=13)


@pytest.mark.parametrize(
    ("name", "value"), [("threshold", 1.1), ("shingle_words", 0), ("permutations", 4), ("seed", -1)]
)
def test_values_out_of_range_are_refused(name: str, value: float) -> None:
    with pytest.raises(ValidationError, match=name):
        DedupParams.model_validate({name: value})
