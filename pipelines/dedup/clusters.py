"""Which documents go, and which one stays in place of each, over all sources at once.

Signatures come from `signatures.py`, the order in which documents are asked from `priority.py`; `unique.py` removes.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.dataset import Dataset, Draft, Part
from pipelines.dedup.lsh import KEPT, Banding, banding_for, find_leaders
from pipelines.dedup.params import DedupParams
from pipelines.dedup.priority import Signatures, load_signatures
from pipelines.dedup.signatures import COUNTS, signature_tasks
from pipelines.engines.local import Engine
from pipelines.engines.task import Inputs, Made, Result, Stats, Task
from pipelines.histograms import SIZE_EDGES, histogram
from pipelines.schemas import CLUSTERS

VERSION = 2
LARGEST_CLUSTERS = 10
LEVELS = ("exact", "minhash")


@dataclass(frozen=True)
class Comparison:
    """How documents are compared. sources: (name, number of signature shards) in the order of the profile."""

    sources: tuple[tuple[str, int], ...]
    exact: bool
    banding: Banding | None
    threshold: float

    def parameters_that_matter(self) -> dict[str, Any]:
        """The part of it that belongs in the task's key; without banding there is no MinHash level."""
        minhash = None
        if self.banding:
            minhash = {"threshold": self.threshold, "bands": self.banding.bands, "rows": self.banding.rows}
        return {"sources": [list(source) for source in self.sources], "exact": self.exact, "minhash": minhash}


@dataclass(frozen=True)
class Assignment:
    """For each document in order of priority: the position of the kept one in its place (`KEPT`: it stays), by which of
    the `LEVELS`, how similar. compared, similar: pairs looked at, and how many reached the threshold."""

    leader: npt.NDArray[np.int64]
    level: npt.NDArray[np.int8]
    similarity: npt.NDArray[np.float64]
    compared: int = 0
    similar: int = 0


def find_duplicates(clean_documents: Dataset, config: DedupParams, engine: Engine) -> Draft:
    """Removed documents (part "clusters", schema CLUSTERS), one shard per source in the order of the partitions.

    Each row names the document that is kept instead, of the same or of another source; rows are sorted by doc_id, so a
    source in which nothing changed keeps its shard. Stats tell the order of sources, counts by level and source, and
    the parameters, which `drop_duplicates` reads. Memory: see `load_signatures`.
    """
    results = engine.map(signature_tasks(clean_documents, config))
    objects = tuple(shard.object for result in results for shard in result.parts["signatures"].shards)
    shards_of = {name: len(clean_documents.of(name).shards("documents")) for name in clean_documents.partitions}
    banding = effective_banding(config) if config.minhash else None
    comparison = Comparison(tuple(shards_of.items()), config.exact, banding, config.threshold)
    found = engine.run(
        Task(
            run=run,
            stage="dedup.clusters",
            version=VERSION,
            params=comparison.parameters_that_matter(),
            inputs=objects,
            payload=comparison,
            rows=clean_documents.rows("documents"),
        )
    )
    clusters = found.parts.get("clusters", Part("table", ()))
    counts = _add_counts(comparison.sources, results)
    documents_in = clean_documents.rows("documents")
    if found.stats["documents_in"] != documents_in or documents_in != found.stats["documents_out"] + clusters.rows:
        raise RuntimeError(
            f"duplicate clusters: {documents_in} documents went in, but {found.stats['documents_out']} kept and "
            f"{clusters.rows} removed were counted"
        )
    stats = {"sources": list(shards_of), "parameters": config.model_dump(), **found.stats, **counts}
    return Draft({"clusters": clusters}, stats)


def effective_banding(config: DedupParams) -> Banding:
    """Bands and rows as given, else those that follow from the threshold."""
    if config.bands is not None and config.rows is not None:
        return Banding(config.bands, config.rows)
    return banding_for(config.threshold, config.permutations, config.missed_pair_weight)


def run(inputs: Inputs, comparison: Comparison) -> Iterable[Made]:
    """The part "clusters" of all sources, one shard each, and the counts."""
    signatures = load_signatures(inputs, [count for _, count in comparison.sources])
    assignment = assign(signatures, comparison)
    check(signatures, assignment, comparison)
    names = [name for name, _ in comparison.sources]
    for index in range(len(names)):
        yield "clusters", _removed_of_source(index, names, signatures, assignment)
    yield Stats(_statistics(names, signatures, assignment, comparison))


def assign(signatures: Signatures, comparison: Comparison) -> Assignment:
    """Who stands for whom. Exact copies are collapsed first, so their number costs no comparison of signatures.

    A copy of a document that a similar one replaces goes with it, at level "minhash" and its similarity.
    """
    documents = len(signatures)
    leader = np.full(documents, KEPT, np.int64)
    level = np.zeros(documents, np.int8)
    similarity = np.ones(documents, np.float64)
    copies = _exact_leaders(signatures.exact) if comparison.exact else leader.copy()
    compared = similar = 0
    if comparison.banding:
        positions = np.flatnonzero((copies == KEPT) & (signatures.rows >= 0))
        found = find_leaders(signatures.minhash, signatures.rows[positions], comparison.banding, comparison.threshold)
        removed = found.leader != KEPT
        leader[positions[removed]] = positions[found.leader[removed]]
        similarity[positions[removed]] = found.similarity[removed]
        level[positions[removed]] = LEVELS.index("minhash")
        compared, similar = found.compared, found.similar
    copied = np.flatnonzero(copies != KEPT)
    originals = copies[copied]
    leader[copied] = np.where(leader[originals] == KEPT, originals, leader[originals])
    level[copied], similarity[copied] = level[originals], similarity[originals]
    return Assignment(leader, level, similarity, compared, similar)


def check(signatures: Signatures, assignment: Assignment, comparison: Comparison) -> None:
    """Raise `RuntimeError` unless every removed document has a kept, similar one and no exact copies are kept."""
    removed = assignment.leader != KEPT
    if (assignment.leader[assignment.leader[removed]] != KEPT).any():
        raise RuntimeError("duplicate clusters: a document was removed in favour of one that is removed itself")
    if (assignment.similarity[removed] < comparison.threshold - 1e-9).any():
        raise RuntimeError("duplicate clusters: a document was removed that is less similar than the threshold")
    if comparison.exact and copies_left(signatures, assignment):
        raise RuntimeError("duplicate clusters: two exact copies are both kept")


def copies_left(signatures: Signatures, assignment: Assignment) -> int:
    """Documents that stay although one with the same normalised text stays too. Texts without words don't count."""
    kept = signatures.exact[(assignment.leader == KEPT) & signatures.exact.any(axis=1)]
    return len(kept) - len(np.unique(kept, axis=0))


def _exact_leaders(exact: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Position of the first document with the same hash, `KEPT` for the first itself and for empty texts (zeros)."""
    leader = np.full(len(exact), KEPT, np.int64)
    with_text = np.flatnonzero(exact.any(axis=1))
    by_hash = with_text[np.lexsort((exact[with_text, 1], exact[with_text, 0]))]  # stable: priority within a hash
    same = (exact[by_hash[1:]] == exact[by_hash[:-1]]).all(axis=1)
    group_start = (
        np.maximum.accumulate(np.where(np.r_[True, ~same], np.arange(len(by_hash)), 0)) if len(by_hash) else by_hash
    )
    firsts = by_hash[group_start]
    leader[by_hash] = np.where(firsts == by_hash, KEPT, firsts)
    return leader


def _removed_of_source(index: int, names: list[str], signatures: Signatures, assignment: Assignment) -> pa.Table:
    positions = np.flatnonzero((signatures.sources == index) & (assignment.leader != KEPT))
    leaders = assignment.leader[positions]
    if not len(positions):
        return CLUSTERS.empty_table()
    table = pa.table(
        {
            "doc_id": signatures.doc_ids.take(pa.array(positions)),
            "source": pa.array([names[index]], pa.large_string()).take(pa.array(np.zeros(len(positions), np.int64))),
            "kept_id": signatures.doc_ids.take(pa.array(leaders)),
            "kept_source": pa.array(names, pa.large_string()).take(pa.array(signatures.sources[leaders])),
            "level": pa.array(LEVELS, pa.large_string()).take(pa.array(assignment.level[positions])),
            "similarity": assignment.similarity[positions],
        }
    )
    return table.sort_by("doc_id")


def _statistics(
    names: list[str], signatures: Signatures, assignment: Assignment, comparison: Comparison
) -> dict[str, Any]:
    removed = np.flatnonzero(assignment.leader != KEPT)
    leaders = assignment.leader[removed]
    by_level = np.zeros((len(names), len(LEVELS)), np.int64)
    np.add.at(by_level, (signatures.sources[removed], assignment.level[removed]), 1)
    overlap = np.zeros((len(names), len(names)), np.int64)
    np.add.at(overlap, (signatures.sources[removed], signatures.sources[leaders]), 1)
    sizes = np.bincount(leaders, minlength=1)
    largest = [int(p) for p in np.lexsort((np.arange(len(sizes)), -sizes))[:LARGEST_CLUSTERS] if sizes[p]]
    documents = np.bincount(signatures.sources, minlength=len(names))
    banding = comparison.banding
    return {
        "documents_in": len(signatures),
        "documents_out": len(signatures) - len(removed),
        "dropped": dict(zip(LEVELS, by_level.sum(axis=0).tolist(), strict=True)),
        "documents_in_by_source": dict(zip(names, documents.tolist(), strict=True)),
        "dropped_by_source": {
            name: dict(zip(LEVELS, row, strict=True)) for name, row in zip(names, by_level.tolist(), strict=True)
        },
        "kept_instead": {
            name: dict(zip(names, row, strict=True)) for name, row in zip(names, overlap.tolist(), strict=True)
        },
        "clusters": int(np.count_nonzero(sizes)),
        "largest_clusters": [
            {
                "kept_id": signatures.doc_ids[p].as_py(),
                "kept_source": names[signatures.sources[p]],
                "removed": int(sizes[p]),
            }
            for p in largest
        ],
        "pairs_compared": assignment.compared,
        "pairs_similar": assignment.similar,
        "copies_left": copies_left(signatures, assignment) if comparison.exact else None,
        "bands": banding.bands if banding else 0,
        "rows": banding.rows if banding else 0,
        "histograms": {"cluster size": histogram(SIZE_EDGES, clusters=sizes[sizes > 0] + 1)},
    }


def _add_counts(sources: tuple[tuple[str, int], ...], results: list[Result]) -> dict[str, Any]:
    """What the signature tasks counted, summed over all sources and for each."""
    remaining = iter(results)
    by_source = {}
    for name, shards in sources:
        stats = [next(remaining).stats for _ in range(shards)]
        by_source[name] = {count: sum(values[count] for values in stats) for count in COUNTS}
    totals = {count: sum(values[count] for values in by_source.values()) for count in COUNTS}
    return {
        "bytes_in": totals["bytes"],
        **{count: totals[count] for count in ("empty", "wordless", "short", "by_characters")},
        "texts_by_source": by_source,
    }
