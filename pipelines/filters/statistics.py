"""How good a decision is, and how well people agree: shares, F1, area under the curve, kappa, each with its interval.

Plain formulas on counts and scores, nothing about documents. Who asks: `review.py`, `comparison.py`, benchmarks.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

CONFIDENCE = 0.95
Z = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
DRAWS, SEED = 10_000, 6


@dataclass(frozen=True)
class Estimate:
    """A value and its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"


def wilson(successes: float, trials: float) -> Estimate | None:
    """A share with the score interval of Wilson (1927): also near 0 and 1 it is one. None without trials."""
    if trials <= 0:
        return None
    share, square = successes / trials, Z * Z / trials
    centre = (share + square / 2) / (1 + square)
    reach = Z * math.sqrt(share * (1 - share) / trials + square / (4 * trials)) / (1 + square)
    return _around(share, centre - reach, centre + reach)


@dataclass(frozen=True)
class Confusion:
    """How often a decision was right: counts of documents. Positive: to be dropped."""

    true_positives: int
    false_positives: int
    false_negatives: int

    @classmethod
    def of(cls, actual: npt.NDArray[np.bool_], predicted: npt.NDArray[np.bool_]) -> "Confusion":
        """bool[n] each: what the documents are, and what they were taken for."""
        actual, predicted = np.asarray(actual, np.bool_), np.asarray(predicted, np.bool_)
        pairs = ((actual & predicted), (~actual & predicted), (actual & ~predicted))
        return cls(*(int(pair.sum()) for pair in pairs))

    @property
    def precision(self) -> Estimate | None:
        """Share of those dropped that are positive; None where none was dropped."""
        return wilson(self.true_positives, self.true_positives + self.false_positives)

    @property
    def recall(self) -> Estimate | None:
        """Share of the positive that are dropped; None where none is positive."""
        return wilson(self.true_positives, self.true_positives + self.false_negatives)

    @property
    def f1(self) -> Estimate | None:
        """Harmonic mean of precision and recall; None where nothing is positive and nothing was dropped.

        F* = TP / (TP + FP + FN) = F1 / (2 - F1) is a share, so it has Wilson's interval, and F1 its image (F*: Hand,
        Christen and Kirielle 2021).
        """
        star = wilson(self.true_positives, self.true_positives + self.false_positives + self.false_negatives)
        return None if star is None else Estimate(*(2 * x / (1 + x) for x in (star.value, star.low, star.high)))


def auc(actual: npt.NDArray[np.bool_], scores: npt.NDArray[np.float64]) -> Estimate | None:
    """The chance that a positive document scores above a negative one, ties half. None without both kinds.

    Variance by DeLong et al. (1988), from midranks as Sun and Xu (2014), interval on the logit. Where it is 0, as with
    kinds that are wholly apart: Wilson's, of as many trials as there are documents of the rarer kind. NaN counts as
    the lowest score.
    """
    actual, scores = np.asarray(actual, np.bool_), np.nan_to_num(np.asarray(scores, np.float64), nan=-np.inf)
    positive, negative = scores[actual], scores[~actual]
    m, n = len(positive), len(negative)
    if not m or not n:
        return None
    both = _midranks(np.concatenate([positive, negative]))
    above = (both[:m] - _midranks(positive)) / n  # share of the negative below each positive
    below = 1 - (both[m:] - _midranks(negative)) / m  # share of the positive above each negative
    value = float(above.mean())
    variance = (above.var(ddof=1) / m if m > 1 else 0.0) + (below.var(ddof=1) / n if n > 1 else 0.0)
    if variance <= 0 or not 0 < value < 1:
        return wilson(value * min(m, n), min(m, n))
    centre, reach = math.log(value / (1 - value)), Z * math.sqrt(variance) / (value * (1 - value))
    return _around(value, _logistic(centre - reach), _logistic(centre + reach))


def _midranks(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Ranks from 1; of equal values the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    middles: npt.NDArray[np.float64] = (last - (counts - 1) / 2)[inverse]
    return middles


def _logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


def _around(value: float, low: float, high: float) -> Estimate:
    """The interval within 0 and 1, and never beside its value."""
    return Estimate(value, max(0.0, min(low, value)), min(1.0, max(high, value)))


# -- agreement ------------------------------------------------------------------------------------------------------


def cohen_kappa(first: Sequence[Any], second: Sequence[Any]) -> float | None:
    """Agreement of two annotators on the same documents, beyond chance: (observed - expected) / (1 - expected) (Cohen
    1960). None where there is nothing to agree on: no document, or one label all over."""
    if not first:
        return None
    observed = sum(a == b for a, b in zip(first, second, strict=True)) / len(first)
    labels = {*first, *second}
    expected = sum(list(first).count(label) * list(second).count(label) for label in labels) / len(first) ** 2
    return None if expected == 1 else (observed - expected) / (1 - expected)


def fleiss_kappa(counts: npt.ArrayLike) -> float | None:
    """Agreement of several annotators beyond chance (Fleiss 1971). counts: [documents, labels], how many gave each.

    Documents may have different numbers of labels (Fleiss, Levin and Paik 2003, section 18.3); those with fewer than
    two say nothing and are left out. None where there is nothing to agree on.
    """
    table = np.atleast_2d(np.asarray(counts, np.float64))
    table = table[table.sum(axis=1) >= 2]
    if not len(table):
        return None
    given = table.sum(axis=1)
    observed = float((((table**2).sum(axis=1) - given) / (given * (given - 1))).mean())
    expected = float(((table.sum(axis=0) / given.sum()) ** 2).sum())
    return None if expected == 1 else (observed - expected) / (1 - expected)


# -- from a stratified sample back to all documents -----------------------------------------------------------------


@dataclass(frozen=True)
class Stratum:
    """Documents of like score: how many there are, how many were labelled, and how many of these positive. dropped:
    whether a decision drops them; all of a stratum, or none."""

    documents: int
    labelled: int
    positive: int
    dropped: bool


def of_all(strata: Sequence[Stratum]) -> dict[str, Estimate | None]:
    """Precision, recall and F1 of a decision over all documents, from a sample that took more of some than of others.

    A stratum counts as often as it has documents. Strata without a label are left out. Interval: the positives among
    a stratum's unlabelled documents are drawn from the Beta(positive + 1/2, negative + 1/2) that its labels leave
    (Jeffreys' prior; Brown, Cai and DasGupta 2001), always by the same seed. So a stratum in which none of a few was
    positive, but that is large, widens the interval of recall as it should; resampling the labels would not.
    """
    known = [stratum for stratum in strata if stratum.labelled]
    size = np.array([s.documents for s in known], np.float64)
    labelled = np.array([s.labelled for s in known], np.float64)
    positive = np.array([s.positive for s in known], np.float64)
    dropped = np.array([s.dropped for s in known], np.bool_)
    names = ("precision", "recall", "f1")
    if not known:
        return dict.fromkeys(names)
    draw = np.random.default_rng(SEED).beta(positive + 0.5, labelled - positive + 0.5, (DRAWS, len(known)))
    drawn = _quality(positive + draw * (size - labelled), size, dropped)
    found = _quality((size * positive / labelled)[None, :], size, dropped)
    estimates: dict[str, Estimate | None] = {}
    for name, values, (value,) in zip(names, drawn, found, strict=True):
        tail = (1 - CONFIDENCE) / 2
        undefined = np.isnan(value) or np.isnan(values).all()
        limits = (math.nan, math.nan) if undefined else np.nanquantile(values, [tail, 1 - tail])
        estimates[name] = None if undefined else _around(float(value), *map(float, limits))
    return estimates


def _quality(
    positive: npt.NDArray[np.float64], size: npt.NDArray[np.float64], dropped: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.float64], ...]:
    """Precision, recall and F1, float64[draws] each, from positives float64[draws, strata]; NaN where undefined."""
    found, all_positive = positive[:, dropped].sum(axis=1), positive.sum(axis=1)
    taken = np.full_like(found, size[dropped].sum())
    with np.errstate(invalid="ignore", divide="ignore"):
        return found / taken, found / all_positive, 2 * found / (taken + all_positive)
