"""presidio-analyzer's patterns beside our own."""

import sys

import pyarrow as pa
import pytest

from pipelines.clean.pii.find import find
from pipelines.clean.pii.mask import mask
from pipelines.clean.pii.params import PiiParams

TEXT = "é My ITIN is 912-70-1234 there"


def test_its_absence_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from pipelines.clean.pii.presidio import _recognizers

    _recognizers.cache_clear()
    monkeypatch.setitem(sys.modules, "presidio_analyzer", None)
    with pytest.raises(ImportError, match=r"pip install -e '\.\[pii\]'"):
        find("anything", PiiParams(presidio=True))


def test_what_only_presidio_knows_is_found_and_masked() -> None:
    pytest.importorskip("presidio_analyzer", reason="presidio-analyzer is not installed (extra pii)")
    assert find(TEXT, PiiParams()) == []
    [finding] = find(TEXT, PiiParams(presidio=True))
    assert (finding.type, finding.detail, TEXT[finding.start : finding.stop]) == (
        "national_id", "presidio US_ITIN", "912-70-1234",
    )  # fmt: skip
    masked = mask(pa.array([TEXT], pa.large_string()), PiiParams(presidio=True))
    assert masked.texts.to_pylist() == ["é My ITIN is <NATIONAL_ID> there"]
