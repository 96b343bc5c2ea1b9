"""CSV with a header, and its kin with tabs, semicolons or bars between the columns."""

import csv
import io
import itertools
import re
from codecs import BOM_UTF8
from typing import Any, BinaryIO

from pipelines.ingest.encodings import DETECTION_BYTES, NotText, decode_utf8
from pipelines.ingest.formats.tables import columns_of
from pipelines.ingest.params import Source
from pipelines.ingest.records import Items, Reject, record_from
from pipelines.ingest.streams import Stream, bounded_lines

_SEPARATOR = re.compile(r"sep=([^\w\"\r\n\0])\r?\n?")
_QUOTED = re.compile(r'(^|[,\t;|])"(?:[^"]++|"")*+"?')
"""A field in quotes, also one that goes on in the next line."""


def read(stream: Stream, source: Source, max_bytes: int) -> Items:
    """A record per row. The header's columns are its fields; a row with more or fewer is rejected.

    A first line `sep=;` names the separator, as Excel reads and writes it.
    """
    csv.field_size_limit(max_bytes)
    lines = _Lines(stream, max_bytes)
    try:
        first = next(lines, "")
        if said := _SEPARATOR.fullmatch(first):
            first = next(lines, "")
        delimiter = said[1] if said else _delimiter(first)
        rows = csv.reader(itertools.chain([first], lines), delimiter=delimiter, strict=True)
        header = columns_of(next(rows, []), source)
    except _BadLine as error:
        yield Reject(None, error.reason, f"the header cannot be read: {error.detail}")
        return
    except csv.Error as error:
        told = f"the header cannot be read: {_told(error, max_bytes)}"
        yield Reject(None, "damaged_file", stream.damage) if stream.damage else Reject(None, "invalid_csv", told)
        return
    if isinstance(header, Reject):
        yield header
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
            told = f"line {lines.number} of a row {_at(begin)}: {_told(error, max_bytes)}"
            yield Reject(str(number), "invalid_csv", told)
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


def _at(place: tuple[int, int]) -> str:
    return f"from line {place[0]} at byte {place[1]}"


def _delimiter(header: str) -> str:
    """The separator that stands most often in the header outside of quotes; a comma where none does."""
    return max(",\t;|", key=_QUOTED.sub(r"\1", header).count)


def _told(error: csv.Error, max_bytes: int) -> str:
    """What the csv module found, in words for who has the file and not for who wrote the reader."""
    found = str(error)
    if found.startswith("new-line"):
        return "a carriage return stands in a field without quotes"
    if found.startswith("field larger"):
        return f"a field has more than {max_bytes} characters"
    if found.startswith("unexpected end"):
        return "a quote is opened and never closed"
    return "a closing quote is followed by more than a separator"


class _Returns(io.RawIOBase):
    """A file whose lines end with carriage returns alone, with line feeds in their place."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        data = self._file.read(len(target)).replace(b"\r", b"\n")
        target[: len(data)] = data
        return len(data)


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
        head = stream.head(DETECTION_BYTES)
        content, self._charset = stream.as_utf8()
        if b"\r" in head and b"\n" not in head:
            content = io.BufferedReader(_Returns(content), 1 << 17)
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
