"""What becomes of documents that hold evaluation examples: dropped, or their paragraphs cut."""

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.dataset import Dataset, Draft, read_table
from pipelines.engines import task
from pipelines.engines.local import Engine
from pipelines.filters.contamination.params import ContaminationParams
from pipelines.filters.contamination.rules import paragraphs_of
from pipelines.filters.contamination.stage import score_contamination
from pipelines.filters.cutting import without
from pipelines.filters.decide import filter_documents
from pipelines.filters.params import FilterParams
from pipelines.store import Store
from tests.pipelines.filters.corpus import (
    OTHER,
    PROSE,
    QUESTION,
    documents,
    perplexity_model,
    perplexity_scores,
    published,
    toxicity_scores,
    write_set,
)


def decided(store: Store, engine: Engine, folder: Path, texts: list[str], **config: Any) -> tuple[Draft, Dataset]:
    """Documents after the filter, no other rule objecting."""
    given = documents(store, texts, shard_rows=2)
    sets = ContaminationParams(sets={"sums": write_set(folder, [QUESTION, OTHER])})
    draft = filter_documents(
        given,
        toxicity_scores(store, given, [0.0] * len(texts), rows=2),
        perplexity_scores(store, given, [50.0] * len(texts), rows=2),
        published(store, score_contamination(given, sets, engine), "contamination_scores", "book"),
        perplexity_model(store, [10.0, 100.0], {"en": 9}),
        FilterParams(**config),
        engine,
    )
    return draft, published(store, draft, "filtered_documents", "book")


def decisions(data: Dataset) -> list[tuple[Any, ...]]:
    columns = ["keep", "rule", "value", "threshold", "detail"]
    return [tuple(row.values()) for row in data.table("decisions").select(columns).to_pylist()]


def test_a_contaminated_document_is_dropped_and_names_its_example(store: Store, engine: Engine, tmp_path: Path) -> None:
    draft, data = decided(store, engine, tmp_path, [PROSE, f"{PROSE} {OTHER}", QUESTION])

    assert decisions(data) == [
        (True, "kept", None, None, None),
        (False, "contamination", pytest.approx(21 / 42), 0, "sums#1"),
        (False, "contamination", 1, 0, "sums#0"),
    ]
    assert data.table("documents")["text"].to_pylist() == [PROSE]
    assert draft.stats["dropped"]["contamination"] == 2
    assert draft.stats["cut"] == {"documents": 0, "sentences": 0, "paragraphs": 0, "bytes": 0}
    assert draft.stats["limits"]["max_contamination"] == 0


def test_a_limit_lets_smaller_shares_pass_and_null_everything(store: Store, engine: Engine, tmp_path: Path) -> None:
    texts = [f"{PROSE} {OTHER}", QUESTION]

    assert [row[1] for row in decisions(decided(store, engine, tmp_path, texts, max_contamination=0.5)[1])] == [
        "kept",
        "contamination",
    ]
    assert [row[1] for row in decisions(decided(store, engine, tmp_path, texts, max_contamination=None)[1])] == [
        "kept",
        "kept",
    ]


def test_paragraphs_are_cut_and_counted_and_a_document_of_which_nothing_is_left_is_dropped(
    store: Store, engine: Engine, tmp_path: Path
) -> None:
    whole = f"{PROSE}\n\nQ: {QUESTION}\nA: four\n \n{OTHER}\n\nThe end."
    draft, data = decided(store, engine, tmp_path, [PROSE, whole, QUESTION], decontaminate="paragraph")

    assert data.table("documents")["text"].to_pylist() == [PROSE, f"{PROSE}\n\nThe end."]
    size = len(whole) - len(f"{PROSE}\n\nThe end.")
    kept, cut, gone = decisions(data)
    assert kept == (True, "kept", None, None, None)
    assert cut == (True, "kept", None, None, f"sums#0; 2 paragraphs, {size} bytes cut")
    assert gone == (False, "contamination", 1, 0, "sums#0; nothing else is left")
    assert draft.stats["cut"] == {"documents": 1, "sentences": 0, "paragraphs": 2, "bytes": size}
    assert draft.stats["bytes_in"] - draft.stats["bytes_out"] == size + len(QUESTION)
    assert sum(draft.stats["kept_beyond"].values()) == 0


@pytest.mark.parametrize(("by", "read"), [("document", []), ("paragraph", [["doc_id", "start", "length"]])])
def test_hits_are_read_where_paragraphs_are_cut_and_without_their_texts(
    store: Store, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str, read: list[Any]
) -> None:
    columns = []

    def spy(store: Store, name: str, wanted: Any = None) -> pa.Table:
        if "start" in pq.read_schema(store.path(name)).names:
            columns.append(wanted)
        return read_table(store, name, wanted)

    monkeypatch.setattr(task, "read_table", spy)

    _, data = decided(store, engine, tmp_path, [QUESTION], decontaminate=by)

    assert decisions(data)[0][:2] == (False, "contamination")
    assert columns == read


def test_a_changed_limit_looks_for_nothing_again(store: Store, engine: Engine, tmp_path: Path) -> None:
    decided(store, engine, tmp_path, [QUESTION])
    later = engine.charged_to("later")

    decided(store, later, tmp_path, [QUESTION], max_contamination=0.5)

    assert [result.reused for result in later.results] == [True, True, False]  # index, scores, decisions


def without_paragraphs(text: str, passages: list[tuple[int, int]]) -> tuple[str, int]:
    """The text without the paragraphs that hold a part of these passages, and how many."""
    data = text.encode()
    spans = paragraphs_of(data, passages)
    return without(data, spans).decode(), len(spans)


@pytest.mark.parametrize(
    ("passage", "left", "paragraphs"),
    [
        ("one", "two\nzwei\n\n\nthree", 1),
        ("zwei", "one\n\nthree", 1),
        ("three", "one\n\ntwo\nzwei", 1),
        ("one\n\ntwo", "three", 2),
        ("one\n\ntwo\nzwei\n\n\nthree", "", 3),
    ],
)
def test_paragraphs_go_with_the_blank_lines_after_them(passage: str, left: str, paragraphs: int) -> None:
    text = "one\n\ntwo\nzwei\n\n\nthree"
    start = text.index(passage)

    assert without_paragraphs(text, [(start, start + len(passage))]) == (left, paragraphs)


@given(st.text("ab\n ü", max_size=30), st.lists(st.tuples(st.integers(0, 29), st.integers(1, 9)), max_size=3))
def test_what_is_not_hit_stays(text: str, places: list[tuple[int, int]]) -> None:
    size = len(text.encode())
    passages = [(start, min(start + length, size)) for start, length in places if start < size]

    left, count = without_paragraphs(text, passages)

    assert (left == text) if not passages else count > 0
    paragraphs = [match for match in re.finditer(rb"(?s).*?(?:\n *\n\s*|\Z)", text.encode()) if match[0]]
    hit = [any(start < p.end() and p.start() < stop for start, stop in passages) for p in paragraphs]
    stay = [p[0].decode().rstrip() for p, gone in zip(paragraphs, hit, strict=True) if not gone]
    assert count == sum(hit)
    remaining = [block.rstrip() for block in re.split(r"\n *\n\s*", left)]
    assert list(filter(None, remaining)) == list(filter(None, stay))
