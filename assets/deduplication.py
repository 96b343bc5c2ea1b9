"""Duplicates: found over all sources at once, removed source by source."""

from assets.metered import asset
from pipelines.dataset import Dataset, Draft
from pipelines.dedup import clusters, signatures, unique
from pipelines.dedup.clusters import find_duplicates
from pipelines.dedup.params import DedupParams
from pipelines.dedup.unique import drop_duplicates
from pipelines.engines.local import Engine
from pipelines.health import DRIFT, DROPS_SOME, KEEPS_SOME, NO_COPIES, ROWS_BALANCE


@asset(
    group="deduplication",
    kinds={"numba", "parquet"},
    shows="clusters",
    stage_versions=[signatures.VERSION, clusters.VERSION],
    checks=[ROWS_BALANCE, NO_COPIES, DROPS_SOME, DRIFT],
)
def duplicate_clusters(
    clean_documents: Dataset, config: DedupParams, engine: Engine, earlier: Dataset | None = None
) -> Draft:
    """Which documents are copies or near-copies of another one that stays, over all sources.

    Copies are found by hash, near-copies by MinHash or SimHash; each removed document is similar enough to the one kept
    in its place, and an earlier source of the profile wins over a later one.
    """
    return find_duplicates(clean_documents, config, engine, earlier)


@asset(
    group="deduplication",
    kinds={"python", "parquet"},
    shows="documents",
    stage_versions=[unique.VERSION],
    partitioned_by_source=True,
    checks=[ROWS_BALANCE, NO_COPIES, KEEPS_SOME, DRIFT],
)
def unique_documents(
    clean_documents: Dataset,
    duplicate_clusters: Dataset,
    compliance_audit: Dataset,  # nothing of it is read: what has not passed the audit goes no further
    engine: Engine,
) -> Draft:
    """Clean documents that passed the audit, with all but one member of every duplicate cluster removed."""
    return drop_duplicates(clean_documents, duplicate_clusters, engine)
