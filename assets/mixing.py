"""What share of the training tokens each source gives: planned from bytes, then made exact from tokens."""

from assets.metered import asset
from pipelines.dataset import Dataset, Draft
from pipelines.engines.local import Engine
from pipelines.health import DRIFT, ROWS_BALANCE, SHARES
from pipelines.mixture import groups
from pipelines.mixture import stage as mixture
from pipelines.mixture.groups import Grouping
from pipelines.mixture.params import MixtureParams
from pipelines.mixture.plan import replan
from pipelines.mixture.stage import plan_mixture
from pipelines.tokens import blend as blending
from pipelines.tokens import order, packing
from pipelines.tokens.blend import blend
from pipelines.tokens.blend_params import BlendParams


@asset(
    group="mixing",
    kinds={"python", "parquet"},
    shows="mixture",
    stage_versions=[mixture.VERSION, groups.VERSION],
    checks=[DRIFT],
)
def training_mixture(filtered_documents: Dataset, config: MixtureParams, engine: Engine) -> Draft:
    """The plan: what each source is to supply, how often it repeats, and what it cannot supply."""
    return plan_mixture(filtered_documents, config, engine)


@asset(
    group="mixing",
    kinds={"python"},
    shows="mixture",
    stage_versions=[mixture.VERSION, groups.VERSION, blending.VERSION, order.VERSION, packing.VERSION],
    checks=[ROWS_BALANCE, SHARES, DRIFT],
)
def training_blend(
    training_mixture: Dataset,
    token_shards: Dataset,
    filtered_documents: Dataset,
    config: BlendParams,
    engine: Engine,
) -> Draft:
    """The mixture with counted tokens: which token shards, how many tokens of each, what is held out for validation."""
    return blend(training_mixture, token_shards, filtered_documents, config, engine, replan, Grouping)
