"""Where documents left traces: the versions that hold them, the models that were made of them, the objects with their
bytes.

Only ids and addresses are read, a shard at a time, each stored object once; texts of the documents that are found. What
is done about them is `jobs/forget.py`'s business.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.costs.ledger import Ledger, Pointer
from pipelines.dataset import SCHEMAS, Version, dataset_name, read_table
from pipelines.dedup.index import Index
from pipelines.removals import Removal, fields_of, hash_of
from pipelines.store import Store, StoreError

TEXT_PARTS = ("documents", "token_documents")
"""Parts of which models are made."""

MODEL_PARTS = frozenset({"perplexity_model", "tokenizer", "model"})

NAMING = ("doc_id", "kept_id", "detail")
"""Columns that name documents by their ids: whole, or `detail` among other words."""

LARGEST_PREVIEW = 100_000
"""Bytes; samples of a dataset are smaller."""


@dataclass(frozen=True)
class Document:
    """A document as it was read. address: the `url` in its metadata, where it has one."""

    doc_id: str
    source: str
    uri: str
    text_hash: str
    address: str | None = None

    @property
    def file(self) -> tuple[str, str]:
        """Source and uri of the file that it was read from."""
        return self.source, self.uri.partition("#")[0]

    def record(self) -> dict[str, Any]:
        """As JSON values: nothing of its text."""
        return {"doc_id": self.doc_id, "source": self.source, "uri": self.uri, "address": self.address}


@dataclass(frozen=True)
class Likeness:
    """A document that is a copy or near-copy of one that is to be forgotten. similarity: to the one of its cluster that
    stays, as deduplication recorded it."""

    document: Document
    level: str
    similarity: float

    def record(self) -> dict[str, Any]:
        """As JSON values."""
        return self.document.record() | {"level": self.level, "similarity": self.similarity}


@dataclass(frozen=True)
class Holding:
    """A version that holds documents. parts: those that do. objects: the ones with their bytes that are still stored.
    run: the run that published it first. current: whether it is what its dataset is now."""

    version: Version
    run: str
    current: bool
    parts: tuple[str, ...]
    objects: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        """As JSON values."""
        told = {"dataset": self.version.name, "version": self.version.id, "run": self.run, "current": self.current}
        return told | {"parts": list(self.parts), "objects": list(self.objects)}


class Traces:
    """Everything that a store and a ledger know, looked through for documents."""

    def __init__(self, ledger: Ledger, store: Store) -> None:
        self._store = store
        history = ledger.history()
        self._published: dict[str, Pointer] = {}
        for pointer in history:
            self._published.setdefault(pointer.version, pointer)
        self._current = {(p.asset, p.partition): p.version for p in history}
        self.versions = [found for name in self._published if (found := Version.find(store, name)) is not None]

    def documents(self, wanted: Removal) -> list[Document]:
        """The raw documents that a removal means, of every version and every result in the store."""
        found: dict[str, Document] = {}
        for object_hash in self._raw_shards():
            table = self._read(object_hash, ("doc_id", "source", "uri", "metadata"))
            if table is None:
                continue
            rows = [
                number
                for number, row in enumerate(table.to_pylist())
                if wanted.meets(row["doc_id"], row["uri"], "", fields_of(row["metadata"]))
            ]
            found |= {document.doc_id: document for document in self._documents_at(object_hash, rows)}
        return sorted(found.values(), key=lambda one: (one.source, one.uri))

    def documents_of(self, ids: Collection[str]) -> list[Document]:
        """The raw documents with these ids."""
        found: dict[str, Document] = {}
        for object_hash in self._raw_shards() if ids else ():
            table = self._read(object_hash, ("doc_id", "source", "uri", "metadata"))
            if table is not None:
                rows = pc.indices_nonzero(_is_in(table["doc_id"], ids)).to_pylist()
                found |= {document.doc_id: document for document in self._documents_at(object_hash, rows)}
        return sorted(found.values(), key=lambda one: (one.source, one.uri))

    def likenesses(self, documents: Sequence[Document]) -> list[Likeness]:
        """The other documents of the clusters, of any version, that these documents are in."""
        own = {document.doc_id for document in documents}
        rows: dict[str, dict[str, Any]] = {}
        for object_hash in self._shards("duplicate_clusters", "clusters"):
            table = self._read(object_hash, ("doc_id", "kept_id", "level", "similarity"))
            rows |= {row["doc_id"]: row for row in table.to_pylist()} if table is not None else {}
        kept = own | {rows[doc_id]["kept_id"] for doc_id in own if doc_id in rows}
        alike = {doc_id: row for doc_id, row in rows.items() if row["kept_id"] in kept}
        for doc_id in kept - own:
            alike[doc_id] = {"level": "kept", "similarity": 1.0}
        others = self.documents_of(alike.keys() - own)
        return [Likeness(one, alike[one.doc_id]["level"], alike[one.doc_id]["similarity"]) for one in others]

    def holdings(self, documents: Sequence[Document]) -> list[Holding]:
        """The versions that hold documents: with their text, their tokens, or a row about them."""
        ids = {document.doc_id for document in documents}
        places = {(document.source, document.uri) for document in documents}
        objects: dict[str, bool] = {}
        found = []
        for version in self.versions:
            held: dict[str, list[str]] = {}
            for name, part in version.parts.items():
                for number, shard in enumerate(part.shards):
                    if name == "tokens":
                        beside = version.parts.get("token_documents")
                        told = beside.shards[number // 2].object if beside else ""  # a .bin and an .idx for each table
                        what = "token_documents"
                    else:
                        told, what = shard.object, name
                    if told not in objects:
                        objects[told] = self._holds(told, what, ids, places)
                    if objects[told]:
                        held.setdefault(name, []).append(shard.object)
            if held:
                stored = tuple(name for names in held.values() for name in names if self._store.holds(name))
                found.append(self._holding(version, tuple(held), stored))
        return found

    def made_of(self, holdings: Sequence[Holding]) -> list[Holding]:
        """The models that were made of the text or the tokens that these versions hold."""
        holders = {one.version.id for one in holdings if not set(TEXT_PARTS).isdisjoint(one.parts)}
        return [
            self._holding(version, tuple(sorted(MODEL_PARTS & version.parts.keys())), ())
            for version in self.versions
            if not MODEL_PARTS.isdisjoint(version.parts) and any(pin in holders for _, _, pin in version.inputs)
        ]

    def unnamed_with(self, documents: Sequence[Document]) -> list[str]:
        """Objects that no dataset names and that speak of the documents: samples that a profile keeps in the store."""
        names = [
            name.encode()
            for document in documents
            for name in (document.doc_id, json.dumps(document.uri, ensure_ascii=False)[1:-1])
        ]
        small = [name for name, size in self._store.unnamed() if size < LARGEST_PREVIEW]
        return [name for name in small if any(spoken in self._store.get(name) for spoken in names)]

    # -- reading ------------------------------------------------------------------------------------------------

    def _holding(self, version: Version, parts: tuple[str, ...], objects: tuple[str, ...]) -> Holding:
        current = self._current[version.asset, version.partition] == version.id
        return Holding(version, self._published[version.id].run, current, parts, objects)

    def _holds(self, object_hash: str, part: str, ids: Collection[str], places: Collection[tuple[str, str]]) -> bool:
        if part == "index":
            try:
                return bool(pc.any(_is_in(Index.open([self._store.path(object_hash)]).column("doc_id"), ids)).as_py())
            except StoreError:
                return False
        if part == "rejects":
            table = self._read(object_hash, ("source", "uri"))
            return table is not None and any((row["source"], row["uri"]) in places for row in table.to_pylist())
        columns = [name for name in NAMING if part in SCHEMAS and name in SCHEMAS[part].names]
        table = self._read(object_hash, tuple(columns)) if columns else None
        if table is None:
            return False
        whole = (pc.any(_is_in(table[name], ids)).as_py() for name in columns if name != "detail")
        said = pc.unique(table["detail"].drop_null()).to_pylist() if "detail" in columns else []
        return any(whole) or any(name in words for words in said for name in ids)

    def _raw_shards(self) -> Iterator[str]:
        """Documents of every version, and of every result that none names: of a run that never ended."""
        of_actions = (
            shard["object"]
            for action in self._store.actions()
            if action["stage"] == "ingest.documents" and "documents" in action["parts"]
            for shard in action["parts"]["documents"]["shards"]
        )
        return iter(dict.fromkeys([*self._shards("raw_documents", "documents"), *of_actions]))

    def _shards(self, asset: str, part: str) -> Iterable[str]:
        of_asset = (version for version in self.versions if version.asset == asset and part in version.parts)
        return dict.fromkeys(shard.object for version in of_asset for shard in version.parts[part].shards)

    def _documents_at(self, object_hash: str, rows: Sequence[int]) -> Iterator[Document]:
        if not rows:
            return
        table = read_table(self._store, object_hash, ["doc_id", "source", "uri", "text", "metadata"])
        for row in table.take(list(rows)).to_pylist():
            url = fields_of(row["metadata"]).get("url")
            address = url if isinstance(url, str) else None
            yield Document(row["doc_id"], row["source"], row["uri"], hash_of(row["text"]), address)

    def _read(self, object_hash: str, columns: tuple[str, ...]) -> pa.Table | None:
        """Columns of a table; None where its bytes are gone."""
        return read_table(self._store, object_hash, columns) if self._store.holds(object_hash) else None


def told_of(holdings: Iterable[Holding]) -> list[str]:
    """The datasets among these, as people write them, with how many of their versions."""
    counts: dict[str, list[bool]] = {}
    for one in holdings:
        counts.setdefault(dataset_name(one.version.asset, one.version.partition), []).append(one.current)
    return [
        f"{name} ({'the current version' if any(current) else 'no current version'}, {len(current)} in all)"
        for name, current in counts.items()
    ]


def _is_in(column: pa.ChunkedArray, values: Collection[str]) -> pa.ChunkedArray:
    return pc.is_in(column, value_set=pa.array(sorted(values), pa.large_string()))
