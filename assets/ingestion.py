"""Raw documents: every source as it was found."""

from assets.metered import asset
from pipelines.dataset import Draft
from pipelines.engines.local import Engine
from pipelines.health import DRIFT, KEEPS_SOME, NOT_EMPTIED, ROWS_BALANCE
from pipelines.ingest.params import IngestParams, Source
from pipelines.ingest.stage import VERSION, ingest


@asset(
    group="ingestion",
    kinds={"python", "parquet"},
    shows="documents",
    stage_versions=[VERSION],
    partitioned_by_source=True,
    checks=[ROWS_BALANCE, NOT_EMPTIED, KEEPS_SOME, DRIFT],
)
def raw_documents(source: Source, config: IngestParams, engine: Engine) -> Draft:
    """Documents as their source holds them, one row each, with a stable id.

    What could not be read is in the part `rejects`, with file, record and reason.
    """
    return ingest(source, config, engine)
