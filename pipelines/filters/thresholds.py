"""What every threshold of a rule would keep: counts of one shard, that add up to those of a dataset.

Counted by the stage that decides, from the scores that it reads anyway, so nothing is scored again. What becomes a
table for people is `assets/explorer.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

CANDIDATES: dict[str, tuple[float, ...]] = {
    "toxicity": (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99),
    "perplexity_high": (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000),
    "perplexity_low": (2, 3, 5, 7, 10, 15, 20, 30, 50, 100),
    "contamination": (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9),
}
"""Thresholds to look at, by rule; the one in force is looked at, too."""

DROPPED_BELOW = frozenset({"perplexity_low"})
"""Rules that drop what scores below their threshold; all others drop what scores above it."""


@dataclass(frozen=True)
class Ruled:
    """A rule and the documents of a shard. score: float64[n], NaN: none, so the rule never objects. objects: bool[n],
    it drops the document. limit: its threshold; None: not applied."""

    score: npt.NDArray[np.float64]
    objects: npt.NDArray[np.bool_]
    limit: float | None

    @classmethod
    def above(cls, score: npt.NDArray[np.float64], limit: float | None) -> "Ruled":
        """A rule that drops what scores above its threshold."""
        return cls(score, np.greater(score, np.inf if limit is None else limit), limit)

    @classmethod
    def below(cls, score: npt.NDArray[np.float64], limit: float | None) -> "Ruled":
        """A rule that drops what scores below its threshold."""
        return cls(score, np.less(score, -np.inf if limit is None else limit), limit)


def threshold_counts(rules: Mapping[str, Ruled], sizes: npt.NDArray[np.int64]) -> dict[str, dict[str, Any]]:
    """By rule that has thresholds: documents and bytes between them, of the documents to which no other rule objects.

    sizes: bytes of each document. Of the counts, one longer than the edges, number i is of scores between edge i - 1
    and edge i; a score equal to an edge counts where the rule keeps it. unscored: documents and bytes without a score.
    """
    objections = np.sum([rule.objects for rule in rules.values()], axis=0)
    return {
        name: _counts(name, rule, objections - rule.objects == 0, sizes)
        for name, rule in rules.items()
        if name in CANDIDATES
    }


def _counts(name: str, rule: Ruled, stays: npt.NDArray[np.bool_], sizes: npt.NDArray[np.int64]) -> dict[str, Any]:
    edges = sorted({*CANDIDATES[name], *([] if rule.limit is None else [rule.limit])})
    scored = stays & ~np.isnan(rule.score)
    unscored = stays & np.isnan(rule.score)
    side: Literal["left", "right"] = "right" if name in DROPPED_BELOW else "left"
    bins = np.searchsorted(np.asarray(edges), rule.score[scored], side=side)
    # whole numbers: floats hold sums of bytes exactly up to 2^53
    by_bytes = np.bincount(bins, weights=sizes[scored], minlength=len(edges) + 1).astype(np.int64)
    return {
        "edges": [float(edge) for edge in edges],
        "documents": np.bincount(bins, minlength=len(edges) + 1).tolist(),
        "bytes": by_bytes.tolist(),
        "unscored": {"documents": int(unscored.sum()), "bytes": int(sizes[unscored].sum())},
    }


def kept_at(name: str, counts: Mapping[str, Any]) -> list[tuple[float, int, int]]:
    """(threshold, documents, bytes) that a rule would keep at each edge, all other rules as they are."""
    below = name in DROPPED_BELOW
    kept = []
    for number, edge in enumerate(counts["edges"]):
        part = slice(number + 1, None) if below else slice(0, number + 1)
        documents, size = (sum(counts[key][part]) + counts["unscored"][key] for key in ("documents", "bytes"))
        kept.append((edge, documents, size))
    return kept


def without_rule(counts: Mapping[str, Any]) -> tuple[int, int]:
    """Documents and bytes that would be kept without the rule."""
    documents, size = (sum(counts[key]) + counts["unscored"][key] for key in ("documents", "bytes"))
    return documents, size
