"""CSV with a header, and its kin with tabs, semicolons or bars between the columns."""

import csv
import itertools
from codecs import BOM_UTF8
from collections.abc import Sequence

from pipelines.ingest.encodings import WHITE_SPACE, NotText, decode_utf8
from pipelines.ingest.params import Source
from pipelines.ingest.records import Items, Reject, record_from
from pipelines.ingest.streams import Stream, bounded_lines


def read(stream: Stream, source: Source, max_bytes: int) -> Items:
    """A record per row. The header's columns are its fields; a row with more or fewer is rejected."""
    csv.field_size_limit(max_bytes)
    lines = _Lines(stream, max_bytes)
    try:
        first = next(lines, "")
        rows = csv.reader(itertools.chain([first], lines), delimiter=_delimiter(first), strict=True)
        header = next(rows, [])
    except (_BadLine, csv.Error) as error:
        yield Reject(None, "damaged_file", f"the header cannot be read: {error}")
        return
    if missing := missing_column(source, header):
        yield missing
        return
    number = 0
    while True:
        lines.repairs = ()
        begin = lines.number + 1, lines.offset
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
            yield Reject(str(number), "invalid_csv", f"line {lines.number} of a row {_at(begin)}: {error}")
        else:
            if not row:
                continue
            if len(row) != len(header):
                told = f"the row {_at(begin)} has {len(row)} columns, the header {len(header)}"
                yield Reject(str(number), "wrong_columns", told)
            else:
                made = record_from(dict(zip(header, row, strict=True)), number, source, max_bytes)
                if isinstance(made, Reject):
                    made.detail = f"the row {_at(begin)}: {made.detail}"
                else:
                    made.repairs = lines.repairs + made.repairs
                yield made
        number += 1
    if stream.damage:
        yield Reject(None, "damaged_file", stream.damage)


def missing_column(source: Source, columns: Sequence[str]) -> Reject | None:
    """The rejection of a file whose columns lack the text or a mapped id."""
    for name in filter(None, (source.field("text"), source.field("id"))):
        if name not in columns:
            has = ", ".join(column.strip(WHITE_SPACE) for column in columns[:20]) or "none"
            return Reject(None, "missing_column", f"no column {name!r}; the file has {has}")
    return None


def _at(place: tuple[int, int]) -> str:
    return f"from line {place[0]} at byte {place[1]}"


def _delimiter(header: str) -> str:
    """The separator that stands most often in the header; a comma where none does."""
    return max(",\t;|", key=header.count)


class _BadLine(Exception):
    """A line that ends the CSV row that it belongs to."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


class _Lines:
    """Decoded lines for the csv module; a line that is no text raises `_BadLine`, and reading can go on after it."""

    def __init__(self, stream: Stream, max_bytes: int) -> None:
        self._stream = stream
        content, self._charset = stream.as_utf8()
        self._lines = bounded_lines(content, max_bytes)
        self._max_bytes = max_bytes
        self.number = self.offset = 0
        self.ended = False
        self.repairs: tuple[str, ...] = ()

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        line = next(self._lines, b"")
        if line == b"":
            self.ended = True
            raise StopIteration
        self.number += 1
        where = f"line {self.number} at byte {self.offset}"
        self.offset += line if isinstance(line, int) else len(line)
        if isinstance(line, int):
            raise _BadLine("too_large", f"{where}: {line} bytes, {self._max_bytes} allowed")
        if self._stream.damage and not line.endswith(b"\n"):
            raise _BadLine("damaged_file", self._stream.damage)
        try:
            text, repairs = decode_utf8(line.removeprefix(BOM_UTF8) if self.number == 1 else line, self._charset)
        except NotText as error:
            raise _BadLine(error.reason, f"{where}: {error.detail}") from None
        self.repairs += repairs
        return text
