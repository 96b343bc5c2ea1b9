"""Stages `perplexity_model` and `perplexity_scores`: what a language model of good text thinks of every document.

Three kinds of models: trained here (`ngram_folds.py`), in a file of KenLM (`kenlm_file.py`), or a causal model of
transformers (`causal.py`). Whichever it is, the reference is scored by it, and thresholds follow the reference's own
scores; which perplexity is too high is decided in `rules.py`.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.dataset import Dataset, Draft, Part, Shard, join_parts
from pipelines.engines.local import Engine
from pipelines.engines.task import File, Inputs, Made, Result, Stats, Task
from pipelines.filters import tallies
from pipelines.filters.perplexity import causal, kenlm_file, ngram_folds
from pipelines.filters.perplexity.causal import Causal
from pipelines.filters.perplexity.kenlm_file import KenlmFile
from pipelines.filters.perplexity.likelihood import score_tally
from pipelines.filters.perplexity.params import PerplexityParams
from pipelines.histograms import added
from pipelines.schemas import PERPLEXITY
from pipelines.store import digest

REFERENCE_VERSION = 3
"""Of the code that describes the reference; raise it when the description changes."""

REFERENCE_FILE = "reference.json"
PERCENTILE_STEPS = 1000
"""The reference's perplexities are kept as quantiles 0/1000 … 1000/1000."""


@dataclass(frozen=True)
class ModelIdentity:
    """What made a perplexity: two are comparable if it is the same. kind: as in `PerplexityParams.model`. sha256: of
    the model's content and of how it reads text, hex."""

    kind: str
    sha256: str

    def __str__(self) -> str:
        return f"{self.kind} {self.sha256[:12]}"


def train_perplexity(reference_documents: Dataset, config: PerplexityParams, engine: Engine) -> Draft:
    """Train the model, where it is one that is trained here, and score the reference with it.

    reference_documents: documents of the reference sources only. Part "perplexity_model": the files of what was
    trained (a model made elsewhere stays where it is, known by its hash), and reference.json: {"model": {"kind",
    "sha256"}, "documents", "languages": {code: documents}, "quantiles": [perplexity at 0, 0.1 … 100 %], "by_language":
    {code: {"documents", "quantiles"}}}. Raises `ValueError` when the reference is too small, or there is no such model.
    """
    shards = reference_documents.shards("documents")
    trained = ngram_folds.train_folds(reference_documents, config, engine) if config.model == "ngram" else []
    files = tuple(shard for result in trained for shard in result.parts["perplexity_model"].shards)
    model = _identity(files, config)
    scored = _score(shards, files, config, engine)
    scores = [shard for result in scored for shard in result.parts["perplexity"].shards]
    described = engine.map([_description_task(shards, scores, model, reference_documents.partitions)])
    stats = {
        "model": vars(model),
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

    Of the config only what scores matters here. Stats count the documents without a score, and name the model. Raises
    `ValueError` where the config asks for another model than the reference was scored by.
    """
    files = [shard for shard in perplexity_model.shards("perplexity_model") if shard.name != REFERENCE_FILE]
    asked, made_by = _identity(files, config), model_of(perplexity_model)
    if made_by != asked:
        raise ValueError(
            f"perplexity: the reference was scored by the model {made_by}, and the parameters ask for {asked}; "
            "materialize perplexity_model again, so that thresholds fit the scores"
        )
    results = _score(unique_documents.shards("documents"), files, config, engine)
    nothing = pa.table({"text": pa.array([], pa.large_string())})
    empty = score_tally(nothing, PERPLEXITY.empty_table())
    parts = {"perplexity": Part("table", ()), **join_parts([result.parts for result in results])}
    return Draft(parts, {**added([empty, *(result.stats for result in results)]), "model": vars(asked)})


def _identity(files: Sequence[Shard], config: PerplexityParams) -> ModelIdentity:
    """The model that the parameters ask for. files: of the models that were trained here."""
    if config.model == "kenlm":
        return ModelIdentity("kenlm", KenlmFile.find(config).identity)
    if config.model == "causal":
        return ModelIdentity("causal", Causal.find(config).identity(config))
    return ModelIdentity("ngram", digest(list(ngram_folds.model_objects(files))))


def _score(shards: Sequence[Shard], files: Sequence[Shard], config: PerplexityParams, engine: Engine) -> list[Result]:
    """Part "perplexity" of every shard of documents."""
    if config.model == "kenlm":
        return kenlm_file.score_shards(shards, config, engine)
    if config.model == "causal":
        return causal.score_shards(shards, config, engine)
    return ngram_folds.score_shards(shards, ngram_folds.model_objects(files), config, engine)


# -- the reference -----------------------------------------------------------------------------------------------


def reference_of(perplexity_model: Dataset) -> dict[str, Any]:
    """What `train_perplexity` says of the reference. Raises `ValueError` where it is missing."""
    for shard in perplexity_model.shards("perplexity_model"):
        if shard.name == REFERENCE_FILE:
            reference: dict[str, Any] = json.loads(perplexity_model.store.get(shard.object))
            if "model" in reference:
                return reference
    raise ValueError(f"the perplexity model lacks {REFERENCE_FILE}, or is old; materialize perplexity_model again")


def model_of(perplexity_model: Dataset) -> ModelIdentity:
    """The model that scored the reference."""
    return ModelIdentity(**reference_of(perplexity_model)["model"])


@dataclass(frozen=True)
class _Description:
    shards: int
    model: ModelIdentity
    sources: str


def _description_task(
    documents: Sequence[Shard], scores: Sequence[Shard], model: ModelIdentity, sources: Sequence[str]
) -> Task:
    objects = tuple(shard.object for shard in (*documents, *scores))
    payload = _Description(len(documents), model, ", ".join(sources))
    params = {"model": vars(model)}
    return Task(describe_reference, "filters.perplexity.reference", REFERENCE_VERSION, params, objects, payload=payload)


def describe_reference(inputs: Inputs, payload: _Description) -> Iterable[Made]:
    """The task that writes reference.json from shards of documents and then their scores."""
    count = payload.shards
    languages = tallies.named(_column(inputs, range(count), "language", pa.large_string()))
    perplexities = _column(inputs, range(count, 2 * count), "perplexity", pa.float64())
    if perplexities.null_count == len(perplexities):
        raise ValueError(
            f"perplexity: the reference ({payload.sources or 'no source'}) holds no document of two tokens or more, "
            "so no threshold can follow it; name more reference sources"
        )
    by_language = {}
    for code in sorted(pc.unique(languages).to_pylist()):
        mine = perplexities.filter(pc.equal(languages, code)).drop_null().to_numpy()
        if len(mine):
            by_language[code] = {"documents": len(mine), "quantiles": _quantiles(mine, len(mine) - 1)}
    known = perplexities.drop_null().to_numpy()
    quantiles = _quantiles(known, PERCENTILE_STEPS)
    counts = tallies.count_by_language(languages)
    reference = {
        "model": vars(payload.model),
        "documents": len(known),
        "languages": counts,
        "quantiles": quantiles,
        "by_language": by_language,
    }
    yield "perplexity_model", File(REFERENCE_FILE, json.dumps(reference, sort_keys=True).encode())
    shown = {f"p{p}": quantiles[p * PERCENTILE_STEPS // 100] for p in (1, 10, 50, 90, 99)}
    yield Stats({"documents": len(known), "languages": counts, "perplexity": shown})


def _column(inputs: Inputs, tables: Iterable[int], name: str, kind: pa.DataType) -> pa.ChunkedArray:
    """One column of several tables, one after the other."""
    return pa.chunked_array([chunk for i in tables for chunk in inputs.table(i, [name])[name].chunks], kind)


def _quantiles(values: npt.NDArray[np.float64], steps: int) -> list[float]:
    """Quantiles 0/steps … steps/steps, in at most `PERCENTILE_STEPS` steps. Few values are kept as they are, sorted."""
    steps = min(max(steps, 1), PERCENTILE_STEPS)
    return [float(value) for value in np.quantile(values, np.arange(steps + 1) / steps)]
