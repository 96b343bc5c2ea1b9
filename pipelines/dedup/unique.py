"""Take the duplicates out of one source's documents, and say for every document what was decided.

Which documents those are was decided in `clusters.py`; here they are only looked up, shard by shard.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.dataset import Dataset, Draft, Part, Shard, join_parts
from pipelines.dedup.leaders import LEVELS
from pipelines.dedup.params import DedupParams
from pipelines.dedup.signatures import without_repeats
from pipelines.engines.local import Engine
from pipelines.engines.task import Inputs, Made, Stats, Task
from pipelines.histograms import SIZE_EDGES, added, histogram, text_bytes
from pipelines.text.shingles import is_blank

VERSION = 3
STAGE = "deduplication"
ONLY_COMPARED = "only_compared"
"""Rule by which every document of a source goes that the others are only compared with."""

RULES = (*LEVELS, ONLY_COMPARED)


@dataclass(frozen=True)
class Removal:
    """What matters where documents are taken out. only_compared: none of this source's documents goes on."""

    config: DedupParams
    only_compared: bool

    @property
    def thresholds(self) -> dict[str, float | None]:
        """What the similarity of a removed document was compared with, by rule."""
        simhash = 1 - self.config.simhash.distance / 64
        return {"exact": 1.0, "simhash": simhash, "minhash": self.config.threshold, ONLY_COMPARED: None}

    def parameters_that_matter(self) -> dict[str, Any]:
        """The part of it that belongs in the task's key."""
        config = self.config
        return {
            "exact": config.exact,
            "threshold": config.threshold if config.minhash else None,
            "distance": config.simhash.distance if config.simhash.enabled else None,
            "repeats": config.repeats.model_dump() if config.repeats.wanted else None,
            "only_compared": self.only_compared,
        }


def drop_duplicates(clean_documents: Dataset, duplicate_clusters: Dataset, engine: Engine) -> Draft:
    """The documents of one source that stay (part "documents") and a decision on each (part "decisions").

    Both parts are aligned with the shards of `clean_documents`: shard i of "decisions" has a row for every row of the
    input's shard i. What counted as a duplicate is read from the clusters' own parameters. Raises `ValueError` when the
    clusters were made without this source, or from other documents than these.
    """
    source = clean_documents.version.partition
    shards = clean_documents.shards("documents")
    clusters = clusters_of(source, duplicate_clusters)
    config = DedupParams.model_validate(duplicate_clusters.version.stats["parameters"])
    removal = Removal(config, source in config.against)
    if len(clusters) != len(shards):
        raise ValueError(_of_other_documents(source, f"{len(clusters)} shards", f"{len(shards)} shards"))
    results = engine.map(
        [
            Task(
                run=run,
                stage="dedup.unique",
                version=VERSION,
                params=removal.parameters_that_matter(),
                inputs=(shard.object, found.object),
                payload=removal,
                rows=shard.rows,
                in_threads=True,
            )
            for shard, found in zip(shards, clusters, strict=True)
        ]
    )
    empty: dict[str, Part] = {"documents": Part("table", ()), "decisions": Part("table", ())}
    parts = empty | join_parts([result.parts for result in results])
    stats = _sum_stats([result.stats for result in results])
    documents_in, documents_out = clean_documents.rows("documents"), parts["documents"].rows
    removed = sum(stats["dropped"].values())
    named = sum(shard.rows for shard in clusters)
    if removed - stats["dropped"][ONLY_COMPARED] != named:
        raise ValueError(_of_other_documents(source, f"{named} documents to remove", f"{removed} of them"))
    if documents_in != documents_out + removed or parts["decisions"].rows != documents_in:
        raise RuntimeError(
            f"unique documents of {source!r}: {documents_in} went in, but {documents_out} kept, {removed} removed and "
            f"{parts['decisions'].rows} decisions were counted"
        )
    if removal.only_compared:
        stats["only_compared"] = True
    stats["copies_left"] = duplicate_clusters.version.stats["copies_left"]
    return Draft(parts, {"documents_in": documents_in, "documents_out": documents_out, **stats})


def _of_other_documents(source: str, named: str, found: str) -> str:
    return (
        f"duplicate_clusters names {named} of source {source!r}, but its clean documents hold {found}: the clusters "
        "were made from other documents; run duplicate_clusters again"
    )


def clusters_of(source: str, duplicate_clusters: Dataset) -> list[Shard]:
    """The clusters shards of one source, one for each of its documents shards. Raises `ValueError` where the source is
    not among them."""
    shards: dict[str, int] = duplicate_clusters.version.stats["shards"]
    if source not in shards:
        raise ValueError(
            f"duplicate_clusters covers {', '.join(sorted(shards)) or 'no source'}, not {source!r}; run "
            "duplicate_clusters again over the full range of sources"
        )
    names = duplicate_clusters.version.stats["sources"]  # the order of the shards
    start = sum(shards[name] for name in names[: names.index(source)])
    return duplicate_clusters.shards("clusters")[start : start + shards[source]]


def run(inputs: Inputs, removal: Removal) -> Iterable[Made]:
    """The parts "documents" and "decisions" of one documents shard."""
    documents, clusters = inputs.table(0), inputs.table(1, ["doc_id", "kept_id", "level", "similarity"])
    decisions = decide(documents["doc_id"], clusters, removal)
    before = text_bytes(documents["text"])
    texts, repeats = without_repeats(documents["text"], removal.config)
    documents = documents.set_column(documents.column_names.index("text"), "text", texts)
    kept = documents.filter(decisions["keep"])
    if removal.config.exact:
        _refuse_copies(kept)
    yield "documents", kept
    yield "decisions", decisions
    after = text_bytes(kept["text"])
    stays = decisions["keep"].to_numpy()
    cut = np.concatenate([found.bytes for found in repeats]) if repeats else np.zeros(len(documents), np.int64)
    yield Stats(
        {
            "bytes_in": int(before.sum()),
            "bytes_out": int(after.sum()),
            "repeated_bytes": int(cut[stays].sum()),
            "histograms": {"text bytes": histogram(SIZE_EDGES, before=before, after=after)},
            "dropped": {rule: pc.sum(pc.equal(decisions["rule"], rule)).as_py() or 0 for rule in RULES},
        }
    )


def decide(doc_ids: pa.ChunkedArray, clusters: pa.Table, removal: Removal) -> pa.Table:
    """A decision (schema DECISIONS) for every id, in order.

    clusters: removed documents (doc_id, kept_id, level, similarity). value is the similarity, threshold what it was
    compared with (1 for exact copies), detail the id that stays; all three null for documents that stay.
    """
    position = pc.index_in(doc_ids, value_set=clusters["doc_id"].combine_chunks())
    level = clusters["level"].take(position)
    rule = pc.fill_null(level, ONLY_COMPARED if removal.only_compared else "kept")
    compared_with = pa.nulls(len(doc_ids), pa.float64())
    for name, threshold in removal.thresholds.items():
        compared_with = pc.if_else(pc.equal(rule, name), pa.scalar(threshold, pa.float64()), compared_with)
    return pa.table(
        {
            "doc_id": doc_ids,
            "keep": pc.equal(rule, "kept"),
            "stage": pa.chunked_array([pa.repeat(pa.scalar(STAGE, pa.large_string()), len(doc_ids))]),
            "rule": rule,
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
        "repeated_bytes": sum(values["repeated_bytes"] for values in stats),
        "dropped": {rule: sum(values["dropped"][rule] for values in stats) for rule in RULES},
        "histograms": added(values["histograms"] for values in stats),
    }
