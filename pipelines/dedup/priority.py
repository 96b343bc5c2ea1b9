"""Signatures of all sources in one order of priority, in which documents are asked whether they stay.

The order is that of the sources in the profile, then longer texts first, then doc_id: it does not depend on shards,
workers or the order of files. Who stays is decided in `clusters.py`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.engines.task import Inputs


@dataclass(frozen=True)
class Signatures:
    """All documents in order of priority.

    doc_ids: strings. sources: int64, index of the source. exact: uint64[documents, 2]. rows: int64, row in `minhash`,
    -1 where a document has no shingles. minhash: uint32[documents with shingles, permutations], in the order of shards.
    """

    doc_ids: pa.Array
    sources: npt.NDArray[np.int64]
    exact: npt.NDArray[np.uint64]
    rows: npt.NDArray[np.int64]
    minhash: npt.NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.sources)


def load_signatures(inputs: Inputs, shards_per_source: list[int]) -> Signatures:
    """Signatures of all shards, in order of priority. Raises `ValueError` when a doc_id occurs twice.

    Memory: per document about 100 bytes and, with shingles, 4 bytes per permutation (450 bytes at 112).
    """
    source_of_shard = [source for source, count in enumerate(shards_per_source) for _ in range(count)]
    tables = [inputs.table(i, ["doc_id", "exact", "shingles", "length"]) for i in range(len(source_of_shard))]
    if not tables:
        none = np.zeros(0, np.int64)
        return Signatures(
            pa.array([], pa.large_string()), none, np.zeros((0, 2), np.uint64), none, np.zeros((0, 1), np.uint32)
        )
    table = pa.concat_tables(tables).combine_chunks()
    sources = np.repeat(source_of_shard, [len(t) for t in tables]).astype(np.int64)
    _refuse_repeated(table["doc_id"])
    has_shingles = table["shingles"].to_numpy() > 0
    rows = np.where(has_shingles, np.cumsum(has_shingles) - 1, -1)
    negative_length = -table["length"].to_numpy()
    keys = pa.table({"source": sources, "length": negative_length, "doc_id": table["doc_id"]})
    order = pc.sort_indices(keys, [(name, "ascending") for name in keys.column_names])
    exact = np.frombuffer(b"".join(table["exact"].to_pylist()), ">u8").astype(np.uint64).reshape(-1, 2)
    by_priority = order.to_numpy()
    return Signatures(
        table["doc_id"].combine_chunks().take(order),
        sources[by_priority],
        exact[by_priority],
        rows[by_priority],
        _load_minhash(inputs, len(tables), int(has_shingles.sum())),
    )


def _load_minhash(inputs: Inputs, shards: int, rows: int) -> npt.NDArray[np.uint32]:
    matrix = np.zeros((rows, 1), np.uint32)
    filled = 0
    for values, documents in _minhash_values(inputs, shards):
        if filled == 0:
            matrix = np.empty((rows, len(values) // documents), np.uint32)
        matrix[filled : filled + documents] = values.reshape(documents, -1)
        filled += documents
    return matrix


def _minhash_values(inputs: Inputs, shards: int) -> Iterator[tuple[npt.NDArray[np.uint32], int]]:
    """Signature values of the documents with shingles of each shard that has any, and their number."""
    for index in range(shards):
        column = inputs.table(index, ["minhash"])["minhash"]
        documents = pc.sum(pc.greater(pc.list_value_length(column), 0)).as_py() or 0
        if documents:
            yield pc.list_flatten(column).to_numpy(), documents


def _refuse_repeated(doc_ids: pa.ChunkedArray) -> None:
    if pc.count_distinct(doc_ids).as_py() != len(doc_ids):
        counts = pc.value_counts(doc_ids)
        repeated = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
        raise ValueError(
            f"doc_id {repeated[0].as_py()} occurs more than once in the clean documents ({len(repeated)} ids are "
            "repeated); ingest the sources again so that every document has an id of its own"
        )
