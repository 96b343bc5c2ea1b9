"""The order of a shard's documents: shuffled by the seed, by group, pieces of a document together, nothing lost."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.dataset import write_shard
from pipelines.engines.task import Inputs
from pipelines.tokens.layout import map_order
from pipelines.tokens.order import OrderWork, run_order
from pipelines.tokens.split import Split

KIND = np.dtype("<u2")


@dataclass(frozen=True)
class ByFirstLetter:
    """The group of a document is the first letter of its id; of documents without 'x' in it."""

    by: str = "letter"

    def read(self, inputs, first):
        ids = [name for name in inputs.table(0, ["doc_id"])["doc_id"].to_pylist() if "x" not in name]
        return pa.table({"doc_id": pa.array(ids, pa.large_string()), "group": pa.array([name[0] for name in ids])})


def ordered(store, folder, documents, split=None, grouping=None):
    """(documents by place in the shard, in order; stats) of (id, ids) documents."""
    lengths = [len(ids) for _, ids in documents]
    table = pa.table({"doc_id": [name for name, _ in documents], "tokens": lengths, "bytes": lengths})
    tokens = store.put(np.array([token for _, ids in documents for token in ids], KIND).tobytes())
    inputs = Inputs(store, [write_shard(store, "token_documents", table).object, tokens], [])
    (_, file), stats = run_order(inputs, OrderWork("s", KIND, split or Split(0.0, 0), grouping))
    (folder / file.name).write_bytes(file.content)
    starts, ends = map_order(folder / file.name, len(documents))
    places = np.searchsorted(np.cumsum(lengths) - np.array(lengths), starts, side="right") - 1
    for first, count, total in [*stats.values["groups"].values(), stats.values["validation"]]:
        told = np.diff(ends[first : first + count], prepend=0).tolist()
        assert told == [lengths[place] for place in places[first : first + count]]
        assert sum(told) == total
    return places.tolist(), stats.values


MANY = [(f"{'ab'[i % 2]}{i:03}", [i + 1] * (i % 3 + 1)) for i in range(60)]


def test_documents_are_shuffled_by_the_seed(store, tmp_path):
    first, _ = ordered(store, tmp_path, MANY)
    again, _ = ordered(store, tmp_path, MANY)
    other, _ = ordered(store, tmp_path, MANY, Split(0.0, 1))
    assert sorted(first) == sorted(other) == list(range(60))
    assert first == again != other
    assert np.mean(np.abs(np.diff(first))) == pytest.approx(20, rel=0.25)  # a third of 60, as of independent draws


def test_a_documents_neighbours_do_not_change_its_place_among_others(store, tmp_path):
    some, _ = ordered(store, tmp_path, MANY[:30])
    all_of_them, _ = ordered(store, tmp_path, MANY)
    assert [place for place in all_of_them if place < 30] == some


@settings(max_examples=20, deadline=None)
@given(st.floats(0, 0.5), st.integers(0, 99), st.booleans())
def test_groups_stand_one_after_the_other_and_validation_last(tmp_path_factory, share, seed, grouped):
    from pipelines.store import Store

    folder = tmp_path_factory.mktemp("order")
    store = Store(str(folder / "store"))
    places, stats = ordered(store, folder, MANY, Split(share, seed), ByFirstLetter() if grouped else None)
    assert list(stats["groups"]) == (["a", "b"] if grouped else [""])
    assert sorted(places) == list(range(60))
    at = 0
    for name, (first, count, _) in [*stats["groups"].items(), (None, stats["validation"])]:
        assert first == at
        at += count
        if name:
            assert {MANY[place][0][0] for place in places[first:at]} <= {name}
    held = set(places[stats["validation"][0] :])
    larger, more = ordered(store, folder, MANY, Split(0.5, seed))
    assert held <= set(larger[more["validation"][0] :])


def test_pieces_of_a_document_stay_together_and_on_one_side(store, tmp_path):
    # Given documents of three pieces each, as tokenize.long_documents 'split' makes them
    pieces = [(f"d{i:02}", [i, piece, 7]) for i in range(40) for piece in range(3)]
    places, stats = ordered(store, tmp_path, pieces, Split(0.3, 0))
    assert places == [first + step for first in places[::3] for step in range(3)]
    assert all(place % 3 == 0 for place in places[::3])
    assert 0 < stats["validation"][1] < 60
    assert stats["validation"][1] % 3 == 0
    assert 3 * stats["validation_documents"] == stats["validation"][1]
    assert stats["documents_by_group"] == {"": 40 - stats["validation_documents"]}


def test_documents_that_nobody_filtered_are_told(store, tmp_path):
    with pytest.raises(ValueError, match="1 documents of token shard s are not among the filtered documents"):
        ordered(store, tmp_path, [("a", [1]), ("x", [2])], grouping=ByFirstLetter())
