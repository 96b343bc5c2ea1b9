"""JSON lines: one object per line.

orjson reads the lines that it accepts; what it refuses (NaN, lone surrogates, broken UTF-8, control characters) and
what it would round (integers of more than 64 bits) goes to Python's own parser, which says what is wrong, or mends it.
"""

import json
from codecs import BOM_UTF8
from collections.abc import Iterable
from typing import Any

import orjson

from pipelines.ingest.encodings import NotText, decode_utf8
from pipelines.ingest.params import Source
from pipelines.ingest.records import Items, Record, Reject, record_from
from pipelines.ingest.streams import Stream, bounded_lines

_LARGEST_FLOAT = float(1 << 63)


def read(stream: Stream, source: Source, max_bytes: int) -> Items:
    """A record per line that is not blank. Numbers count these lines; memory: one line."""
    number = offset = 0
    content, charset = stream.as_utf8()
    for line_number, line in enumerate(bounded_lines(content, max_bytes), 1):
        if isinstance(line, int):
            told = f"line {line_number} at byte {offset}: {line} bytes, {max_bytes} allowed"
            yield Reject(str(number), "too_large", told)
            number += 1
            offset += line
            continue
        if line_number == 1 and line.startswith(BOM_UTF8):
            line = line[len(BOM_UTF8) :]
            offset = len(BOM_UTF8)
        if line.isspace() or not line:
            offset += len(line)
            continue
        if not line.endswith(b"\n") and stream.damage:
            break  # the torn last line belongs to the one rejection of the damage
        made = json_record(line, number, source, max_bytes, charset)
        if isinstance(made, Reject):
            made.detail = f"line {line_number} at byte {offset}: {made.detail}"
        yield made
        number += 1
        offset += len(line)
    if stream.damage:
        yield Reject(None, "damaged_file", stream.damage)


def json_record(
    data: bytes, number: int, source: Source, max_bytes: int, charset: str | None = None
) -> Record | Reject:
    """The record that the bytes of one JSON value hold, or why they hold none. charset: theirs, if it is not UTF-8."""
    try:
        fields = orjson.loads(data)
        if type(fields) is dict and not has_large_float(fields.values()):
            return record_from(fields, number, source, max_bytes)
    except (orjson.JSONDecodeError, RecursionError):
        pass
    parsed = parse_json(data, charset)
    if isinstance(parsed, Reject):
        parsed.key = str(number)
        return parsed
    fields, repairs = parsed
    if not isinstance(fields, dict):
        return Reject(str(number), "not_an_object", f"a JSON {type(fields).__name__}")
    made = record_from(fields, number, source, max_bytes)
    if isinstance(made, Record):
        made.repairs = repairs + made.repairs
    return made


def parse_json(data: bytes, charset: str | None = None) -> tuple[Any, tuple[str, ...]] | Reject:
    """A JSON value by Python's parser, which is the more lenient one, and the repairs of its text.

    NaN and infinity become null, control characters may stand in strings. A `Reject` (without key) where it is none.
    """
    try:
        text, repairs = decode_utf8(data, charset)
        return json.loads(text, strict=False, parse_constant=lambda _: None), repairs
    except NotText as error:
        return Reject(None, error.reason, error.detail)
    except json.JSONDecodeError as error:
        return Reject(None, "invalid_json", f"{error.msg} at character {error.pos}")
    except (ValueError, RecursionError) as error:
        return Reject(None, "invalid_json", str(error)[:200])


def has_large_float(values: Iterable[Any]) -> bool:
    """Whether a number may have been an integer that orjson rounded, at any depth."""
    for value in values:
        kind = type(value)
        if kind is str or kind is int:
            continue
        if kind is float:
            if not -_LARGEST_FLOAT < value < _LARGEST_FLOAT:
                return True
        elif (kind is dict and has_large_float(value.values())) or (kind is list and has_large_float(value)):
            return True
    return False
