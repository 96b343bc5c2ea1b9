"""What people see on every materialization: rows, what was dropped and why, what it cost.

Metadata floats are finite Python floats, integers fit 32 bits or go in as text: Dagster's pages break otherwise.
"""

import math
from collections.abc import Sequence
from typing import Any

import dagster as dg

from pipelines.costs.account import Account, Attempt
from pipelines.costs.ledger import Ledger, Pointer
from pipelines.dataset import SCHEMAS, Version
from pipelines.prices.book import PriceBook, PriceError

Metadata = dict[str, Any]


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
    version: Version, attempt_id: str, ledger: Ledger, prices: PriceBook, pending: Sequence[Pointer], shows: str
) -> Metadata:
    """Everything attached to one materialized partition.

    pending: the step's pointers that have not moved yet: their attempts count as published.
    """
    account = Account(ledger.events(), [*ledger.history(), *pending], prices)
    attempt = account.attempt(attempt_id)
    shown = version.parts.get(shows)
    metadata: Metadata = {"corpusmill/version": version.id}
    if shown is not None and shown.rows:
        key = "dagster/partition_row_count" if version.partition else "dagster/row_count"
        metadata[key] = integer(shown.rows)
    metadata |= _cost_metadata(account, attempt, version)
    metadata |= _stats_metadata(version.stats)
    metadata["lineage/inputs"] = dg.JsonMetadataValue([list(pin) for pin in version.inputs])
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


def number(value: Any) -> dg.FloatMetadataValue:
    """A finite float. Raises `ValueError` for NaN and infinity, which would hang Dagster's pages."""
    plain = float(value)
    if not math.isfinite(plain):
        raise ValueError(f"metadata must be finite, not {plain}")
    return dg.FloatMetadataValue(plain)


def integer(value: int) -> Any:
    """An integer; as text where it does not fit the 32 bits that Dagster's API has for it."""
    return int(value) if abs(value) < 2**31 else str(value)


def _cost_metadata(account: Account, attempt: Attempt, version: Version) -> Metadata:
    charge = attempt.charge
    lineage = account.lineage_usd(version.id)
    saved = account.saved_usd(attempt)
    metadata: Metadata = {
        "cost/usd": number(charge.usd),
        "cost/lineage_usd": number(lineage),
        "cost/saved_usd": number(saved),
        "cost/compute_hours": number(charge.compute_hours),
        "cost/cpu_core_hours": number(charge.cpu_core_hours),
        "cost/gpu_hours": number(charge.gpu_hours),
        "cost/energy_kwh": number(charge.energy_kwh),
        "cost/co2e_kg": number(charge.co2e_kg),
        "cost/ledger_id": attempt.id,
        "cost/price_book": account.book.label,
        "cost/summary": (
            f"This run {charge.usd:.6f} USD ({charge.compute_hours:.5f} compute-hours), everything upstream and this "
            f"{lineage:.6f} USD, saved by reuse {saved:.6f} USD."
        ),
    }
    if tokens := version.stats.get("tokens"):
        metadata["cost/usd_per_million_tokens"] = number(lineage / tokens * 1_000_000)
    return metadata


def attention(stats: dict[str, Any]) -> str | None:
    """A sentence where a stage's counts look like a mistake: nothing came in, or nothing was kept."""
    came_in, went_out = stats.get("documents_in"), stats.get("documents_out")
    if came_in == 0:
        return "No document came in."
    if came_in and went_out == 0:
        return f"None of {came_in:,} documents was kept: look at the reasons, and at the thresholds behind them."
    return None


def _stats_metadata(stats: dict[str, Any]) -> Metadata:
    metadata: Metadata = {}
    if told := attention(stats):
        metadata["attention"] = told
    for key, value in stats.items():
        if isinstance(value, bool) or value is None:
            continue
        if isinstance(value, int):
            metadata[f"stats/{key}"] = integer(value)
        elif isinstance(value, float) and math.isfinite(value):
            metadata[f"stats/{key}"] = number(value)
        elif key == "dropped":
            rows = "\n".join(f"| {reason} | {count} |" for reason, count in sorted(value.items(), key=lambda i: -i[1]))
            metadata["dropped by reason"] = dg.MarkdownMetadataValue(f"| reason | documents |\n|---|---|\n{rows}")
        elif isinstance(value, dict | list) and len(str(value)) < 20_000:
            metadata[f"stats/{key}"] = dg.JsonMetadataValue(value)
        elif isinstance(value, str):
            metadata[f"stats/{key}"] = value[:2000]
    return metadata
