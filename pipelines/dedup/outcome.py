"""What comes of the decisions: the rows of removed documents, the checks that come before, and the counts for people.

The same for one machine (`clusters.py`) and for many (`spark_clusters.py`).
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.dedup.comparison import Comparison
from pipelines.dedup.leaders import LEVELS

LARGEST_CLUSTERS = 10


@dataclass(frozen=True)
class Outcome:
    """What was counted.

    documents: int64[sources]. removed: int64[sources, sources, levels], by source, source of the document that stays,
    and level. removed_bytes: of text, int64[sources]. sizes: histogram of what clusters hold, the document that stays
    included. largest: (doc_id that stays, number of its source, documents removed), largest first. compared, similar,
    cut: see `Leaders`. chained: documents removed in favour of one that is removed. least: the smallest similarity of
    each level, float64[levels]. copies_left: exact copies that both stay, None without that level.
    """

    documents: npt.NDArray[np.int64]
    removed: npt.NDArray[np.int64]
    removed_bytes: npt.NDArray[np.int64]
    clusters: int
    sizes: dict[str, list[Any]]
    largest: list[tuple[str, int, int]]
    compared: int
    similar: int
    cut: int
    chained: int = 0
    least: npt.NDArray[np.float64] = field(default_factory=lambda: np.full(len(LEVELS), np.inf))
    copies_left: int | None = None

    def check(self, comparison: Comparison) -> None:
        """Raise `RuntimeError` unless every removed document has a kept, similar one and no exact copies are kept."""
        if self.chained:
            raise RuntimeError("duplicate clusters: a document was removed in favour of one that is removed itself")
        needed = np.array([1.0, 1 - (comparison.distance or 0) / 64, comparison.threshold])
        if (self.least < needed - 1e-9).any():
            raise RuntimeError("duplicate clusters: a document was removed that is less similar than the threshold")
        if self.copies_left:
            raise RuntimeError("duplicate clusters: two exact copies are both kept")

    def stats(self, comparison: Comparison) -> dict[str, Any]:
        """Counts for people: by level, by source, where copies come from, and the largest clusters."""
        names, banding = comparison.names, comparison.banding
        by_level, overlap = self.removed.sum(axis=1), self.removed.sum(axis=2)
        documents, removed = int(self.documents.sum()), int(self.removed.sum())
        return {
            "documents_in": documents,
            "documents_out": documents - removed,
            "dropped": dict(zip(LEVELS, by_level.sum(axis=0).tolist(), strict=True)),
            "documents_in_by_source": dict(zip(names, self.documents.tolist(), strict=True)),
            "dropped_by_source": {
                name: dict(zip(LEVELS, row, strict=True)) for name, row in zip(names, by_level.tolist(), strict=True)
            },
            "bytes_dropped_by_source": dict(zip(names, self.removed_bytes.tolist(), strict=True)),
            "kept_instead": {
                name: dict(zip(names, row, strict=True)) for name, row in zip(names, overlap.tolist(), strict=True)
            },
            "clusters": self.clusters,
            "largest_clusters": [
                {"kept_id": doc_id, "kept_source": names[source], "removed": size}
                for doc_id, source, size in self.largest
            ],
            "pairs_compared": self.compared,
            "pairs_similar": self.similar,
            "buckets_cut": self.cut,
            "bands": banding.bands if banding else 0,
            "rows": banding.rows if banding else 0,
            "histograms": {"cluster size": self.sizes},
            "copies_left": self.copies_left,
        }


def stayed(doc_ids: pa.ChunkedArray, removed: pa.ChunkedArray) -> pa.ChunkedArray:
    """Which documents of a shard are not among its removed ones."""
    return pc.invert(pc.is_in(doc_ids, value_set=removed.combine_chunks()))


def removed_rows(
    doc_ids: pa.ChunkedArray,
    source: str,
    kept_ids: pa.ChunkedArray,
    kept_sources: npt.NDArray[np.int32],
    levels: npt.NDArray[Any],
    similarities: npt.NDArray[np.float64],
    comparison: Comparison,
) -> pa.Table:
    """The removed documents of one shard (schema CLUSTERS). kept_sources, levels: numbers."""
    names = pa.array(comparison.names, pa.large_string())
    return pa.table(
        {
            "doc_id": doc_ids,
            "source": pa.repeat(pa.scalar(source, pa.large_string()), len(doc_ids)),
            "kept_id": kept_ids,
            "kept_source": names.take(pa.array(kept_sources)),
            "level": pa.array(LEVELS, pa.large_string()).take(pa.array(levels)),
            "similarity": similarities,
        }
    )
