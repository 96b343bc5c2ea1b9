"""A source on disk, and what ingesting it gives."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pipelines.dataset import Draft, read_table
from pipelines.engines.local import Engine
from pipelines.ingest.params import IngestParams, Source
from pipelines.ingest.stage import ingest
from pipelines.store import Store


@dataclass
class Ingested:
    """A draft, with its tables as rows."""

    draft: Draft
    documents: list[dict[str, Any]]
    rejects: list[dict[str, Any]]
    engine: Engine

    @property
    def texts(self) -> dict[str, str]:
        return {row["uri"]: row["text"] for row in self.documents}

    @property
    def reasons(self) -> dict[str, str]:
        return {row["uri"]: row["reason"] for row in self.rejects}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The source's root."""
    made = tmp_path / "corpus"
    made.mkdir()
    return made


@pytest.fixture
def read(tmp_path: Path, folder: Path) -> Callable[..., Ingested]:
    """Ingest the folder: keywords are fields of `Source`, and the sizes of `IngestParams`."""

    def ingested(*, workers: int = 1, store: str = "store", **given: Any) -> Ingested:
        sizes = {name: given.pop(name) for name in list(given) if name in IngestParams.model_fields}
        engine = Engine(Store(str(tmp_path / store)), workers)
        source = Source(**{"name": "corpus", "path": str(folder)} | given)
        draft = ingest(source, IngestParams(**sizes), engine)
        rows = {
            name: [row for shard in part.shards for row in read_table(engine.store, shard.object).to_pylist()]
            for name, part in draft.parts.items()
        }
        return Ingested(draft, rows["documents"], rows["rejects"], engine)

    return ingested
