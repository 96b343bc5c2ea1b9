"""Stage `filtered_documents`: turns scores into decisions, and keeps the documents that pass.

The scores come from `toxicity.py`, `perplexity.py` and `contamination.py`; nothing is scored here, so a changed
threshold costs one reading of the documents. What becomes of contaminated documents stands in `decontaminate.py`.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.dataset import Dataset, Draft, Part, join_parts
from pipelines.engines.local import Engine
from pipelines.engines.task import Inputs, Made, Stats, Task
from pipelines.filters import tallies
from pipelines.filters.decontaminate import PASSAGE_COLUMNS, Decontaminated, decontaminate, untouched
from pipelines.filters.params import FilterParams
from pipelines.filters.perplexity import REFERENCE_FILE
from pipelines.histograms import PERPLEXITY_EDGES, SIZE_EDGES, TOXICITY_EDGES, added, histogram, text_bytes
from pipelines.schemas import DECISIONS, DOCUMENTS

VERSION = 3
"""Of this stage's code; raise it when decisions change."""

STAGE = "filtering"
RULES = ("toxicity", "perplexity_high", "perplexity_low", "contamination")
"""In the order in which they are asked; the first that objects decides."""

LEARNED_SHARE = 0.01
"""A language is one that the perplexity model has learned if this share of the reference's documents is in it."""


_HITS = 4
"""Place among a task's inputs of the passages, after documents and scores; only where paragraphs are cut."""


@dataclass(frozen=True)
class Limits:
    """Thresholds with the reference's percentile looked up. None: not applied.

    languages: the languages that the perplexity model has learned; perplexity decides on no others, since to a model
    every text in a language that it never read is equally strange.
    """

    max_toxicity: float | None
    max_perplexity: float | None
    min_perplexity: float | None
    languages: tuple[str, ...]
    max_contamination: float | None = None
    decontaminate: Literal["document", "paragraph"] = "document"


def filter_documents(
    unique_documents: Dataset,
    toxicity_scores: Dataset,
    perplexity_scores: Dataset,
    contamination_scores: Dataset,
    perplexity_model: Dataset,
    config: FilterParams,
    engine: Engine,
) -> Draft:
    """Keep the documents that no rule objects to. Part "documents": those kept, shard by shard; part "decisions": one
    row for every document.

    A score that is null objects to nothing; such documents are counted as unjudged. Raises `ValueError` when scores
    and documents do not belong together.
    """
    limits = limits_of(config, perplexity_model)
    shards = unique_documents.shards("documents")
    aligned = [(toxicity_scores, "toxicity"), (perplexity_scores, "perplexity")]
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
                payload=limits,
                rows=row[0].rows,
            )
            for row in zip(*columns, strict=True)
        ]
    )
    no_scores, no_documents = pa.chunked_array([], pa.float64()), DOCUMENTS.empty_table()
    nothing = shard_tally(no_documents, DECISIONS.empty_table(), no_scores, no_scores, untouched(no_documents), limits)
    stats = added([nothing, *(result.stats for result in results)])
    parts = {"documents": Part("table", ()), "decisions": Part("table", ())}
    return Draft({**parts, **join_parts([result.parts for result in results])}, {**stats, "limits": _as_json(limits)})


def limits_of(config: FilterParams, perplexity_model: Dataset) -> Limits:
    """The thresholds for this model.

    CCNet (Wenzek et al. 2020, section 4.2) cuts at the 30th and 60th percentile to keep the best of a large crawl; the
    default here only removes what lies far outside the reference.
    """
    reference = _reference(perplexity_model)
    candidates = [] if config.max_perplexity is None else [config.max_perplexity]
    if config.max_perplexity_percentile is not None:
        quantiles = reference["quantiles"]
        steps = np.linspace(0, 100, len(quantiles))
        at_percentile = float(np.interp(config.max_perplexity_percentile, steps, quantiles))
        candidates.append(at_percentile * config.max_perplexity_factor)
    total = sum(reference["languages"].values())
    learned = [code for code, documents in reference["languages"].items() if documents >= LEARNED_SHARE * total]
    highest = min(candidates) if candidates else None
    if highest is not None and config.min_perplexity is not None and highest < config.min_perplexity:
        raise ValueError(
            f"filtering: min_perplexity {config.min_perplexity:g} lies above the highest perplexity allowed, "
            f"{highest:g}, so no document could pass; lower min_perplexity or set it to null"
        )
    return Limits(
        config.max_toxicity,
        highest,
        config.min_perplexity,
        tuple(sorted(learned)),
        config.max_contamination,
        config.decontaminate,
    )


def _reference(perplexity_model: Dataset) -> dict[str, Any]:
    for shard in perplexity_model.shards("perplexity_model"):
        if shard.name == REFERENCE_FILE:
            reference: dict[str, Any] = json.loads(perplexity_model.store.get(shard.object))
            return reference
    raise ValueError(f"filtering: the perplexity model lacks {REFERENCE_FILE}; materialize perplexity_model again")


def _as_json(limits: Limits) -> dict[str, Any]:
    return {**asdict(limits), "languages": list(limits.languages)}


def filter_shard(inputs: Inputs, payload: Limits) -> Iterable[Made]:
    """The task of one shard: the documents kept and all decisions."""
    tables = [inputs.table(number) for number in range(min(len(inputs.objects), _HITS))]
    documents, toxicity, perplexity, *others = tables
    for name, scores in zip(("toxicity", "perplexity", "contamination"), (toxicity, perplexity, *others), strict=False):
        if not scores["doc_id"].equals(documents["doc_id"]):
            raise ValueError(
                f"filtering: {name} scores and documents of a shard do not describe the same documents "
                f"({scores.num_rows} and {documents.num_rows} rows); materialize {name}_scores again"
            )
    found = untouched(documents)
    if others and payload.max_contamination is not None:
        hits = inputs.table(_HITS, PASSAGE_COLUMNS) if payload.decontaminate == "paragraph" else None
        found = decontaminate(documents, others[0], hits, payload.max_contamination)
    decisions = decisions_of(documents, toxicity["toxicity"], perplexity["perplexity"], found, payload)
    kept = found.documents.filter(decisions["keep"])
    judged = _judged(documents, perplexity["perplexity"], payload)
    tally = shard_tally(documents, decisions, toxicity["toxicity"], judged, found, payload)
    if tally["documents_in"] != tally["documents_out"] + sum(tally["dropped"].values()):
        raise RuntimeError(
            f"filtering: {tally['documents_in']} documents came in, {tally['documents_out']} were kept and "
            f"{sum(tally['dropped'].values())} dropped: the sums differ"
        )
    yield "documents", kept
    yield "decisions", decisions
    yield Stats(tally)


def decisions_of(
    documents: pa.Table,
    toxicity: pa.ChunkedArray,
    perplexity: pa.ChunkedArray,
    contamination: Decontaminated,
    limits: Limits,
) -> pa.Table:
    """Table of schema DECISIONS, one row per document (columns doc_id, language), from the scores of each.

    value and threshold are those of the rule that objected; null where none did. detail is of contaminated documents:
    what they hold, and what was cut.
    """
    toxic = _floats(toxicity)
    perplex = _floats(_judged(documents, perplexity, limits))
    with np.errstate(invalid="ignore"):
        objections = [  # a comparison with NaN, a missing score, is false
            (toxic, limits.max_toxicity, toxic > (np.inf if limits.max_toxicity is None else limits.max_toxicity)),
            (perplex, limits.max_perplexity, perplex > (limits.max_perplexity or np.inf)),
            (perplex, limits.min_perplexity, perplex < (limits.min_perplexity or 0.0)),
            (contamination.share, limits.max_contamination, contamination.objects),
        ]
    count = documents.num_rows
    rule = np.full(count, "kept", dtype=object)
    value, threshold = np.full(count, np.nan), np.full(count, np.nan)
    for name, (scores, limit, objects) in reversed(list(zip(RULES, objections, strict=True))):
        rule[objects], value[objects] = name, scores[objects]
        if limit is not None:
            threshold[objects] = limit
    keep = rule == "kept"
    details = [
        told if name in ("contamination", "kept") else None
        for told, name in zip(contamination.details, rule, strict=True)
    ]
    return pa.table(
        {
            "doc_id": documents["doc_id"],
            "keep": pa.array(keep, pa.bool_()),
            "stage": pa.array([STAGE] * count, pa.large_string()),
            "rule": pa.array(rule, pa.large_string()),
            "value": pa.array(value, mask=keep),
            "threshold": pa.array(threshold, mask=keep),
            "detail": pa.array(details, pa.large_string()),
        },
        schema=DECISIONS,
    )


def kept_beyond(
    keep: pa.ChunkedArray,
    toxicity: pa.ChunkedArray,
    judged: pa.ChunkedArray,
    contamination: Decontaminated,
    limits: Limits,
) -> dict[str, int]:
    """Kept documents whose score lies beyond the threshold of a rule, by rule: counted anew, so any is a mistake. Of
    contaminated documents those of which nothing was cut."""
    whole = pa.chunked_array([pa.array(contamination.share, mask=contamination.paragraphs > 0)])
    beyond = {
        "toxicity": (toxicity, pc.greater, limits.max_toxicity),
        "perplexity_high": (judged, pc.greater, limits.max_perplexity),
        "perplexity_low": (judged, pc.less, limits.min_perplexity),
        "contamination": (whole, pc.greater, limits.max_contamination),
    }
    return {
        rule: 0 if limit is None else pc.sum(compare(scores.filter(keep), limit)).as_py() or 0
        for rule, (scores, compare, limit) in beyond.items()
    }


def score_histograms(
    keep: pa.ChunkedArray, toxicity: pa.ChunkedArray, judged: pa.ChunkedArray
) -> dict[str, dict[str, list[Any]]]:
    """Histograms of the scores of kept and of dropped documents; of perplexities only those that may decide."""
    kept = np.asarray(keep)
    scores = {"toxicity": (TOXICITY_EDGES, _floats(toxicity)), "perplexity": (PERPLEXITY_EDGES, _floats(judged))}
    return {
        name: histogram(edges, kept=values[kept], dropped=values[~kept]) for name, (edges, values) in scores.items()
    }


def _judged(documents: pa.Table, perplexity: pa.ChunkedArray, limits: Limits) -> pa.ChunkedArray:
    """The perplexities that may decide: null for languages which the model has not learned."""
    learned = pc.is_in(pc.fill_null(documents["language"], "und"), pa.array(limits.languages, pa.large_string()))
    return pc.if_else(learned, perplexity, pa.scalar(None, pa.float64()))


def _floats(column: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.float64]]:
    return pc.fill_null(column, float("nan")).to_numpy() if len(column) else np.zeros(0)


def shard_tally(
    documents: pa.Table,
    decisions: pa.Table,
    toxicity: pa.ChunkedArray,
    judged: pa.ChunkedArray,
    contamination: Decontaminated,
    limits: Limits,
) -> dict[str, Any]:
    """Counts of one shard: documents and bytes in and out, dropped by rule, what was not judged, by language, what was
    cut of the kept, kept documents beyond a threshold, and histograms. judged: the perplexities that may decide."""
    rules, keep = decisions["rule"].to_pylist(), decisions["keep"]
    before, stays = text_bytes(documents["text"]), np.asarray(keep)
    after = text_bytes(contamination.documents["text"])[stays]
    paragraphs = contamination.paragraphs[stays]
    unscreened, unlearned = (documents["language"].filter(pc.is_null(scores)) for scores in (toxicity, judged))
    return {
        "documents_in": documents.num_rows,
        "documents_out": len(after),
        "bytes_in": int(before.sum()),
        "bytes_out": int(after.sum()),
        "dropped": {rule: rules.count(rule) for rule in RULES},
        "unjudged": {
            "toxicity": tallies.count_by_language(unscreened),
            "perplexity": tallies.count_by_language(unlearned),
        },
        "cut": {
            "documents": int(np.count_nonzero(paragraphs)),
            "paragraphs": int(paragraphs.sum()),
            "bytes": int(contamination.bytes[stays].sum()),
        },
        "kept_beyond": kept_beyond(keep, toxicity, judged, contamination, limits),
        "histograms": {
            "text bytes": histogram(SIZE_EDGES, before=before, after=after),
            **score_histograms(keep, toxicity, judged),
        },
    }
