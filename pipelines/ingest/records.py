"""Records and rejections: what every reader gives, and how the fields of a record become a document's.

Formats stand in `formats/`, what makes bytes into text in `encodings.py`, decompression in `streams.py`.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from pipelines.ingest.dates import iso_date
from pipelines.ingest.encodings import NotText, decode_any, decode_utf8, is_blank, valid_unicode
from pipelines.ingest.params import Source
from pipelines.spdx import LONGEST as LONGEST_LICENCE

_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)  # the scheme of RFC 3986, section 3.1, and a host

REASONS: dict[str, str] = {
    "vanished_file": "the file or folder was listed, and gone when it was to be read",
    "unreadable_file": "the system refused to open or read the file",
    "not_a_file": "a pipe, socket, device or, inside an archive, a link",
    "repeated_directory": "a link to a folder that is read already, so a loop or a copy",
    "empty_file": "the file holds nothing, or no record",
    "damaged_file": "the file ends or breaks in the middle; what could be read before is kept",
    "not_text": "bytes that are no text: too many control characters",
    "not_utf8": "too many bytes that are no UTF-8: another encoding, and not sure which",
    "invalid_json": "the line or value is no JSON",
    "not_an_object": "the line or value is JSON, but no object",
    "invalid_csv": "the row cannot be parsed",
    "wrong_columns": "the row has more or fewer columns than the header",
    "missing_column": "the file has no column of that name",
    "ambiguous_column": "the file has several columns of the name that `fields` or the text's default says",
    "missing_field": "the record has no such field, or null in it",
    "wrong_type": "the field holds something else than text",
    "duplicate_id": "an earlier record of the file, or member of the archive, has the same id or name",
    "empty_text": "the text is empty or white space",
    "forgotten": "it is to be forgotten (`corpusmill forget`)",
    "too_large": "larger than max_document_megabytes",
    "unsafe_name": "a member of an archive whose name leads out of it, or is none",
    "hidden_member": "a member of an archive whose name begins with a dot, as what systems keep for themselves",
    "nested_archive": "an archive in an archive",
    "damaged_record": "the record of a web archive breaks off, or its headers or its compression are broken",
    "not_a_document": "records of a web archive that hold no page: requests, metadata …, one rejection for a file",
    "http_status": "a server's answer with another status than 200, in a web archive",
    "other_content_type": "a page in another format than HTML or text, or of a wiki in another than wikitext",
    "not_a_notebook": "JSON that is no Jupyter notebook",
    "other_namespace": "pages of a wiki that are no articles: talk, files, templates …",
    "redirect": "pages of a wiki that only send the reader to another",
    "invalid_python": "the file cannot be parsed as Python",
    "licence_not_permissive": "the package's licence is not on the permissive list",
    "licence_unknown": "the package names no licence",
    "no_file_list": "the package does not say which files are its own",
}
"""Every reason for which ingestion rejects something, and what it means."""

NOT_DAMAGE = frozenset(
    {
        "licence_not_permissive",
        "licence_unknown",
        "empty_file",
        "empty_text",
        "forgotten",
        "hidden_member",
        "not_a_document",
        "http_status",
        "other_content_type",
        "other_namespace",
        "redirect",
    }
)
"""Rejections of input that is in order and only not wanted: they are no errors in the sense of `errors`."""


@dataclass(slots=True)
class Record:
    """One document as its file has it. key: the part of its uri after '#'. metadata: JSON. repairs: of its Unicode.

    member: of an archive, the name of the file that it stands in, as `listing.uri_of` writes it.
    """

    key: str
    text: str
    license: str | None = None
    metadata: str | None = None
    repairs: tuple[str, ...] = ()
    member: str = ""


@dataclass(slots=True)
class Reject:
    """Bad input that is counted. key: as in `Record`, None for the whole file. reason: one of `REASONS`.

    detail: what was wrong, and where, with line and byte where they are known. member: as in `Record`.
    """

    key: str | None
    reason: str
    detail: str
    member: str = ""


Items = Iterator[Record | Reject]


class BadInput(ValueError):
    """Bad input that `errors` does not let pass, or a source that cannot be read at all."""


def whole_file(data: bytes) -> Record | Reject:
    """A file's bytes as one record, number 0."""
    try:
        text, repairs = decode_any(data)
    except NotText as error:
        return Reject("0", error.reason, error.detail)
    if is_blank(text):
        return Reject("0", "empty_text", f"{len(data)} bytes, none but white space")
    return Record("0", text, repairs=repairs)


def metadata_json(fields: Mapping[str, Any]) -> str | None:
    """Further fields of a record as JSON with sorted keys and without spaces; None where there are none.

    Infinite numbers and NaN become null, bytes text, and what JSON does not know its usual spelling. Raises
    `RecursionError` where they are nested too deeply.
    """
    if not fields:
        return None
    try:
        return orjson.dumps(fields, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError:  # what it does not know, integers of more than 64 bits, lone surrogates
        told = json.dumps(_plain(fields), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
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

    number: counts the records of a file from 0; the key where no id is mapped. max_bytes: of the text as UTF-8. What is
    mapped to url and date stands in the metadata under these names, dates in ISO 8601; so does an id that is a URL,
    where the record has no other url. Where no licence is mapped, `license` or `licence` is one if it is a short text.
    """
    mapped = source.fields
    text_field, id_field, license_field = mapped.get("text", "text"), mapped.get("id"), mapped.get("license")
    key = str(number)
    if id_field:
        given = fields.get(id_field)
        if given is None or given == "":
            return Reject(key, "missing_field", missing("id", id_field, fields))
        if type(given) not in (str, int):
            return Reject(key, "wrong_type", f"the id in {id_field!r} is of type {type(given).__name__}")
        key = valid_unicode(str(given))[0]
    rest = dict(fields)
    text = rest.pop(text_field, None)
    if text is None:
        return Reject(key, "missing_field", missing("text", text_field, fields))
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
    licence = None
    if not license_field and ("license" in fields or "licence" in fields):
        license_field = next((name for name in ("license", "licence") if _is_name(fields.get(name))), None)
    if license_field:
        if given := fields.get(license_field):
            licence = valid_unicode(str(given))[0]
        rest.pop(license_field, None)
    if mapped:
        for theirs in mapped.values():
            rest.pop(theirs, None)
        if "url" in mapped and (url := fields.get(mapped["url"])) is not None:
            rest["url"] = url
        if "date" in mapped and (date := fields.get(mapped["date"])) is not None:
            rest["date"] = iso_date(date)
        if id_field and "url" not in rest and _URL.match(key):
            rest["url"] = key
    try:
        return Record(key, text, licence, metadata_json(rest), repairs + joined)
    except RecursionError:
        return Reject(key, "invalid_json", "the fields beside the text are nested too deeply")


def missing(role: str, field: str, fields: Mapping[str, Any]) -> str:
    """Why a record has no text or id: the detail of a rejection as 'missing_field'."""
    if field in fields:
        return f"the {role} in the field {field!r} is {'null' if fields[field] is None else 'empty'}"
    return f"no {role} in the field {field!r}; it has {_names(fields)}"


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST_LICENCE and not is_blank(value)


def _names(fields: Mapping[str, Any]) -> str:
    names = sorted(map(str, fields))
    told = ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
    return valid_unicode(told)[0][:300] or "no fields"
