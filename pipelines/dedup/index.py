"""The index: what documents are compared by, a file per shard, read where it lies.

Files are Arrow IPC without compression, so that a memory map is all that it takes to read them: what they hold never
counts as memory of a process. They stay with the version of `duplicate_clusters`; datasketch can load them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.ipc

from pipelines.schemas import DOC_ID, column
from pipelines.store import StoreError


def index_schema(permutations: int, *, simhash: bool = False, sets: bool = False) -> pa.Schema:
    """The columns of an index file: a level that is off has none. permutations: 0 without the MinHash level."""
    fields = [
        DOC_ID,
        column("exact", pa.binary(16), "128-bit xxh3 of the normalised text, or of the text itself"),
        column("length", pa.int64(), "length of the text, bytes"),
        column("shingles", pa.int64(), "number of distinct shingles; 0: nothing to compare by"),
    ]
    if simhash:
        fields.append(column("simhash", pa.uint64(), "SimHash fingerprint; 0 without shingles"))
    if permutations:
        signature = pa.list_(pa.uint32(), permutations)
        fields.append(
            column("minhash", signature, "MinHash signature (datasketch's affine32), all ones without shingles")
        )
    if sets:
        fields.append(column("shingle_set", pa.large_list(pa.uint32()), "distinct hashes of the shingles"))
    return pa.schema(fields)


def index_file(table: pa.Table) -> bytes:
    """A table of signatures as the bytes of an index file."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks(), max_chunksize=max(1, len(table)))
    return sink.getvalue().to_pybytes()


def open_index(path: Path) -> pa.Table:
    """An index file, memory-mapped, in one chunk. Raises `StoreError` where it is damaged."""
    try:
        table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    except (pa.ArrowException, OSError) as error:
        raise StoreError(
            f"index file {path.name[:16]}… is damaged ({error}); delete it and run the stage again"
        ) from error
    return table if all(c.num_chunks <= 1 for c in table.columns) else table.combine_chunks()


@dataclass(frozen=True)
class Index:
    """The index of several shards: a document is a row, counted over all of them."""

    shards: tuple[pa.Table, ...]

    @classmethod
    def open(cls, paths: Sequence[Path]) -> "Index":
        """The index in these files. Raises `StoreError` where one is damaged."""
        return cls(tuple(open_index(path) for path in paths))

    def __len__(self) -> int:
        return sum(map(len, self.shards))

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """The first row of each shard, and the end: int64[shards + 1]."""
        return np.concatenate([[0], np.cumsum([len(shard) for shard in self.shards], dtype=np.int64)]).astype(np.int64)

    @property
    def permutations(self) -> int:
        """Values in a signature; 0 without the MinHash level."""
        return self._type("minhash").list_size if self.has("minhash") else 0

    def has(self, name: str) -> bool:
        """Whether there is such a column."""
        return bool(self.shards) and name in self.shards[0].column_names

    def column(self, name: str) -> pa.ChunkedArray:
        """One column over all shards."""
        return pa.chunked_array([chunk for shard in self.shards for chunk in shard[name].chunks], self._type(name))

    def numbers(self, name: str) -> npt.NDArray[Any]:
        """A column of numbers, copied into one array."""
        return self.column(name).to_numpy() if self.shards else np.zeros(0, np.int64)

    def exact(self, half: int) -> npt.NDArray[np.uint64]:
        """One half of the exact hashes, uint64[documents]: zeros for texts that are never copies of one another."""
        halves = [_values(shard["exact"], np.uint64).reshape(-1, 2)[:, half] for shard in self.shards]
        return np.concatenate(halves) if halves else np.zeros(0, np.uint64)

    def minhash(self) -> Iterator[npt.NDArray[np.uint32]]:
        """The signatures of each shard, uint32[documents, permutations], where they lie."""
        for shard in self.shards:
            yield _values(shard["minhash"], np.uint32).reshape(len(shard), self.permutations)

    def signature_addresses(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
        """Where the signatures of these rows lie in memory, uint64[rows]: valid as long as the index is open."""
        shard = np.searchsorted(self.starts, rows, side="right") - 1
        bases = np.array([matrix.ctypes.data for matrix in self.minhash()], np.uint64)
        within = (rows - self.starts[shard]).astype(np.uint64)
        return bases[shard] + within * np.uint64(4 * self.permutations)

    def set_addresses(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
        """The same of their sets of shingles; how many there are in each is the column "shingles"."""
        within = np.searchsorted(self.starts, rows, side="right") - 1
        by_shard = np.argsort(within, kind="stable")
        cuts = np.searchsorted(within[by_shard], np.arange(len(self.shards) + 1))
        places = np.zeros(len(rows), np.uint64)
        for number, shard in enumerate(self.shards):
            there = by_shard[cuts[number] : cuts[number + 1]]
            if len(there):
                chunk = shard["shingle_set"].chunk(0)
                offsets = np.frombuffer(chunk.buffers()[1], np.int64, len(chunk) + 1, 8 * chunk.offset)
                begins = offsets[rows[there] - self.starts[number]].astype(np.uint64)
                places[there] = np.uint64(chunk.values.buffers()[1].address) + begins * np.uint64(4)
        return places

    def _type(self, name: str) -> pa.DataType:
        return self.shards[0].schema.field(name).type if self.shards else pa.null()


def lean_minhashes(table: pa.Table, seed: int) -> Iterator[tuple[str, Any]]:
    """(doc_id, `datasketch.LeanMinHash`) of every document of an index file that has shingles.

    They can be inserted into datasketch's `MinHashLSH`, `MinHashLSHBloom`, `MinHashLSHForest` as they are. seed: that
    of the parameters.
    """
    import datasketch

    signatures = _values(table["minhash"], np.uint32).reshape(len(table), -1)
    for doc_id, shingles, values in zip(table["doc_id"], table["shingles"].to_numpy(), signatures, strict=True):
        if shingles:
            yield doc_id.as_py(), datasketch.LeanMinHash(scheme="affine32", seed=seed, hashvalues=values)


def _values(values: pa.ChunkedArray, kind: type[np.generic]) -> npt.NDArray[Any]:
    """The values of a column of fixed-width binaries or lists, flat, where they lie."""
    if not len(values):
        return np.zeros(0, kind)
    chunk = values.chunk(0)
    listed = pa.types.is_fixed_size_list(chunk.type)
    width = 4 * chunk.type.list_size if listed else chunk.type.byte_width
    buffer = (chunk.values if listed else chunk).buffers()[1]
    return np.frombuffer(buffer, kind, len(chunk) * width // np.dtype(kind).itemsize)
