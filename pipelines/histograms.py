"""Histograms: whole counts over fixed edges, so that those of shards add up to that of a dataset.

A stage has them in its stats, under `histograms`: {name: {"edges": [...], series: [...], ...}}, where a series is what
it counted of (`before` and `after`, `kept` and `dropped`). How they are drawn stands in `assets/plots.py`.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

SIZE_EDGES = [0, *(2**power for power in range(33))]
"""Of bytes, tokens and cluster sizes: 0, 1, 2 to 3, 4 to 7 … 4 Gi and above."""

TOXICITY_EDGES = [step / 20 for step in range(20)]

PERPLEXITY_EDGES = [step * 10.0**power for power in range(6) for step in (1, 1.6, 2.5, 4, 6.3)] + [1e6]
"""Five bins for each power of ten, at Renard's preferred numbers."""

CONTAMINATION_EDGES = [0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9]

BITS_PER_BYTE_EDGES = [step / 4 for step in range(33)]


def histogram(edges: Sequence[float], **series: npt.NDArray[Any]) -> dict[str, list[Any]]:
    """Histograms of several series of numbers over the same edges, as long as the edges.

    Count i is of numbers in edges[i] ≤ x < edges[i + 1]; the last bin has no upper edge, and what lies below the first
    edge counts into the first bin. NaN counts nowhere.
    """
    bounds = np.asarray(edges)
    return {"edges": list(edges), **{name: _counts(bounds, values) for name, values in series.items()}}


def text_bytes(texts: pa.ChunkedArray | pa.Array) -> npt.NDArray[np.int64]:
    """int64[n]: bytes of UTF-8 of every text; 0 where there is none."""
    lengths = pc.fill_null(pc.binary_length(texts), 0)
    return np.asarray(lengths).astype(np.int64, copy=False)


def added(tallies: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Sum of tallies: numbers and lists of counts are added, dictionaries by key; "edges" must be and stay the same."""
    total: dict[str, Any] = {}
    for tally in tallies:
        for name, value in tally.items():
            standing = total.get(name)
            if standing is None or name == "edges":
                total[name] = added([value]) if isinstance(value, dict) else value
            elif isinstance(value, dict):
                total[name] = added([standing, value])
            elif isinstance(value, list):
                total[name] = [a + b for a, b in zip(standing, value, strict=True)]
            else:
                total[name] = standing + value
    return total


def _counts(bounds: npt.NDArray[Any], values: npt.NDArray[Any]) -> list[int]:
    if values.dtype.kind == "f":
        values = values[~np.isnan(values)]
    bins = np.maximum(np.searchsorted(bounds, values, side="right") - 1, 0)
    counts: list[int] = np.bincount(bins, minlength=len(bounds)).tolist()
    return counts
