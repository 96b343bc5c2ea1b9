"""Records, rejections and what makes bytes into text: the words that every reader of ingestion shares.

Formats stand in `readers.py`, decompression in `streams.py`. Text is kept as the source has it; repairing it is the
business of cleaning, except where Unicode itself is broken: the store holds valid UTF-8 only.
"""

import codecs
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipelines.ingest.params import Source

REASONS: dict[str, str] = {
    "vanished_file": "the file was listed, and gone when it was to be read",
    "unreadable_file": "the system refused to open or read the file",
    "not_a_file": "a pipe, socket or device",
    "repeated_directory": "a link to a folder that is read already, so a loop or a copy",
    "empty_file": "the file holds nothing",
    "damaged_file": "the file ends or breaks in the middle; what could be read before is kept",
    "not_text": "bytes that are no text: too many control characters",
    "not_utf8": "too many bytes that are no UTF-8: another encoding",
    "invalid_json": "the line is no JSON",
    "not_an_object": "the line is JSON, but no object",
    "invalid_csv": "the row cannot be parsed",
    "wrong_columns": "the row has more or fewer columns than the header",
    "missing_column": "the file has no column of that name",
    "missing_field": "the record has no such field, or null in it",
    "wrong_type": "the field holds something else than text",
    "duplicate_id": "an earlier record of the file has the same id",
    "empty_text": "the text is empty or white space",
    "too_large": "larger than max_document_megabytes",
    "invalid_python": "the file cannot be parsed as Python",
    "licence_not_permissive": "the package's licence is not on the permissive list",
    "licence_unknown": "the package names no licence",
    "no_file_list": "the package does not say which files are its own",
}
"""Every reason for which ingestion rejects something, and what it means."""

NOT_DAMAGE = frozenset({"licence_not_permissive", "licence_unknown", "empty_file", "empty_text"})
"""Rejections of input that is in order and only not wanted: `errors: fail` does not stop at them."""

WHITE_SPACE = " \t\n\r\v\f"
MAX_REPLACED_SHARE = 0.01
MAX_CONTROL_SHARE = 0.1
_CONTROLS = bytes(code for code in range(32) if chr(code) not in "\t\n\v\f\r\x1b")
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark is its beginning
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@dataclass(frozen=True)
class Record:
    """One document as its file has it. key: the part of its uri after '#'. metadata: JSON. repairs: of its Unicode."""

    key: str
    text: str
    license: str | None = None
    metadata: str | None = None
    repairs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reject:
    """Bad input that is counted. key: as in `Record`, None for the whole file. reason: one of `REASONS`."""

    key: str | None
    reason: str
    detail: str


class BadInput(ValueError):
    """Bad input under `errors: fail`, or a source that cannot be read at all."""


class NotText(Exception):
    """Bytes that cannot pass as text. `reason` is one of `REASONS`."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


def decode(data: bytes) -> tuple[str, tuple[str, ...]]:
    """A file's bytes as text, and what was repaired. A byte order mark names the encoding and is removed.

    Without a mark it is UTF-8. Raises `NotText` as `decode_utf8` does.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _decode(data[len(mark) :], encoding)
    return decode_utf8(data)


def decode_utf8(data: bytes) -> tuple[str, tuple[str, ...]]:
    """Bytes as UTF-8 text, and what was repaired: a broken sequence becomes U+FFFD.

    One, or one in a hundred characters, is damage that can be lived with; more are another encoding, and raise
    `NotText`, as more than one control character in ten bytes does.
    """
    controls = len(data) - len(data.translate(None, _CONTROLS))
    if controls > max(1, len(data) * MAX_CONTROL_SHARE):
        raise NotText("not_text", f"{controls} of {len(data)} bytes are control characters")
    return _decode(data, "utf-8")


def _decode(data: bytes, encoding: str) -> tuple[str, tuple[str, ...]]:
    try:
        return data.decode(encoding), ()
    except UnicodeDecodeError as error:
        first = error.start
    text = data.decode(encoding, "replace")
    replaced = text.count("\ufffd") - data.count("\ufffd".encode(encoding))
    if replaced > max(1, len(text) * MAX_REPLACED_SHARE):
        told = f"{replaced} broken sequences in {len(text)} characters, the first at byte {first}; convert to UTF-8"
        raise NotText("not_utf8", told)
    return text, ("broken_utf8",)


def valid_unicode(text: str) -> tuple[str, tuple[str, ...]]:
    """Text without lone surrogates (halves that belong together are joined, others become U+FFFD), and the repair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"), ("lone_surrogates",)
    return text, ()


def is_blank(text: str) -> bool:
    """True if there is nothing but ASCII white space."""
    return not text.strip(WHITE_SPACE)


def metadata_json(fields: Mapping[str, Any]) -> str | None:
    """Further fields of a record as JSON with sorted keys; None where there are none.

    Infinite numbers and NaN become null, bytes text, and what JSON does not know its usual spelling.
    """
    if not fields:
        return None
    try:
        told = json.dumps(fields, sort_keys=True, ensure_ascii=False, allow_nan=False)
    except (ValueError, TypeError):
        told = json.dumps(_plain(fields), sort_keys=True, ensure_ascii=False)
    return valid_unicode(told)[0]


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if value is None or isinstance(value, str | int | float) else str(value)


def record_from(fields: Mapping[str, Any], number: int, source: Source, max_bytes: int) -> Record | Reject:
    """The record that a mapping holds under the names that the source maps, or why it is none.

    number: counts the records of a file from 0; the key where no id is mapped. max_bytes: of the text as UTF-8.
    """
    text_field, id_field, license_field = (source.field(name) for name in ("text", "id", "license"))
    key = str(number)
    if id_field:
        given = fields.get(id_field)
        if given is None or given == "":
            return Reject(key, "missing_field", f"no id in the field {id_field!r}")
        if isinstance(given, bool) or not isinstance(given, str | int):
            return Reject(key, "wrong_type", f"the id in {id_field!r} is of type {type(given).__name__}")
        key = valid_unicode(str(given))[0]
    text = fields.get(text_field)
    if text is None:
        return Reject(key, "missing_field", f"no text in the field {text_field!r}; it has {_names(fields)}")
    repairs: tuple[str, ...] = ()
    if isinstance(text, bytes):
        try:
            text, repairs = decode_utf8(text)
        except NotText as error:
            return Reject(key, error.reason, error.detail)
    if not isinstance(text, str):
        return Reject(key, "wrong_type", f"the text in {text_field!r} is of type {type(text).__name__}")
    text, joined = valid_unicode(text)
    if is_blank(text):
        return Reject(key, "empty_text", f"{len(text)} characters, none but white space")
    if len(text) * 4 > max_bytes and (size := len(text.encode())) > max_bytes:
        return Reject(key, "too_large", f"{size} bytes of text, {max_bytes} allowed")
    license_given = fields.get(license_field) if license_field else None
    rest = {name: value for name, value in fields.items() if name not in (text_field, id_field, license_field)}
    return Record(
        key,
        text,
        valid_unicode(str(license_given))[0] if license_given else None,
        metadata_json(rest),
        repairs + joined,
    )


def _names(fields: Mapping[str, Any]) -> str:
    names = sorted(fields)
    told = ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
    return valid_unicode(told)[0][:300] or "no fields"
