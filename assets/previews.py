"""A few texts of a dataset, kept and dropped, so that people can see what a stage does. The profile says where they go.

Never more than a few, each cut: Dagster's event log can't be rewritten, and loads them with every page.
"""

import json
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from assets.values import Metadata, cell, share, table
from pipelines.dataset import Dataset, Version, read_table

TEXTS = 3
DROPPED, DROPPED_OF_A_REASON = 6, 2
SHARDS_SEARCHED = 8
"""Of each kind the first shards that hold any rows: a preview of a large dataset costs no more than one of a small."""
CHARACTERS = 240

Sample = dict[str, Any]


def preview_metadata(made: Dataset, where: Literal["ui", "store", "off"]) -> Metadata:
    """Metadata with samples of one partition ('ui'), or with the name of the object that holds them ('store')."""
    if where == "off":
        return {}
    found = {"preview": _texts(made), "preview of what was dropped": _dropped(made), "preview of hits": _hits(made)}
    samples = {name: rows for name, rows in found.items() if rows}
    if where == "store" and samples:
        return {"preview": f"object {made.store.put(json.dumps(samples, ensure_ascii=False).encode())}"}
    return {name: table(rows) for name, rows in samples.items()}


def _texts(made: Dataset) -> list[Sample]:
    """The first documents; of a model, what it makes of its prompts."""
    if continued := made.version.stats.get("samples"):
        return [{name: _cut(sample[name]) for name in ("prompt", "continuation")} for sample in continued[:TEXTS]]
    shard = next((shard for shard in made.shards("documents") if shard.rows), None)
    if shard is None:
        return []
    rows = read_table(made.store, shard.object, ["uri", "text"]).slice(0, TEXTS).to_pylist()
    return [{"document": row["uri"], "text": _cut(row["text"])} for row in rows]


def _dropped(made: Dataset) -> list[Sample]:
    """Some of what was dropped, of every reason a few: what the rule measured, and how the text begins."""
    taken: list[Sample] = []
    for sample in _rejects(made) if made.shards("rejects") else _decided_against(made):
        if [other["reason"] for other in taken].count(sample["reason"]) < DROPPED_OF_A_REASON:
            taken.append(sample)
        if len(taken) == DROPPED:
            break
    return taken


def _rejects(made: Dataset) -> Iterator[Sample]:
    """Input that could not be read: it has no text."""
    for shard in made.shards("rejects")[:SHARDS_SEARCHED]:
        rejects = read_table(made.store, shard.object)
        for row in rejects.take(_few_of_each(rejects["reason"])).to_pylist():
            yield {"document": row["uri"], "reason": row["reason"], "detail": _cut(row["detail"] or "")}


def _decided_against(made: Dataset) -> Iterator[Sample]:
    """Dropped documents with their decision. Their texts stand in the input that the decisions are aligned with."""
    pairs = zip(made.shards("decisions"), documents_before(made), strict=False)
    with_drops = ((decided, texts) for decided, texts in pairs if decided.rows)
    for number, (decided, texts) in enumerate(with_drops):
        if number == SHARDS_SEARCHED:
            return
        decisions = read_table(made.store, decided.object)
        reasons = pc.if_else(decisions["keep"], None, decisions["rule"])
        if reasons.null_count == len(reasons):
            continue
        rows = _few_of_each(reasons)
        documents = read_table(made.store, texts.object, ["uri", "text"]).take(rows).to_pylist()
        for document, decision in zip(documents, decisions.take(rows).to_pylist(), strict=True):
            yield {
                "document": document["uri"],
                "reason": decision["rule"],
                "measured": measured(decision),
                "text": _cut(document["text"]),
            }


def _hits(made: Dataset) -> list[Sample]:
    """Some passages that documents share with evaluation examples."""
    pairs = zip(made.shards("contamination_hits"), documents_before(made), strict=False)
    found = next(((hits, documents) for hits, documents in pairs if hits.rows), None)
    if found is None:
        return []
    hits = read_table(made.store, found[0].object).slice(0, DROPPED)
    documents = read_table(made.store, found[1].object, ["doc_id", "uri"])
    uris = documents["uri"].take(pc.index_in(hits["doc_id"], value_set=documents["doc_id"].combine_chunks()))
    return [
        {
            "document": uri.as_py(),
            "example": f"{hit['evaluation_set']}#{hit['example']}",
            "share of the example": share(hit["example_share"], 1),
            "text": _cut(hit["text"]),
        }
        for uri, hit in zip(uris, hits.to_pylist(), strict=True)
    ]


def documents_before(made: Dataset) -> list[Any]:
    """Shards of the documents that were decided upon, in the order of the decisions."""
    for _asset, partition, version_id in made.version.inputs:
        if partition == made.version.partition:
            before = Version.load(made.store, version_id)
            if "documents" in before.parts:
                return list(before.parts["documents"].shards)
    return []


def measured(decision: dict[str, Any]) -> str:
    """What a rule measured, against which threshold, and what else it said."""
    value, threshold, detail = (decision[name] for name in ("value", "threshold", "detail"))
    told = [] if value is None else [cell(value) if threshold is None else f"{cell(value)} against {cell(threshold)}"]
    return "; ".join([*told, *([detail] if detail else [])])


def _few_of_each(reasons: pa.ChunkedArray) -> list[int]:
    """Rows of the first few of every reason; null is no reason."""
    rows: list[int] = []
    for reason in pc.unique(reasons.drop_null()):
        rows += np.flatnonzero(pc.fill_null(pc.equal(reasons, reason), False))[:DROPPED_OF_A_REASON].tolist()
    return rows


def _cut(text: str) -> str:
    return text if len(text) <= CHARACTERS else f"{text[:CHARACTERS]}…"
