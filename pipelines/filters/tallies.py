"""Counts for people: histograms of scores, counts by language, and their sums over shards."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

TOXICITY_EDGES = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95]
PERPLEXITY_EDGES = [1.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 1e6]


def histogram(scores: npt.NDArray[np.float64], edges: list[float]) -> dict[str, list[float] | list[int]]:
    """{"edges", "counts"}: counts[i] scores lie in edges[i] ≤ score < edges[i + 1], the last have no upper edge; scores
    below the first edge count into the first bin. The lists are equally long."""
    bins = np.maximum(np.searchsorted(edges, scores, side="right") - 1, 0)
    return {"edges": list(edges), "counts": [int(n) for n in np.bincount(bins, minlength=len(edges))]}


def count_by_language(languages: pa.ChunkedArray | pa.Array) -> dict[str, int]:
    """Documents by language, sorted; no language counts as 'und'."""
    counted = pc.value_counts(pc.fill_null(languages.cast(pa.large_string()), "und"))
    return dict(sorted((entry["values"], entry["counts"]) for entry in counted.to_pylist()))


def text_bytes(texts: pa.ChunkedArray | pa.Array) -> int:
    """Bytes of UTF-8 in a string column."""
    return int(pc.sum(pc.binary_length(texts)).as_py() or 0)


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
