"""Raw documents: every source as it was found."""

from assets.metered import asset
from pipelines.dataset import Draft
from pipelines.engines.local import Engine
from pipelines.health import DAMAGE, DRIFT, KEEPS_SOME, NOT_EMPTIED, ROWS_BALANCE
from pipelines.ingest.params import IngestParams, Source
from pipelines.ingest.stage import VERSION, ingest
from pipelines.removals import Removals


@asset(
    group="ingestion",
    kinds={"python", "parquet"},
    shows="documents",
    stage_versions=[VERSION],
    partitioned_by_source=True,
    checks=[ROWS_BALANCE, NOT_EMPTIED, KEEPS_SOME, DAMAGE, DRIFT],
)
def raw_documents(source: Source, config: IngestParams, removals: Removals, engine: Engine) -> Draft:
    """Documents as their source holds them, one row each, with a stable id.

    What could not be read, and what is to be forgotten, is in the part `rejects`, with file, record and reason.
    """
    return ingest(source, config, engine, removals)
