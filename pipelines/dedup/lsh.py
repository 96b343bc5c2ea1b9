"""Locality-sensitive hashing: bands and rows for a threshold, and how likely a pair is to be compared.

Where signatures come from: `minhash.py`; who shares a band with whom: `buckets.py`.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

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
