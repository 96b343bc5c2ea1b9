"""Evaluation sets as their files have them: examples with a name and a text. Where they occur is found in `overlap.py`.

A file holds JSON Lines or one JSON list, plain or compressed; both are told by its content. The same compressions open
the files of sources, in `pipelines/ingest/streams.py`, which reads what is left of a damaged one; a set is whole or
refused.
"""

import bz2
import gzip
import json
import lzma
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import zstandard

from pipelines.filters.contamination.params import EvaluationSet
from pipelines.filters.known_file import KnownFile

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def _zstd(data: bytes) -> bytes:
    with zstandard.ZstdDecompressor(max_window_size=1 << 31).stream_reader(data, read_across_frames=True) as stream:
        return stream.read()


_DECOMPRESS: dict[bytes, Callable[[bytes], bytes]] = {
    b"\x1f\x8b": gzip.decompress,
    b"BZh": bz2.decompress,
    b"\xfd7zXZ\x00": lzma.decompress,
    b"\x28\xb5\x2f\xfd": _zstd,
}
"""First bytes of a compressed file → what undoes it."""


@dataclass(frozen=True)
class Example:
    """One example. key: the user's id, or its number in the file. text: the fields that count, a line each."""

    key: str
    text: str


def file_of(name: str, wanted: EvaluationSet) -> KnownFile:
    """The file of a set."""
    return KnownFile(wanted.path, f"evaluation set {name}", f"contamination.sets.{name}.path")


def read_examples(name: str, wanted: EvaluationSet, known: str | None = None) -> list[Example]:
    """The examples of a set, in the order of its file; memory: a few times the file, decompressed.

    known: the hash that the bytes read must have. Raises `ValueError`, naming set and example, where they
    have another, and where the file is damaged, is no JSON, or lacks a field.
    """
    data = file_of(name, wanted).content(known)
    try:
        for magic, decompress in _DECOMPRESS.items():
            if data.startswith(magic):
                data = decompress(data)
                break
    except (OSError, EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError) as error:
        raise ValueError(
            f"contamination: the evaluation set {name} at {wanted.path} is damaged ({error}); fetch it again"
        ) from None
    records = _records(name, data.removeprefix(_BYTE_ORDER_MARK).strip())
    return [_example(name, wanted, number, record) for number, record in enumerate(records)]


def _records(name: str, data: bytes) -> list[Any]:
    if data.startswith(b"["):
        whole = _parsed(name, data, "the file")
        return whole if isinstance(whole, list) else [whole]
    lines = enumerate(data.split(b"\n"), 1)
    return [_parsed(name, line, f"line {number}") for number, line in lines if line.strip()]


def _parsed(name: str, data: bytes, where: str) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"contamination: {where} of the evaluation set {name} is no JSON ({error}); give JSON Lines or a JSON list"
        ) from None


def _example(name: str, wanted: EvaluationSet, number: int, record: Any) -> Example:
    if not isinstance(record, dict):
        raise ValueError(f"contamination: example {number} of {name} is a JSON {type(record).__name__}, not an object")
    for field in [*wanted.fields, *([wanted.id] if wanted.id else [])]:
        if field not in record:
            raise ValueError(
                f"contamination: example {number} of {name} has no field {field!r}; it has {', '.join(sorted(record))}"
            )
    key = str(record[wanted.id]) if wanted.id else str(number)
    return Example(key, "\n".join(filter(None, (_text(record[field]) for field in wanted.fields))))


def _text(value: Any) -> str:
    """A field as text: lists and objects item by item (the choices of a question), null is nothing."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return "\n".join(filter(None, map(_text, value)))
    # a lone surrogate cannot be stored; no document that went through ingestion holds one
    return "" if value is None else str(value).encode("utf-8", "replace").decode()
