"""Stage `filtered_documents`: turns scores into decisions, and keeps the documents that pass.

The scores come from the folders `toxicity`, `perplexity` and `contamination`; nothing is scored here, so a changed
threshold costs one reading of the documents. Rules that may cut a document instead stand in their `rules.py`.
"""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.dataset import Dataset, Draft, Part, join_parts
from pipelines.engines.local import Engine
from pipelines.engines.task import Inputs, Made, Stats, Task
from pipelines.filters import tallies
from pipelines.filters.contamination.rules import contaminated
from pipelines.filters.cutting import PASSAGE_COLUMNS, Cut, Verdict, cut
from pipelines.filters.limits import Limits, limits_of
from pipelines.filters.params import FilterParams
from pipelines.filters.perplexity.rules import Bucketed, bucket_table, bucketed, count_buckets, refuse_other_models
from pipelines.filters.perplexity.stage import model_of
from pipelines.filters.thresholds import Ruled, threshold_counts
from pipelines.filters.toxicity.rules import other_threshold, refuse_unlisted, toxic
from pipelines.histograms import (
    CONTAMINATION_EDGES,
    PERPLEXITY_EDGES,
    SIZE_EDGES,
    TOXICITY_EDGES,
    added,
    histogram,
    text_bytes,
)
from pipelines.schemas import DECISIONS, DOCUMENTS

VERSION = 4
"""Of this stage's code; raise it when decisions change."""

STAGE = "filtering"
RULES = ("toxicity", "toxicity_unknown", "perplexity_high", "perplexity_low", "perplexity_bucket", "contamination")
"""In the order in which they are asked; the first that objects decides."""

PASSAGES = {"toxicity_sentences": [*PASSAGE_COLUMNS, "toxicity"], "contamination_hits": PASSAGE_COLUMNS}
"""Parts that hold passages which may be cut, and what is read of them; all other parts are row-aligned scores."""


def filter_documents(
    unique_documents: Dataset,
    toxicity_scores: Dataset,
    perplexity_scores: Dataset,
    contamination_scores: Dataset,
    perplexity_model: Dataset,
    config: FilterParams,
    engine: Engine,
) -> Draft:
    """Keep the documents that no rule objects to. Part "documents": those kept, shard by shard; parts "decisions" and
    "buckets": one row for every document.

    A score that is null objects to nothing; such documents are counted as unjudged. Raises `ValueError` when scores
    and documents, or scores and thresholds, do not belong together.
    """
    refuse_other_models(config, perplexity_scores, model_of(perplexity_model))
    limits = limits_of(config, perplexity_model)
    shards = unique_documents.shards("documents")
    aligned = [(toxicity_scores, "toxicity"), (perplexity_scores, "perplexity")]
    if limits.max_toxicity is not None and limits.toxic == "sentence":
        refuse_unlisted(toxicity_scores, limits.max_toxicity)
        aligned.append((toxicity_scores, "toxicity_sentences"))
    if limits.max_contamination is not None and contamination_scores.shards("contamination"):
        aligned.append((contamination_scores, "contamination"))
        if limits.decontaminate == "paragraph":
            aligned.append((contamination_scores, "contamination_hits"))
    columns = [shards]
    for scores, part in aligned:
        columns.append(found := scores.shards(part))
        if len(found) != len(shards):
            raise ValueError(
                f"filtering: {scores.asset} has {len(found)} shards and {unique_documents.asset} {len(shards)}, so "
                f"they do not belong together; materialize {scores.asset} again"
            )
    results = engine.map(
        [
            Task(
                filter_shard,
                "filters.decide",
                VERSION,
                asdict(limits),
                tuple(shard.object for shard in row),
                payload=(limits, [part for _, part in aligned]),
                rows=row[0].rows,
            )
            for row in zip(*columns, strict=True)
        ]
    )
    documents, nobody = DOCUMENTS.empty_table(), Verdict.none(0)
    judged = pa.chunked_array([], pa.float64())
    unbucketed = bucketed(documents["language"], np.zeros(0), limits.buckets)
    nothing = shard_tally(
        documents, DECISIONS.empty_table(), judged, unbucketed, nobody, nobody, cut(documents, []), limits
    )
    stats = added([nothing, *(result.stats for result in results)])
    note = other_threshold(toxicity_scores, limits.max_toxicity)
    parts = {name: Part("table", ()) for name in ("documents", "decisions", "buckets")}
    parts |= join_parts([result.parts for result in results])
    return Draft(parts, {**stats, **note, "limits": limits.record()})


def filter_shard(inputs: Inputs, payload: tuple[Limits, list[str]]) -> Iterable[Made]:
    """The task of one shard: the documents kept and all decisions. payload: with the parts that follow the documents
    among the inputs, in order."""
    limits, names = payload
    documents = inputs.table(0)
    tables = {name: inputs.table(number, PASSAGES.get(name)) for number, name in enumerate(names, 1)}
    for name, scores in tables.items():
        if name not in PASSAGES and not scores["doc_id"].equals(documents["doc_id"]):
            raise ValueError(
                f"filtering: {name} scores and documents of a shard do not describe the same documents "
                f"({scores.num_rows} and {documents.num_rows} rows); materialize {name}_scores again"
            )
    toxicity = toxic(documents, tables["toxicity"]["toxicity"], tables.get("toxicity_sentences"), limits.max_toxicity)
    contamination = Verdict.none(documents.num_rows)
    if "contamination" in tables and limits.max_contamination is not None:
        hits = tables.get("contamination_hits")
        contamination = contaminated(documents, tables["contamination"], hits, limits.max_contamination)
    judged = _judged(documents, tables["perplexity"]["perplexity"], limits)
    buckets = bucketed(documents["language"], tallies.numbers(tables["perplexity"]["perplexity"]), limits.buckets)
    left = cut(documents, [toxicity, contamination])
    decisions = decisions_of(documents, toxicity, judged, buckets, contamination, left, limits)
    tally = shard_tally(documents, decisions, judged, buckets, toxicity, contamination, left, limits)
    if tally["documents_in"] != tally["documents_out"] + sum(tally["dropped"].values()):
        raise RuntimeError(
            f"filtering: {tally['documents_in']} documents came in, {tally['documents_out']} were kept and "
            f"{sum(tally['dropped'].values())} dropped: the sums differ"
        )
    yield "documents", left.documents.filter(decisions["keep"])
    yield "decisions", decisions
    yield "buckets", bucket_table(documents, buckets)
    yield Stats(tally)


def decisions_of(
    documents: pa.Table,
    toxicity: Verdict,
    judged: pa.ChunkedArray,
    buckets: Bucketed,
    contamination: Verdict,
    left: Cut,
    limits: Limits,
) -> pa.Table:
    """Table of schema DECISIONS, one row per document (column doc_id), from what was found of each. judged: the
    perplexities that may decide.

    value and threshold are those of the rule that objected; null where none did, or it measures nothing. detail is of
    documents that are cut or contaminated: what they hold, and what was cut; or the bucket that does not go on.
    """
    perplex = tallies.numbers(judged)
    unknown = np.isnan(toxicity.value)
    with np.errstate(invalid="ignore"):
        objections = [  # a comparison with NaN, a missing score, is false
            (toxicity.value, limits.max_toxicity, toxicity.objects(left.emptied)),
            (toxicity.value, None, unknown & (limits.unknown_languages == "drop")),
            (perplex, limits.max_perplexity, perplex > (limits.max_perplexity or np.inf)),
            (perplex, limits.min_perplexity, perplex < (limits.min_perplexity or 0.0)),
            (buckets.perplexity, buckets.edge, buckets.objects(limits.buckets)),
            (contamination.value, limits.max_contamination, contamination.objects(left.emptied)),
        ]
    count = documents.num_rows
    rule = np.full(count, "kept", dtype=object)
    value, threshold = np.full(count, np.nan), np.full(count, np.nan)
    for name, (scores, limit, objects) in reversed(list(zip(RULES, objections, strict=True))):
        rule[objects], value[objects] = name, scores[objects]
        threshold[objects] = np.nan if limit is None else np.broadcast_to(limit, count)[objects]
    return pa.table(
        {
            "doc_id": documents["doc_id"],
            "keep": pa.array(rule == "kept", pa.bool_()),
            "stage": pa.array([STAGE] * count, pa.large_string()),
            "rule": pa.array(rule, pa.large_string()),
            "value": pa.array(value, from_pandas=True),
            "threshold": pa.array(threshold, from_pandas=True),
            "detail": pa.array(_details(rule, toxicity, buckets, contamination, left), pa.large_string()),
        },
        schema=DECISIONS,
    )


def _details(
    rule: np.ndarray[Any, Any], toxicity: Verdict, buckets: Bucketed, contamination: Verdict, left: Cut
) -> list[str | None]:
    """By document, what is said of it where it stays or goes for what could be cut, or goes for its bucket."""
    details = [
        bucket if name == "perplexity_bucket" else None for bucket, name in zip(buckets.names(), rule, strict=True)
    ]
    for row in sorted({*contamination.told, *left.details}):
        said = [left.details.get(row)]
        if rule[row] != "toxicity":
            said.insert(0, contamination.told.get(row))
        if rule[row] in ("kept", "contamination") or (rule[row] == "toxicity" and row in toxicity.cuts):
            details[row] = "; ".join(filter(None, said)) or None
    return details


def kept_beyond(
    keep: pa.ChunkedArray,
    toxicity: Verdict,
    judged: pa.ChunkedArray,
    buckets: Bucketed,
    contamination: Verdict,
    limits: Limits,
) -> dict[str, int]:
    """Kept documents whose score lies beyond the threshold of a rule, by rule: counted anew, so any is a mistake. Of
    a rule that cuts, those of which it cut nothing."""
    beyond = {
        "toxicity": (toxicity.whole, np.greater, limits.max_toxicity),
        "perplexity_high": (tallies.numbers(judged), np.greater, limits.max_perplexity),
        "perplexity_low": (tallies.numbers(judged), np.less, limits.min_perplexity),
        "contamination": (contamination.whole, np.greater, limits.max_contamination),
    }
    stays = np.asarray(keep)
    in_other_buckets = int(np.count_nonzero(buckets.objects(limits.buckets)[stays]))
    return {"perplexity_bucket": in_other_buckets} | {
        rule: 0 if limit is None else int(np.count_nonzero(compare(values[stays], limit)))
        for rule, (values, compare, limit) in beyond.items()
    }


def score_histograms(
    keep: pa.ChunkedArray, toxicity: Verdict, judged: pa.ChunkedArray
) -> dict[str, dict[str, list[Any]]]:
    """Histograms of the scores of kept and of dropped documents; of perplexities only those that may decide."""
    kept = np.asarray(keep)
    scores = {"toxicity": (TOXICITY_EDGES, toxicity.value), "perplexity": (PERPLEXITY_EDGES, tallies.numbers(judged))}
    return {
        name: histogram(edges, kept=values[kept], dropped=values[~kept]) for name, (edges, values) in scores.items()
    }


def _judged(documents: pa.Table, perplexity: pa.ChunkedArray, limits: Limits) -> pa.ChunkedArray:
    """The perplexities that may decide: null for languages which the model has not learned."""
    learned = pc.is_in(pc.fill_null(documents["language"], "und"), pa.array(limits.languages, pa.large_string()))
    return pc.if_else(learned, perplexity, pa.scalar(None, pa.float64()))


def shard_tally(
    documents: pa.Table,
    decisions: pa.Table,
    judged: pa.ChunkedArray,
    buckets: Bucketed,
    toxicity: Verdict,
    contamination: Verdict,
    left: Cut,
    limits: Limits,
) -> dict[str, Any]:
    """Counts of one shard: documents and bytes in and out, dropped by rule, what was not judged, by language, what was
    cut of the kept, kept documents beyond a threshold, and histograms. judged: the perplexities that may decide."""
    rules, keep = decisions["rule"].to_pylist(), decisions["keep"]
    before, stays = text_bytes(documents["text"]), np.asarray(keep)
    after = text_bytes(left.documents["text"])[stays]
    sentences, paragraphs = toxicity.pieces()[stays], contamination.pieces()[stays]
    unscreened = documents["language"].filter(pa.array(np.isnan(toxicity.value)))
    unknown = np.isnan(toxicity.value) & (limits.unknown_languages == "drop")
    ruled = {
        "toxicity": Ruled(toxicity.value, toxicity.objects(left.emptied), limits.max_toxicity),
        "perplexity_high": Ruled.above(tallies.numbers(judged), limits.max_perplexity),
        "perplexity_low": Ruled.below(tallies.numbers(judged), limits.min_perplexity),
        "contamination": Ruled(contamination.value, contamination.objects(left.emptied), limits.max_contamination),
        "toxicity_unknown": Ruled(toxicity.value, unknown, None),
        "perplexity_bucket": Ruled(buckets.perplexity, buckets.objects(limits.buckets), None),
    }
    return {
        "documents_in": documents.num_rows,
        "documents_out": len(after),
        "bytes_in": int(before.sum()),
        "bytes_out": int(after.sum()),
        "dropped": {rule: rules.count(rule) for rule in RULES},
        "unjudged": {
            "toxicity": tallies.count_by_language(unscreened),
            "perplexity": tallies.count_by_language(documents["language"].filter(pc.is_null(judged))),
        },
        "cut": {
            "documents": int(np.count_nonzero(sentences + paragraphs)),
            "sentences": int(sentences.sum()),
            "paragraphs": int(paragraphs.sum()),
            "bytes": int(left.bytes[stays].sum()),
        },
        "kept_beyond": kept_beyond(keep, toxicity, judged, buckets, contamination, limits),
        "buckets": count_buckets(documents["language"], buckets),
        "thresholds": threshold_counts(ruled, before),
        "histograms": {
            "text bytes": histogram(SIZE_EDGES, before=before, after=after),
            **score_histograms(keep, toxicity, judged),
            "contamination": histogram(
                CONTAMINATION_EDGES,
                kept=contamination.value[stays & (contamination.value > 0)],
                dropped=contamination.value[~stays & (contamination.value > 0)],
            ),
        },
    }
