"""Readers: a file's bytes → records and rejections, for JSONL, CSV, Parquet and whole text files.

Which files there are is `listing.py`'s business; text that Python packages ship has readers in `environment.py`.
Every reader streams: memory is bounded by the largest allowed record, plus, where ids are mapped, the ids of a file.
"""

import csv
import itertools
import json
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.ingest.params import Source
from pipelines.ingest.records import WHITE_SPACE, NotText, Record, Reject, decode, decode_utf8, is_blank, record_from
from pipelines.ingest.streams import Stream, bounded_lines

Items = Iterator[Record | Reject]

HEAD_BYTES = 1 << 16
BATCH_BYTES = 16_000_000
_BY_SUFFIX = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
}


def read_file(path: Path, name: str, source: Source, max_bytes: int) -> Items:
    """Everything in one file. name: decides where the content does not. Raises `OSError` when it cannot be read.

    The second and later records with the same id are rejected.
    """
    if path.stat().st_size == 0:
        yield Reject(None, "empty_file", "0 bytes")
        return
    reader = source.reader if source.reader != "auto" else detect(path, name)
    items = _READERS[reader](path, source, max_bytes)
    if not source.field("id") or reader == "text":
        yield from items
        return
    seen: set[str] = set()
    for item in items:
        if isinstance(item, Record):
            if item.key in seen:
                yield Reject(item.key, "duplicate_id", f"an earlier record of the file has the id {item.key[:100]!r}")
                continue
            seen.add(item.key)
        yield item


def detect(path: Path, name: str) -> str:
    """Which reader suits a file: by its first bytes, then by its name, else it is text."""
    with Stream(path) as stream:
        head = stream.bytes.read(HEAD_BYTES)
        name = name.lower().removesuffix(stream.suffix)
    if head.startswith(b"PAR1"):
        return "parquet"
    first_line, whole, _ = head.removeprefix(BOM_UTF8).lstrip().partition(b"\n")
    if first_line.startswith(b"{") and (whole or len(head) < HEAD_BYTES):
        try:
            if isinstance(json.loads(first_line), dict):
                return "jsonl"
        except (ValueError, RecursionError):
            pass
    return _BY_SUFFIX.get(name[name.rfind(".") :] if "." in name else "", "text")


def _read_text(path: Path, source: Source, max_bytes: int) -> Items:
    with Stream(path) as stream:
        data = stream.bytes.read(max_bytes + 1)
        if len(data) > max_bytes:
            yield Reject("0", "too_large", f"{path.stat().st_size} bytes on disk, {max_bytes} allowed")
            return
        if stream.damage:
            yield Reject(None, "damaged_file", stream.damage)
            if not data:
                return
    yield whole_file(data)


def whole_file(data: bytes) -> Record | Reject:
    """A file's bytes as one record, number 0."""
    try:
        text, repairs = decode(data)
    except NotText as error:
        return Reject("0", error.reason, error.detail)
    if is_blank(text):
        return Reject("0", "empty_text", f"{len(data)} bytes, none but white space")
    return Record("0", text, repairs=repairs)


def _read_jsonl(path: Path, source: Source, max_bytes: int) -> Items:
    with Stream(path) as stream:
        number = 0
        for line_number, line in enumerate(bounded_lines(stream.bytes, max_bytes), 1):
            if isinstance(line, int):
                yield Reject(str(number), "too_large", f"line {line_number} has {line} bytes, {max_bytes} allowed")
            elif not (line := line.removeprefix(BOM_UTF8) if line_number == 1 else line).strip():
                continue
            elif stream.damage and not line.endswith(b"\n"):
                break  # the torn last line belongs to the one rejection of the damage
            else:
                yield _json_record(line, number, line_number, source, max_bytes)
            number += 1
        if stream.damage:
            yield Reject(None, "damaged_file", stream.damage)


def _json_record(line: bytes, number: int, line_number: int, source: Source, max_bytes: int) -> Record | Reject:
    try:
        text, repairs = decode_utf8(line)
        fields = json.loads(text, strict=False, parse_constant=lambda _: None)
    except NotText as error:
        return Reject(str(number), error.reason, f"line {line_number}: {error.detail}")
    except json.JSONDecodeError as error:
        return Reject(str(number), "invalid_json", f"line {line_number}: {error.msg} at character {error.pos}")
    except (ValueError, RecursionError) as error:
        return Reject(str(number), "invalid_json", f"line {line_number}: {str(error)[:200]}")
    if not isinstance(fields, dict):
        return Reject(str(number), "not_an_object", f"line {line_number} holds a JSON {type(fields).__name__}")
    made = record_from(fields, number, source, max_bytes)
    if isinstance(made, Reject):
        return Reject(made.key, made.reason, f"line {line_number}: {made.detail}")
    return Record(made.key, made.text, made.license, made.metadata, repairs + made.repairs)


class _BadLine(Exception):
    """A line that ends the CSV row that it belongs to."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


class _CsvLines:
    """Decoded lines for the csv module; a line that is no text raises `_BadLine`, and reading can go on after it."""

    def __init__(self, stream: Stream, max_bytes: int) -> None:
        self._stream = stream
        self._lines = bounded_lines(stream.bytes, max_bytes)
        self._max_bytes = max_bytes
        self.number = 0
        self.ended = False
        self.repairs: tuple[str, ...] = ()

    def __iter__(self) -> "_CsvLines":
        return self

    def __next__(self) -> str:
        line = next(self._lines, b"")
        if line == b"":
            self.ended = True
            raise StopIteration
        self.number += 1
        if isinstance(line, int):
            raise _BadLine("too_large", f"line {self.number} has {line} bytes, {self._max_bytes} allowed")
        if self._stream.damage and not line.endswith(b"\n"):
            raise _BadLine("damaged_file", self._stream.damage)
        try:
            text, repairs = decode_utf8(line.removeprefix(BOM_UTF8) if self.number == 1 else line)
        except NotText as error:
            raise _BadLine(error.reason, f"line {self.number}: {error.detail}") from None
        self.repairs += repairs
        return text


def _read_csv(path: Path, source: Source, max_bytes: int) -> Items:
    csv.field_size_limit(max_bytes)
    with Stream(path) as stream:
        lines = _CsvLines(stream, max_bytes)
        try:
            first = next(lines, "")
            rows = csv.reader(itertools.chain([first], lines), delimiter=_delimiter(first), strict=True)
            header = next(rows, [])
        except (_BadLine, csv.Error) as error:
            yield Reject(None, "damaged_file", f"the header cannot be read: {error}")
            return
        if missing := _missing_column(source, header):
            yield missing
            return
        number = 0
        while True:
            lines.repairs = ()
            try:
                row = next(rows)
            except StopIteration:
                break
            except _BadLine as error:
                if error.reason == "damaged_file":
                    break
                yield Reject(str(number), error.reason, error.detail)
            except csv.Error as error:
                if stream.damage and lines.ended:
                    break  # the torn last row belongs to the one rejection of the damage
                yield Reject(str(number), "invalid_csv", f"line {lines.number}: {error}")
            else:
                if not row:
                    continue
                yield _csv_record(row, header, number, lines, source, max_bytes)
            number += 1
        if stream.damage:
            yield Reject(None, "damaged_file", stream.damage)


def _csv_record(
    row: list[str], header: list[str], number: int, lines: _CsvLines, source: Source, max_bytes: int
) -> Record | Reject:
    if len(row) != len(header):
        detail = f"the row that ends in line {lines.number} has {len(row)} columns, the header {len(header)}"
        return Reject(str(number), "wrong_columns", detail)
    made = record_from(dict(zip(header, row, strict=True)), number, source, max_bytes)
    if isinstance(made, Reject):
        return Reject(made.key, made.reason, f"line {lines.number}: {made.detail}")
    return Record(made.key, made.text, made.license, made.metadata, lines.repairs + made.repairs)


def _delimiter(header: str) -> str:
    """The separator that stands most often in the header; a comma where none does."""
    return max(",\t;|", key=header.count)


def _missing_column(source: Source, columns: list[str]) -> Reject | None:
    for name in filter(None, (source.field("text"), source.field("id"))):
        if name not in columns:
            has = ", ".join(column.strip(WHITE_SPACE) for column in columns[:20]) or "none"
            return Reject(None, "missing_column", f"no column {name!r}; the file has {has}")
    return None


def _read_parquet(path: Path, source: Source, max_bytes: int) -> Items:
    number = 0
    try:
        with pq.ParquetFile(path) as file:
            if missing := _missing_column(source, file.schema_arrow.names):
                yield missing
                return
            for batch in file.iter_batches(batch_size=_batch_rows(file.metadata)):
                for fields in _rows(batch):
                    made = record_from(fields, number, source, max_bytes)
                    if isinstance(made, Reject):
                        made = Reject(made.key, made.reason, f"row {number}: {made.detail}")
                    yield made
                    number += 1
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, FileNotFoundError | PermissionError):
            raise
        yield Reject(None, "damaged_file", f"after {number} readable rows: {str(error)[:200]}")


def _batch_rows(metadata: pq.FileMetaData) -> int:
    size = sum(metadata.row_group(index).total_byte_size for index in range(metadata.num_row_groups))
    return max(1, min(8192, metadata.num_rows * BATCH_BYTES // max(1, size)))


def _rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows of a batch. Parquet does not promise that its strings are UTF-8: where one is not, all are bytes."""
    try:
        return batch.to_pylist()
    except UnicodeDecodeError:
        columns = [
            column.cast(pa.large_binary()) if pa.types.is_string(column.type) else column for column in batch.columns
        ]
        return pa.RecordBatch.from_arrays(columns, names=batch.schema.names).to_pylist()


_READERS: dict[str, Callable[[Path, Source, int], Any]] = {
    "text": _read_text,
    "jsonl": _read_jsonl,
    "csv": _read_csv,
    "parquet": _read_parquet,
}
