"""Stages `perplexity_model` and `perplexity_scores`: what a language model of good text thinks of every document.

No text is scored by a model that saw it: documents fall into two folds by `doc_id`, one model learns each fold of the
reference, and every document of any source is scored by the model of the other fold. The model itself stands in
`ngram_model.py`, its estimation in `ngram_training.py`; which perplexity is too high is decided in `decide.py`.
"""

import json
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.dataset import Dataset, Draft, Part, join_parts
from pipelines.engines.local import Engine
from pipelines.engines.task import File, Inputs, Made, Result, Stats, Task
from pipelines.filters import tallies
from pipelines.filters.ngram_model import FILE_NAMES, NgramModel
from pipelines.filters.ngram_training import NgramTrainer
from pipelines.filters.params import PerplexityParams
from pipelines.histograms import PERPLEXITY_EDGES, added, histogram, text_bytes
from pipelines.schemas import PERPLEXITY

TRAINING_VERSION = 1
"""Of the code that trains; raise it when models change."""
SCORING_VERSION = 2
"""Of the code that scores and describes the reference; raise it when scores change."""

FOLDS = (0, 1)
REFERENCE_FILE = "reference.json"
PERCENTILE_STEPS = 1000
"""The reference's perplexities are kept as quantiles 0/1000 … 1000/1000."""


def train_perplexity(reference_documents: Dataset, config: PerplexityParams, engine: Engine) -> Draft:
    """Train one model per fold of the reference, and score each fold with the model of the other.

    reference_documents: documents of the reference sources only. Part "perplexity_model": the files of both models,
    and reference.json: {"documents", "languages": {code: documents}, "quantiles": [perplexity at 0, 0.1 … 100 %]}.
    Raises `ValueError` when a fold holds fewer than min_tokens tokens.
    """
    sources = ", ".join(reference_documents.partitions)
    shards = reference_documents.shards("documents")
    trained = engine.map([_training_task(fold, shards, sources, config) for fold in FOLDS])
    models = tuple(shard.object for result in trained for shard in result.parts["perplexity_model"].shards)
    scored = engine.map([_scoring_task(shard, models, config) for shard in shards])
    documents = tuple(shard.object for shard in shards)
    scores = tuple(shard.object for result in scored for shard in result.parts["perplexity"].shards)
    described = engine.map(
        [
            Task(
                describe_reference,
                "filters.perplexity.reference",
                SCORING_VERSION,
                {},
                documents + scores,
                payload=len(shards),
            )
        ]
    )
    stats = {
        "documents_in": sum(shard.rows for shard in shards),
        "folds": [result.stats for result in trained],
        "reference": described[0].stats,
        "histograms": added(result.stats for result in scored)["histograms"],
    }
    return Draft(join_parts([result.parts for result in (*trained, *described)]), stats)


def score_perplexity(
    unique_documents: Dataset, perplexity_model: Dataset, config: PerplexityParams, engine: Engine
) -> Draft:
    """Score every document, shard by shard; part "perplexity" is row-aligned with the documents.

    Of the config only max_scored_tokens matters here. A document without a token gets null; stats count them.
    """
    models = _model_objects(perplexity_model)
    results: list[Result] = engine.map(
        [_scoring_task(shard, models, config) for shard in unique_documents.shards("documents")]
    )
    nothing = pa.table({"text": pa.array([], pa.large_string())})
    empty = perplexity_tally(nothing, PERPLEXITY.empty_table())
    parts = {"perplexity": Part("table", ()), **join_parts([result.parts for result in results])}
    return Draft(parts, added([empty, *(result.stats for result in results)]))


def fold_of(doc_ids: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.int8]:
    """int8[n]: the fold of each document, the parity of the first hex digit of its id."""
    odd = pc.is_in(pc.utf8_slice_codeunits(doc_ids, 0, 1), pa.array(list("13579bdf"), pa.large_string()))
    return odd.to_numpy(zero_copy_only=False).astype(np.int8) if len(doc_ids) else np.zeros(0, np.int8)


# -- training ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Training:
    fold: int
    config: PerplexityParams
    sources: str
    shards: int


def _training_task(fold: int, shards: Sequence[Any], sources: str, config: PerplexityParams) -> Task:
    params = {
        "fold": fold,
        **config.model_dump(include={"order", "max_megabytes", "max_vocabulary", "min_count", "min_tokens"}),
        "unicode": unicodedata.unidata_version,
    }
    objects = tuple(shard.object for shard in shards)
    payload = _Training(fold, config, sources, len(shards))
    rows = sum(shard.rows for shard in shards)
    return Task(train_fold, "filters.perplexity.train", TRAINING_VERSION, params, objects, payload=payload, rows=rows)


def train_fold(inputs: Inputs, payload: _Training) -> Iterable[Made]:
    """The task of one fold: the files of the model trained on it, named fold-<fold>-<file>.

    Documents are taken in the order of their ids until max_megabytes are reached; the last one is cut there. Memory:
    one shard, and what `NgramTrainer` states.
    """
    config = payload.config
    limit = _byte_limits(inputs, payload)
    trainer = NgramTrainer(config.order, config.max_vocabulary, config.min_count)
    rows = used = 0
    for shard in range(payload.shards):
        documents = inputs.table(shard, ["doc_id", "text"])
        documents = documents.filter(pa.array(fold_of(documents["doc_id"]) == payload.fold))
        texts = _cut(documents["text"], limit[rows : rows + documents.num_rows])
        rows, used = rows + documents.num_rows, used + len(texts)
        trainer.add(texts)
    if trainer.tokens < config.min_tokens:
        raise ValueError(
            f"perplexity: the reference ({payload.sources or 'no source'}) is too small: the half that model "
            f"{payload.fold} learns from holds {rows} documents with {trainer.tokens} tokens, and {config.min_tokens} "
            "tokens are needed (min_tokens); name more reference sources, or split long ones into several documents"
        )
    model = trainer.estimate()
    for name, content in model.files():
        yield "perplexity_model", File(f"fold-{payload.fold}-{name}", content)
    without_words = used - trainer.documents
    yield Stats(
        {**model.facts, "documents_in": rows, "beyond_max_megabytes": rows - used, "without_words": without_words}
    )


def _byte_limits(inputs: Inputs, payload: _Training) -> npt.NDArray[np.int64]:
    """int64[documents of the fold]: bytes of each document to train on, 0 for those beyond the limit."""
    ids, sizes = [], []
    for shard in range(payload.shards):
        documents = inputs.table(shard, ["doc_id", "text"])
        mine = pa.array(fold_of(documents["doc_id"]) == payload.fold)
        ids.append(documents["doc_id"].filter(mine).combine_chunks())
        sizes.append(pc.binary_length(documents["text"].filter(mine)).to_numpy())
    if not ids:
        return np.zeros(0, np.int64)
    order = pc.sort_indices(pa.chunked_array(ids, pa.large_string())).to_numpy()
    size = np.concatenate(sizes).astype(np.int64)
    before = np.cumsum(size[order]) - size[order]
    limits = np.zeros_like(size)
    limits[order] = np.clip(int(payload.config.max_megabytes * 1e6) - before, 0, size[order])
    return limits


def _cut(texts: pa.ChunkedArray, limits: npt.NDArray[np.int64]) -> pa.ChunkedArray:
    """The texts within their limits; a text that is longer is cut (of a character cut in two nothing stays)."""
    sizes = pc.binary_length(texts).to_numpy()
    whole = texts.filter(pa.array(limits == sizes))
    partly = np.flatnonzero((limits > 0) & (limits < sizes))
    pieces = [
        texts[int(row)].cast(pa.large_binary()).as_py()[: limits[row]].decode("utf-8", "ignore") for row in partly
    ]
    return pa.chunked_array([*whole.chunks, pa.array(pieces, pa.large_string())])


# -- scoring -----------------------------------------------------------------------------------------------------


def _model_objects(perplexity_model: Dataset) -> tuple[str, ...]:
    """Object hashes of both models' files: those of fold 0, then those of fold 1, each in the order of FILE_NAMES."""
    by_name = {shard.name: shard.object for shard in perplexity_model.shards("perplexity_model")}
    wanted = [f"fold-{fold}-{name}" for fold in FOLDS for name in FILE_NAMES]
    if missing := [name for name in wanted if name not in by_name]:
        raise ValueError(f"perplexity: the model lacks the file {missing[0]}; materialize perplexity_model again")
    return tuple(by_name[name] for name in wanted)


def _scoring_task(shard: Any, models: tuple[str, ...], config: PerplexityParams) -> Task:
    params = {"max_scored_tokens": config.max_scored_tokens, "unicode": unicodedata.unidata_version}
    return Task(
        score_shard,
        "filters.perplexity.score",
        SCORING_VERSION,
        params,
        (shard.object,),
        models,
        payload=config.max_scored_tokens,
        rows=shard.rows,
    )


def score_shard(inputs: Inputs, payload: int) -> Iterable[Made]:
    """The task of one shard: its scores and their tally. payload: max_scored_tokens."""
    documents = inputs.table(0, ["doc_id", "text"])
    paths = [inputs.broadcast_path(index) for index in range(inputs.broadcast_count)]
    models = [NgramModel.open(paths[fold * len(FILE_NAMES) : (fold + 1) * len(FILE_NAMES)]) for fold in FOLDS]
    scores = perplexity_of(documents, models, payload)
    if scores.num_rows != documents.num_rows:
        raise RuntimeError(f"perplexity: {documents.num_rows} documents came in and {scores.num_rows} scores went out")
    yield "perplexity", scores
    yield Stats(perplexity_tally(documents, scores))


def perplexity_of(documents: pa.Table, models: Sequence[NgramModel], max_tokens: int) -> pa.Table:
    """Table of schema PERPLEXITY, one row per document (columns doc_id, text).

    models: of fold 0 and of fold 1. Perplexity = exp(-Σ ln p(word | what precedes it) / words); a document is one
    sequence, begun by <s>, its end not scored. Memory: one copy of the texts of a fold.
    """
    own = fold_of(documents["doc_id"])
    log_probability, tokens = np.zeros(len(own)), np.zeros(len(own), np.int64)
    for fold in FOLDS:
        mine = own == fold
        if mine.any():
            texts = documents["text"].filter(pa.array(mine))
            log_probability[mine], tokens[mine] = models[1 - fold].score(texts, max_tokens)
    perplexity = np.exp(-log_probability / np.maximum(tokens, 1))
    columns = [
        documents["doc_id"],
        pa.array(perplexity, mask=tokens == 0),
        pa.array(tokens),
        pa.array(1 - own, pa.int8()),
    ]
    return pa.table(columns, schema=PERPLEXITY)


def perplexity_tally(documents: pa.Table, scores: pa.Table) -> dict[str, Any]:
    """Counts of one shard: documents, bytes, tokens, documents without tokens, and the histogram of perplexities."""
    return {
        "documents_in": documents.num_rows,
        "documents_out": scores.num_rows,
        "bytes_in": int(text_bytes(documents["text"]).sum()),
        "scored_tokens": int(pc.sum(scores["tokens"]).as_py() or 0),
        "without_tokens": scores["perplexity"].null_count,
        "histograms": {
            "perplexity": histogram(PERPLEXITY_EDGES, documents=scores["perplexity"].drop_null().to_numpy())
        },
    }


def describe_reference(inputs: Inputs, payload: int) -> Iterable[Made]:
    """The task that writes reference.json from shards of documents and then their scores. payload: how many shards."""
    shards = payload
    perplexities = np.concatenate(
        [inputs.table(shards + i, ["perplexity"])["perplexity"].drop_null().to_numpy() for i in range(shards)]
    )
    languages = added(tallies.count_by_language(inputs.table(i, ["language"])["language"]) for i in range(shards))
    quantiles = np.quantile(perplexities, np.arange(PERCENTILE_STEPS + 1) / PERCENTILE_STEPS)
    reference = {
        "documents": len(perplexities),
        "languages": dict(sorted(languages.items())),
        "quantiles": [float(value) for value in quantiles],
    }
    yield "perplexity_model", File(REFERENCE_FILE, json.dumps(reference, sort_keys=True).encode())
    shown = {f"p{p}": float(quantiles[p * PERCENTILE_STEPS // 100]) for p in (1, 10, 50, 90, 99)}
    yield Stats({"documents": len(perplexities), "languages": languages, "perplexity": shown})
