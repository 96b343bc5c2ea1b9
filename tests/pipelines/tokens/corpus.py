"""Small datasets in a store, for the tests of this folder."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from pipelines.dataset import Dataset, Draft, Part, seal, write_shard
from pipelines.schemas import DOCUMENTS
from pipelines.store import Store

SHARED = Path(__file__).parents[3] / "../shared/data"


def shared(path: str) -> Path:
    """A file of real data; the test skips where it is absent."""
    found = SHARED / path
    if not found.exists():
        pytest.skip(f"needs {path} of the shared test data")
    return found


def table(source: str, texts: Mapping[str, str | tuple[str, str]]) -> pa.Table:
    """Documents: id → text, or text and language."""
    pairs = {name: told if isinstance(told, tuple) else (told, None) for name, told in texts.items()}
    rows = [
        {"doc_id": name, "source": source, "uri": f"file#{name}", "text": text, "language": language}
        for name, (text, language) in pairs.items()
    ]
    return pa.Table.from_pylist(rows, schema=DOCUMENTS)


def documents(store: Store, sources: Mapping[str, Sequence[Mapping[str, str | tuple[str, str]]]]) -> Dataset:
    """source → shards → id → text, or text and language."""
    versions = []
    for source, shards in sources.items():
        written = tuple(write_shard(store, "documents", table(source, texts)) for texts in shards)
        draft = Draft({"documents": Part("table", written)})
        versions.append(seal(store, draft, asset="filtered_documents", partition=source))
    return Dataset("filtered_documents", tuple(versions), store)


def sealed(store: Store, draft: Draft, asset: str, partition: str = "") -> Dataset:
    """A draft as a dataset of one partition."""
    return Dataset(asset, (seal(store, draft, asset=asset, partition=partition),), store)
