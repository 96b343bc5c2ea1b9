"""Columns and Arrow record batches as records: what the readers of tables share."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from pipelines.ingest.encodings import WHITE_SPACE
from pipelines.ingest.params import Source
from pipelines.ingest.records import Items, Reject, record_from

BROKEN = (pa.ArrowException, OSError, ValueError, OverflowError)
"""What pyarrow raises at a broken file; a name of a column that is no UTF-8 is a ValueError."""


def columns_of(names: Sequence[str], source: Source) -> list[str] | Reject:
    """The names of a table's columns, `distinct`.

    A rejection where text or id have no column, or where it is not clear which one `fields` means.
    """
    count = Counter(names)
    for name in filter(None, (source.field("text"), source.field("id"))):
        if not count[name]:
            has = ", ".join(column.strip(WHITE_SPACE) for column in names[:20]) or "none"
            return Reject(None, "missing_column", f"no column {name!r}; the file has {has}")
    for name in (source.field("text"), *source.fields.values()):
        if count[name] > 1:
            told = f"{count[name]} columns are called {name!r}, and one of them is to be read; rename the others"
            return Reject(None, "ambiguous_column", told)
    return distinct(names)


def distinct(names: Sequence[str]) -> list[str]:
    """Each name once, the second `n` as `n_2`."""
    made: list[str] = []
    taken = set(names)
    last: Counter[str] = Counter()
    for name in names:
        last[name] += 1
        told = name
        while last[name] > 1 and (told := f"{name}_{last[name]}") in taken:
            last[name] += 1
        taken.add(told)
        made.append(told)
    return made


def batch_records(batch: pa.RecordBatch, names: list[str], number: int, source: Source, max_bytes: int) -> Items:
    """The rows of a batch; names: of its columns; number: of its first row in the file."""
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
    if isinstance(scalar, pa.StructScalar):  # two fields of a name, or a value in it that Python does not have
        names = distinct([field.name for field in scalar.type])
        return dict(zip(names, (_value(inner) for _, inner in scalar.items()), strict=True))
    if isinstance(scalar, pa.ListScalar):
        return [_value(inner) for inner in scalar.values]
    try:
        return scalar.cast(pa.string()).as_py()
    except (ValueError, OverflowError, pa.ArrowException):
        return None
