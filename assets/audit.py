"""The audit: which materializations in Dagster's event log the ledger knows nothing of.

Such are reported by hand, made by other code, or older than a ledger that was lost. What they cost is not told
anywhere.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from pipelines.costs.ledger import Ledger, Pointer
from pipelines.dataset import dataset_name

PAGE = 200
"""Events in memory at once."""

CHECK = "in_the_ledger"
"""Name of the asset check that tells what an audit found."""

SAYS = "An attempt in the ledger published every materialization. A step looks at the newest, the sensor audit at all."
LISTED = 20


@dataclass(frozen=True)
class Unaccounted:
    """A materialization that no attempt of the ledger published. storage_id: of the event, for cursors."""

    storage_id: int
    asset: str
    partition: str
    run: str
    reason: str

    def told(self) -> str:
        """In a sentence."""
        by = f"run {self.run[:8]}" if self.run else "no run"
        return f"{dataset_name(self.asset, self.partition)} by {by} {self.reason}"


def unaccounted(
    instance: dg.DagsterInstance, ledger: Ledger, asset: str, after: int = 0, *, at_most: int = 100
) -> list[Unaccounted]:
    """The first materializations of an asset, oldest first, that no attempt of the ledger published.

    after: storage id of the last event not to look at. Memory: one page of events, and what is found.
    """
    found: list[Unaccounted] = []
    for page in _pages(instance, asset, after):
        found += _among(page, ledger, asset)
        if len(found) >= at_most:
            break
    return found[:at_most]


def unaccounted_of_late(instance: dg.DagsterInstance, ledger: Ledger, asset: str) -> list[Unaccounted]:
    """The same among the newest materializations, one page of them, for a step to look at on its way."""
    page = instance.fetch_materializations(dg.AssetKey(asset), limit=PAGE).records
    return _among(list(page)[::-1], ledger, asset)


def evaluation(asset: str, found: Sequence[Unaccounted]) -> dict[str, Any]:
    """What an audit found as the fields of a check's result."""
    listed = "\n".join(f"- {one.told()}" for one in found[:LISTED])
    more = f"\n- and {len(found) - LISTED} more" if len(found) > LISTED else ""
    return {
        "asset_key": dg.AssetKey(asset),
        "check_name": CHECK,
        "passed": not found,
        "severity": dg.AssetCheckSeverity.WARN,
        "description": found[0].told() if found else "every materialization is in the ledger",
        "metadata": {"not in the ledger": dg.MarkdownMetadataValue(listed + more)} if found else {},
    }


def newest(instance: dg.DagsterInstance, asset: str) -> int:
    """Storage id of the newest materialization of an asset; 0 if there is none."""
    records = instance.fetch_materializations(dg.AssetKey(asset), limit=1).records
    return records[0].storage_id if records else 0


def _pages(instance: dg.DagsterInstance, asset: str, after: int) -> Iterator[list[Any]]:
    while True:
        wanted = dg.AssetRecordsFilter(dg.AssetKey(asset), after_storage_id=after)
        page = list(instance.fetch_materializations(wanted, limit=PAGE, ascending=True).records)
        if page:
            yield page
        if len(page) < PAGE:
            return
        after = page[-1].storage_id


def _among(page: Sequence[Any], ledger: Ledger, asset: str) -> list[Unaccounted]:
    attempts = {str(_value(record, "cost/ledger_id")) for record in page}
    published = set(ledger.published_by(sorted(attempts)))
    return [wrong for record in page if (wrong := _wrong(record, asset, published))]


def _wrong(record: Any, asset: str, published: set[Pointer]) -> Unaccounted | None:
    attempt, version = _value(record, "cost/ledger_id"), _value(record, "corpusmill/version")
    partition = record.partition_key or ""
    known = {(p.asset, p.partition, p.version) for p in published if p.attempt == attempt}
    if (asset, partition, version) in known:
        return None
    if attempt is None:
        reason = "names no attempt: it was reported by hand or made by other code"
    elif not known:
        reason = f"names the attempt {attempt}, which published nothing in this ledger"
    else:
        reason = f"names version {version}, which attempt {attempt} did not publish for it"
    return Unaccounted(record.storage_id, asset, partition, record.run_id, reason)


def _value(record: Any, key: str) -> Any:
    entry = record.asset_materialization.metadata.get(key)
    return None if entry is None else entry.value
