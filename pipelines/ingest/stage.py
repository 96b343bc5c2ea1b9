"""Ingestion: a source → a dataset of raw documents and of rejections, with every input counted in one of the two.

Files become tasks by content hash, so what did not change is not read again. Finding files is `listing.py` and
`environment.py`, reading them `readers.py`.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

from pipelines import schemas
from pipelines.dataset import Draft, Part, join_parts
from pipelines.engines.local import Engine
from pipelines.engines.task import Inputs, Made, Stats, Task
from pipelines.histograms import SIZE_EDGES, added, histogram
from pipelines.ingest.environment import MIN_DOCSTRING_CHARACTERS, list_environment, read_package_file
from pipelines.ingest.hashes import hash_files, hints_of
from pipelines.ingest.listing import (
    Listing,
    SourceFile,
    group_files,
    is_unchanged,
    list_files,
    take_sample,
)
from pipelines.ingest.params import IngestParams, Source
from pipelines.ingest.places import Place, place_of
from pipelines.ingest.readers import read_file
from pipelines.ingest.records import NOT_DAMAGE, BadInput, Items, Record, Reject
from pipelines.ingest.streams import Stream
from pipelines.removals import NOTHING_FORGOTTEN, Removals

VERSION = 5
LISTINGS = 3
"""How often a source is listed at most, because files changed while they were read; once where no error may pass."""
REJECTS_PER_SHARD = 100_000


class SourceChanged(RuntimeError):
    """A file is not the one that was listed."""


@dataclass(frozen=True)
class Reading:
    """What a task reads and how. root: a folder or a URL, the only part that does not influence the result."""

    root: str
    files: tuple[SourceFile, ...]
    source: Source
    config: IngestParams
    removals: Removals = NOTHING_FORGOTTEN


def ingest(source: Source, config: IngestParams, engine: Engine, removals: Removals = NOTHING_FORGOTTEN) -> Draft:
    """Read a source: parts 'documents' (what could be read) and 'rejects' (everything else, with its reason).

    What is to be forgotten is left out, a counted rejection without its text. Raises `BadInput` when the source does
    not exist, when no record at all has the field that holds the text, and where a file has more bad input than
    `errors` allows. Memory: one shard per worker, and the list of files here.
    """
    for attempt in range(LISTINGS):
        listing = list_environment(source) if source.reader == "environment" else list_files(source)
        take_sample(listing, source.max_megabytes)
        hash_files(listing, hints_of(source, engine.store), engine.workers)
        try:
            results = engine.map(tasks(listing, source, config, removals))
            break
        except SourceChanged as changed:
            if source.errors_allowed == 0 or attempt == LISTINGS - 1:
                raise BadInput(f"source {source.name!r}: {changed}; run again when nothing writes there") from None
    parts = {"documents": Part("table", ()), "rejects": Part("table", ())}
    parts |= join_parts([result.parts for result in results])
    stats = _total([result.stats for result in results], listing)
    _check(source, parts, stats)
    return Draft(parts, stats)


def tasks(listing: Listing, source: Source, config: IngestParams, removals: Removals = NOTHING_FORGOTTEN) -> list[Task]:
    """The tasks that read a listing whose content hashes are filled in."""
    made: list[Task] = []
    if listing.rejects:
        told = sorted((uri, reject.reason, reject.detail) for uri, reject in listing.rejects)
        for uri, reason, detail in told if source.errors_allowed == 0 else ():
            if reason not in NOT_DAMAGE:
                raise _refusal(source, uri, Reject(None, reason, detail), 1)
        found = {"source": source.name, "rejects": [list(row) for row in told]}
        made.append(Task(write_rejects, "ingest.rejects", VERSION, found, payload=found))
    params: dict[str, Any] = {
        "source": source.name,
        "reader": source.reader,
        "errors": source.errors,
        "shard_bytes": config.shard_bytes,
        "max_document_bytes": config.max_document_bytes,
    }
    if source.reader == "environment":
        params["what"] = source.what
        if source.what == "docstrings":
            params |= {"min_characters": MIN_DOCSTRING_CHARACTERS, "python": list(sys.version_info[:2])}
    else:
        params |= {"fields": source.fields, "license": source.license}
    for group in group_files(listing.files, config.shard_bytes):
        files = [[file.uri, file.sha256, file.limit_bytes, file.license, file.package] for file in group]
        said = params | {"files": files}
        if concerned := removals.of_files(source.name, [file.uri for file in group]):
            said["removals"] = concerned
        reading = Reading(listing.place.url, tuple(group), source, config, removals)
        made.append(Task(read_files, "ingest.documents", VERSION, said, payload=reading))
    return made


def write_rejects(_: Inputs, payload: dict[str, Any]) -> Iterable[Made]:
    """Rejections that were found before any file was read, as a table."""
    rows = payload["rejects"]
    dropped: dict[str, int] = {}
    for _uri, reason, _detail in rows:
        dropped[reason] = dropped.get(reason, 0) + 1
    yield "rejects", _rejects_table(payload["source"], [tuple(row) for row in rows])
    counts = {"documents_in": len(rows), "documents_out": 0, "bytes_in": 0, "bytes_out": 0}
    yield Stats(counts | {"dropped": dropped})


def read_files(_: Inputs, reading: Reading) -> Iterable[Made]:
    """Read the files of one task, closing a shard whenever its text is large enough."""
    source, shard, place = reading.source, _Shard(reading.source), place_of(reading.root)
    allowed, removals, shard_bytes = source.errors_allowed, reading.removals.removals, reading.config.shard_bytes
    dropped: dict[str, int] = {}
    repaired: dict[str, int] = {}
    lengths: list[dict[str, Any]] = []
    documents = text_bytes = 0
    for file in reading.files:
        errors = 0
        for item in _items(reading, place, file):
            if removals and isinstance(item, Record):
                item = _unless_forgotten(item, file, reading)
            if isinstance(item, Reject):
                errors += item.reason not in NOT_DAMAGE
                if allowed is not None and errors > allowed:
                    raise _refusal(source, file.uri, item, errors)
                dropped[item.reason] = dropped.get(item.reason, 0) + 1
                shard.reject(file, item)
            else:
                documents += 1
                text_bytes += shard.take(file, item)
                for repair in item.repairs:
                    repaired[repair] = repaired.get(repair, 0) + 1
            if shard.text_bytes >= shard_bytes or len(shard.rejects) >= REJECTS_PER_SHARD:
                lengths.append(shard.lengths())
                yield from shard.close()
        if not is_unchanged(place, file):
            raise SourceChanged(f"{file.uri} changed while it was being read")
    lengths.append(shard.lengths())
    yield from shard.close()
    counts = {"files_in": len(reading.files), "documents_in": documents + sum(dropped.values())}
    counts |= {"documents_out": documents, "bytes_in": sum(file.size for file in reading.files)}
    counts["bytes_out"] = text_bytes
    yield Stats(counts | {"dropped": dropped, "repaired": repaired, "histograms": {"text bytes": added(lengths)}})


def _items(reading: Reading, place: Place, file: SourceFile) -> Items:
    """What a file gives, up to the file's limit."""
    read_bytes = 0
    try:
        for item in _opened(reading, place, file):
            yield item
            if file.limit_bytes is not None and not isinstance(item, Reject):
                read_bytes += len(item.text.encode())
                if read_bytes >= file.limit_bytes:
                    return
    except OSError as error:
        raise SourceChanged(f"{file.uri} cannot be read any more ({error.strerror or error})") from None


def _opened(reading: Reading, place: Place, file: SourceFile) -> Items:
    max_bytes = reading.config.max_document_bytes
    if reading.source.reader == "environment":
        yield from read_package_file(Path(reading.root) / file.path, file.uri, reading.source, max_bytes)
        return
    with Stream(place.open(file.path), file.uri, file.size) as stream:
        yield from read_file(stream, reading.source, max_bytes)


def _unless_forgotten(record: Record, file: SourceFile, reading: Reading) -> Record | Reject:
    uri = _uri(file.uri, record)
    doc_id = document_id(reading.source.name, uri)
    removal = reading.removals.met_by(doc_id, uri, record.text, record.metadata)
    if removal is None:
        return record
    return Reject(record.key, "forgotten", f"removal {removal.id}", member=record.member)


def _refusal(source: Source, uri: str, reject: Reject, errors: int) -> BadInput:
    count = f" is error {errors} of the file, and `errors` allows {source.errors}" if source.errors_allowed else ""
    return BadInput(
        f"source {source.name!r}: {_uri(uri, reject)}: {reject.reason} ({reject.detail}){count}; repair it, exclude "
        "the file, or set `errors: skip` to have such input counted and left out"
    )


def _uri(file: str, item: Record | Reject) -> str:
    """Where an item stands: file, member of an archive, '#' and key."""
    path = f"{file}/{item.member}" if item.member else file
    return path if item.key is None else f"{path}#{item.key}"


class _Shard:
    """Documents and rejections of the shard that is being filled."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._clear()

    def _clear(self) -> None:
        self.rejects: list[tuple[str, str, str]] = []
        self._sizes: list[int] = []
        self._uris: list[str] = []
        self._texts = bytearray()  # one behind the other, as Arrow holds them: half the time of a list
        self._licenses: list[str | None] = []
        self._metadata: list[str | None] = []

    def take(self, file: SourceFile, record: Record) -> int:
        """Add a document; returns the bytes of its text."""
        text = record.text.encode()
        size = len(text)
        self._uris.append(_uri(file.uri, record))
        self._texts += text
        self._licenses.append(record.license or file.license or self._source.license or None)
        self._metadata.append(record.metadata or file.package)
        self._sizes.append(size)
        return size

    @property
    def text_bytes(self) -> int:
        """Bytes of the texts that it holds."""
        return len(self._texts)

    def reject(self, file: SourceFile, reject: Reject) -> None:
        """Add a rejection."""
        self.rejects.append((_uri(file.uri, reject), reject.reason, reject.detail))

    def lengths(self) -> dict[str, Any]:
        """Histogram of the bytes of the texts that it holds."""
        return histogram(SIZE_EDGES, documents=np.array(self._sizes, np.int64))

    def close(self) -> Iterator[Made]:
        """What the shard holds, as tables; the next shard begins empty."""
        if count := len(self._uris):
            kind, source = schemas.TEXT, self._source.name
            ends = np.cumsum([0, *self._sizes], dtype=np.int64)
            columns = {
                "doc_id": pa.array([document_id(source, uri) for uri in self._uris], kind),
                "source": pa.repeat(pa.scalar(source, kind), count),
                "uri": pa.array(self._uris, kind),
                "text": pa.LargeStringArray.from_buffers(count, *map(pa.py_buffer, (ends, self._texts))),
                "language": pa.nulls(count, kind),
                "license": pa.array(self._licenses, kind),
                "metadata": pa.array(self._metadata, kind),
            }
            yield "documents", pa.Table.from_pydict(columns, schema=schemas.DOCUMENTS)
        if self.rejects:
            yield "rejects", _rejects_table(self._source.name, self.rejects)
        self._clear()


def document_id(source: str, uri: str) -> str:
    """128-bit xxh3 of source and uri, 32 hex digits."""
    return xxhash.xxh3_128_hexdigest(f"{source}\0{uri}".encode())


def _rejects_table(source: str, rows: Sequence[tuple[str, str, str]]) -> pa.Table:
    columns = [[source] * len(rows), *([row[index] for row in rows] for index in range(3))]
    arrays = [pa.array(values, pa.large_string()) for values in columns]
    return pa.Table.from_arrays(arrays, schema=schemas.REJECTS)


def _total(pieces: Sequence[dict[str, Any]], listing: Listing) -> dict[str, Any]:
    nothing: dict[str, Any] = {
        "files_in": 0,
        "documents_in": 0,
        "documents_out": 0,
        "bytes_in": 0,
        "bytes_out": 0,
        "dropped": {},
        "repaired": {},
        "files_left_out": dict(sorted(listing.left_out.items())),
    }
    total = added([nothing, *pieces])
    total["damaged"] = sum(count for reason, count in total["dropped"].items() if reason not in NOT_DAMAGE)
    return total | {name: dict(sorted(total[name].items())) for name in ("dropped", "repaired")}


def _check(source: Source, parts: dict[str, Part], stats: dict[str, Any]) -> None:
    kept, rejected = parts["documents"].rows, parts["rejects"].rows
    counted = stats["documents_in"]
    if kept != stats["documents_out"] or rejected != sum(stats["dropped"].values()) or kept + rejected != counted:
        raise RuntimeError(
            f"source {source.name!r}: {counted} inputs were counted, but {kept} documents and {rejected} rejections "
            "stand in the dataset; this is an error of corpusmill, please report it"
        )
    unmapped = stats["dropped"].get("missing_field", 0) + stats["dropped"].get("missing_column", 0)
    if not kept and unmapped:
        raise BadInput(
            f"source {source.name!r}: none of {counted} inputs has text in a field {source.field('text')!r}"
            + (f" and an id in {source.field('id')!r}" if source.field("id") else "")
            + "; name the right ones under `fields`, for example fields: {text: body}"
        )
