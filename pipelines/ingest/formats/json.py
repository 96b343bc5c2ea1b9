"""JSON files: one array of records, one object, or several values one after another.

The file is cut into its values by their brackets alone, so memory is bounded by the largest allowed record, and a value
that is no JSON costs that value only. What a value holds is read as a line of `jsonl.py` is.
"""

import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from typing import Any, BinaryIO

import orjson

from pipelines.ingest.formats.jsonl import has_large_float, parse_json
from pipelines.ingest.params import Source
from pipelines.ingest.records import Items, Record, Reject, missing, record_from
from pipelines.ingest.streams import Stream

BLOCK_BYTES = 1 << 18
_MARK = re.compile(rb'["{}\[\],]')
_IN_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)


def read(stream: Stream, source: Source, max_bytes: int) -> Items:
    """A record per element of an array. Numbers count them over the whole file.

    An object is one record if it has the text's field. Else the objects in it, and those in its arrays, are the
    records, the former with their name as `key`. Strings in an array are texts.
    """
    content, charset = stream.as_utf8()
    values = Values(content, max_bytes)
    number = 0
    for offset, value in values:
        if isinstance(value, int):
            told = f"at byte {offset}: a value of {value} bytes, {max_bytes} allowed; write its records as JSON lines"
            yield Reject(str(number), "too_large", told)
            number += 1
            continue
        for made in _records(value, charset, number, source, max_bytes, alone=not values.in_array):
            if isinstance(made, Reject):
                made.detail = f"at byte {offset}: {made.detail}"
            yield made
            number += 1
    if stream.damage or values.open:
        yield Reject(None, "damaged_file", stream.damage or f"the file ends in the value from byte {values.start}")


def _records(data: bytes, charset: str | None, number: int, source: Source, max_bytes: int, *, alone: bool) -> Items:
    """The records in one value. alone: it stands for itself, not in an array."""
    repairs: tuple[str, ...] = ()
    try:
        value = orjson.loads(data)
        exact = not has_large_float([value])
    except (orjson.JSONDecodeError, RecursionError):
        exact = False
    if not exact:
        parsed = parse_json(data, charset)
        if isinstance(parsed, Reject):
            yield Reject(str(number), parsed.reason, parsed.detail)
            return
        value, repairs = parsed
    for at, (name, fields) in enumerate(_objects(value, source, alone=alone), number):
        if not isinstance(fields, dict):
            yield Reject(str(at), "not_an_object", f"a JSON {type(fields).__name__}")
            continue
        made = record_from(fields if name is None else {"key": name} | fields, at, source, max_bytes)
        if isinstance(made, Record):
            made.repairs = repairs + made.repairs
        elif name is not None and fields.get(text_field := source.field("text")) is None:
            made.detail = f"in the object {name[:100]!r}: {missing('text', text_field, fields)}"
        yield made


def _objects(value: Any, source: Source, *, alone: bool) -> Iterator[tuple[str | None, Any]]:
    """What should be records, with the names that those have which stand as objects in an object."""
    if isinstance(value, str) and not alone:
        yield None, {source.field("text"): value}
        return
    if not isinstance(value, dict) or not alone or source.field("text") in value:
        yield None, value
        return
    found = False
    for name, inner in value.items():
        if isinstance(inner, dict):
            found = True
            yield name, inner
        elif isinstance(inner, list) and any(isinstance(element, dict) for element in inner):
            found = True
            yield from ((None, element) for element in inner)
    if not found:
        yield None, value


class Values:
    """The values of a file as (offset, bytes), or (offset, size) for one larger than `max_bytes`.

    open: the file ended inside a value or an array; start: the offset of the value that is, or was last, under way.
    in_array: the value given last stands in an array.
    """

    def __init__(self, file: BinaryIO, max_bytes: int) -> None:
        self._file = file
        self._max_bytes = max_bytes
        self._held = bytearray()
        self._size = 0
        self.start = 0
        self.in_array = False
        self.open = False

    def __iter__(self) -> Iterator[tuple[int, bytes | int]]:
        offset = depth = 0
        in_array = in_string = False
        left = b""
        while block := self._file.read(BLOCK_BYTES):
            if not offset and not left:
                offset = len(BOM_UTF8) if block.startswith(BOM_UTF8) else 0
                block = block[offset:]
                self.start = offset
            block = left + block
            left = b""
            begin = at = 0
            while at < len(block):
                if in_string:
                    at = _IN_STRING.match(block, at).end()  # type: ignore[union-attr]
                    if at < len(block) and block[at : at + 1] == b"\\":
                        left = block[at:]  # what it escapes comes with the next block
                        break
                    in_string = at == len(block)
                    at += 1
                    continue
                mark = _MARK.search(block, at)
                if mark is None:
                    break
                character, here, at = mark[0], mark.start(), mark.end()
                if character == b'"':
                    in_string = True
                elif character in b"{[":
                    if depth == 0:
                        yield from self._end(block[begin:here], in_array=False)
                        self.start, begin = offset + here, here
                        if character == b"[":
                            in_array = True
                            self.start, begin = offset + at, at
                    depth += 1
                elif character == b"," and in_array and depth == 1:
                    yield from self._end(block[begin:here], in_array=True)
                    self.start, begin = offset + at, at
                elif character in b"}]" and depth > in_array:
                    depth -= 1
                    if depth == 0:
                        yield from self._end(block[begin:at], in_array=False)
                        self.start, begin = offset + at, at
                elif character == b"]" and in_array:
                    yield from self._end(block[begin:here], in_array=True)
                    depth, in_array = 0, False
                    self.start, begin = offset + at, at
            end = len(block) - len(left)
            self._hold(block[begin:end])
            offset += end
        self._hold(left)
        self.open = depth > 0 or in_string
        if not self.open:
            yield from self._end(b"", in_array=False)

    def _hold(self, data: bytes) -> None:
        self._size += len(data)
        if self._size <= self._max_bytes:
            self._held += data
        else:
            self._held.clear()

    def _end(self, data: bytes, *, in_array: bool) -> Iterator[tuple[int, bytes | int]]:
        """The value that ends with these bytes; nothing if it is white space."""
        self._hold(data)
        value, size = bytes(self._held), self._size
        self._held.clear()
        self._size = 0
        self.in_array = in_array
        if size > self._max_bytes:
            yield self.start, size
        elif inner := value.strip():
            yield self.start + value.index(inner), inner
