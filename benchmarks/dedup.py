"""Deduplication against datasketch on the same text, and against what the machine can do with the same file.

Run as `python -m benchmarks.dedup [--quick] [--json]`. The text is that of the installed packages.
"""

import re
import statistics
import tempfile
from functools import partial

import datasketch
import numpy as np
import pyarrow as pa
import xxhash

from benchmarks.harness import Measurement, installed_texts, main, median_seconds, seconds
from pipelines.dataset import Dataset, Draft, Part, read_table, seal, write_shard
from pipelines.dedup.clusters import effective_banding, find_duplicates
from pipelines.dedup.lsh import find_leaders
from pipelines.dedup.minhash import minhash_signatures
from pipelines.dedup.params import DedupParams
from pipelines.dedup.signatures import document_signatures
from pipelines.engines.local import Engine
from pipelines.schemas import DOCUMENTS
from pipelines.store import Store
from pipelines.text.words import word_batches

CONFIG = DedupParams()


def measure(quick: bool) -> list[Measurement]:
    """All measurements. quick: 15 MB of text instead of 60, and a fifth of the documents in the index."""
    texts = installed_texts(15 if quick else 60)
    rows = [
        {"doc_id": xxhash.xxh3_128_hexdigest(str(n).encode()), "source": "packages", "uri": f"{n}", "text": text}
        for n, text in enumerate(texts)
    ]
    documents = pa.Table.from_pylist(rows, DOCUMENTS)
    document_signatures(documents.slice(0, 2), CONFIG)  # compile, build the tables
    return [
        words_against_regular_expression(documents),
        signatures_against_datasketch(documents),
        signatures_against_hashing(documents),
        leaders_against_datasketch(10_000 if quick else 50_000),
        *whole_step(documents),
    ]


def words_against_regular_expression(documents: pa.Table) -> Measurement:
    """Cutting and hashing words against Python's `re`, which only finds them."""
    megabytes, pattern = _megabytes(documents), re.compile(r"\w+")
    ours = megabytes / median_seconds(lambda: [len(words) for _, words in word_batches(documents["text"])])
    part = documents.slice(0, max(1, len(documents) // 5))
    texts = part["text"].to_pylist()
    theirs = _megabytes(part) / median_seconds(lambda: [len(pattern.findall(text.lower())) for text in texts])
    return Measurement("words", "Python re", ours, theirs, "MB/s", 10)


def signatures_against_datasketch(documents: pa.Table) -> Measurement:
    """Text to signatures, one core: ours with the exact hash, datasketch with the shingling of its examples."""
    ours = _megabytes(documents) / median_seconds(lambda: document_signatures(documents, CONFIG))
    part = documents.slice(0, max(1, len(documents) // 20))
    texts = part["text"].to_pylist()
    pattern = re.compile(r"\w+")

    def sketch() -> None:
        for text in texts:
            words = pattern.findall(text.lower())
            shingles = {" ".join(words[i : i + 5]).encode() for i in range(max(1, len(words) - 4))}
            minhash = datasketch.MinHash(CONFIG.permutations, CONFIG.seed, hashfunc=xxhash.xxh32_intdigest)
            minhash.update_batch(shingles)

    theirs = _megabytes(part) / median_seconds(sketch)
    return Measurement("signatures", "datasketch", ours, theirs, "MB/s per core", 20)


def signatures_against_hashing(documents: pa.Table) -> Measurement:
    """Parquet to signatures against reading the same Parquet and hashing each text once: the machine's limit."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder)
        shard = write_shard(store, "documents", documents)

        def ours() -> None:
            document_signatures(read_table(store, shard.object, ["doc_id", "text"]), CONFIG)

        def limit() -> None:
            for text in read_table(store, shard.object, ["doc_id", "text"])["text"]:
                xxhash.xxh3_128_digest(text.as_buffer())

        rates = [_megabytes(documents) / median_seconds(work) for work in (ours, limit)]
    return Measurement("signatures from Parquet", "reading and xxh3", rates[0], rates[1], "MB/s per core", 0.25)


def leaders_against_datasketch(documents: int) -> Measurement:
    """Signatures to clusters: ours verifies every pair, datasketch's index only looks candidates up."""
    random = np.random.default_rng(1)
    shingles = random.integers(0, 2**64, (documents, 40), dtype=np.uint64)
    shingles[documents // 2 :, :37] = shingles[: documents - documents // 2, :37]  # every second one nearly a copy
    offsets = np.arange(0, documents * 40 + 1, 40)
    signatures, _ = minhash_signatures(shingles.ravel(), offsets, CONFIG.permutations, CONFIG.seed)
    banding = effective_banding(CONFIG)
    order = np.arange(documents)
    find_leaders(signatures[:2], order[:2], banding, CONFIG.threshold)  # compile
    ours = documents / median_seconds(lambda: find_leaders(signatures, order, banding, CONFIG.threshold))
    part = documents // 10
    sketches = [
        datasketch.LeanMinHash(scheme="affine32", seed=CONFIG.seed, hashvalues=row) for row in signatures[:part]
    ]

    def index() -> None:
        lsh = datasketch.MinHashLSH(num_perm=CONFIG.permutations, params=(banding.bands, banding.rows))
        for number, sketch in enumerate(sketches):
            if not lsh.query(sketch):
                lsh.insert(number, sketch)

    return Measurement("leaders", "datasketch MinHashLSH", ours, part / median_seconds(index), "documents/s", 20)


def whole_step(documents: pa.Table) -> list[Measurement]:
    """The whole step on two workers, from stored documents to stored clusters, and again with everything cached."""
    pieces = [
        documents.slice(start, 1 + len(documents) // 8) for start in range(0, len(documents), 1 + len(documents) // 8)
    ]
    first: list[float] = []
    again: list[float] = []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            store = Store(folder)
            shards = tuple(write_shard(store, "documents", piece) for piece in pieces)
            draft = Draft({"documents": Part("table", shards)})
            version = seal(store, draft, asset="clean_documents", partition="packages")
            clean = Dataset("clean_documents", (version,), store)
            engine = Engine(store, workers=2)
            first.append(seconds(partial(find_duplicates, clean, CONFIG, engine)))
            again.append(seconds(partial(find_duplicates, clean, CONFIG, engine)))
    ours, cached = statistics.median(first), statistics.median(again)
    return [Measurement("whole step, cached", "whole step, two workers", cached, ours, "s", 10, lower_is_better=True)]


def _megabytes(documents: pa.Table) -> float:
    return sum(len(text.as_buffer()) for text in documents["text"]) / 1e6


if __name__ == "__main__":
    main(measure, "Deduplication against its peers.")
