"""Evaluation sets: how their files are read, and which are refused."""

import bz2
import gzip
import lzma
from pathlib import Path
from typing import Any

import pytest
import zstandard

from pipelines.engines.local import Engine
from pipelines.filters import known_file
from pipelines.filters.contamination.evaluation import Example, read_examples
from pipelines.filters.contamination.params import ContaminationParams, EvaluationSet
from pipelines.filters.contamination.stage import score_contamination
from pipelines.store import Store
from tests.pipelines.filters.corpus import OTHER, QUESTION, documents, write_set

ONE, TWO = (
    b'{"q": "one", "choices": ["a", "b"], "n": 3, "no": null}',
    b'{"q": "two", "choices": [], "n": 4, "no": null}',
)
LINES = b"\xef\xbb\xbf" + ONE + b"\n\n" + TWO
LIST = b"[" + ONE + b", " + TWO + b"]"


@pytest.mark.parametrize("content", [LINES, LIST, LINES.replace(b"\n", b"\r\n")])
@pytest.mark.parametrize(
    "compress", [bytes, gzip.compress, bz2.compress, lzma.compress, zstandard.ZstdCompressor().compress]
)
def test_a_set_is_read_however_it_is_packed(tmp_path: Path, content: bytes, compress: Any) -> None:
    (tmp_path / "set").write_bytes(compress(content))
    wanted = EvaluationSet(path=str(tmp_path / "set"), fields=["q", "no", "choices"], id="n")

    assert read_examples("s", wanted) == [Example("3", "one\na\nb"), Example("4", "two")]


def test_a_set_with_the_longest_windows_of_zstd_is_read(tmp_path: Path) -> None:
    beyond_the_usual = zstandard.ZstdCompressionParameters(window_log=28, strategy=1, hash_log=6, chain_log=6)
    packer = zstandard.ZstdCompressor(compression_params=beyond_the_usual).compressobj()  # which knows no size
    (tmp_path / "set").write_bytes(packer.compress(LINES) + packer.flush())

    found = read_examples("s", EvaluationSet(path=str(tmp_path / "set"), fields=["q"]))

    assert [example.text for example in found] == ["one", "two"]


@pytest.mark.parametrize("reads", [[QUESTION, OTHER], [QUESTION, OTHER, QUESTION]])
def test_a_set_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, store: Store, engine: Engine, monkeypatch: pytest.MonkeyPatch, reads: list[str]
) -> None:
    """Even where it then changes back: what is compared are the bytes that the index is made of."""
    contents = iter(write_set(tmp_path, [text], str(number)) for number, text in enumerate(reads))
    monkeypatch.setattr(known_file, "Path", lambda _: Path(next(contents).path))

    with pytest.raises(ValueError, match="the evaluation set sums changed while it was read; start the run again"):
        score_contamination(
            documents(store, [QUESTION]), ContaminationParams(sets={"sums": write_set(tmp_path, [])}), engine
        )


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, r"the evaluation set sums cannot be read from .*set \(No such file or directory\); correct contamin"),
        (b'{"q": "x"}\n{"a": 1, "b": 2}', "example 1 of sums has no field 'q'; it has a, b"),
        (b'{"q": "x"}\n{"q": ', "line 2 of the evaluation set sums is no JSON"),
        (b"[1]", "example 0 of sums is a JSON int, not an object"),
        (gzip.compress(b'{"q": "x"}' * 99, mtime=0)[:30], "the evaluation set sums at .*set is damaged"),
    ],
)
def test_a_set_that_cannot_be_read_is_one_sentence(
    tmp_path: Path, store: Store, engine: Engine, content: bytes | None, told: str
) -> None:
    if content is not None:
        (tmp_path / "set").write_bytes(content)
    config = ContaminationParams(sets={"sums": EvaluationSet(path=str(tmp_path / "set"), fields=["q"])})

    with pytest.raises(ValueError, match=told) as raised:
        score_contamination(documents(store, ["x"]), config, engine)

    assert "\n" not in str(raised.value)
