"""Arrow record batches as records: what the readers of Parquet and Arrow files share."""

from typing import Any

import pyarrow as pa

from pipelines.ingest.params import Source
from pipelines.ingest.records import Items, Reject, record_from

BROKEN = (pa.ArrowException, OSError, ValueError, OverflowError)
"""What pyarrow raises at a broken file; a name of a column that is no UTF-8 is a ValueError."""


def raise_if_of_the_system(error: Exception) -> None:
    """Raise an error again that comes from the disk or the network, and so says nothing about the file."""
    if isinstance(error, OSError) and error.errno is not None:
        raise error


def batch_records(batch: pa.RecordBatch, number: int, source: Source, max_bytes: int) -> Items:
    """The rows of a batch; number: of its first row in the file."""
    names = batch.schema.names
    columns = [_values(column) for column in batch.columns]
    for index, row in enumerate(zip(*columns, strict=True), number):
        made = record_from(dict(zip(names, row, strict=True)), index, source, max_bytes)
        if isinstance(made, Reject):
            made.detail = f"row {index}: {made.detail}"
        yield made


def _values(column: pa.Array) -> list[Any]:
    """A column as Python values; where Python has none like them (nanoseconds, years after 9999), as text.

    Neither Parquet nor Arrow files promise that their strings are UTF-8: where one is not, all are bytes.
    """
    try:
        return column.to_pylist()
    except UnicodeDecodeError:
        kind = column.type
        if pa.types.is_dictionary(kind):
            column, kind = column.dictionary_decode(), kind.value_type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return column.cast(pa.large_binary()).to_pylist()
        return [_value(scalar) for scalar in column]
    except (ValueError, OverflowError, pa.ArrowException):
        return [_value(scalar) for scalar in column]


def _value(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except (ValueError, OverflowError, pa.ArrowException):
        pass
    try:
        return scalar.cast(pa.string()).as_py()
    except (ValueError, OverflowError, pa.ArrowException):
        return None
