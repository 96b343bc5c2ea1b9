"""What filters are worth: each measured on one labelled sample."""

from assets.metered import asset
from pipelines.dataset import Dataset, Draft
from pipelines.engines.local import Engine
from pipelines.filters import comparison
from pipelines.filters.comparison import compare_filters
from pipelines.filters.comparison_params import ComparisonParams
from pipelines.filters.perplexity import likelihood
from pipelines.filters.perplexity.params import PerplexityParams
from pipelines.filters.toxicity import calibration, experts, stage
from pipelines.filters.toxicity.params import ToxicityParams
from resources.similarity import SIMHASH


@asset(
    group="evaluation",
    kinds={"python"},
    shows="",
    stage_versions=[
        comparison.VERSION,
        stage.VERSION,
        experts.VERSION,
        calibration.VERSION,
        likelihood.SCORING_VERSION,
        *SIMHASH.version,
    ],
)
def filter_benchmark(
    unique_documents: Dataset,
    perplexity_model: Dataset,
    config: ComparisonParams,
    toxicity: ToxicityParams,
    perplexity: PerplexityParams,
    engine: Engine,
) -> Draft:
    """SimHash, screen, cascade, neural model and perplexity on one labelled sample: how good, how fast, how dear.

    Without a sample (`filter_benchmark.sample.path`) nothing is measured.
    """
    return compare_filters(unique_documents, perplexity_model, config, toxicity, perplexity, SIMHASH, engine)
