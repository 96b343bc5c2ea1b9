"""What people see on every materialization: rows, what it cost, what came of it.

What came of it is `outcomes.py`'s, what it cost `costs.py`'s, samples of texts are `previews.py`'s.
"""

from collections.abc import Sequence

import dagster as dg

from assets.costs import cost_metadata
from assets.explorer import explorer_metadata
from assets.outcomes import figures_metadata, outcome_metadata
from assets.savings import savings_metadata
from assets.values import Metadata, integer, number, table
from assets.worth import worth_metadata
from pipelines.costs.account import Account
from pipelines.costs.ledger import Ledger, Pointer
from pipelines.dataset import SCHEMAS, Dataset
from pipelines.prices.book import PriceBook, PriceError


def table_schema(part: str) -> Metadata:
    """Definition metadata: the columns of the part that stands for the dataset, where it is a table."""
    if part not in SCHEMAS:
        return {}
    columns = [
        dg.TableColumn(
            column.name,
            str(column.type),
            description=(column.metadata or {}).get(b"description", b"").decode(),
            constraints=dg.TableColumnConstraints(nullable=column.nullable),
        )
        for column in SCHEMAS[part]
    ]
    return {"dagster/column_schema": dg.TableSchema(columns)}


def materialization_metadata(
    made: Dataset, attempt_id: str, ledger: Ledger, prices: PriceBook, pending: Sequence[Pointer], shows: str
) -> Metadata:
    """Everything attached to one materialized partition.

    pending: the step's pointers that have not moved yet: their attempts count as published.
    """
    version = made.version
    account = Account(ledger.events(), [*ledger.history(), *pending], prices)
    attempt = account.attempt(attempt_id)
    shown = version.parts.get(shows)
    metadata: Metadata = {"corpusmill/version": version.id}
    if shown is not None and shown.kind == "table":
        key = "dagster/partition_row_count" if version.partition else "dagster/row_count"
        metadata[key] = integer(shown.rows)
    cost = cost_metadata(account, attempt, version)
    metadata["cost/summary"] = cost["cost/summary"]
    metadata |= outcome_metadata(version.stats) | explorer_metadata(made, ledger, pending)
    metadata |= worth_metadata(version.stats, prices)
    metadata |= savings_metadata(version, account, ledger, made.store)
    metadata |= cost | figures_metadata(version.stats)
    pins = [{"asset": asset, "source": partition, "version": pin} for asset, partition, pin in version.inputs]
    metadata["lineage/inputs"] = table(pins) if pins else "none: it was read from its source"
    return metadata


def failure_metadata(attempt_id: str, ledger: Ledger, prices: PriceBook) -> Metadata:
    """Attached to the observation that records a failed attempt."""
    attempt = Account(ledger.events(), ledger.history(), prices).attempt(attempt_id)
    metadata = {"cost/ledger_id": attempt.id, "cost/price_book": prices.label, "error": attempt.error or attempt.status}
    try:
        charge = attempt.charge
    except PriceError as error:  # told beside the error that ended the attempt, never in its place
        return metadata | {"cost/unknown": str(error)}
    return metadata | {"cost/usd": number(charge.usd), "cost/compute_hours": number(charge.compute_hours)}
