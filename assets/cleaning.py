"""Clean documents: repaired text with a language; and the audit whether they may be used."""

from assets.metered import asset
from pipelines.clean.audit import VERSION as AUDIT_VERSION
from pipelines.clean.audit import audit
from pipelines.clean.params import CleanParams
from pipelines.clean.stage import VERSION, clean
from pipelines.dataset import Dataset, Draft
from pipelines.engines.local import Engine
from pipelines.health import COMPLIANCE, DRIFT, DROPS_SOME, KEEPS_SOME, ROWS_BALANCE


@asset(
    group="cleaning",
    kinds={"python", "parquet"},
    shows="documents",
    stage_versions=[VERSION],
    partitioned_by_source=True,
    checks=[ROWS_BALANCE, KEEPS_SOME, DROPS_SOME, DRIFT],
)
def clean_documents(raw_documents: Dataset, config: CleanParams, engine: Engine) -> Draft:
    """Documents with broken text repaired, personal data masked and their language told, that pass the rules.

    What was dropped, for its quality, its language or because it may not be used, is in the part `decisions` with the
    rule that objected; the part `quality` has everything that was measured.
    """
    return clean(raw_documents, config, engine)


@asset(
    group="cleaning",
    kinds={"python"},
    shows="audit",
    stage_versions=[AUDIT_VERSION],
    partitioned_by_source=True,
    checks=[*COMPLIANCE],
)
def compliance_audit(raw_documents: Dataset, clean_documents: Dataset, config: CleanParams, engine: Engine) -> Draft:
    """What the profile requires of a source, and what its clean documents are found to be, obligation by obligation.

    Nothing goes on of a source that fails one: `unique_documents` rests on the audit of the documents that it holds.
    """
    return audit(raw_documents, clean_documents, config, engine)
