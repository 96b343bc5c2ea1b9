"""Some thousand real documents and edited copies of them, compared pair by pair: what the index finds, and what stays.

The documents are pieces of the installed packages' sources; true similarities come from products of sparse matrices.
"""

import math
import random
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse

from pipelines.dedup.buckets import Buckets, band_keys, shared_buckets
from pipelines.dedup.minhash import minhash_signatures
from pipelines.dedup.params import DedupParams
from pipelines.dedup.simhash import fingerprints
from pipelines.store import Store
from pipelines.text.shingles import shingle_hashes
from pipelines.text.words import split_words
from tests.pipelines.dedup.corpus import deduplicate, doc_id

PIECES, COPIES = 2500, 700


@dataclass(frozen=True)
class Corpus:
    """Texts, their word shingles, and the Jaccard similarity of every pair that shares one: i < j."""

    texts: list[str]
    hashes: np.ndarray
    offsets: np.ndarray
    left: np.ndarray
    right: np.ndarray
    similarity: np.ndarray

    def at_least(self, threshold: float) -> np.ndarray:
        """Which pairs are so similar."""
        return self.similarity >= threshold - 1e-12


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    made = random.Random(11)
    packages = Path(sysconfig.get_path("purelib"))
    texts: list[str] = []
    for file in sorted(packages.glob("dagster/_core/**/*.py")) + sorted(packages.glob("sklearn/**/*.py")):
        lines = file.read_text(encoding="utf-8").splitlines()
        texts += ["\n".join(lines[start : start + 40]) for start in range(0, len(lines) - 39, 40)]
    made.shuffle(texts)
    texts = texts[:PIECES]
    for original in texts[:COPIES]:
        words = original.split()
        for _ in range(max(1, int(made.random() * 0.06 * len(words)))):
            words[made.randrange(len(words))] = f"edited{made.randrange(1000)}"
        texts.append(" ".join(words))
    hashes, offsets = shingle_hashes(split_words(pa.array(texts, pa.large_string())), 5)
    return Corpus(texts, hashes, offsets, *true_similarities(hashes, offsets))


def true_similarities(hashes: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    _, columns = np.unique(hashes, return_inverse=True)
    holds = scipy.sparse.csr_array((np.ones(len(columns), np.int32), columns, offsets.copy()))
    holds.sum_duplicates()
    holds.data[:] = 1
    sizes = holds.sum(axis=1)
    common = scipy.sparse.triu(holds @ holds.T, k=1).tocoo()
    both = sizes[common.row] + sizes[common.col] - common.data
    return common.row, common.col, common.data / both


def in_one_bucket(buckets: Buckets, documents: int, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    of = np.full((documents, buckets.of.shape[1]), -1)
    of[buckets.members] = buckets.of
    return ((of[left] == of[right]) & (of[left] >= 0)).any(axis=1)


@pytest.mark.parametrize("threshold", [0.5, 0.75, 0.9])
def test_as_many_similar_pairs_meet_as_the_curve_says(corpus: Corpus, threshold: float) -> None:
    banding = DedupParams(threshold=threshold).banding
    assert banding is not None
    signatures, _ = minhash_signatures(corpus.hashes, corpus.offsets, 112, 1)
    places = np.arange(len(signatures), dtype=np.int32)

    def keys(start: int, stop: int) -> np.ndarray:
        found = np.empty((stop - start, len(signatures)), np.uint64)
        band_keys(signatures, banding, start, places, found)
        return found

    buckets = shared_buckets(keys, banding.bands, len(signatures))
    wanted = corpus.at_least(threshold)
    found = in_one_bucket(buckets, len(signatures), corpus.left[wanted], corpus.right[wanted])
    chances = np.array([banding.candidate_probability(s) for s in corpus.similarity[wanted]])
    assert len(found) > 150
    # Pairs are not independent (copies come in groups), so the margin is that of a tenth as many.
    margin = 3 * math.sqrt(10 * np.sum(chances * (1 - chances))) / len(found)
    assert found.mean() >= chances.mean() - margin
    assert chances.mean() > 0.93


def test_what_goes_resembles_what_stays_and_what_stays_is_unlike(corpus: Corpus, store: Store) -> None:
    threshold = 0.75
    config = DedupParams(exact=False, threshold=threshold)
    made = deduplicate(store, {"s": [{str(n): text for n, text in enumerate(corpus.texts)}]}, config)
    known = dict(zip(zip(corpus.left.tolist(), corpus.right.tolist(), strict=True), corpus.similarity, strict=True))
    rows = made.clusters.table("clusters").to_pylist()
    assert len(rows) > 400
    for row in rows:
        removed, kept = int(made.names[row["doc_id"]]), int(made.names[row["kept_id"]])
        assert row["similarity"] == pytest.approx(known[min(removed, kept), max(removed, kept)])
        assert row["similarity"] >= threshold
    stays = np.zeros(len(corpus.texts), bool)
    stays[[int(name) for name in made.kept]] = True
    similar = corpus.at_least(threshold)
    missed = similar & stays[corpus.left] & stays[corpus.right]
    assert missed.sum() < 0.02 * similar.sum()


def test_an_estimate_errs_by_no_more_than_its_size_allows(corpus: Corpus, store: Store) -> None:
    texts = {"s": [{str(n): text for n, text in enumerate(corpus.texts)}]}
    made = deduplicate(store, texts, DedupParams(exact=False, verify="signature"))
    known = dict(zip(zip(corpus.left.tolist(), corpus.right.tolist(), strict=True), corpus.similarity, strict=True))
    errors = []
    for row in made.clusters.table("clusters").to_pylist():
        removed, kept = int(made.names[row["doc_id"]]), int(made.names[row["kept_id"]])
        errors.append(row["similarity"] - known.get((min(removed, kept), max(removed, kept)), 0.0))
    assert max(map(abs, errors)) < 4.5 * math.sqrt(0.25 / 112)
    assert abs(float(np.mean(errors))) < 0.02  # those that are taken are the luckier estimates


def test_simhash_finds_every_pair_within_the_distance(corpus: Corpus, store: Store) -> None:
    distance = 3
    prints = fingerprints(*shingle_hashes(split_words(pa.array(corpus.texts, pa.large_string())), 3))
    bits = np.unpackbits(prints.view(np.uint8).reshape(-1, 8), axis=1).astype(np.int32)
    ones = bits.sum(axis=1)
    differing = ones[:, None] + ones[None, :] - 2 * (bits @ bits.T)
    left, right = np.nonzero(np.triu(differing <= distance, k=1))
    config = DedupParams.model_validate({"exact": False, "minhash": False, "simhash": {"enabled": True}})
    made = deduplicate(store, {"s": [{str(n): text for n, text in enumerate(corpus.texts)}]}, config)
    stays = np.zeros(len(corpus.texts), bool)
    stays[[int(name) for name in made.kept]] = True
    assert len(left) > 50
    assert not (stays[left] & stays[right]).any()
    ids = {doc_id("s", str(n)): n for n in range(len(corpus.texts))}
    for row in made.clusters.table("clusters").to_pylist():
        bits_between = differing[ids[row["doc_id"]], ids[row["kept_id"]]]
        assert row["similarity"] == 1 - bits_between / 64
        assert bits_between <= distance
