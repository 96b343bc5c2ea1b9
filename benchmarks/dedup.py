"""Deduplication against datasketch on the same text, against what the machine can do with the same file, and, as a
whole, against its peers; how its memory grows.

Run as `python -m benchmarks.dedup [--quick] [--json]`, after `python -m benchmarks.peers` made the peers' environments.
Text is that of the installed packages, and Japanese and Chinese of `../shared/data` where that is. The race of whole
stages stands in `peers/race.py`, the growth in `growth.py`.
"""

import re
import statistics
import sys
import tempfile
from functools import partial

import datasketch
import numpy as np
import pyarrow as pa
import xxhash

from benchmarks.corpora import SHARED, Corpus, chinese, japanese, packages
from benchmarks.growth import measure_growth
from benchmarks.harness import Measurement, installed_texts, main, median_seconds, seconds
from benchmarks.peers.race import race
from pipelines.dataset import read_table, write_shard
from pipelines.dedup.buckets import band_keys, shared_buckets
from pipelines.dedup.clusters import find_duplicates
from pipelines.dedup.leaders import Leaders, Prints, Rules, find_leaders
from pipelines.dedup.minhash import minhash_signatures
from pipelines.dedup.params import DedupParams
from pipelines.dedup.signatures import document_signatures
from pipelines.engines.local import Engine
from pipelines.store import Store
from pipelines.text.words import word_batches

CONFIG = DedupParams()


def measure(quick: bool) -> list[Measurement]:
    """All measurements. quick: for the peers 4 MB of text, most of which is start-up, instead of 100 and no Japanese
    and Chinese; 10 MB instead of 60 for the steps, a fifth of the documents in the index, no million documents."""
    texts = Corpus("packages", "en", pa.array(installed_texts(10 if quick else 60), pa.large_string()))
    documents = texts.documents
    document_signatures(documents.slice(0, 2), CONFIG)  # compile, build the tables
    return [
        words_against_regular_expression(documents),
        signatures_against_datasketch(documents),
        signatures_against_hashing(documents),
        leaders_against_datasketch(10_000 if quick else 50_000),
        *whole_step(texts),
        *whole_stage(quick),
        *measure_growth(quick),
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
    banding = CONFIG.banding
    assert banding

    def leaders(rows: np.ndarray) -> Leaders:
        def keys(start: int, stop: int) -> np.ndarray:
            found = np.empty((stop - start, len(rows)), np.uint64)
            band_keys(rows, banding, start, np.arange(len(rows), dtype=np.int32), found)
            return found

        buckets = shared_buckets(keys, banding.bands, len(rows))
        addresses = rows.ctypes.data + buckets.members.astype(np.uint64) * np.uint64(rows.strides[0])
        return find_leaders(Prints(addresses), buckets, Rules(banding.bands, CONFIG.threshold, CONFIG.permutations))

    leaders(signatures[:2])  # compile
    ours = documents / median_seconds(lambda: leaders(signatures))
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


def whole_step(texts: Corpus) -> list[Measurement]:
    """Finding duplicates on two workers, from stored documents to stored clusters, and again with everything cached."""
    first: list[float] = []
    again: list[float] = []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            clean = texts.stored(Store(folder), 8)
            engine = Engine(clean.store, workers=2)
            first.append(seconds(partial(find_duplicates, clean, CONFIG, engine)))
            again.append(seconds(partial(find_duplicates, clean, CONFIG, engine)))
    ours, cached = statistics.median(first), statistics.median(again)
    return [Measurement("whole step, cached", "whole step, two workers", cached, ours, "s", 10, lower_is_better=True)]


def whole_stage(quick: bool) -> list[Measurement]:
    """The race with the peers: 4 MB where quick, else 100 MB, and 20 MB each of Japanese and Chinese."""
    found = race(packages(4 if quick else 103), quick)
    if not SHARED.exists():
        print(f"Japanese and Chinese are left out: there is no folder {SHARED}", file=sys.stderr)
    elif not quick:
        found += race(japanese(20), quick) + race(chinese(20), quick)
    return found


def _megabytes(documents: pa.Table) -> float:
    return sum(len(text.as_buffer()) for text in documents["text"]) / 1e6


if __name__ == "__main__":
    main(measure, "Deduplication against its peers.")
