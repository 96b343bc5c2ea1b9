"""Token shards as tables of token lists: Parquet, or Arrow IPC files, which readers map into memory.

For readers that know no `.bin/.idx`. The files are a copy outside the store, a table per token shard.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.dataset import Dataset, read_table
from pipelines.tokens.indexed import IndexedTokens

Format = Literal["parquet", "arrow"]

BATCH_TOKENS = 1 << 22
"""Tokens of one batch of rows, and so of a row group; a longer document makes one of its own."""


@dataclass(frozen=True)
class Exported:
    """What was written."""

    files: tuple[Path, ...]
    documents: int
    tokens: int


def export_tokens(token_shards: Dataset, folder: Path, kind: Format) -> Exported:
    """Write every token shard as a table with the columns doc_id, source and input_ids (a list of ids).

    A row is a document of the token shard; one that was too long has several, with the same doc_id, in order. Files are
    named after source and shard and written whole or not at all. Memory: one batch. Raises `FileExistsError` where a
    file is there already.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files, documents, tokens = [], 0, 0
    for version in token_shards.versions:
        part = token_shards.of(version.partition)
        named = part.shards("tokens")
        for binary, index, table in zip(named[::2], named[1::2], part.shards("token_documents"), strict=True):
            store = token_shards.store
            shard = IndexedTokens(store.path(binary.object), store.path(index.object))
            doc_ids = read_table(store, table.object, ["doc_id"])["doc_id"].combine_chunks()
            target = folder / f"{version.partition or version.asset}-{Path(binary.name).stem}.{kind}"
            if target.exists():
                raise FileExistsError(f"{target} exists already; name a new folder")
            partial = target.with_name(f".{target.name}.partial")
            with _writer(partial, kind, _schema(shard.kind)) as write:
                for batch in _batches(shard, doc_ids, version.partition):
                    write(batch)
            partial.replace(target)
            files.append(target)
            documents += len(shard)
            tokens += len(shard.tokens)
    return Exported(tuple(files), documents, tokens)


def _schema(kind: np.dtype) -> pa.Schema:
    ids = pa.large_list(pa.from_numpy_dtype(kind))
    return pa.schema([("doc_id", pa.large_string()), ("source", pa.large_string()), ("input_ids", ids)])


def _batches(shard: IndexedTokens, doc_ids: pa.Array, source: str) -> Iterator[pa.RecordBatch]:
    ends = np.cumsum(shard.lengths, dtype=np.int64)
    first = 0
    while first < len(shard):
        start = int(ends[first - 1]) if first else 0
        after = max(first + 1, int(np.searchsorted(ends, start + BATCH_TOKENS, side="right")))
        offsets = np.concatenate([[0], ends[first:after] - start])
        ids = pa.LargeListArray.from_arrays(offsets, pa.array(np.asarray(shard.tokens[start : start + offsets[-1]])))
        rows = after - first
        columns = [doc_ids.slice(first, rows), pa.repeat(pa.scalar(source, pa.large_string()), rows), ids]
        yield pa.record_batch(columns, schema=_schema(shard.kind))
        first = after


@contextmanager
def _writer(path: Path, kind: Format, schema: pa.Schema) -> Iterator:
    if kind == "parquet":
        # Ids hardly repeat within a dictionary's reach; zstd takes a third off them.
        with pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=["source"]) as writer:
            yield writer.write_batch
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            yield writer.write_batch
