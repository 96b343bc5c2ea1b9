"""Scores of documents, and the decision which of them pass."""

from assets.metered import asset
from pipelines.dataset import Dataset, Draft
from pipelines.engines.local import Engine
from pipelines.filters import decide
from pipelines.filters.contamination import stage as contamination
from pipelines.filters.contamination.params import ContaminationParams
from pipelines.filters.contamination.stage import score_contamination
from pipelines.filters.decide import filter_documents
from pipelines.filters.params import FilterParams
from pipelines.filters.perplexity import likelihood, ngram_folds
from pipelines.filters.perplexity import stage as perplexity
from pipelines.filters.perplexity.params import PerplexityParams
from pipelines.filters.perplexity.stage import score_perplexity, train_perplexity
from pipelines.filters.toxicity import calibration, experts
from pipelines.filters.toxicity import stage as toxicity
from pipelines.filters.toxicity.params import ToxicityParams
from pipelines.filters.toxicity.stage import score_toxicity
from pipelines.health import DRIFT, DROPS_SOME, KEEPS_SOME, NOTHING_BEYOND, ROWS_BALANCE


@asset(
    group="filtering",
    kinds={"sklearn", "parquet"},
    shows="toxicity",
    stage_versions=[toxicity.VERSION, experts.VERSION, calibration.VERSION],
    partitioned_by_source=True,
    checks=[ROWS_BALANCE],
)
def toxicity_scores(unique_documents: Dataset, config: ToxicityParams, engine: Engine) -> Draft:
    """How likely the worst passage of each document is toxic: a cheap screen, and neural models where it is not sure.

    Documents in a language that no scorer knows get no score instead of a low one.
    """
    return score_toxicity(unique_documents, config, engine)


@asset(
    group="filtering",
    kinds={"numba"},
    shows="perplexity_model",
    stage_versions=[ngram_folds.TRAINING_VERSION, likelihood.SCORING_VERSION, perplexity.REFERENCE_VERSION],
    narrow={"unique_documents": lambda profile: profile.reference_sources or profile.source_names},
)
def perplexity_model(unique_documents: Dataset, config: PerplexityParams, engine: Engine) -> Draft:
    """The language model that judges documents, and what it thinks of the reference sources.

    By default two n-gram models, each trained on one half of the reference: a document is scored by the model of the
    half that it does not belong to, so no model scores text that it saw. A model made elsewhere stays where it is.
    """
    return train_perplexity(unique_documents, config, engine)


@asset(
    group="filtering",
    kinds={"numba", "parquet"},
    shows="perplexity",
    stage_versions=[likelihood.SCORING_VERSION],
    partitioned_by_source=True,
    checks=[ROWS_BALANCE],
)
def perplexity_scores(
    unique_documents: Dataset, perplexity_model: Dataset, config: PerplexityParams, engine: Engine
) -> Draft:
    """How surprising each document is to the language model: perplexity, and bits per byte."""
    return score_perplexity(unique_documents, perplexity_model, config, engine)


@asset(
    group="filtering",
    kinds={"numba", "parquet"},
    shows="contamination",
    stage_versions=[contamination.VERSION],
    partitioned_by_source=True,
    checks=[ROWS_BALANCE],
)
def contamination_scores(unique_documents: Dataset, config: ContaminationParams, engine: Engine) -> Draft:
    """What each document shares with the evaluation sets; the part `contamination_hits` lists the passages.

    Without evaluation sets (`contamination.sets`) nothing is read, and nothing found.
    """
    return score_contamination(unique_documents, config, engine)


@asset(
    group="filtering",
    kinds={"python", "parquet"},
    shows="documents",
    stage_versions=[decide.VERSION],
    partitioned_by_source=True,
    checks=[ROWS_BALANCE, NOTHING_BEYOND, KEEPS_SOME, DROPS_SOME, DRIFT],
)
def filtered_documents(
    unique_documents: Dataset,
    toxicity_scores: Dataset,
    perplexity_scores: Dataset,
    perplexity_model: Dataset,
    contamination_scores: Dataset,
    config: FilterParams,
    engine: Engine,
) -> Draft:
    """Documents that pass every rule; the part `decisions` says for each document which rule decided, and why;
    `buckets`, whether its perplexity lies in the head, the middle or the tail of the reference's.

    Scores are read, not made: a changed threshold decides again and scores nothing.
    """
    scores = toxicity_scores, perplexity_scores, contamination_scores
    return filter_documents(unique_documents, *scores, perplexity_model, config, engine)
