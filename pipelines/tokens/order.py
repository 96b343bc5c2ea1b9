"""The order of one token shard's documents: by group, shuffled within a group, those held out for validation last.

One `.order` file per token shard, made by one task that sees nothing but its shard, and read memory-mapped by training
(`stream.py`). It depends on groups, seed and split, never on shares: another mixture changes no order.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from pipelines.dataset import Version
from pipelines.engines.task import File, Inputs, Made, Stats
from pipelines.tokens.indexed import map_tokens
from pipelines.tokens.layout import order_bytes
from pipelines.tokens.split import Split, rank_contents

VERSION = 2

ALL = ""
"""The group of all documents of a shard, where the group is their source."""


class Grouping(Protocol):
    """Which group a document is in: `pipelines.mixture.groups.Grouping`, handed in."""

    @property
    def key(self) -> dict[str, Any]:
        """What a task that reads groups has in its key."""

    def objects(self, filtered_documents: Version) -> list[tuple[str, ...]]:
        """For every shard of one source's documents, the objects that `read` reads: the documents first."""

    def read(self, inputs: Inputs, first: int) -> pa.Table:
        """doc_id and group of a shard's documents; its objects are the inputs from `first` on."""


@dataclass(frozen=True)
class OrderWork:
    """How a shard is put in order. name: of the file. kind: type of its ids. grouping: None where there is one group.

    The inputs are the table of its documents, its `.bin`, and the objects of the grouping.
    """

    name: str
    kind: np.dtype
    split: Split
    grouping: Grouping | None


def run_order(inputs: Inputs, work: OrderWork) -> Iterable[Made]:
    """The order file of one shard; its runs (first row, rows, tokens; a row is a document or a piece of one), how many
    documents they are, and what the split must know of its groups."""
    table = inputs.table(0, ["doc_id", "tokens"])
    lengths = table["tokens"].to_numpy().astype(np.int64)
    starts = np.cumsum(lengths) - lengths
    begins = first_pieces(table["doc_id"])
    ranks = _ranks(begins, starts, lengths, map_tokens(inputs.path(1), work.kind), work)
    held = work.split.held(ranks)
    names, group = _groups(table["doc_id"], inputs, work)
    shuffled = np.array(
        [xxhash.xxh3_64_intdigest(name.encode(), work.split.seed) for name in table["doc_id"].to_pylist()], np.uint64
    )
    side = np.where(held, len(names), group)
    documents = np.bincount(side[begins], minlength=len(names) + 1).tolist()
    order = np.lexsort((shuffled, side))  # stable: pieces of one document stay together
    bounds = np.searchsorted(side[order], np.arange(len(names) + 2))
    ends = lengths[order]
    runs = []
    for first, after in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        np.cumsum(ends[first:after], out=ends[first:after])
        runs.append([first, after - first, int(ends[after - 1]) if after > first else 0])
    yield "blend", File(f"{work.name}.order", order_bytes(starts[order], ends))
    yield Stats(
        {
            "groups": dict(zip(names, runs[:-1], strict=True)),
            "validation": runs[-1],
            "documents_by_group": dict(zip(names, documents[:-1], strict=True)),
            "validation_documents": documents[-1],
            "ranks": {
                name: [int(ranks[group == number].min()), int(ranks[group == number].max())]
                for number, name in enumerate(names)
            },
        }
    )


def first_pieces(doc_ids: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """Which rows begin a document: consecutive rows of one id are pieces of a document that was split."""
    ids = doc_ids.combine_chunks()
    begins = np.ones(len(ids), bool)
    begins[1:] = pc.not_equal(ids[1:], ids[:-1]).to_numpy(zero_copy_only=False)
    return begins


def _ranks(
    begins: npt.NDArray[np.bool_],
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    tokens: npt.NDArray[np.integer],
    work: OrderWork,
) -> npt.NDArray[np.uint64]:
    """The rank of every row; pieces of a document share the rank of the whole."""
    firsts = np.flatnonzero(begins)
    size = tokens.itemsize
    edges = [*(starts[firsts] * size).tolist(), int(lengths.sum()) * size]
    data = tokens.view(np.uint8).data
    ranks = rank_contents((data[a:b] for a, b in itertools.pairwise(edges)), work.split.seed)
    return ranks[np.cumsum(begins) - 1]


def _groups(doc_ids: pa.ChunkedArray, inputs: Inputs, work: OrderWork) -> tuple[list[str], npt.NDArray[np.int64]]:
    """(names of the groups, sorted; number of the group of each document)."""
    if work.grouping is None:
        return [ALL], np.zeros(len(doc_ids), np.int64)
    table = work.grouping.read(inputs, 2)
    rows = pc.index_in(doc_ids, value_set=table["doc_id"])
    if rows.null_count:
        raise ValueError(
            f"{rows.null_count} documents of token shard {work.name} are not among the filtered documents that it was "
            "made from; run the full range of sources"
        )
    values = table["group"].take(rows)
    names = sorted(pc.unique(values).to_pylist())
    return names, pc.index_in(values, value_set=pa.array(names, values.type)).to_numpy().astype(np.int64)
