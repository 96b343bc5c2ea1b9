"""Which reader suits a file, and what all readers have in common. Formats stand in `formats/`, one module each.

Which files there are is `listing.py`'s business; text that Python packages ship has readers in `environment.py`. Every
reader streams: memory is bounded by the largest allowed record, plus the ids of a file, where it has any.
"""

import importlib
import itertools
import json
import re
from codecs import BOM_UTF8
from collections.abc import Callable

from pipelines.ingest.encodings import DETECTION_BYTES, wide_encoding
from pipelines.ingest.formats import archive, arrow
from pipelines.ingest.formats.code import SUFFIXES as CODE_SUFFIXES
from pipelines.ingest.formats.code import language_of
from pipelines.ingest.formats.html import PROLOG, begins_as_page
from pipelines.ingest.listing import uri_of
from pipelines.ingest.params import Source
from pipelines.ingest.records import Items, Record, Reject
from pipelines.ingest.streams import Stream

Read = Callable[[Stream, Source, int], Items]
"""What a format is: a stream, the source and the largest allowed record in bytes → records and rejections."""

_BY_SUFFIX = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "csv",
    ".htm": "html",
    ".html": "html",
    ".xhtml": "html",
    ".ipynb": "notebook",
    ".tar": "archive",
    ".warc": "warc",
    ".wet": "warc",
} | dict.fromkeys(CODE_SUFFIXES, "code")
_JSON_ARRAY = re.compile(rb'\[\s*\{\s*"')
_JSON_OBJECT = re.compile(rb'\{\s*(?:"(?:[^"\\]|\\.)*+"\s*:|\})')
_MEDIAWIKI = re.compile(PROLOG + rb"<mediawiki[\s>]", re.DOTALL)
_TEXT_SUFFIXES = frozenset({".txt", ".text", ".md", ".markdown", ".rst"})


def read_file(stream: Stream, source: Source, max_bytes: int, *, in_archive: bool = False) -> Items:
    """Everything in one file. Raises `OSError` when it cannot be read.

    The second and later records with the same id are rejected. in_archive: the file is a member of one.
    """
    head = stream.head(DETECTION_BYTES)
    name = detect(head, stream)
    if source.reader != "auto" and name != "archive":
        name = source.reader
    if not head and name != "warc":  # which finds the next member of a compressed file by itself
        stream.bytes.read(1)  # comes to the end, and so to the damage
        yield Reject(None, "damaged_file", stream.damage) if stream.damage else Reject(None, "empty_file", "0 bytes")
    elif name == "archive" and in_archive:
        yield Reject(None, "nested_archive", "unpack it beside the archive that it is in")
    elif name == "archive":
        yield from _read_archive(stream, source, max_bytes)
    else:
        items = iter(reader(name)(stream, source, max_bytes))
        first = next(items, None)
        if first is None:
            yield Reject(None, "empty_file", "no records")
            return
        items = itertools.chain([first], items)
        yield from _first_of_each_id(items) if source.field("id") or name == "mediawiki" else items


def reader(name: str) -> Read:
    """The reader of that name: that of the format's module."""
    return importlib.import_module(f"pipelines.ingest.formats.{name}").read


def _first_of_each_id(items: Items) -> Items:
    """What is no record in itself has no id to be first with, and no reason to be called a copy."""
    seen: set[str] = set()
    for item in items:
        if isinstance(item, Record):
            if item.key in seen:
                yield Reject(item.key, "duplicate_id", f"an earlier record of the file has the id {item.key[:100]!r}")
                continue
            seen.add(item.key)
        yield item


def _read_archive(stream: Stream, source: Source, max_bytes: int) -> Items:
    for member in archive.members(stream):
        if isinstance(member, Reject):
            member.member = uri_of(member.member)
            yield member
            continue
        name = uri_of(member.member)
        with member.stream(stream.name) as inner:
            for item in read_file(inner, source, max_bytes, in_archive=True):
                item.member = name
                yield item
        if member.damage:
            yield Reject(None, "damaged_file", member.damage, name)


def detect(head: bytes, stream: Stream) -> str:
    """Which reader suits a file: by its first bytes, then by its name, else it is text.

    head: `DETECTION_BYTES` of its content, or all of it.
    """
    whole = len(head) < DETECTION_BYTES
    name = stream.name.lower().removesuffix(stream.suffix)
    suffix = name[name.rfind(".") :] if "." in name else ""
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith(arrow.FILE_MAGIC) or (head.startswith(arrow.STREAM_MAGIC) and b"\0" in head[:16]):
        return "arrow"
    if head.startswith(b"WARC/"):
        return "warc"
    if head[archive.TAR_MAGIC_AT :].startswith(archive.TAR_MAGIC):
        return "archive"
    if head.startswith(archive.ZIP_MAGIC):
        return "archive" if suffix == ".zip" else "text"  # office files are zips too, and no archives to a reader
    if wide := wide_encoding(head):
        head = head.decode(wide, "ignore").encode()
    start = head.removeprefix(BOM_UTF8).lstrip()
    by_name = _BY_SUFFIX.get(suffix) or ("code" if language_of(name) else "text")
    for_people = suffix in _TEXT_SUFFIXES or by_name == "code"  # what may well begin with an example of another format
    found = _detect_json(start, suffix, whole=whole)
    if found and not (for_people and not _is_all_json(start, whole=whole)):
        return found
    if start.startswith(b"<") and not for_people:
        if _MEDIAWIKI.match(start):
            return "mediawiki"
        if begins_as_page(start):
            return "html"
    return by_name


def _detect_json(start: bytes, suffix: str, *, whole: bool) -> str:
    """'jsonl', 'json' or 'notebook' by the first bytes that are not white space; empty where it is no JSON."""
    if suffix == ".ipynb" and start.startswith(b"{"):
        return "notebook"
    if start.startswith(b"["):
        return "json" if suffix == ".json" or _JSON_ARRAY.match(start) else ""
    if not _JSON_OBJECT.match(start):
        return ""
    first_line, newline, rest = start.partition(b"\n")
    if newline or whole:
        try:
            if not isinstance(json.loads(first_line, strict=False), dict):
                return ""
        except (ValueError, RecursionError):
            return "json" if suffix not in (".jsonl", ".ndjson") and first_line.rstrip()[-1:] in b"{[," else ""
        return "json" if suffix == ".json" and whole and not rest.strip() else "jsonl"
    return "json" if suffix == ".json" else "jsonl"


def _is_all_json(start: bytes, *, whole: bool) -> bool:
    """Whether more than the first line is JSON: most of several lines, or all lines together."""
    lines = [line for line in start.split(b"\n")[: None if whole else -1] if line.strip()]
    if len(lines) > 1 and sum(map(_is_json, lines)) * 2 > len(lines):
        return True
    return _is_json(start) if whole else bool(_JSON_ARRAY.match(start))


def _is_json(data: bytes) -> bool:
    try:
        return isinstance(json.loads(data, strict=False), dict | list)
    except (ValueError, RecursionError):
        return False
