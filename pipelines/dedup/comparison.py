"""How documents are compared, and which of them share a key, whatever machine does it.

Who is compared with whom over all sources stands in `clusters.py`, and in `spark_clusters.py` for many machines.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pipelines.dedup.buckets import Keys, band_keys, shared_buckets
from pipelines.dedup.index import Index
from pipelines.dedup.leaders import Leaders, Prints, Rules, find_leaders
from pipelines.dedup.lsh import Banding
from pipelines.dedup.params import DedupParams
from pipelines.dedup.simhash import table_masks


@dataclass(frozen=True)
class Comparison:
    """How documents are compared.

    sources: (name, number of index files) in the order of the profile. against: those that are only compared with.
    earlier: number of index files of the version whose kept documents stay (append-only mode). distance, blocks: of
    SimHash, None without that level; banding: None without MinHash.
    """

    sources: tuple[tuple[str, int], ...]
    against: frozenset[str]
    earlier: int
    exact: bool
    banding: Banding | None
    permutations: int
    threshold: float
    by_sets: bool
    bucket_limit: int
    distance: int | None
    blocks: int

    @classmethod
    def of(cls, config: DedupParams, sources: Iterable[tuple[str, int]], earlier: int) -> "Comparison":
        """The comparison that parameters ask for."""
        return cls(
            tuple(sources),
            frozenset(config.against),
            earlier,
            config.exact,
            config.banding,
            config.permutations,
            config.threshold,
            config.minhash and config.verify == "shingles",
            config.bucket_limit,
            config.simhash.distance if config.simhash.enabled else None,
            config.simhash.blocks_used,
        )

    @property
    def names(self) -> list[str]:
        """Names of the sources, in order."""
        return [name for name, _ in self.sources]

    @property
    def masks(self) -> npt.NDArray[np.uint64]:
        """The bits of each SimHash table."""
        return np.zeros(0, np.uint64) if self.distance is None else table_masks(self.distance, self.blocks)

    @property
    def rules(self) -> Rules:
        """From when on two documents are similar."""
        bands = self.banding.bands if self.banding else 0
        distance = -1 if self.distance is None else self.distance
        return Rules(bands, self.threshold, self.permutations, self.by_sets, distance, self.bucket_limit)

    def parameters_that_matter(self) -> dict[str, Any]:
        """The part of it that belongs in the task's key: nothing of a level that is off."""
        said = asdict(self) | {"sources": [list(source) for source in self.sources], "against": sorted(self.against)}
        if self.banding is None:
            said |= dict.fromkeys(("permutations", "threshold", "by_sets", "bucket_limit"))
        if self.distance is None:
            said["blocks"] = None
        return said

    @property
    def keys(self) -> int:
        """Keys of a document: bands of its signature, then SimHash tables."""
        return self.rules.bands + len(self.masks)

    @property
    def source_of_file(self) -> npt.NDArray[np.int32]:
        """The number of the source of each index file."""
        counts = np.array([count for _, count in self.sources], np.int64)
        return np.repeat(np.arange(len(counts), dtype=np.int32), counts)

    def ranks(self, sources: npt.NDArray[np.int32], kept_before: npt.NDArray[np.bool_]) -> npt.NDArray[np.int32]:
        """The rank of documents, smaller ones are asked first: 0 for those only compared with, 1 for those that the
        earlier version kept, then by source."""
        ranks = np.where(kept_before, np.int32(1), sources + np.int32(2))
        ranks[np.isin(self.names, list(self.against))[sources]] = 0
        return ranks


def document_keys(index: Index, rows: npt.NDArray[np.int64], comparison: Comparison) -> Keys:
    """The keys of the documents in these rows of the index."""
    bands, masks = comparison.rules.bands, comparison.masks
    simhash = index.numbers("simhash")[rows] if len(masks) else np.zeros(len(rows), np.uint64)
    places = np.full(len(index), np.int32(-1))
    places[rows] = np.arange(len(rows), dtype=np.int32)

    def keys(start: int, stop: int) -> npt.NDArray[np.uint64]:
        found = np.empty((stop - start, len(rows)), np.uint64)
        of_bands = max(0, min(stop, bands) - start)
        if comparison.banding is not None and of_bands:
            for matrix, first in zip(index.minhash(), index.starts[:-1].tolist(), strict=True):
                band_keys(matrix, comparison.banding, start, places[first:], found[:of_bands])
        for table in range(start + of_bands, stop):
            found[table - start] = simhash & masks[table - bands]
        return found

    return keys


def leaders_among(
    index: Index, rows: npt.NDArray[np.int64], comparison: Comparison, fixed: int, settled: int
) -> tuple[npt.NDArray[np.int64], Leaders]:
    """Those of the documents in these rows that share a bucket, and who stands for whom among them.

    rows: in order of priority; fixed, settled: how many of them, see `find_leaders`. Positions among those that share
    a bucket count from there; the first of what is returned says which of the rows they are.
    """
    rules = comparison.rules
    keys = document_keys(index, rows, comparison)
    buckets = shared_buckets(keys, comparison.keys if len(rows) else 0, len(rows))
    del keys
    members = rows[buckets.members]
    prints = Prints(
        signatures=index.signature_addresses(members) if rules.bands and not rules.by_sets else Prints().signatures,
        sets=index.set_addresses(members) if rules.by_sets else Prints().sets,
        set_sizes=index.numbers("shingles")[members] if rules.by_sets else Prints().set_sizes,
        simhash=index.numbers("simhash")[members] if len(comparison.masks) else Prints().simhash,
    )
    below = np.searchsorted(buckets.members, [fixed, settled]).tolist()
    return buckets.members, find_leaders(prints, buckets, rules, *below)
