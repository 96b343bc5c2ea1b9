"""What a shard's signatures hold, and what decides whether they are computed again."""

import numpy as np
import pyarrow as pa
import pytest

from pipelines.dedup.index import index_schema
from pipelines.dedup.params import DedupParams
from pipelines.dedup.signatures import document_signatures, signature_tasks
from pipelines.store import Store
from tests.pipelines.dedup.corpus import clean_documents, documents, numbered, prose


def signatures(*texts: str, config: DedupParams | None = None) -> tuple[list[dict], dict[str, int]]:
    table, counts = document_signatures(documents("s", numbered(texts)[0]), config or DedupParams())
    assert table.num_rows == len(texts)
    return table.to_pylist(), counts


def test_a_row_tells_distinct_shingles_length_and_signature() -> None:
    [row], _ = signatures("a b c d e a b c d e é")
    assert row["shingles"] == 6  # seven runs of five words, 'a b c d e' twice
    assert row["length"] == len("a b c d e a b c d e é".encode())
    assert len(row["minhash"]) == 112


def test_counts_tell_which_texts_could_not_be_compared_as_usual() -> None:
    texts = ["", "  ", "***", "two words", prose(10), "吾輩は猫である", "five small words stand 漢"]
    _, counts = signatures(*texts)
    assert counts == {
        "documents": 7,
        "bytes": sum(len(text.encode()) for text in texts),
        "empty": 2,
        "wordless": 1,
        "short": 1,
        "by_characters": 1,
        "repeated_lines": 0,
        "repeated_paragraphs": 0,
        "repeated_bytes": 0,
    }


def test_texts_without_words_have_no_signature() -> None:
    rows, _ = signatures("", "!!")
    assert [(row["shingles"], set(row["minhash"])) for row in rows] == [(0, {2**32 - 1}), (0, {2**32 - 1})]


def test_a_level_that_is_off_has_no_column() -> None:
    rows, counts = signatures(prose(10), "two words", config=DedupParams(minhash=False))
    assert [set(row) for row in rows] == [{"doc_id", "exact", "length", "shingles"}] * 2
    assert rows[0]["exact"] != rows[1]["exact"]
    assert counts["short"] == 0
    every, _ = signatures(
        prose(10), config=DedupParams.model_validate({"simhash": {"enabled": True}, "verify": "shingles"})
    )
    assert set(every[0]) == set(index_schema(112, simhash=True, sets=True).names)
    assert len(set(every[0]["shingle_set"])) == len(every[0]["shingle_set"]) == every[0]["shingles"]


def test_an_empty_shard_has_an_empty_table() -> None:
    rows, counts = signatures()
    assert rows == []
    assert set(counts.values()) == {0}


def test_lone_surrogates_neither_crash_nor_match_everything() -> None:
    texts = [b"\xed\xa0\xb5", b"\xed\xa0\xb6", b"\xed\xa0\xb5 one", b"one"]
    offsets = pa.py_buffer(np.cumsum([0, *map(len, texts)]).astype(np.int64).tobytes())
    array = pa.Array.from_buffers(pa.large_string(), 4, [None, offsets, pa.py_buffer(b"".join(texts))])
    table, counts = document_signatures(
        pa.table({"doc_id": pa.array(list("abcd"), pa.large_string()), "text": array}), DedupParams()
    )
    exact = table["exact"].to_pylist()
    assert exact[0] != exact[1]
    assert exact[2] == exact[3]
    assert counts["wordless"] == 2


@pytest.mark.parametrize(
    ("change", "computed_again"),
    [
        ({"threshold": 0.9}, False),
        ({"bands": 14, "rows": 8}, False),
        ({"missed_pair_weight": 0.5}, False),
        ({"exact": False}, False),
        ({"bucket_limit": 7}, False),
        ({"against": ["s"]}, False),
        ({"append_only": True}, False),
        ({"simhash": {"distance": 4}}, False),
        ({"repeats": {"min_characters": 4}}, False),
        ({"shingle_length": 7}, True),
        ({"shingle_of": "characters"}, True),
        ({"exact_text": "verbatim"}, True),
        ({"verify": "signature"}, True),
        ({"normalisation": {"digits": "zero"}}, True),
        ({"simhash": {"enabled": True}}, True),
        ({"repeats": {"lines": True}}, True),
        ({"permutations": 128}, True),
        ({"seed": 2}, True),
        ({"minhash": False}, True),
    ],
)
def test_only_parameters_that_matter_make_signatures_anew(store: Store, change: dict, computed_again: bool) -> None:
    clean = clean_documents(store, {"s": [{"a": prose(10)}]})
    [before] = signature_tasks(clean, DedupParams())
    [after] = signature_tasks(clean, DedupParams.model_validate(change))
    assert (before.key != after.key) == computed_again


def test_shingle_parameters_do_not_matter_without_the_minhash_level(store: Store) -> None:
    clean = clean_documents(store, {"s": [{"a": prose(10)}]})
    tasks = [signature_tasks(clean, DedupParams(minhash=False, shingle_length=n))[0] for n in (3, 5)]
    assert tasks[0].key == tasks[1].key
