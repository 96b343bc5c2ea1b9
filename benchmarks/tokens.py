"""Tokenization: the whole stage beside the bare library call in the same run. Reading is `token_samples.py`'s.

Run `python -m benchmarks.tokens [--quick] [--json]`. Correctness is tested in tests/pipelines/tokens.
"""

import os
import statistics
import tempfile

import pyarrow as pa
from tokenizers import Tokenizer

from benchmarks.harness import Measurement, installed_texts, main, seconds
from pipelines.dataset import Dataset, Draft, Part, seal, write_shard
from pipelines.engines.local import Engine
from pipelines.schemas import DOCUMENTS
from pipelines.store import Store
from pipelines.tokens.encode import library_threads
from pipelines.tokens.params import TokenizeParams, TokenizerParams
from pipelines.tokens.shards import tokenize
from pipelines.tokens.tokenizer import make_tokenizer

SHARDS = 8
ROUNDS = 3


def measure(quick: bool) -> list[Measurement]:
    """Megabytes per second of the stage and of the library."""
    texts = installed_texts(4 if quick else 20)
    with tempfile.TemporaryDirectory() as folder:
        store = Store(f"{folder}/store")
        documents = stored(store, texts)
        workers = os.cpu_count() or 1
        engine = Engine(store, workers)
        config = TokenizerParams(sample_megabytes=2)
        tokenizer = sealed(store, make_tokenizer(documents, config, engine), "tokenizer")
        megabytes = sum(len(text.encode()) for text in texts) / 1e6
        stage, library = [], []
        for _ in range(ROUNDS):
            fresh = Store(f"{folder}/store{len(stage)}")
            again, learnt = stored(fresh, texts), copied(fresh, tokenizer)
            task = Engine(fresh, workers)
            stage.append(seconds(lambda: tokenize(again, learnt, TokenizeParams(), task)))  # noqa: B023
            library.append(seconds(lambda: encode_batch(tokenizer, texts)))
        return [
            Measurement(
                f"tokenize {megabytes:.0f} MB, {workers} workers: read, encode, write shards",
                "tokenizers.encode_batch",
                megabytes / statistics.median(stage),
                megabytes / statistics.median(library),
                "MB/s",
                0.9,
            )
        ]


def stored(store: Store, texts: list[str]) -> Dataset:
    """The texts as documents in `SHARDS` shards."""
    shards = []
    for first in range(SHARDS):
        rows = [
            {"doc_id": f"{index:032x}", "source": "packages", "uri": f"{index}#0", "text": texts[index]}
            for index in range(first, len(texts), SHARDS)
        ]
        shards.append(write_shard(store, "documents", pa.Table.from_pylist(rows, schema=DOCUMENTS)))
    return sealed(store, Draft({"documents": Part("table", tuple(shards))}), "filtered_documents", "packages")


def sealed(store: Store, draft: Draft, asset: str, partition: str = "") -> Dataset:
    """A draft as a dataset of one partition."""
    return Dataset(asset, (seal(store, draft, asset=asset, partition=partition),), store)


def copied(store: Store, tokenizer: Dataset) -> Dataset:
    """The tokenizer in another store."""
    for shard in tokenizer.shards("tokenizer"):
        store.put(tokenizer.store.get(shard.object))
    return sealed(store, Draft(tokenizer.version.parts, tokenizer.version.stats), "tokenizer")


def encode_batch(tokenizer: Dataset, texts: list[str]) -> None:
    """The library alone, with its own threads and a cold cache."""
    found = {shard.name: shard.object for shard in tokenizer.shards("tokenizer")}
    loaded = Tokenizer.from_file(str(tokenizer.store.path(found["tokenizer.json"])))
    with library_threads():
        for encoding in loaded.encode_batch(texts, add_special_tokens=False):
            len(encoding)


if __name__ == "__main__":
    main(measure, __doc__ or "")
