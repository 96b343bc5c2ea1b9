"""The clusters as a Spark job: what `clusters.run` makes, byte for byte, of corpora that no one machine compares.

Executors read the index and write the shards; the driver sees shards and sums, nothing that grows with documents. What
an executor does with one index file or one group of documents stands in `spark_files.py`, with the same kernels.
"""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from pipelines.dataset import Shard, write_shard
from pipelines.dedup.comparison import Comparison
from pipelines.dedup.leaders import LEVELS
from pipelines.dedup.outcome import LARGEST_CLUSTERS, Outcome
from pipelines.dedup.priority import repeated_id
from pipelines.dedup.spark_files import DECIDED, DOCUMENTS, HASHES, KEYS, ROW_BITS, WRITTEN, Files
from pipelines.engines.task import Inputs, Made, Stats
from pipelines.histograms import SIZE_EDGES
from pipelines.schemas import CLUSTERS

MEMBERS_TOGETHER = 10_000
"""Documents that one Python worker decides on at a time, so far as their component allows."""

MOST_PARTITIONS = 4096
"""Of a shuffle: each of its tasks writes as many pieces."""

Work = Callable[[pa.Table], pa.Table]
Hold = Callable[[DataFrame], DataFrame]


def run(session: SparkSession, inputs: Inputs, comparison: Comparison) -> Iterable[Made]:
    """The part "clusters", a table for every index file, and the counts: see `clusters.run`.

    Memory of a Python worker: the signatures and the buckets of the largest component of documents that share keys, or
    of one index file. An executor that is lost during the search for components ends the job.
    """
    files = Files.of(inputs, comparison)
    session = _session(session, len(files.objects))
    with ExitStack() as stack:

        def hold(frame: DataFrame) -> DataFrame:
            stack.callback(frame.persist().unpersist)
            return frame

        documents = hold(_documents(session, files))
        _refuse_repeated(documents)
        known = hold(_with_originals(documents, exact=comparison.exact))
        decided = hold(_decided(session, known, files))
        removed = hold(_removed(known, decided))
        shards = _write(removed, files)
        outcome = _outcome(known, decided, removed, comparison, hold)
    outcome.check(comparison)
    for number in range(len(files.objects)):
        if number not in shards:
            shards[number] = write_shard(inputs.store, "clusters", CLUSTERS.empty_table())
        yield "clusters", shards[number]
    yield Stats(outcome.stats(comparison))


def _session(session: SparkSession, files: int) -> SparkSession:
    """A session whose shuffles have about as much in a partition as there is in an index file, unless Spark is told
    how many partitions to make."""
    context, partitions = session.sparkContext, "spark.sql.shuffle.partitions"
    session = session.newSession()
    if not context.getConf().contains(partitions):
        session.conf.set(partitions, min(max(files, context.defaultParallelism), MOST_PARTITIONS))
    return session


def _documents(session: SparkSession, files: Files) -> DataFrame:
    """A row for every document (schema DOCUMENTS)."""
    documents = _each_of(session, len(files.objects)).mapInArrow(lambda n: files.documents(n), _ddl(DOCUMENTS))
    if not files.gone:
        return documents
    before = _each_of(session, len(files.gone)).mapInArrow(lambda n: files.kept_before(n), _ddl(HASHES))
    stays = F.col("stayed").isNotNull() & (F.col("rank") > 1)
    return (
        documents.join(before.withColumn("stayed", F.lit(True)), HASHES.names, "left")
        .withColumn("rank", F.when(stays, F.lit(1)).otherwise(F.col("rank")))
        .drop("stayed")
    )


def _each_of(session: SparkSession, count: int) -> DataFrame:
    """The numbers of so many files, each for a task of its own."""
    return session.range(0, count, 1, max(1, count))


def _refuse_repeated(documents: DataFrame) -> None:
    """Raise `ValueError` when a doc_id occurs twice, as `order_of_priority` does."""
    again = documents.groupBy("doc_id").agg(F.count("*").alias("times"), F.min("gid").alias("gid")).where("times > 1")
    found = again.agg(F.min_by("doc_id", "gid").alias("doc_id"), F.count("*").alias("ids")).collect()[0]
    if found.ids:
        raise repeated_id(found.doc_id, found.ids)


def _with_originals(documents: DataFrame, *, exact: bool) -> DataFrame:
    """Documents, with the first in priority of those that have the same text ("original", null where nobody has it),
    and whether they go in favour of it ("copy")."""
    document = F.struct("rank", "shorter", "doc_id", "gid", "source")  # sorts in order of priority
    if not exact:
        return documents.withColumns({"original": F.when(F.lit(False), document), "copy": F.lit(False)})
    hashed = documents.where("first != 0 or second != 0")
    shared = hashed.groupBy("first", "second").agg(F.min(document).alias("original"), F.count("*").alias("copies"))
    goes = F.expr("original.gid != gid and rank > 0 and (rank > 1 or original.rank = 0)")
    return (
        documents.join(shared.where("copies > 1").drop("copies"), ["first", "second"], "left")
        .withColumn("copy", F.coalesce(goes, F.lit(False)))
        .drop("first", "second")
    )


def _decided(session: SparkSession, known: DataFrame, files: Files) -> DataFrame:
    """The documents that go in favour of a similar one (schema DECIDED), and the counts of each group of documents."""
    if not files.comparison.keys:
        return session.createDataFrame([], _ddl(DECIDED))
    rest = known.where("not copy and comparable").select("gid", "rank")
    keys = _by_file(rest.select("gid"), files.keys, KEYS, files)
    same_key = Window.partitionBy("number", "key")
    edges = keys.select(F.col("gid").alias("node"), F.min("gid").over(same_key).alias("hub")).where("node != hub")
    components = connected_components(edges)
    groups = -(-components.count() // MEMBERS_TOGETHER)
    group = F.pmod(F.xxhash64("component"), F.lit(max(1, groups)))  # greedy on several is greedy on each
    members = rest.join(components.select(F.col("node").alias("gid"), group.alias("group")), "gid")
    prints = _by_file(members, files.prints, files.print_schema, files)
    return prints.groupBy("group").applyInArrow(_function(files.decide), _ddl(DECIDED))


def connected_components(edges: DataFrame) -> DataFrame:
    """(node, component) of every node of these edges (node, hub), node > hub: the smallest node that it hangs together
    with.

    Each round ties the greater neighbours of each node to its smallest one, then the smaller ones, until every
    component is a star: Kiveris et al., Connected Components in MapReduce and Beyond (2014). Rounds grow with the
    logarithm of the longest chain.
    """
    of_node = Window.partitionBy("node")
    smallest = F.min("hub").over(of_node)
    stars, changed = edges, True
    while changed:
        neighbours = stars.selectExpr("stack(2, node, hub, hub, node) as (node, hub)")
        large = (
            neighbours.select("node", "hub", F.least("node", smallest).alias("least"))
            .where("hub > node")
            .selectExpr("hub as node", "least as hub", "least != node as changed")
        )
        small = (
            large.select("node", "hub", "changed", smallest.alias("least"))
            .selectExpr("stack(2, node, least, changed or hub != least, hub, least, true) as (node, hub, changed)")
            .where("node != hub")
        )
        # What is checkpointed forgets where it came from: the plan would double in every round.
        stars = small.groupBy("node", "hub").agg(F.max("changed").alias("changed")).localCheckpoint()
        changed = not stars.where("changed").isEmpty()
    hubs = stars.select(F.col("hub").alias("node"), F.col("hub").alias("component")).distinct()
    return stars.select("node", F.col("hub").alias("component")).union(hubs)


def _removed(known: DataFrame, decided: DataFrame) -> DataFrame:
    """All documents that go. A copy of one that goes in favour of a similar one goes with it."""
    similar = decided.where("gid is not null").drop("compared", "similar", "cut")
    through = similar.select(F.col("gid").alias("through"), "level", "similarity", "leader")
    copies = known.where("copy").join(through, F.col("original.gid") == F.col("through"), "left")
    return similar.unionByName(
        copies.select(
            "gid",
            "source",
            (-F.col("shorter")).alias("length"),
            F.coalesce("level", F.lit(0)).alias("level"),
            F.coalesce("similarity", F.lit(1.0)).alias("similarity"),
            F.coalesce("leader", "original").alias("leader"),
        )
    )


def _write(removed: DataFrame, files: Files) -> dict[int, Shard]:
    """Write the rows of every index file that has any; the shards, by number of the file."""
    rows = removed.select(
        "gid",
        "level",
        "similarity",
        F.col("leader.doc_id").alias("kept_id"),
        F.col("leader.source").alias("kept_source"),
    )
    written = _by_file(rows, files.write, WRITTEN, files).collect()
    return {row.file: Shard(row.object, row.bytes, row.rows) for row in written}


def _outcome(known: DataFrame, decided: DataFrame, removed: DataFrame, comparison: Comparison, hold: Hold) -> Outcome:
    """What was decided, counted: sources and levels come to the driver, documents don't."""
    count = len(comparison.sources)
    documents, removed_bytes = np.zeros(count, np.int64), np.zeros(count, np.int64)
    cells, least = np.zeros((count, count, len(LEVELS)), np.int64), np.full(len(LEVELS), np.inf)
    for row in known.groupBy("source").agg(F.count("*").alias("documents")).collect():
        documents[row.source] = row.documents
    by_cell = removed.groupBy("source", F.col("leader.source").alias("kept_source"), "level")
    for row in by_cell.agg(
        F.count("*").alias("documents"), F.sum("length").alias("bytes"), F.min("similarity").alias("least")
    ).collect():
        cells[row.source, row.kept_source, row.level] = row.documents
        removed_bytes[row.source] += row.bytes
        least[row.level] = min(least[row.level], row.least)
    clusters = hold(removed.groupBy("leader").agg(F.count("*").alias("removed")))
    sizes = np.zeros(len(SIZE_EDGES), np.int64)
    size_bin = reduce(add, [(F.col("removed") + 1 >= edge).cast("int") for edge in SIZE_EDGES[1:]])
    for row in clusters.groupBy(size_bin.alias("bin")).agg(F.count("*").alias("clusters")).collect():
        sizes[row.bin] = row.clusters
    largest = clusters.orderBy(F.desc("removed"), "leader").limit(LARGEST_CLUSTERS).collect()
    gone = removed.select(F.col("gid").alias("gone"))
    totals = decided.agg(*(F.sum(name).alias(name) for name in ("compared", "similar", "cut"))).collect()[0]
    return Outcome(
        documents=documents,
        removed=cells,
        removed_bytes=removed_bytes,
        clusters=int(sizes.sum()),
        sizes={"edges": list(SIZE_EDGES), "clusters": sizes.tolist()},
        largest=[(row.leader.doc_id, row.leader.source, row.removed) for row in largest],
        compared=totals.compared or 0,
        similar=totals.similar or 0,
        cut=totals.cut or 0,
        chained=clusters.join(gone, F.col("leader.gid") == F.col("gone"), "left_semi").count(),
        least=least,
        copies_left=_copies_left(known, gone) if comparison.exact else None,
    )


def _copies_left(known: DataFrame, gone: DataFrame) -> int:
    """Documents that stay although one with the same text stays too; see `clusters.copies_left`."""
    stay = known.where("original is not null and rank > 0").join(gone, F.col("gid") == F.col("gone"), "left_anti")
    together = stay.groupBy("original.gid").agg(F.count("*").alias("copies"))
    return together.agg(F.sum(F.col("copies") - 1).alias("left")).collect()[0].left or 0


def _by_file(frame: DataFrame, work: Work, schema: pa.Schema, files: Files) -> DataFrame:
    """The rows of each index file, worked on by one task."""
    tasks = max(1, min(len(files.objects), MOST_PARTITIONS))
    numbered = frame.withColumn("file", F.shiftright("gid", ROW_BITS)).repartition(tasks, "file")
    return numbered.groupBy("file").applyInArrow(_function(work), _ddl(schema))


def _function(work: Work) -> Work:
    """A method as PySpark wants it: it counts `self` as an argument."""

    def function(table: pa.Table) -> pa.Table:
        return work(table)

    return function


def _ddl(schema: pa.Schema) -> str:
    """An Arrow schema in Spark's words."""
    return ", ".join(f"`{field.name}` {_spark_type(field.type)}" for field in schema)


def _spark_type(kind: pa.DataType) -> str:
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{field.name}: {_spark_type(field.type)}' for field in kind)}>"
    names: dict[Any, str] = {pa.int32(): "int", pa.int64(): "bigint", pa.bool_(): "boolean"}
    return names.get(kind, str(kind))
