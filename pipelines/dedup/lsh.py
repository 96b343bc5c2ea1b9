"""Locality-sensitive hashing: bands and rows for a threshold, and which document stands for which.

A document is removed only when a document that stays is similar to it: chains of pairwise similar documents lose no
member that resembles nothing kept. Where signatures come from: `minhash.py`; who is asked first: `clusters.py`.
"""

from dataclasses import dataclass
from functools import lru_cache

import numba
import numpy as np
import numpy.typing as npt

KEPT = -1
_QUADRATURE_POINTS = 64


@dataclass(frozen=True)
class Banding:
    """Signature values arranged as bands of rows."""

    bands: int
    rows: int

    def candidate_probability(self, similarity: float) -> float:
        """Probability that two documents of this Jaccard similarity share a band: 1 - (1 - s^r)^b.

        Leskovec, Rajaraman, Ullman, Mining of Massive Datasets, section 3.4.2.
        """
        return float(1.0 - (1.0 - similarity**self.rows) ** self.bands)


@lru_cache(maxsize=64)
def banding_for(threshold: float, permutations: int, missed_pair_weight: float) -> Banding:
    """The banding with the smallest weighted error for a threshold.

    Error = (1 - w)·∫₀ᵗ P(s) ds + w·∫ₜ¹ (1 - P(s)) ds with P from `Banding.candidate_probability` and w the weight of
    missed pairs: datasketch's rule (Zhu et al., 2016). Pairs compared in vain cost time only, since every pair is
    verified, so w above one half is sensible. Ties go to fewer bands, then fewer rows.
    """
    points, weights = np.polynomial.legendre.leggauss(_QUADRATURE_POINTS)
    below, above = (points + 1) / 2 * threshold, threshold + (points + 1) / 2 * (1 - threshold)
    best, best_error = Banding(1, 1), float("inf")
    for bands in range(1, permutations + 1):
        for rows in range(1, permutations // bands + 1):
            vain = float(threshold / 2 * weights @ (1 - (1 - below**rows) ** bands))
            missed = float((1 - threshold) / 2 * weights @ ((1 - above**rows) ** bands))
            error = (1 - missed_pair_weight) * vain + missed_pair_weight * missed
            if error < best_error - 1e-12:
                best, best_error = Banding(bands, rows), error
    return best


@dataclass(frozen=True)
class Leaders:
    """Who stands for whom, by position in the order of priority.

    leader: int64[documents], the position of the kept document in place of this one, or `KEPT`. similarity:
    float64[documents], share of equal signature values, 1 for those kept. compared, similar: pairs looked at, and
    those of them at or above the threshold.
    """

    leader: npt.NDArray[np.int64]
    similarity: npt.NDArray[np.float64]
    compared: int
    similar: int


def find_leaders(
    signatures: npt.NDArray[np.uint32], order: npt.NDArray[np.int64], banding: Banding, threshold: float
) -> Leaders:
    """Go through the documents in order of priority; each is kept unless a kept one is similar to it.

    signatures: uint32[documents, permutations]. order: row of the signature of each document, first priority first.
    A document joins the kept one whose signature agrees most, the one of higher priority where several do. Buckets hold
    kept documents only, so memory is linear in the documents (16 bytes per document and band, at most) whatever the
    number of copies; time grows with the pairs of kept documents that share a band.
    """
    documents, bands = len(order), banding.bands
    slots = 1 << max(4, int(documents - 1).bit_length())
    heads = np.full((bands, slots), np.int32(-1))
    following = np.empty((documents, bands), np.int32)
    tags = np.empty((documents, bands), np.uint32)
    compared_with = np.full(documents, -1, np.int64)
    leader = np.full(documents, KEPT, np.int64)
    similarity = np.ones(documents, np.float64)
    needed = equal_values_needed(threshold, signatures.shape[1])
    compared, similar = _lead(
        signatures, order, banding.rows, needed, heads, following, tags, compared_with, leader, similarity
    )
    return Leaders(leader, similarity, compared, similar)


def equal_values_needed(threshold: float, permutations: int) -> int:
    """How many of the signature values must agree for an estimate of at least `threshold`."""
    return int(np.ceil(threshold * permutations - 1e-9))


@numba.njit(nogil=True, cache=True)
def _equal_values(left: npt.NDArray[np.uint32], right: npt.NDArray[np.uint32]) -> int:
    equal = 0
    for k in range(len(left)):
        equal += left[k] == right[k]
    return equal


@numba.njit(nogil=True, cache=True)
def _band_hash(signature: npt.NDArray[np.uint32], band: int, rows: int) -> np.uint64:
    value = np.uint64(band + 1)
    for k in range(band * rows, (band + 1) * rows):
        value = (value ^ np.uint64(signature[k])) * np.uint64(0x9E3779B97F4A7C15)
        value ^= value >> np.uint64(32)
    return value


@numba.njit(nogil=True, cache=True)
def _lead(  # type: ignore[no-untyped-def]
    signatures, order, rows, needed, heads, following, tags, compared_with, leader, similarity
) -> tuple[int, int]:
    bands, slots = heads.shape
    mask = np.uint64(slots - 1)
    band_slots = np.empty(bands, np.int64)
    band_tags = np.empty(bands, np.uint32)
    compared, similar = 0, 0
    for document in range(len(order)):
        signature = signatures[order[document]]
        best, best_equal = -1, needed - 1
        for band in range(bands):
            value = _band_hash(signature, band, rows)
            band_slots[band] = np.int64(value & mask)
            band_tags[band] = np.uint32(value >> np.uint64(32))
            other = heads[band, band_slots[band]]
            while other >= 0:
                if tags[other, band] == band_tags[band] and compared_with[other] != document:
                    compared_with[other] = document
                    compared += 1
                    equal = _equal_values(signature, signatures[order[other]])
                    similar += equal >= needed
                    if equal > best_equal or (equal == best_equal and best >= 0 and other < best):
                        best, best_equal = other, equal
                other = following[other, band]
        if best >= 0:
            leader[document] = best
            similarity[document] = best_equal / len(signature)
            continue
        for band in range(bands):
            following[document, band] = heads[band, band_slots[band]]
            tags[document, band] = band_tags[band]
            heads[band, band_slots[band]] = document
    return compared, similar
