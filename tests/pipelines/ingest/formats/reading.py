"""What a reader gives for bytes, without a file or a stage around it."""

import io
from types import ModuleType
from typing import Any

from pipelines.ingest.params import Source
from pipelines.ingest.records import NOT_DAMAGE, REASONS, Record, Reject
from pipelines.ingest.streams import Stream


def items(
    reader: ModuleType, data: bytes, name: str = "file", *, max_bytes: int = 1_000_000, **source: Any
) -> list[Record | Reject]:
    with Stream(io.BytesIO(data), name, len(data)) as stream:
        given = list(reader.read(stream, Source(**{"name": "corpus", "path": "corpus"} | source), max_bytes))
    for item in given:
        assert isinstance(item, Record) or item.reason in REASONS
        if isinstance(item, Record):
            item.text.encode()  # what the store takes
    return given


def records(given: list[Record | Reject]) -> list[Record]:
    return [item for item in given if isinstance(item, Record)]


def reasons(given: list[Record | Reject]) -> list[tuple[str | None, str]]:
    return [(item.key, item.reason) for item in given if isinstance(item, Reject)]


def damage(given: list[Record | Reject]) -> list[tuple[str | None, str]]:
    return [(key, reason) for key, reason in reasons(given) if reason not in NOT_DAMAGE]
