"""Arrow IPC: files (also known as Feather 2) and streams, as Hugging Face `datasets` writes them to disk.

A file is a stream between a mark and a directory of its batches, and is read as that: in one go, from anywhere.
"""

from typing import BinaryIO

import pyarrow as pa

from pipelines.ingest.formats.tables import BROKEN, batch_records, columns_of
from pipelines.ingest.params import Source
from pipelines.ingest.records import Items, Reject
from pipelines.ingest.streams import Stream, raise_if_of_the_system

FILE_MAGIC = b"ARROW1\0\0"
STREAM_MAGIC = b"\xff\xff\xff\xff"
ROWS_AT_ONCE = 1024


def read(stream: Stream, source: Source, max_bytes: int) -> Items:
    """A record per row. Memory: one record batch, as large as whoever wrote the file made it.

    Every batch is checked before a value of it is read. Of a damaged file the batches before the damage are kept.
    """
    number = 0
    is_file = stream.head(len(FILE_MAGIC)) == FILE_MAGIC
    content = stream.bytes
    if is_file:
        content.read(len(FILE_MAGIC))
    try:
        with pa.ipc.open_stream(content) as batches:
            names = columns_of(batches.schema.names, source)
            if isinstance(names, Reject):
                yield names
                return
            for batch in batches:
                _check(batch)
                for start in range(0, batch.num_rows, ROWS_AT_ONCE):
                    rows = batch.slice(start, ROWS_AT_ONCE)
                    yield from batch_records(rows, names, number + start, source, max_bytes)
                number += batch.num_rows
            damage = _what_follows(content, is_file=is_file)
    except BROKEN as error:
        raise_if_of_the_system(error)
        damage = f"after {number} readable rows: {str(error)[:200]}"
    if damage := stream.damage or damage:
        yield Reject(None, "damaged_file", damage)


def _check(batch: pa.RecordBatch) -> None:
    """Raise `pa.ArrowInvalid` where offsets lead out of the data. A string that is no UTF-8 costs its row only."""
    batch.validate()
    for column in batch.columns:
        if pa.types.is_string(column.type):
            column = column.view(pa.binary())
        elif pa.types.is_large_string(column.type):
            column = column.view(pa.large_binary())
        column.validate(full=True)


def _what_follows(content: BinaryIO, *, is_file: bool) -> str:
    """What is wrong after the mark that ends the batches: nothing may follow but a file's directory, of the length that
    it states."""
    rest = content.read()
    if not is_file:
        return f"{len(rest)} bytes after its end" if rest else ""
    if not rest.endswith(FILE_MAGIC[:6]) or int.from_bytes(rest[-10:-6], "little") != len(rest) - 10:
        return "the directory of its batches is missing or broken"
    return ""
