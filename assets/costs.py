"""What a materialization cost, as Dagster shows it: a summary in plain words, and figures that plot over time."""

from decimal import Decimal

from assets.values import Metadata, number
from pipelines.costs.account import Account, Attempt
from pipelines.costs.report import dollars, plain, wasted_usd
from pipelines.dataset import Version


def cost_metadata(account: Account, attempt: Attempt, version: Version) -> Metadata:
    """The cost of the attempt that made or confirmed a version, and of everything upstream of the version."""
    charge = attempt.charge
    lineage = account.lineage_usd(version.id)
    wasted = wasted_usd(account).get((version.asset, version.partition), Decimal(0))
    saved = account.saved_usd(attempt)
    metadata: Metadata = {
        "cost/summary": (
            f"This run cost {_amount(charge.usd)} ({plain(charge.compute_hours)} compute-hours). With everything "
            f"upstream, this version cost {_amount(lineage)}. Wasted so far by attempts at this dataset: "
            f"{_amount(wasted)}. Saved in this run by reuse: {_amount(saved)}."
        ),
        "cost/usd": number(charge.usd),
        "cost/lineage_usd": number(lineage),
        "cost/wasted_usd": number(wasted),
        "cost/saved_usd": number(saved),
        "cost/compute_hours": number(charge.compute_hours),
        "cost/cpu_core_hours": number(charge.cpu_core_hours),
        "cost/gpu_hours": number(charge.gpu_hours),
        "cost/energy_kwh": number(charge.energy_kwh),
        "cost/co2e_kg": number(charge.co2e_kg),
        "cost/ledger_id": attempt.id,
        "cost/price_book": account.book.label,
    }
    if tokens := version.stats.get("tokens"):
        metadata["cost/usd_per_million_tokens"] = number(lineage / tokens * 1_000_000)
    return metadata


def _amount(usd: Decimal) -> str:
    return f"${dollars(usd)}" if usd else "nothing"
