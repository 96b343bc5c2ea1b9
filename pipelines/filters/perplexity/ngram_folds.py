"""The perplexity models that are trained here: two, each on one half of the reference, each scoring the other half.

No text is scored by a model that saw it: documents fall into two folds by `doc_id`, one model learns each fold of the
reference, and every document of any source is scored by the model of the other fold. The model itself stands in
`ngram_model.py`, its estimation in `ngram_training.py`.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.dataset import Dataset, Shard
from pipelines.engines.local import Engine
from pipelines.engines.task import File, Inputs, Made, Result, Stats, Task
from pipelines.filters.perplexity.likelihood import SCORING_VERSION, Likelihoods, score_table, score_tally
from pipelines.filters.perplexity.ngram_model import FILE_NAMES, NgramModel
from pipelines.filters.perplexity.ngram_training import NgramTrainer
from pipelines.filters.perplexity.params import PerplexityParams
from pipelines.filters.words import language_model_alphabet, next_word
from pipelines.histograms import text_bytes
from pipelines.scratch import working_folder

TRAINING_VERSION = 2
"""Of the code that trains; raise it when models change."""

FOLDS = (0, 1)


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


def train_folds(reference_documents: Dataset, config: PerplexityParams, engine: Engine) -> list[Result]:
    """The models of both folds, and what was counted. Raises `ValueError` when a fold holds too few tokens."""
    sources = ", ".join(reference_documents.partitions)
    shards = reference_documents.shards("documents")
    return engine.map([_training_task(fold, shards, sources, config) for fold in FOLDS])


def _training_task(fold: int, shards: Sequence[Shard], sources: str, config: PerplexityParams) -> Task:
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
    with working_folder(inputs.store, "ngrams") as folder:
        yield from _trained(inputs, payload, folder)


def _trained(inputs: Inputs, payload: _Training, folder: Path) -> Iterable[Made]:
    config = payload.config
    limit = _byte_limits(inputs, payload)
    trainer = NgramTrainer(
        config.order, config.max_vocabulary, config.min_count, config.memory_megabytes, folder=folder
    )
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
    for name in FILE_NAMES:
        yield "perplexity_model", File(f"fold-{payload.fold}-{name}", folder / name)
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


def model_objects(files: Iterable[Shard]) -> tuple[str, ...]:
    """Object hashes of both models' files: those of fold 0, then those of fold 1, each in the order of FILE_NAMES."""
    by_name = {shard.name: shard.object for shard in files}
    wanted = [f"fold-{fold}-{name}" for fold in FOLDS for name in FILE_NAMES]
    if missing := [name for name in wanted if name not in by_name]:
        raise ValueError(f"perplexity: the model lacks the file {missing[0]}; materialize perplexity_model again")
    return tuple(by_name[name] for name in wanted)


def score_shards(
    shards: Sequence[Shard], models: tuple[str, ...], config: PerplexityParams, engine: Engine
) -> list[Result]:
    """Score every shard of documents; part "perplexity". models: see `model_objects`.

    Of the config only max_scored_tokens matters here.
    """
    params = {"max_scored_tokens": config.max_scored_tokens, "unicode": unicodedata.unidata_version}
    return engine.map(
        [
            Task(
                score_shard,
                "filters.perplexity.score",
                SCORING_VERSION,
                params,
                (shard.object,),
                models,
                payload=config.max_scored_tokens,
                rows=shard.rows,
            )
            for shard in shards
        ]
    )


def score_shard(inputs: Inputs, payload: int) -> Iterable[Made]:
    """The task of one shard: its scores and their tally. payload: max_scored_tokens."""
    documents = inputs.table(0, ["doc_id", "text"])
    models = _opened(tuple(inputs.broadcast_path(index) for index in range(inputs.broadcast_count)))
    scores = perplexity_of(documents, models, payload)
    yield "perplexity", scores
    yield Stats(score_tally(documents, scores))


@lru_cache(maxsize=1)
def _opened(paths: tuple[Path, ...]) -> list[NgramModel]:
    """The models in these files, opened once for all shards that a process scores: what lies in the store stays."""
    return [NgramModel.open(paths[fold * len(FILE_NAMES) : (fold + 1) * len(FILE_NAMES)]) for fold in FOLDS]


def perplexity_of(documents: pa.Table, models: Sequence[NgramModel], max_tokens: int) -> pa.Table:
    """Table of schema PERPLEXITY, one row per document (columns doc_id, text).

    models: of fold 0 and of fold 1. A document is one sequence, begun by <s>, its end not scored. Memory: one copy of
    the texts of a fold.
    """
    own = fold_of(documents["doc_id"])
    found = Likelihoods.nothing(len(own))
    for fold in FOLDS:
        mine = own == fold
        if mine.any():
            found.put(mine, likelihoods(models[1 - fold], documents["text"].filter(pa.array(mine)), max_tokens))
    return score_table(documents["doc_id"], found, 1 - own)


def likelihoods(model: NgramModel, texts: pa.ChunkedArray, max_tokens: int) -> Likelihoods:
    """What one model says of texts, read up to max_tokens words each."""
    log_probability, tokens = model.score(texts, max_tokens)
    read = np.array(text_bytes(texts))
    for text in np.flatnonzero(tokens == max_tokens):
        data = np.frombuffer(texts[int(text)].as_py().encode(), np.uint8)
        read[text] = bytes_of_words(data, 0, len(data), language_model_alphabet(), max_tokens)
    return Likelihoods(log_probability, tokens, read)


@numba.njit(nogil=True, cache=True)
def bytes_of_words(data, at, end, alphabet, count):  # type: ignore[no-untyped-def]
    """Bytes from `at` to the end of that many words, or to `end` where there are no more of them."""
    begin = at
    for _ in range(count):
        _, at, _, characters = next_word(data, at, end, alphabet)
        if characters == 0:
            return end - begin
    _, _, _, characters = next_word(data, at, end, alphabet)
    return at - begin if characters else end - begin
