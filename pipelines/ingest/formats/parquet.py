"""Parquet files, a few rows at a time."""

import pyarrow.parquet as pq

from pipelines.ingest.formats.tables import BROKEN, batch_records, columns_of
from pipelines.ingest.params import Source
from pipelines.ingest.records import Items, Reject
from pipelines.ingest.streams import Stream, raise_if_of_the_system

BATCH_BYTES = 16_000_000
READ_BYTES = 1 << 20


def read(stream: Stream, source: Source, max_bytes: int) -> Items:
    """A record per row. Memory: about `BATCH_BYTES`, and a page of each column.

    Of a damaged file the rows before the damage are kept, a batch at a time.
    """
    number = 0
    try:
        with pq.ParquetFile(stream.unpacked, pre_buffer=False, buffer_size=READ_BYTES) as file:
            names = columns_of(file.schema_arrow.names, source)
            if isinstance(names, Reject):
                yield names
                return
            for batch in file.iter_batches(batch_size=_batch_rows(file.metadata), use_threads=False):
                yield from batch_records(batch, names, number, source, max_bytes)
                number += batch.num_rows
            promised = file.metadata.num_rows
    except BROKEN as error:
        raise_if_of_the_system(error)
        yield Reject(None, "damaged_file", stream.damage or f"after {number} readable rows: {str(error)[:200]}")
        return
    if promised != number:
        yield Reject(None, "damaged_file", f"its footer promises {promised} rows, and it holds {number}")


def _batch_rows(metadata: pq.FileMetaData) -> int:
    size = sum(metadata.row_group(index).total_byte_size for index in range(metadata.num_row_groups))
    return max(1, min(8192, metadata.num_rows * BATCH_BYTES // max(1, size)))
