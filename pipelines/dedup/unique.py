"""Take the duplicates out of one source's documents, and say for every document what was decided.

Which documents those are was decided in `clusters.py`; here they are only looked up, shard by shard.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.dataset import Dataset, Draft, Part, Shard, join_parts
from pipelines.dedup.clusters import LEVELS
from pipelines.dedup.params import DedupParams
from pipelines.engines.local import Engine
from pipelines.engines.task import Inputs, Made, Stats, Task
from pipelines.histograms import SIZE_EDGES, added, histogram, text_bytes
from pipelines.text.shingles import is_blank

VERSION = 2
STAGE = "deduplication"


@dataclass(frozen=True)
class Removal:
    """What of the parameters matters where documents are taken out. threshold: of the level "minhash"."""

    exact: bool
    threshold: float


def drop_duplicates(clean_documents: Dataset, duplicate_clusters: Dataset, engine: Engine) -> Draft:
    """The documents of one source that stay (part "documents") and a decision on each (part "decisions").

    Both parts are aligned with the shards of `clean_documents`: shard i of "decisions" has a row for every row of the
    input's shard i. What counted as a duplicate is read from the clusters' own parameters. Raises `ValueError` when the
    clusters were made without this source, or from other documents than these.
    """
    source = clean_documents.version.partition
    clusters = clusters_of(source, duplicate_clusters)
    config = DedupParams.model_validate(duplicate_clusters.version.stats["parameters"])
    removal = Removal(config.exact, config.threshold if config.minhash else 1.0)
    results = engine.map(
        [
            Task(
                run=run,
                stage="dedup.unique",
                version=VERSION,
                params=asdict(removal),
                inputs=(shard.object,),
                broadcast=(clusters.object,),
                payload=removal,
                rows=shard.rows,
            )
            for shard in clean_documents.shards("documents")
        ]
    )
    empty: dict[str, Part] = {"documents": Part("table", ()), "decisions": Part("table", ())}
    parts = empty | join_parts([result.parts for result in results])
    stats = _sum_stats([result.stats for result in results])
    documents_in, documents_out = clean_documents.rows("documents"), parts["documents"].rows
    removed = sum(stats["dropped"].values())
    if removed != clusters.rows:
        raise ValueError(
            f"duplicate_clusters names {clusters.rows} documents of source {source!r} to remove, but {removed} of them "
            "are among its clean documents: the clusters were made from other documents; run duplicate_clusters again"
        )
    if documents_in != documents_out + removed or parts["decisions"].rows != documents_in:
        raise RuntimeError(
            f"unique documents of {source!r}: {documents_in} went in, but {documents_out} kept, {removed} removed and "
            f"{parts['decisions'].rows} decisions were counted"
        )
    stats["copies_left"] = duplicate_clusters.version.stats["copies_left"]
    return Draft(parts, {"documents_in": documents_in, "documents_out": documents_out, **stats})


def clusters_of(source: str, duplicate_clusters: Dataset) -> Shard:
    """The clusters shard of one source. Raises `ValueError` where there is none."""
    stats = duplicate_clusters.version.stats
    if source not in stats["sources"]:
        raise ValueError(
            f"duplicate_clusters covers {', '.join(stats['sources']) or 'no source'}, not {source!r}; run "
            "duplicate_clusters again over the full range of sources"
        )
    return duplicate_clusters.shards("clusters")[stats["sources"].index(source)]


def run(inputs: Inputs, removal: Removal) -> Iterable[Made]:
    """The parts "documents" and "decisions" of one documents shard."""
    documents = inputs.table()
    clusters = inputs.broadcast_table(0, ["doc_id", "kept_id", "level", "similarity"])
    decisions = decide(documents["doc_id"], clusters, removal.threshold)
    kept = documents.filter(decisions["keep"])
    if removal.exact:
        _refuse_copies(kept)
    yield "documents", kept
    yield "decisions", decisions
    before, after = text_bytes(documents["text"]), text_bytes(kept["text"])
    yield Stats(
        {
            "bytes_in": int(before.sum()),
            "bytes_out": int(after.sum()),
            "histograms": {"text bytes": histogram(SIZE_EDGES, before=before, after=after)},
            "dropped": {level: pc.sum(pc.equal(decisions["rule"], level)).as_py() or 0 for level in LEVELS},
        }
    )


def decide(doc_ids: pa.ChunkedArray, clusters: pa.Table, threshold: float) -> pa.Table:
    """A decision (schema DECISIONS) for every id, in order.

    clusters: removed documents (doc_id, kept_id, level, similarity). value is the similarity, threshold what it was
    compared with (1 for exact copies), detail the id that stays; all three null for documents that stay.
    """
    position = pc.index_in(doc_ids, value_set=clusters["doc_id"].combine_chunks())
    level = clusters["level"].take(position)
    compared_with = pc.if_else(pc.equal(level, "exact"), 1.0, threshold)
    return pa.table(
        {
            "doc_id": doc_ids,
            "keep": pc.is_null(position),
            "stage": pa.chunked_array([pa.repeat(pa.scalar(STAGE, pa.large_string()), len(doc_ids))]),
            "rule": pc.fill_null(level, "kept"),
            "value": clusters["similarity"].take(position),
            "threshold": compared_with,
            "detail": clusters["kept_id"].take(position),
        }
    )


def _refuse_copies(kept: pa.Table) -> None:
    if pc.count_distinct(kept["text"]).as_py() == len(kept):
        return
    counts = pc.value_counts(kept["text"])
    repeated = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    copied = [text for text in repeated if not is_blank(text.as_buffer().to_pybytes())]
    if copied:
        example = kept["doc_id"].filter(pc.equal(kept["text"], copied[0]))
        raise RuntimeError(
            f"unique documents: {len(copied)} texts are kept more than once, for example that of "
            f"{example[0].as_py()} and {example[1].as_py()}"
        )


def _sum_stats(stats: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "bytes_in": sum(values["bytes_in"] for values in stats),
        "bytes_out": sum(values["bytes_out"] for values in stats),
        "dropped": {level: sum(values["dropped"][level] for values in stats) for level in LEVELS},
        "histograms": added(values["histograms"] for values in stats),
    }
