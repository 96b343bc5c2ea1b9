"""What the bytes of a file give, without a file or a stage around them."""

import io
import json
from typing import Any

from pipelines.ingest.params import Source
from pipelines.ingest.readers import read_file
from pipelines.ingest.records import NOT_DAMAGE, REASONS, Record, Reject
from pipelines.ingest.streams import Stream


def items(
    reader: str, data: bytes, name: str = "file", *, max_bytes: int = 1_000_000, **source: Any
) -> list[Record | Reject]:
    """Everything that a file gives; each item is checked for what the store takes."""
    with Stream(io.BytesIO(data), name, len(data)) as stream:
        given = list(
            read_file(stream, Source(**{"name": "corpus", "path": "corpus", "reader": reader} | source), max_bytes)
        )
    for item in given:
        if isinstance(item, Reject):
            assert item.reason in REASONS
            item.detail.encode()
        else:
            assert item.text.strip(" \t\n\r\v\f")
            item.text.encode()
            (item.metadata or "").encode()
            json.loads(item.metadata or "{}")
        ((item.key or "") + item.member).encode()
    return given


def records(given: list[Record | Reject]) -> list[Record]:
    return [item for item in given if isinstance(item, Record)]


def reasons(given: list[Record | Reject]) -> list[tuple[str | None, str]]:
    return [(item.key, item.reason) for item in given if isinstance(item, Reject)]


def damage(given: list[Record | Reject]) -> list[tuple[str | None, str]]:
    return [(key, reason) for key, reason in reasons(given) if reason not in NOT_DAMAGE]
