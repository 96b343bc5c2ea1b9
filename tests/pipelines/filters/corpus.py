"""Documents for the tests: small ones by hand, and the real texts where the shared data is there."""

import csv
import json
import re
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
import xxhash

from pipelines.dataset import Dataset, Draft, Part, seal, write_shard
from pipelines.filters.params import EvaluationSet
from pipelines.schemas import DOCUMENTS
from pipelines.store import Store

QUESTION = "Anna has seven red apples and gives three of them to her brother. How many apples are left in her basket?"
OTHER = "A train leaves the old harbour at noon with forty travellers, and a third of them get off before the tunnel."
PROSE = "The miller carried the grain to the river in the morning, and nobody knew why he stayed there for so long."

DATA = Path(__file__).resolve().parents[3] / "../shared/data"


def real(name: str) -> Path:
    """A file of the shared data; skips the test where it is absent."""
    path = DATA / name
    if not path.exists():
        pytest.skip(f"no {name} beside this clone")
    return path


def paragraphs(name: str, length: int = 2000) -> list[str]:
    """A book, cut into pieces of so many characters."""
    text = real(f"books/{name}").read_text(encoding="utf-8")
    return [text[at : at + length] for at in range(0, len(text), length)]


def comments() -> tuple[list[str], list[bool]]:
    """Labelled comments: texts, and whether people called them toxic."""
    with real("toxicity/surge_toxicity_en.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [row["text"] for row in rows], [row["is_toxic"] == "Toxic" for row in rows]


def tweets(count: int) -> tuple[list[str], list[bool]]:
    """Labelled tweets, whether people called them hateful or offensive; the first so many."""
    with real("toxicity/davidson_tweets.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))[:count]
    return [row["tweet"] for row in rows], [row["class"] != "2" for row in rows]


def doc_id(name: str) -> str:
    """An id as ingestion makes them."""
    return xxhash.xxh3_128_hexdigest(name.encode())


def document_table(texts: list[str], source: str = "book", language: str | list[str | None] | None = "en") -> pa.Table:
    """A table of documents; ids come from source and number."""
    count = len(texts)
    languages = language if isinstance(language, list) else [language] * count
    return pa.table(
        {
            "doc_id": [doc_id(f"{source}#{number}") for number in range(count)],
            "source": [source] * count,
            "uri": [f"file#{number}" for number in range(count)],
            "text": texts,
            "language": languages,
            "license": [None] * count,
            "metadata": [None] * count,
        },
        schema=DOCUMENTS,
    )


def documents(
    store: Store,
    texts: list[str],
    source: str = "book",
    language: str | list[str | None] | None = "en",
    shard_rows: int = 1000,
) -> Dataset:
    """A dataset of unique documents with one partition."""
    table = document_table(texts, source, language)
    shards = [
        write_shard(store, "documents", table.slice(at, shard_rows)) for at in range(0, table.num_rows, shard_rows)
    ]
    return published(store, Draft({"documents": Part("table", tuple(shards))}), "unique_documents", source)


def published(store: Store, draft: Draft, asset: str, partition: str = "") -> Dataset:
    """A draft, sealed."""
    return Dataset(asset, (seal(store, draft, asset=asset, partition=partition),), store)


def together(*datasets: Dataset) -> Dataset:
    """Partitions of one asset, as one dataset."""
    return Dataset(datasets[0].asset, tuple(data.version for data in datasets), datasets[0].store)


def shuffled(text: str) -> str:
    """The same words in another order: sorted by their hash."""
    return " ".join(sorted(re.findall(r"\S+", text), key=lambda word: xxhash.xxh3_64_intdigest(word.encode(), 1)))


def write_set(folder: Path, texts: Sequence[str], name: str = "set.jsonl") -> EvaluationSet:
    """A set of one field, q, in a file below the folder."""
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps({"q": text}) + "\n" for text in texts))
    return EvaluationSet(path=str(path), fields=["q"])
