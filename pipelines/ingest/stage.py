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
from pipelines.ingest.listing import (
    Listing,
    SourceFile,
    group_files,
    hash_files,
    hints_of,
    is_unchanged,
    list_folder,
    take_sample,
)
from pipelines.ingest.params import IngestParams, Source
from pipelines.ingest.readers import read_file
from pipelines.ingest.records import NOT_DAMAGE, BadInput, Record, Reject

VERSION = 2
LISTINGS = 3
"""How often a source is listed anew because files changed while they were read."""
REJECTS_PER_SHARD = 100_000


class SourceChanged(RuntimeError):
    """A file is not the one that was listed."""


@dataclass(frozen=True)
class Reading:
    """What a task reads and how. root: the only part that does not influence the result."""

    root: str
    files: tuple[SourceFile, ...]
    source: Source
    config: IngestParams


def ingest(source: Source, config: IngestParams, engine: Engine) -> Draft:
    """Read a source: parts 'documents' (what could be read) and 'rejects' (everything else, with its reason).

    Raises `BadInput` when the source does not exist, when no record at all has the field that holds the text, and,
    under `errors: fail`, at the first bad input. Memory: one shard per worker, and the list of files here.
    """
    for attempt in range(LISTINGS):
        listing = list_environment(source) if source.reader == "environment" else list_folder(source)
        take_sample(listing, source.max_megabytes)
        hash_files(listing, hints_of(source, engine.store), engine.workers)
        try:
            results = engine.map(tasks(listing, source, config))
            break
        except SourceChanged as changed:
            if source.errors == "fail" or attempt == LISTINGS - 1:
                raise BadInput(f"source {source.name!r}: {changed}; run again when nothing writes there") from None
    parts = {"documents": Part("table", ()), "rejects": Part("table", ())}
    parts |= join_parts([result.parts for result in results])
    stats = _total([result.stats for result in results], listing)
    _check(source, parts, stats)
    return Draft(parts, stats)


def tasks(listing: Listing, source: Source, config: IngestParams) -> list[Task]:
    """The tasks that read a listing whose content hashes are filled in."""
    made: list[Task] = []
    if listing.rejects:
        told = sorted((uri, reject.reason, reject.detail) for uri, reject in listing.rejects)
        for uri, reason, detail in told if source.errors == "fail" else ():
            if reason not in NOT_DAMAGE:
                raise _refusal(source, uri, Reject(None, reason, detail))
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
        reading = Reading(str(listing.root.absolute()), tuple(group), source, config)
        made.append(Task(read_files, "ingest.documents", VERSION, params | {"files": files}, payload=reading))
    return made


def write_rejects(_: Inputs, payload: dict[str, Any]) -> Iterable[Made]:
    """Rejections that were found before any file was read, as a table."""
    rows = payload["rejects"]
    dropped: dict[str, int] = {}
    for _uri, reason, _detail in rows:
        dropped[reason] = dropped.get(reason, 0) + 1
    yield "rejects", _rejects_table(payload["source"], [tuple(row) for row in rows])
    yield Stats({"documents_in": len(rows), "documents_out": 0, "bytes_in": 0, "bytes_out": 0, "dropped": dropped})


def read_files(_: Inputs, reading: Reading) -> Iterable[Made]:
    """Read the files of one task, closing a shard whenever its text is large enough."""
    source, shard = reading.source, _Shard(reading.source)
    stats: dict[str, Any] = {
        "files_in": len(reading.files),
        "documents_in": 0,
        "documents_out": 0,
        "bytes_in": sum(file.size for file in reading.files),
        "bytes_out": 0,
        "dropped": {},
        "repaired": {},
    }
    lengths: list[dict[str, Any]] = []
    for file in reading.files:
        for item in _items(reading, file):
            stats["documents_in"] += 1
            if isinstance(item, Reject):
                if source.errors == "fail" and item.reason not in NOT_DAMAGE:
                    raise _refusal(source, file.uri, item)
                stats["dropped"][item.reason] = stats["dropped"].get(item.reason, 0) + 1
                shard.reject(file, item)
            else:
                stats["documents_out"] += 1
                stats["bytes_out"] += shard.take(file, item)
                for repair in item.repairs:
                    stats["repaired"][repair] = stats["repaired"].get(repair, 0) + 1
            if shard.text_bytes >= reading.config.shard_bytes or len(shard.rejects) >= REJECTS_PER_SHARD:
                lengths.append(shard.lengths())
                yield from shard.close()
        if not is_unchanged(Path(reading.root), file):
            raise SourceChanged(f"{file.uri} changed while it was being read")
    lengths.append(shard.lengths())
    yield from shard.close()
    yield Stats(stats | {"histograms": {"text bytes": added(lengths)}})


def _items(reading: Reading, file: SourceFile) -> Iterator[Record | Reject]:
    """What a file gives, up to the file's limit."""
    reader = read_package_file if reading.source.reader == "environment" else read_file
    read_bytes = 0
    path = Path(reading.root) / file.path
    try:
        for item in reader(path, file.uri, reading.source, reading.config.max_document_bytes):
            yield item
            if file.limit_bytes is not None and isinstance(item, Record):
                read_bytes += len(item.text.encode())
                if read_bytes >= file.limit_bytes:
                    return
    except OSError as error:
        raise SourceChanged(f"{file.uri} cannot be read any more ({error.strerror or error})") from None


def _refusal(source: Source, uri: str, reject: Reject) -> BadInput:
    where = uri if reject.key is None else f"{uri}#{reject.key}"
    return BadInput(
        f"source {source.name!r}: {where}: {reject.reason} ({reject.detail}); repair it, exclude the file, "
        "or set `errors: skip` to have such input counted and left out"
    )


class _Shard:
    """Documents and rejections of the shard that is being filled."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._clear()

    def _clear(self) -> None:
        self.text_bytes = 0
        self._sizes: list[int] = []
        self.rejects: list[tuple[str, str, str]] = []
        self._columns: dict[str, list[str | None]] = {name: [] for name in schemas.DOCUMENTS.names}

    def take(self, file: SourceFile, record: Record) -> int:
        """Add a document; returns the bytes of its text."""
        source = self._source.name
        uri = f"{file.uri}#{record.key}"
        size = len(record.text) if record.text.isascii() else len(record.text.encode())
        row = {
            "doc_id": document_id(source, uri),
            "source": source,
            "uri": uri,
            "text": record.text,
            "language": None,
            "license": record.license or file.license or self._source.license or None,
            "metadata": record.metadata or file.package,
        }
        for name, value in row.items():
            self._columns[name].append(value)
        self.text_bytes += size
        self._sizes.append(size)
        return size

    def reject(self, file: SourceFile, reject: Reject) -> None:
        """Add a rejection."""
        uri = file.uri if reject.key is None else f"{file.uri}#{reject.key}"
        self.rejects.append((uri, reject.reason, reject.detail))

    def lengths(self) -> dict[str, Any]:
        """Histogram of the bytes of the texts that it holds."""
        return histogram(SIZE_EDGES, documents=np.array(self._sizes, np.int64))

    def close(self) -> Iterator[Made]:
        """What the shard holds, as tables; the next shard begins empty."""
        if self._columns["doc_id"]:
            arrays = [pa.array(values, pa.large_string()) for values in self._columns.values()]
            yield "documents", pa.Table.from_arrays(arrays, schema=schemas.DOCUMENTS)
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
