"""Clean documents: repaired text with a language."""

from assets.metered import asset
from pipelines.clean.params import CleanParams
from pipelines.clean.stage import VERSION, clean
from pipelines.dataset import Dataset, Draft
from pipelines.engines.local import Engine
from pipelines.health import DRIFT, DROPS_SOME, KEEPS_SOME, ROWS_BALANCE


@asset(
    group="cleaning",
    kinds={"python", "parquet"},
    shows="documents",
    stage_versions=[VERSION],
    partitioned_by_source=True,
    checks=[ROWS_BALANCE, KEEPS_SOME, DROPS_SOME, DRIFT],
)
def clean_documents(raw_documents: Dataset, config: CleanParams, engine: Engine) -> Draft:
    """Documents with broken text repaired, white space settled and their language told.

    What was too short or in an unwanted language is dropped, with its reason in the part `decisions`.
    """
    return clean(raw_documents, config, engine)
