"""What a Spark executor does with one index file, or with one group of documents: Arrow tables in, Arrow tables out.

How they come together stands in `spark_clusters.py`. Spark knows neither unsigned numbers nor lists of fixed length:
64 bits stand as int64, signatures and sets of shingles as binary.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.dataset import read_table, write_shard
from pipelines.dedup.comparison import Comparison, document_keys, leaders_among
from pipelines.dedup.index import Index
from pipelines.dedup.leaders import KEPT
from pipelines.dedup.outcome import removed_rows, stayed
from pipelines.dedup.priority import order_of_priority
from pipelines.engines.task import Inputs
from pipelines.store import Store

ROW_BITS = 32
"""A document's number, gid, is that of its index file and, in so many bits, that of its row."""

ROWS_AT_ONCE = 65_536

HASHES = pa.schema([("doc_id", pa.string()), ("first", pa.int64()), ("second", pa.int64())])
"""Documents that the earlier version kept: id, and both halves of the exact hash."""

DOCUMENTS = pa.schema(
    [
        ("gid", pa.int64()),
        ("source", pa.int32()),
        ("rank", pa.int32()),
        ("shorter", pa.int64()),
        *HASHES,
        ("comparable", pa.bool_()),
    ]
)
"""All documents. shorter: the length of the text, negative. comparable: whether there are shingles."""

KEYS = pa.schema([("number", pa.int32()), ("key", pa.int64()), ("gid", pa.int64())])
"""Keys of documents, with the number of the band or table."""

DECIDED = pa.schema(
    [
        ("gid", pa.int64()),
        ("source", pa.int32()),
        ("length", pa.int64()),
        ("level", pa.int32()),
        ("similarity", pa.float64()),
        (
            "leader",
            pa.struct(
                [
                    ("rank", pa.int32()),
                    ("shorter", pa.int64()),
                    ("doc_id", pa.string()),
                    ("gid", pa.int64()),
                    ("source", pa.int32()),
                ]
            ),
        ),
        ("compared", pa.int64()),
        ("similar", pa.int64()),
        ("cut", pa.int64()),
    ]
)
"""Documents that go, with the one that stays; and one row for each group of documents, with its counts only."""

WRITTEN = pa.schema([("file", pa.int64()), ("object", pa.string()), ("bytes", pa.int64()), ("rows", pa.int64())])
"""Stored shards, by number of the index file."""


@dataclass(frozen=True)
class Files:
    """The index files as executors read them. earlier: (index file, clusters) of the version whose kept documents
    stay, by object."""

    store: Store
    objects: tuple[str, ...]
    earlier: tuple[tuple[str, str], ...]
    comparison: Comparison

    @classmethod
    def of(cls, inputs: Inputs, comparison: Comparison) -> "Files":
        """The files of a task."""
        before, count = inputs.broadcast_objects, comparison.earlier
        return cls(inputs.store, inputs.objects, tuple(zip(before[:count], before[count:], strict=True)), comparison)

    @property
    def gone(self) -> list[tuple[str, str]]:
        """Those of the earlier version's files that are not there any more as they were."""
        there = set(self.objects)
        return [pair for pair in self.earlier if pair[0] not in there]

    @property
    def print_schema(self) -> pa.Schema:
        """What members of a group are decided by."""
        fields = [
            ("group", pa.int64()),
            ("gid", pa.int64()),
            ("rank", pa.int32()),
            ("doc_id", pa.string()),
            ("length", pa.int64()),
            ("shingles", pa.int64()),
        ]
        if self.comparison.distance is not None:
            fields.append(("simhash", pa.int64()))
        if self.comparison.banding is not None:
            fields.append(("minhash", pa.binary()))
            if self.comparison.by_sets:
                fields.append(("shingle_set", pa.binary()))
        return pa.schema(fields)

    def documents(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The documents of these files (schema DOCUMENTS)."""
        for number in _numbers(numbers):
            index = self._open(self.objects[number])
            rows = len(index)
            sources = self._sources(np.full(rows, number))
            kept = np.zeros(rows, np.bool_)
            if self.objects[number] in self._clusters_before:
                kept = self._stayed(index, self._clusters_before[self.objects[number]]).to_numpy(zero_copy_only=False)
            columns = {
                "gid": np.arange(rows) + (number << ROW_BITS),
                "source": sources,
                "rank": self.comparison.ranks(sources, kept),
                "shorter": -index.numbers("length"),
                **_hashes(index),
                "comparable": index.numbers("shingles") > 0,
            }
            yield from _table(columns, DOCUMENTS).to_batches(max_chunksize=ROWS_AT_ONCE)

    def kept_before(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The documents that the earlier version kept in these of the files that are gone (schema HASHES)."""
        for number in _numbers(numbers):
            name, clusters = self.gone[number]
            index = self._open(name)
            kept = _table(_hashes(index), HASHES).filter(self._stayed(index, clusters))
            yield from kept.to_batches(max_chunksize=ROWS_AT_ONCE)

    def keys(self, documents: pa.Table) -> pa.Table:
        """The keys (schema KEYS) of some documents (gid) of one file."""
        gids = documents["gid"].to_numpy()
        index, rows = self._rows(gids)
        keys = self.comparison.keys
        found = document_keys(index, rows, self.comparison)(0, keys)
        numbers = np.repeat(np.arange(keys, dtype=np.int32), len(gids))
        return _table({"number": numbers, "key": found.ravel().view(np.int64), "gid": np.tile(gids, keys)}, KEYS)

    def prints(self, members: pa.Table) -> pa.Table:
        """What some documents (gid, rank, group) of one file are decided by (`print_schema`)."""
        index, rows = self._rows(members["gid"].to_numpy())
        schema = self.print_schema
        columns = {}
        for name in schema.names:
            if name in members.column_names:
                columns[name] = members[name]
            elif name in ("minhash", "shingle_set"):
                columns[name] = _packed(index.column(name).take(pa.array(rows)))
            elif name == "simhash":
                columns[name] = index.numbers(name)[rows].view(np.int64)
            else:
                columns[name] = index.column(name).take(pa.array(rows))
        return _table(columns, schema)

    def decide(self, members: pa.Table) -> pa.Table:
        """Who goes among the documents of one group (`print_schema`), which nobody else shares a key with."""
        index = Index(tuple(self._unpacked(batch) for batch in members.to_batches()))
        gids, ranks, lengths = (members[name].to_numpy() for name in ("gid", "rank", "length"))
        order = order_of_priority(index, ranks)
        below = np.searchsorted(ranks[order], [1, 2]).tolist()
        among, found = leaders_among(index, order, self.comparison, *below)
        gone = found.leader != KEPT
        rows, leaders = order[among[gone]], order[among[found.leader[gone]]]
        leader = {
            "rank": ranks[leaders],
            "shorter": -lengths[leaders],
            "doc_id": members["doc_id"].take(pa.array(leaders)),
            "gid": gids[leaders],
            "source": self._sources(gids[leaders] >> ROW_BITS),
        }
        decided = {
            "gid": gids[rows],
            "source": self._sources(gids[rows] >> ROW_BITS),
            "length": lengths[rows],
            "level": found.level[gone],
            "similarity": found.similarity[gone],
            "leader": _table(leader, pa.schema(list(DECIDED.field("leader").type))).to_struct_array(),
        }
        counts = {"compared": [found.compared], "similar": [found.similar], "cut": [found.cut]}
        return pa.concat_tables([_table(decided, DECIDED), _table(counts, DECIDED)])

    def write(self, removed: pa.Table) -> pa.Table:
        """Store the removed documents (gid, level, similarity, kept_id, kept_source) of one file (schema WRITTEN)."""
        removed = removed.sort_by("gid")
        gids = removed["gid"].to_numpy()
        index, rows = self._rows(gids)
        number = int(gids[0]) >> ROW_BITS
        table = removed_rows(
            index.column("doc_id").take(pa.array(rows)),
            self.comparison.names[self.comparison.source_of_file[number]],
            removed["kept_id"].cast(pa.large_string()),
            removed["kept_source"].to_numpy(),
            removed["level"].to_numpy(),
            removed["similarity"].to_numpy(),
            self.comparison,
        )
        shard = write_shard(self.store, "clusters", table)
        columns = {"file": [number], "object": [shard.object], "bytes": [shard.bytes], "rows": [shard.rows]}
        return _table(columns, WRITTEN)

    @cached_property
    def _clusters_before(self) -> dict[str, str]:
        return dict(self.earlier)

    def _open(self, name: str) -> Index:
        return Index.open([self.store.path(name)])

    def _rows(self, gids: npt.NDArray[np.int64]) -> tuple[Index, npt.NDArray[np.int64]]:
        """The file that these documents stand in, and their rows."""
        return self._open(self.objects[int(gids[0]) >> ROW_BITS]), gids & ((1 << ROW_BITS) - 1)

    def _sources(self, files: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        return self.comparison.source_of_file[files]

    def _stayed(self, index: Index, clusters: str) -> pa.ChunkedArray:
        """Which documents of an index file are not among the removed ones."""
        return stayed(index.column("doc_id"), read_table(self.store, clusters, ["doc_id"])["doc_id"])

    def _unpacked(self, batch: pa.RecordBatch) -> pa.Table:
        """Members of a group as an index holds them."""
        columns: dict[str, Any] = {name: batch[name] for name in ("doc_id", "length", "shingles")}
        if "simhash" in batch.schema.names:
            columns["simhash"] = batch["simhash"].to_numpy().view(np.uint64)
        if "minhash" in batch.schema.names:
            values, _ = _values(batch["minhash"])
            columns["minhash"] = pa.FixedSizeListArray.from_arrays(pa.array(values), self.comparison.permutations)
        if "shingle_set" in batch.schema.names:
            values, starts = _values(batch["shingle_set"])
            columns["shingle_set"] = pa.LargeListArray.from_arrays(pa.array(starts), pa.array(values))
        return pa.table(columns)


def _numbers(batches: Iterator[pa.RecordBatch]) -> Iterator[int]:
    return (number for batch in batches for number in batch["id"].to_pylist())


def _hashes(index: Index) -> dict[str, Any]:
    first, second = (index.exact(half).view(np.int64) for half in (0, 1))
    return {"doc_id": index.column("doc_id"), "first": first, "second": second}


def _packed(lists: pa.ChunkedArray) -> pa.ChunkedArray:
    """Lists of uint32 as binary."""
    return pa.chunked_array([_bytes_of(chunk) for chunk in lists.chunks], pa.binary())


def _bytes_of(lists: Any) -> pa.Array:
    sizes = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    starts = np.concatenate([[0], np.cumsum(4 * sizes, dtype=np.int64)])
    if starts[-1] >= 2**31:  # Spark's binaries are counted in 32 bits
        raise ValueError("the shingles of one shard take more than 2 GiB; lower ingest.shard_megabytes")
    starts = starts.astype(np.int32)
    values = np.ascontiguousarray(lists.flatten().to_numpy())
    return pa.Array.from_buffers(pa.binary(), len(lists), [None, pa.py_buffer(starts), pa.py_buffer(values)])


def _values(packed: pa.Array) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """The inverse, flat, and where each list starts."""
    _, offsets, data = packed.buffers()
    starts = np.frombuffer(offsets, np.int32, len(packed) + 1, 4 * packed.offset).astype(np.int64) // 4
    values = np.frombuffer(data, np.uint32, starts[-1]) if starts[-1] else np.zeros(0, np.uint32)
    return values[starts[0] :], starts - starts[0]


def _table(columns: dict[str, Any], schema: pa.Schema) -> pa.Table:
    """A table of this schema; columns that are not given are null."""
    rows = len(next(iter(columns.values())))
    arrays = []
    for field in schema:
        given = columns.get(field.name)
        if given is None:
            arrays.append(pa.nulls(rows, field.type))
        else:
            arrays.append(given.cast(field.type) if isinstance(given, pa.ChunkedArray) else pa.array(given, field.type))
    return pa.Table.from_arrays(arrays, schema=schema)
