"""Which documents go, and which one stays in place of each, over all sources at once.

Signatures come from `signatures.py`, the order in which documents are asked from `priority.py`, how they are compared
from `comparison.py`; `unique.py` removes. For many machines: `spark_clusters.py`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.dataset import Dataset, Draft, Part, Shard
from pipelines.dedup.comparison import Comparison, leaders_among
from pipelines.dedup.index import Index
from pipelines.dedup.leaders import KEPT, LEVELS, Leaders
from pipelines.dedup.outcome import LARGEST_CLUSTERS, Outcome, removed_rows, stayed
from pipelines.dedup.params import DedupParams
from pipelines.dedup.priority import order_of_priority
from pipelines.dedup.signatures import COUNTS, signature_tasks
from pipelines.engines.local import Engine
from pipelines.engines.task import Inputs, Made, Result, Stats, Task
from pipelines.histograms import SIZE_EDGES, histogram
from pipelines.schemas import CLUSTERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERSION = 3


@dataclass(frozen=True, kw_only=True)
class Assignment(Leaders):
    """Who stands for whom among all documents, in order of priority. order: the row in the index of each. fixed: how
    many, first in order, are only compared with."""

    order: npt.NDArray[np.int64]
    fixed: int

    @property
    def removed(self) -> npt.NDArray[np.int64]:
        """Positions of the documents that go."""
        return np.flatnonzero(self.leader != KEPT)


def find_duplicates(
    clean_documents: Dataset, config: DedupParams, engine: Engine, earlier: Dataset | None = None
) -> Draft:
    """Removed documents (part "clusters", schema CLUSTERS) and what all were compared by (part "index").

    Both have a shard for every documents shard, in the order of sources and shards, so where nothing changed a shard
    stays what it was. Each row of "clusters" names the document that is kept instead, of the same or of another source.
    Stats tell the order of sources, counts by level and source, and the parameters, which `drop_duplicates` reads.
    earlier: the last version of these clusters; in append-only mode what it kept stays, if it was made with the same
    parameters. Memory: see `assign`.
    """
    results = engine.map(signature_tasks(clean_documents, config))
    sources = [(name, len(clean_documents.of(name).shards("documents"))) for name in clean_documents.partitions]
    labels = [f"{name}-{number:05}.arrow" for name, count in sources for number in range(count)]
    index = tuple(
        replace(result.parts["index"].shards[0], name=label) for result, label in zip(results, labels, strict=True)
    )
    history = _history(earlier, config)
    comparison = Comparison.of(config, sources, len(history[0]))
    found = engine.run(
        Task(
            run=run,
            stage="dedup.clusters",
            version=VERSION,
            params=comparison.parameters_that_matter(),
            inputs=tuple(shard.object for shard in index),
            broadcast=tuple(shard.object for part in history for shard in part),
            payload=comparison,
            on_spark=run_on_spark,
            rows=clean_documents.rows("documents"),
        )
    )
    clusters = found.parts.get("clusters", Part("table", ()))
    documents_in = clean_documents.rows("documents")
    if found.stats["documents_in"] != documents_in or documents_in != found.stats["documents_out"] + clusters.rows:
        raise RuntimeError(
            f"duplicate clusters: {documents_in} documents went in, but {found.stats['documents_out']} kept and "
            f"{clusters.rows} removed were counted"
        )
    stats = {
        "sources": [name for name, _ in sources],
        "shards": dict(sources),
        "parameters": config.model_dump(),
        **found.stats,
        **_add_counts(sources, results),
    }
    return Draft({"clusters": clusters, "index": Part("files", index)}, stats)


def _history(earlier: Dataset | None, config: DedupParams) -> tuple[list[Shard], list[Shard]]:
    """Index and clusters of the version whose kept documents stay; nothing where it compared in another way."""
    if not config.append_only or earlier is None or earlier.version.stats.get("parameters") != config.model_dump():
        return [], []
    return earlier.shards("index"), earlier.shards("clusters")


def run(inputs: Inputs, comparison: Comparison) -> Iterable[Made]:
    """The part "clusters", a table for every index file, and the counts."""
    shards = sum(count for _, count in comparison.sources)
    index = Index.open([inputs.path(i) for i in range(shards)])
    assignment = assign(index, comparison, kept_before(index, inputs, comparison))
    outcome = outcome_of(index, assignment, comparison)
    outcome.check(comparison)
    for table in removed_by_shard(index, assignment, comparison):
        yield "clusters", table
    yield Stats(outcome.stats(comparison))


def run_on_spark(session: "SparkSession", inputs: Inputs, comparison: Comparison) -> Iterable[Made]:
    """The same, made by the executors of a Spark session."""
    from pipelines.dedup import spark_clusters

    return spark_clusters.run(session, inputs, comparison)


def kept_before(index: Index, inputs: Inputs, comparison: Comparison) -> npt.NDArray[np.bool_]:
    """Which documents the earlier version kept: the same id, and still the same text."""
    kept = np.zeros(len(index), np.bool_)
    shards, starts = comparison.earlier, index.starts
    place = {inputs.objects[i]: i for i in range(len(index.shards))}
    others = []
    for number in range(shards):
        before = Index.open([inputs.broadcast_path(number)]).shards[0].select(["doc_id", "exact"])
        stays = stayed(before["doc_id"], inputs.broadcast_table(shards + number, ["doc_id"])["doc_id"])
        here = place.get(inputs.broadcast_objects[number])
        if here is None:
            others.append(before.filter(stays))
        else:
            kept[starts[here] : starts[here + 1]] = stays.to_numpy()
    if others:
        gone = pa.concat_tables(others)
        found = pc.index_in(index.column("doc_id"), value_set=gone["doc_id"].combine_chunks())
        same = pc.equal(index.column("exact"), gone["exact"].take(found))
        kept |= pc.fill_null(same, False).to_numpy()
    return kept


def assign(index: Index, comparison: Comparison, kept_before: npt.NDArray[np.bool_]) -> Assignment:
    """Who stands for whom. Exact copies are collapsed first, so their number costs no comparison of signatures.

    A copy of a document that a similar one replaces goes with it, at the level and similarity of that one. Memory: some
    190 bytes per document, more the more of them share a bucket; signatures are read where they lie.
    """
    ranks = comparison.ranks(_source_of_row(index, comparison), kept_before)
    fixed, settled = int(np.count_nonzero(ranks == 0)), int(np.count_nonzero(ranks <= 1))
    order = order_of_priority(index, ranks)
    del ranks
    documents = len(order)
    leader = np.full(documents, np.int32(KEPT))
    if comparison.exact:
        _lead_copies(index.exact(0)[order], index.exact(1)[order], leader, fixed, settled)
    level, similarity = np.zeros(documents, np.int8), np.ones(documents, np.float64)
    copies = np.flatnonzero(leader != KEPT)
    originals = leader[copies]
    rest = np.flatnonzero((leader == KEPT) & (index.numbers("shingles")[order] > 0))
    members, found = leaders_among(index, order[rest], comparison, *np.searchsorted(rest, [fixed, settled]).tolist())
    gone = found.leader != KEPT
    positions = rest[members[gone]]
    leader[positions] = rest[members[found.leader[gone]]]
    level[positions], similarity[positions] = found.level[gone], found.similarity[gone]
    leader[copies] = np.where(leader[originals] == KEPT, originals, leader[originals])
    level[copies], similarity[copies] = level[originals], similarity[originals]
    return Assignment(
        leader=leader,
        level=level,
        similarity=similarity,
        compared=found.compared,
        similar=found.similar,
        cut=found.cut,
        order=order,
        fixed=fixed,
    )


def _source_of_row(index: Index, comparison: Comparison) -> npt.NDArray[np.int32]:
    return np.repeat(comparison.source_of_file, np.diff(index.starts))


def copies_left(index: Index, assignment: Assignment) -> int:
    """Documents that stay although one with the same text stays too. Texts without content don't count, nor do those
    that are only compared with."""
    stay = np.flatnonzero(assignment.leader == KEPT)
    rows = assignment.order[stay[stay >= assignment.fixed]]
    leader = np.full(len(rows), np.int32(KEPT))
    _lead_copies(index.exact(0)[rows], index.exact(1)[rows], leader, 0, 0)
    return int(np.count_nonzero(leader != KEPT))


def _lead_copies(
    first: npt.NDArray[np.uint64],
    second: npt.NDArray[np.uint64],
    leader: npt.NDArray[np.int32],
    fixed: int,
    settled: int,
) -> None:
    """Write the position of the first document with the same hash (two halves); zeros are nobody's copy."""
    _lead_equal(first, second, np.argsort(first, kind="stable"), leader, fixed, settled)


@numba.njit(nogil=True, cache=True)
def _lead_equal(first, second, by_hash, leader, fixed, settled) -> None:  # type: ignore[no-untyped-def]
    start = 0
    for i in range(len(by_hash)):
        document = by_hash[i]
        if first[document] != first[by_hash[start]]:
            start = i
        if document < fixed or (first[document] == 0 and second[document] == 0):
            continue
        for k in range(start, i):  # the first of them, but where two hashes share a half
            original = by_hash[k]
            if second[original] == second[document]:
                if document >= settled or original < fixed:
                    leader[document] = original
                break


def removed_by_shard(index: Index, assignment: Assignment, comparison: Comparison) -> Iterable[pa.Table]:
    """The removed documents (schema CLUSTERS) of every index file, in its order."""
    removed = assignment.removed
    rows = assignment.order[removed]
    by_row = np.argsort(rows)
    removed, rows = removed[by_row], rows[by_row]
    leaders = assignment.order[assignment.leader[removed]]
    kept_ids = (
        index.column("doc_id").take(pa.array(leaders)) if len(leaders) else pa.chunked_array([], pa.large_string())
    )
    sources = _source_of_row(index, comparison)
    cuts, starts = np.searchsorted(rows, index.starts), index.starts
    for number, (shard, source) in enumerate(zip(index.shards, comparison.source_of_file, strict=True)):
        start, stop = int(cuts[number]), int(cuts[number + 1])
        if start == stop:
            yield CLUSTERS.empty_table()
            continue
        there = slice(start, stop)
        yield removed_rows(
            shard["doc_id"].take(pa.array(rows[there] - starts[number])),
            comparison.names[source],
            kept_ids.slice(start, stop - start),
            sources[leaders[there]],
            assignment.level[removed[there]],
            assignment.similarity[removed[there]],
            comparison,
        )


def outcome_of(index: Index, assignment: Assignment, comparison: Comparison) -> Outcome:
    """What was decided, counted."""
    count, order = len(comparison.sources), assignment.order
    sources, lengths = _source_of_row(index, comparison)[order], index.numbers("length")[order] if len(order) else order
    removed = assignment.removed
    leaders, levels = assignment.leader[removed], assignment.level[removed]
    shape = (count, count, len(LEVELS))
    cells = np.ravel_multi_index((sources[removed], sources[leaders], levels), shape) if count else leaders
    removed_bytes, least = np.zeros(count, np.int64), np.full(len(LEVELS), np.inf)
    np.add.at(removed_bytes, sources[removed], lengths[removed])
    np.minimum.at(least, levels, assignment.similarity[removed])
    sizes = np.bincount(leaders, minlength=1)
    largest = [int(p) for p in np.lexsort((np.arange(len(sizes)), -sizes))[:LARGEST_CLUSTERS] if sizes[p]]
    doc_ids = index.column("doc_id") if len(index) else []
    return Outcome(
        documents=np.bincount(sources, minlength=count),
        removed=np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape),
        removed_bytes=removed_bytes,
        clusters=int(np.count_nonzero(sizes)),
        sizes=histogram(SIZE_EDGES, clusters=sizes[sizes > 0] + 1),
        largest=[(doc_ids[int(order[p])].as_py(), int(sources[p]), int(sizes[p])) for p in largest],
        compared=assignment.compared,
        similar=assignment.similar,
        cut=assignment.cut,
        chained=int(np.count_nonzero(assignment.leader[leaders] != KEPT)),
        least=least,
        copies_left=copies_left(index, assignment) if comparison.exact else None,
    )


def _add_counts(sources: list[tuple[str, int]], results: list[Result]) -> dict[str, Any]:
    """What the signature tasks counted, summed over all sources and for each."""
    remaining = iter(results)
    by_source = {}
    for name, shards in sources:
        stats = [next(remaining).stats for _ in range(shards)]
        by_source[name] = {count: sum(values[count] for values in stats) for count in COUNTS}
    totals = {count: sum(values[count] for values in by_source.values()) for count in COUNTS}
    return {
        "bytes_in": totals["bytes"],
        **{count: totals[count] for count in COUNTS[2:]},
        "texts_by_source": by_source,
    }
