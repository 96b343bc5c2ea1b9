"""Where documents left traces: the stored objects that hold them or speak of them, the versions that name these, and
the models that were made of them.

Every object of the store is looked into, also those that no version names (what cleaning measured before it dropped
something, what a crash left): ids and addresses of tables and of the index, samples as text, tokens by the table beside
them. One object is in memory at a time. What is done about the traces is `jobs/forget.py`'s business.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.costs.ledger import Ledger
from pipelines.dataset import Version, dataset_name, parts_record, read_table
from pipelines.dedup.index import Index
from pipelines.removals import Removal, fields_of, hash_of
from pipelines.store import Store, StoreError

TEXT_PARTS = ("documents", "token_documents")
"""Parts of which models are made."""

MODEL_PARTS = frozenset({"perplexity_model", "tokenizer", "model"})

LARGEST_SAMPLE = 100_000
"""Bytes; samples of a dataset are smaller."""

NAMING = ("doc_id", "kept_id", "detail")
"""Columns that name documents by their ids: whole, or `detail` among other words."""


@dataclass(frozen=True)
class Document:
    """A document. text_hash: of its text as it was read, '' where that is not stored any more. address: the `url` in
    its metadata, where it has one."""

    doc_id: str
    source: str
    uri: str
    text_hash: str = ""
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
    stays, as deduplication recorded it; level: by which they were found alike, 'kept' for the one that stays."""

    document: Document
    level: str
    similarity: float

    def record(self) -> dict[str, Any]:
        """As JSON values."""
        return self.document.record() | {"level": self.level, "similarity": self.similarity}


@dataclass(frozen=True)
class Holding:
    """A version that holds documents. parts: those that do. runs: that published it, oldest first; none where a step
    ended before it published. current: whether it is what its dataset is now."""

    version: Version
    runs: tuple[str, ...]
    current: bool
    parts: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        """As JSON values."""
        told = {"dataset": self.version.name, "version": self.version.id, "runs": list(self.runs)}
        return told | {"current": self.current, "parts": list(self.parts)}


class Traces:
    """A store and a ledger, looked through for documents."""

    def __init__(self, ledger: Ledger, store: Store) -> None:
        self._store = store
        self._runs: dict[str, list[str]] = {}
        self._current: dict[tuple[str, str], str] = {}
        for pointer in ledger.history():
            runs = self._runs.setdefault(pointer.version, [])
            runs += [pointer.run] if pointer.run not in runs else []
            self._current[pointer.asset, pointer.partition] = pointer.version
        self.versions = [found for name in store.version_ids() if (found := Version.find(store, name)) is not None]

    # -- documents ----------------------------------------------------------------------------------------------

    def documents(self, wanted: Removal) -> list[Document]:
        """The documents that a removal means, wherever in the store: as they were read, or in a later stage."""
        found = {doc_id: Document(doc_id, source, uri) for doc_id, source, uri in wanted.documents}
        for name, table in self._texts(("doc_id", "uri", "metadata")):
            rows = [
                number
                for number, row in enumerate(table.to_pylist())
                if wanted.meets(row["doc_id"], row["uri"], "", fields_of(row["metadata"]))
            ]
            self._add(found, name, rows)
        return _ordered(found)

    def with_texts(self, hashes: Collection[str]) -> list[Document]:
        """The documents that were read with one of these texts. Reads every text as it was read."""
        found: dict[str, Document] = {}
        for name, table in self._texts(("text",)) if hashes else ():
            if name in self._as_read:
                texts = table["text"].to_pylist()
                self._add(found, name, [number for number, text in enumerate(texts) if hash_of(text) in hashes])
        return _ordered(found)

    def likenesses(self, documents: Sequence[Document]) -> list[Likeness]:
        """The other documents of all clusters, of any version, that these documents are in."""
        own = {document.doc_id for document in documents}
        rows: list[dict[str, Any]] = []
        for name, names in self._tables.items():
            if {"doc_id", "kept_id", "level"} <= names:
                rows += read_table(self._store, name, ["doc_id", "kept_id", "level", "similarity"]).to_pylist()
        kept = own | {row["kept_id"] for row in rows if row["doc_id"] in own}
        alike = dict.fromkeys(kept - own, ("kept", 1.0))
        alike |= {row["doc_id"]: (row["level"], row["similarity"]) for row in rows if row["kept_id"] in kept}
        found: dict[str, Document] = {}
        for name, table in self._texts(("doc_id",)) if alike else ():
            self._add(found, name, pc.indices_nonzero(_is_in(table["doc_id"], alike.keys() - own)).to_pylist())
        return [Likeness(one, *alike[one.doc_id]) for one in _ordered(found)]

    # -- what holds them ----------------------------------------------------------------------------------------

    def objects(self, documents: Sequence[Document], named: Collection[str]) -> set[str]:
        """The stored objects that hold one of the documents, or speak of it. named: ids that are meant, too, though no
        document with them is stored any more."""
        ids = {document.doc_id for document in documents} | set(named)
        places = {(document.source, document.uri) for document in documents}
        names = [*ids, *(json.dumps(document.uri, ensure_ascii=False) for document in documents)]
        spoken = [name.encode() for name in names]
        held = set()
        for name, size in self._store.objects() if ids else ():
            path = self._store.path(name)
            if name in self._tables:
                speaks = self._table_speaks(name, ids, places)
            elif _kind(path) == "index":
                speaks = self._index_speaks(path, ids)
            else:
                speaks = size <= LARGEST_SAMPLE and any(text in path.read_bytes() for text in spoken)
            held |= {name} if speaks else set()
        return held | self._tokens_beside(held)

    def holdings(self, objects: Collection[str]) -> list[Holding]:
        """The versions that name one of these objects."""
        found = []
        for version in self.versions:
            parts = [
                name for name, part in version.parts.items() if any(shard.object in objects for shard in part.shards)
            ]
            if parts:
                found.append(self._holding(version, parts))
        return found

    def made_of(self, holdings: Sequence[Holding]) -> list[Holding]:
        """The models that were made of the text or the tokens that these versions hold."""
        holders = {one.version.id for one in holdings if not set(TEXT_PARTS).isdisjoint(one.parts)}
        return [
            self._holding(version, sorted(MODEL_PARTS & version.parts.keys()))
            for version in self.versions
            if not MODEL_PARTS.isdisjoint(version.parts) and any(pin in holders for _, _, pin in version.inputs)
        ]

    # -- reading ------------------------------------------------------------------------------------------------

    def _holding(self, version: Version, parts: Sequence[str]) -> Holding:
        current = self._current.get((version.asset, version.partition)) == version.id
        return Holding(version, tuple(self._runs.get(version.id, ())), current, tuple(parts))

    @cached_property
    def _tables(self) -> dict[str, frozenset[str]]:
        """The columns of every table."""
        tables = {}
        for name, _ in self._store.objects():
            path = self._store.path(name)
            if _kind(path) == "table":
                with pq.ParquetFile(path) as file:
                    tables[name] = frozenset(file.schema_arrow.names)
        return tables

    @cached_property
    def _as_read(self) -> set[str]:
        """The documents shards that ingestion made."""
        raw = [version.parts for version in self.versions if version.asset == "raw_documents"]
        named = {shard.object for parts in raw if "documents" in parts for shard in parts["documents"].shards}
        for action in self._store.actions():
            if action["stage"] == "ingest.documents" and "documents" in action["parts"]:
                named |= {shard["object"] for shard in action["parts"]["documents"]["shards"]}
        return named

    def _texts(self, columns: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
        """Columns of every table of documents, one at a time."""
        for name, names in self._tables.items():
            if {"doc_id", "source", "uri", "text", "metadata"} <= names:
                yield name, read_table(self._store, name, columns)

    def _add(self, found: dict[str, Document], name: str, rows: Sequence[int]) -> None:
        """Documents of some rows of a table; as they were read goes before what later stages made of them."""
        if not rows:
            return
        table = read_table(self._store, name, ["doc_id", "source", "uri", "text", "metadata"]).take(list(rows))
        for row in table.to_pylist():
            url = fields_of(row["metadata"]).get("url")
            text_hash = hash_of(row["text"]) if name in self._as_read else ""
            known = found.get(row["doc_id"])
            if known is None or not known.text_hash:
                address = url if isinstance(url, str) else None
                found[row["doc_id"]] = Document(row["doc_id"], row["source"], row["uri"], text_hash, address)

    def _table_speaks(self, name: str, ids: Collection[str], places: Collection[tuple[str, str]]) -> bool:
        columns = self._tables[name]
        if {"uri", "reason"} <= columns:  # rejections; that one is forgotten is for everybody to know
            rows = read_table(self._store, name, ["source", "uri", "reason"]).to_pylist()
            return any((row["source"], row["uri"]) in places for row in rows if row["reason"] != "forgotten")
        naming = [column for column in NAMING if column in columns]
        table = read_table(self._store, name, naming) if naming else pa.table({})
        if any(pc.any(_is_in(table[column], ids)).as_py() for column in naming if column != "detail"):
            return True
        said = pc.unique(table["detail"].drop_null()).to_pylist() if "detail" in naming else []
        return any(doc_id in words for words in said for doc_id in ids)

    def _index_speaks(self, path: Path, ids: Collection[str]) -> bool:
        try:
            return bool(pc.any(_is_in(Index.open([path]).column("doc_id"), ids)).as_py())
        except (StoreError, KeyError):
            return False

    def _tokens_beside(self, held: Collection[str]) -> set[str]:
        """The token files of the tables of token documents among these objects."""
        records = [action["parts"] for action in self._store.actions()]
        records += [parts_record(version.parts) for version in self.versions]
        beside: set[str] = set()
        for parts in records:
            if {"tokens", "token_documents"} <= parts.keys():
                files = [shard["object"] for shard in parts["tokens"]["shards"]]
                for number, table in enumerate(parts["token_documents"]["shards"]):
                    if table["object"] in held:
                        beside |= set(files[2 * number : 2 * number + 2])  # a .bin and an .idx each
        return beside


def told_of(holdings: Iterable[Holding]) -> list[str]:
    """The datasets among these, as people write them, with how many of their versions."""
    counts: dict[str, list[bool]] = {}
    for one in holdings:
        counts.setdefault(dataset_name(one.version.asset, one.version.partition), []).append(one.current)
    return [
        f"{name} ({'the current version' if any(current) else 'no current version'}, {len(current)} in all)"
        for name, current in counts.items()
    ]


def _kind(path: Path) -> str:
    """'table' (Parquet), 'index' (Arrow), or '' for anything else."""
    with path.open("rb") as file:
        head = file.read(6)
    return "table" if head.startswith(b"PAR1") else "index" if head == b"ARROW1" else ""


def _ordered(found: dict[str, Document]) -> list[Document]:
    return sorted(found.values(), key=lambda one: (one.source, one.uri))


def _is_in(column: pa.ChunkedArray, values: Collection[str]) -> pa.ChunkedArray:
    return pc.is_in(column, value_set=pa.array(sorted(values), pa.large_string()))
