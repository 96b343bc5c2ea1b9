"""The tokenization stage beside `tokenizers.encode_batch` alone, datatrove's stage, and `datasets.map`.

Run `python -m benchmarks.tokens [--quick] [--json]`; `python -m benchmarks.peers` installs peers. Ours loads and checks
the engine, reads Parquet, encodes, and writes .bin and .idx into an empty store; all use the same tokenizer and texts.
CPU seconds count, of all threads and processes; ours are medians of three, others, who take a minute, run once.
Correctness is tested in tests/pipelines/tokens.
"""

import json
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from tokenizers import Tokenizer

from benchmarks.corpora import SHARED, Corpus, packages
from benchmarks.harness import REPEATS, Measurement, main
from benchmarks.peers import DATASETS, HERE, PEERS, timed
from pipelines.dataset import Dataset, Draft, Part, Shard, seal
from pipelines.engines.local import Engine
from pipelines.store import Store
from pipelines.tokens.encode import library_threads
from pipelines.tokens.shards import tokenize
from pipelines.tokens.tokenize_params import TokenizeParams
from pipelines.tokens.tokenizer import make_tokenizer
from pipelines.tokens.tokenizer_params import TokenizerParams

SHARDS = 4
WORKERS = 2
EOS = "<|endoftext|>"
SPELLED = 1000
"""Tokens by which others may differ: they take a text that spells a special token for the token."""
ENCODE_BATCH_TARGET, DATATROVE_TARGET = 10, 15

DATATROVE = next(peer for peer in PEERS if peer.name.startswith("datatrove"))


def measure(quick: bool) -> list[Measurement]:
    """A tokenizer of our own, and one of GPT-NeoX's kind where ../shared is. quick: 8 MB and only the first."""
    whole = packages(8 if quick else 60)
    corpus = replace(whole, texts=whole.texts.filter(pc.not_equal(whole.texts, "")))  # peers end empty documents, too
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder)
        learnt = make_tokenizer(corpus.stored(store, 1), TokenizerParams(sample_megabytes=2), Engine(store, 1))
        objects = {shard.name: shard.object for shard in learnt.parts["tokenizer"].shards}
        found = beside_others(corpus, "our tokenizer", store.path(objects["tokenizer.json"]))
    neox = SHARED / "tokenizers/gpt_neo_tokenizer.json"
    return found if quick or not neox.exists() else found + beside_others(corpus, "GPT-NeoX's kind", neox)


def beside_others(corpus: Corpus, name: str, path: Path) -> list[Measurement]:
    """One tokenizer: MB per CPU second of everybody, on the same texts."""
    with tempfile.TemporaryDirectory() as folder:
        rounds, tokens = [], 0
        for number in range(REPEATS):
            store = Store(f"{folder}/store{number}")
            data, tokenizer = corpus.stored(store, SHARDS), as_dataset(store, path)
            engine = Engine(store, WORKERS, alone_seconds=0)
            start = time.process_time()
            tokens = tokenize(data, tokenizer, TokenizeParams(), engine).stats["tokens"]
            rounds.append(time.process_time() - start)
        ours = statistics.median(rounds)
        texts = corpus.texts.to_pylist()
        start = time.process_time()
        encode_batch(path, texts)
        others = [("tokenizers.encode_batch", time.process_time() - start, ENCODE_BATCH_TARGET)]
        write_parquet(corpus, Path(folder) / "parquet")
        for peer, script, target in (
            (DATATROVE, "datatrove_tokens_script.py", DATATROVE_TARGET),
            (DATASETS, DATASETS.script, DATASETS.target),
        ):
            if not peer.ready:
                print(f"{peer.name} is left out: make it with python -m benchmarks.peers", file=sys.stderr)
                continue
            command = [str(peer.python), str(HERE / script), f"{folder}/parquet", str(path), EOS]
            told = json.loads(timed(command, Path(folder))[1].splitlines()[-1])
            if abs(told["tokens"] - tokens) > SPELLED:
                raise RuntimeError(f"{peer.name} made {told['tokens']} tokens, we {tokens}")
            others.append((f"{peer.name}, its stage", told["seconds"], target))
        return [
            Measurement(
                f"tokenize {corpus.megabytes:.0f} MB with {name}: read, encode, write shards",
                peer,
                corpus.megabytes / ours,
                corpus.megabytes / theirs,
                "MB/CPU s",
                target,
            )
            for peer, theirs, target in others
        ]


def as_dataset(store: Store, path: Path) -> Dataset:
    """A tokenizer.json as the stage is handed it."""
    files = {"tokenizer.json": path.read_bytes(), "tokenizer_config.json": json.dumps({"eos_token": EOS}).encode()}
    shards = tuple(Shard(store.put(data), len(data), name=name) for name, data in files.items())
    version = seal(store, Draft({"tokenizer": Part("files", shards)}), asset="tokenizer")
    return Dataset("tokenizer", (version,), store)


def encode_batch(path: Path, texts: list[str]) -> None:
    """The library alone, with its own threads and a cold cache."""
    loaded = Tokenizer.from_file(str(path))
    with library_threads():
        for encoding in loaded.encode_batch(texts, add_special_tokens=False):
            len(encoding)


def write_parquet(corpus: Corpus, folder: Path) -> None:
    """The texts as a file per shard, as peers read them."""
    folder.mkdir()
    table = pa.table({"id": [str(number) for number in range(len(corpus.texts))], "text": corpus.texts})
    rows = -(-len(table) // SHARDS)
    for number in range(SHARDS):
        pq.write_table(table.slice(number * rows, rows), folder / f"{number}.parquet", compression="zstd")


if __name__ == "__main__":
    main(measure, __doc__ or "")
