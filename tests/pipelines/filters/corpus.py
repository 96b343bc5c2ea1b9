"""Documents for the tests: small ones by hand, and the real texts where the shared data is there."""

import csv
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import xxhash

from pipelines.dataset import Dataset, Draft, Part, Shard, seal, write_shard
from pipelines.engines.local import Engine
from pipelines.filters.contamination.params import EvaluationSet
from pipelines.filters.perplexity.params import PerplexityParams
from pipelines.filters.perplexity.stage import train_perplexity
from pipelines.schemas import DOCUMENTS, PERPLEXITY, TOXICITY
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


def toxicity_scores(store: Store, given: Dataset, toxicity: Sequence[float | None], rows: int = 1000) -> Dataset:
    """Scores of the screen as they are given, in shards of so many rows."""
    filled = [{"doc_id": doc_id, "toxicity": score} for doc_id, score in zip(_ids(given), toxicity, strict=True)]
    table = pa.Table.from_pylist(filled, schema=TOXICITY)
    shards = tuple(write_shard(store, "toxicity", table.slice(at, rows)) for at in range(0, table.num_rows, rows))
    return published(store, Draft({"toxicity": Part("table", shards)}), "toxicity_scores", given.partitions[0])


def _ids(given: Dataset) -> list[str]:
    return given.table("documents")["doc_id"].to_pylist()


MODEL = {"kind": "ngram", "sha256": "a1" * 32}
"""The language model of scores that are made up."""


def perplexity_scores(
    store: Store, given: Dataset, perplexity: Sequence[float | None], rows: int = 1000, model: Any = MODEL
) -> Dataset:
    """Perplexities as they are given, in shards of so many rows, as if this model had made them."""
    count = len(perplexity)
    values = pa.array(perplexity, pa.float64())
    columns = [_ids(given), values, values, [9] * count, [0] * count]
    table = pa.table(columns, schema=PERPLEXITY)
    shards = tuple(write_shard(store, "perplexity", table.slice(at, rows)) for at in range(0, count, rows))
    return published(
        store, Draft({"perplexity": Part("table", shards)}, {"model": model}), "perplexity_scores", given.partitions[0]
    )


def perplexity_model(
    store: Store,
    quantiles: Sequence[float],
    languages: dict[str, int],
    by_language: dict[str, Sequence[float]] | None = None,
    model: Any = MODEL,
) -> Dataset:
    """A model of which there is only what it thinks of the reference. languages: documents of each; by_language: their
    perplexities, sorted."""
    of_language = {
        code: {"documents": len(values), "quantiles": list(values)} for code, values in (by_language or {}).items()
    }
    reference = {
        "model": model,
        "documents": sum(languages.values()),
        "languages": languages,
        "quantiles": list(quantiles),
        "by_language": of_language,
    }
    content = json.dumps(reference).encode()
    shard = Shard(store.put(content), len(content), 0, "reference.json")
    return published(store, Draft({"perplexity_model": Part("files", (shard,))}), "perplexity_model")


def unsearched(store: Store) -> Dataset:
    """Scores of contamination where no set was looked for."""
    parts = {"contamination": Part("table", ()), "contamination_hits": Part("table", ())}
    return published(store, Draft(parts), "contamination_scores", "book")


def column(texts: Sequence[str]) -> pa.ChunkedArray:
    """Texts as a stage reads them."""
    return pa.chunked_array([pa.array(texts, pa.large_string())])


def trained_model(store: Store, reference: Dataset, asked: PerplexityParams, engine: Engine) -> Dataset:
    """What a model, trained here or made elsewhere, thinks of a reference."""
    return published(store, train_perplexity(reference, asked, engine), "perplexity_model")


def write_set(folder: Path, texts: Sequence[str], name: str = "set.jsonl") -> EvaluationSet:
    """A set of one field, q, in a file below the folder."""
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps({"q": text}) + "\n" for text in texts))
    return EvaluationSet(path=str(path), fields=["q"])
