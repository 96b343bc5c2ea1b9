"""Small corpora for the tests of deduplication: documents in shards, and both steps in one call."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import xxhash

from pipelines.dataset import Dataset, Draft, Part, seal, write_shard
from pipelines.dedup.clusters import find_duplicates
from pipelines.dedup.params import DedupParams
from pipelines.dedup.unique import drop_duplicates
from pipelines.engines.local import Engine
from pipelines.schemas import DOCUMENTS
from pipelines.store import Store

SHARED_DATA = Path(__file__).parents[3] / "../shared/data"


def doc_id(source: str, name: str) -> str:
    """The id of a document of these corpora."""
    return xxhash.xxh3_128_hexdigest(f"{source}\0{name}".encode())


def documents(source: str, texts: Mapping[str, str]) -> pa.Table:
    """A documents table of named texts."""
    rows = [
        {"doc_id": doc_id(source, name), "source": source, "uri": name, "text": text, "language": "en"}
        for name, text in texts.items()
    ]
    return pa.Table.from_pylist(rows, DOCUMENTS)


def clean_documents(store: Store, sources: Mapping[str, Sequence[Mapping[str, str]]]) -> Dataset:
    """A dataset from {source: [shard of {name: text}]}."""
    versions = []
    for source, shards in sources.items():
        written = tuple(write_shard(store, "documents", documents(source, shard)) for shard in shards)
        draft = Draft({"documents": Part("table", written)} if written else {})
        versions.append(seal(store, draft, asset="clean_documents", partition=source))
    return Dataset("clean_documents", tuple(versions), store)


@dataclass
class Deduplicated:
    """What both steps made. names: text name by doc_id."""

    clean: Dataset
    clusters: Dataset
    unique: dict[str, Draft]
    names: dict[str, str]

    @property
    def kept(self) -> set[str]:
        """Names of the documents that stay, over all sources."""
        return {self.names[i] for i in self._table["doc_id"].to_pylist()}

    @property
    def texts(self) -> list[str]:
        """Their texts."""
        return self._table["text"].to_pylist()

    @property
    def _table(self) -> pa.Table:
        store = self.clean.store
        versions = [seal(store, draft, asset="unique_documents", partition=s) for s, draft in self.unique.items()]
        return Dataset("unique_documents", tuple(versions), store).table("documents")

    @property
    def removed(self) -> dict[str, tuple[str, str]]:
        """Removed documents: name → (name of the one that stays, level)."""
        rows = self.clusters.table("clusters").to_pylist()
        return {self.names[r["doc_id"]]: (self.names[r["kept_id"]], r["level"]) for r in rows}


def deduplicate(
    store: Store,
    sources: Mapping[str, Sequence[Mapping[str, str]]],
    config: DedupParams | None = None,
    *,
    workers: int = 1,
    earlier: Dataset | None = None,
) -> Deduplicated:
    """Find and drop the duplicates of a small corpus. earlier: the clusters of the version before."""
    config = config or DedupParams()
    engine = Engine(store, workers)
    clean = clean_documents(store, sources)
    draft = find_duplicates(clean, config, engine, earlier)
    clusters = Dataset("duplicate_clusters", (seal(store, draft, asset="duplicate_clusters", inputs=[clean]),), store)
    unique = {source: drop_duplicates(clean.of(source), clusters, engine) for source in sources}
    names = {doc_id(source, name): name for source, shards in sources.items() for shard in shards for name in shard}
    return Deduplicated(clean, clusters, unique, names)


def numbered(texts: Sequence[str]) -> list[dict[str, str]]:
    """One shard of texts that are named by their number."""
    return [{str(number): text for number, text in enumerate(texts)}]


def prose(words: int, start: int = 0) -> str:
    """Text of distinct words: 'w0 w1 w2 …'."""
    return " ".join(f"w{number}" for number in range(start, start + words))
