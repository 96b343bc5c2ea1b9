"""Copies outside the store: token shards as tables of token lists, Parquet or Arrow IPC, for readers that know no
`.bin/.idx`; a blend with its token shards, as `BlendDataset` reads it."""

import shutil
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
from pipelines.tokens.order import first_pieces

Format = Literal["parquet", "arrow"]

BLEND = "blend.json"

BATCH_TOKENS = 1 << 22
"""Tokens of one batch of rows, and so of a row group; a longer document makes one of its own."""


@dataclass(frozen=True)
class Exported:
    """What was written. pieces: rows, of which a document that was too long has several."""

    files: tuple[Path, ...]
    documents: int
    pieces: int
    tokens: int


def export_tokens(token_shards: Dataset, folder: Path, kind: Format) -> Exported:
    """Write every token shard as a table with the columns doc_id, source and input_ids (a list of ids).

    A row is a document of the token shard; one that was too long has several, with the same doc_id, in order. Files are
    named after source and shard, and stand there once all are written: a run that fails leaves none. Memory: one batch,
    and the doc_ids and the `.idx` of one shard. Raises `FileExistsError`, before anything is written, where a file is
    there already.
    """
    sources = _sources(token_shards, folder, kind)
    folder.mkdir(parents=True, exist_ok=True)
    partials = {target: target.with_name(f".{target.name}.partial") for target in sources}
    documents = pieces = tokens = 0
    try:
        for target, source in sources.items():
            shard = IndexedTokens(source.bin, source.idx)
            doc_ids = read_table(token_shards.store, source.table, ["doc_id"])["doc_id"]
            with _writer(partials[target], kind, _schema(shard.kind)) as write:
                for batch in _batches(shard, doc_ids.combine_chunks(), source.name):
                    write(batch)
            documents += int(np.count_nonzero(first_pieces(doc_ids)))
            pieces += len(shard)
            tokens += len(shard.tokens)
        for target, partial in partials.items():
            partial.replace(target)
    finally:
        for partial in partials.values():
            partial.unlink(missing_ok=True)
    return Exported(tuple(sources), documents, pieces, tokens)


def export_blend(blend: Dataset, token_shards: Dataset, folder: Path) -> Exported:
    """Write what `BlendDataset` reads: token shards, orders, packed samples and, when all are there, `blend.json`.

    token_shards: those that the blend was made from. Raises `FileExistsError` where the folder holds a blend already.
    """
    if (folder / BLEND).exists():
        raise FileExistsError(f"{folder / BLEND} exists already; name a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    shards = [*token_shards.shards("tokens"), *sorted(blend.shards("blend"), key=lambda shard: shard.name == BLEND)]
    for shard in shards:
        shutil.copyfile(blend.store.path(shard.object), folder / shard.name)
    stats = blend.version.stats
    tokens = sum(version.stats["tokens"] for version in token_shards.versions)
    return Exported(tuple(folder / shard.name for shard in shards), stats["documents_in"], stats["pieces"], tokens)


@dataclass(frozen=True)
class _Source:
    """A token shard: the source that it is of, its two files, the object of the table about it."""

    name: str
    bin: Path
    idx: Path
    table: str


def _sources(token_shards: Dataset, folder: Path, kind: Format) -> dict[Path, _Source]:
    """What each file is made from, none of which is there yet."""
    found: dict[Path, _Source] = {}
    for version in token_shards.versions:
        part, path = token_shards.of(version.partition), token_shards.store.path
        named = part.shards("tokens")
        for binary, index, table in zip(named[::2], named[1::2], part.shards("token_documents"), strict=True):
            target = folder / f"{version.partition or version.asset}-{Path(binary.name).stem}.{kind}"
            if target.exists():
                raise FileExistsError(f"{target} exists already; name a new folder")
            found[target] = _Source(version.partition, path(binary.object), path(index.object), table.object)
    return found


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
