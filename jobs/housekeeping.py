"""Which runs may go from Dagster, and their removal: records, events, logs. The ledger and the store are not touched.

What people still look at stays: the runs that hold the newest record of any asset, source or check, so pages,
staleness and latest values come out the same as before.
"""

import contextlib
import datetime
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.definitions.data_version import extract_data_provenance_from_entry
from dagster._core.events import ASSET_EVENTS
from dagster._core.storage.dagster_run import FINISHED_STATUSES

PAGE = 100
BACKFILL_TAG = "dagster/backfill"


def needed_runs(instance: dg.DagsterInstance, checks: Sequence[dg.AssetCheckKey] = ()) -> set[str]:
    """Ids of the runs that hold the newest event of each kind of any asset and partition, what Dagster compares those
    with to tell what is stale, or the newest evaluation of one of these checks."""
    needed: set[str] = set()
    compared: set[tuple[dg.AssetKey, int]] = set()
    for asset in instance.all_asset_keys():
        for kind in ASSET_EVENTS:
            for record in _newest(instance, asset, kind):
                needed.add(record.run_id)
                provenance = extract_data_provenance_from_entry(record.event_log_entry)
                inputs = provenance.input_storage_ids if provenance else {}
                compared |= {(key, pointer) for key, pointer in inputs.items() if pointer is not None}
    for asset, pointer in compared:
        needed |= {record.run_id for record in _newest_until(instance, asset, pointer)}
    evaluated = instance.event_log_storage.get_latest_asset_check_execution_by_key(list(checks))
    return needed | {record.run_id for record in evaluated.values()}


def _newest(instance: dg.DagsterInstance, asset: dg.AssetKey, kind: dg.DagsterEventType) -> Iterator[Any]:
    """The newest event of a kind: of the asset, and of each of its partitions."""
    storage = instance.event_log_storage
    yield from storage.get_event_records(dg.EventRecordsFilter(kind, asset_key=asset), limit=1)
    ids = list(storage.get_latest_storage_id_by_partition(asset, kind).values())
    for start in range(0, len(ids), PAGE):
        wanted = dg.EventRecordsFilter(kind, asset_key=asset, storage_ids=ids[start : start + PAGE])
        yield from storage.get_event_records(wanted)


def _newest_until(instance: dg.DagsterInstance, asset: dg.AssetKey, pointer: int) -> Iterator[Any]:
    """The newest materialization of each partition of an asset as they stood when something was made of it.

    pointer: storage id up to which its maker looked. A partition is stale to Dagster if its data version is not that.
    """
    storage, kind = instance.event_log_storage, dg.DagsterEventType.ASSET_MATERIALIZATION
    for partition in storage.get_latest_storage_id_by_partition(asset, kind):
        wanted = dg.EventRecordsFilter(kind, asset_key=asset, asset_partitions=[partition], before_cursor=pointer + 1)
        yield from storage.get_event_records(wanted, limit=1)


def removable_runs(
    instance: dg.DagsterInstance, before: datetime.datetime, checks: Sequence[dg.AssetCheckKey] = ()
) -> Iterator[str]:
    """Ids of finished runs, oldest first, that ended before this time and that nothing needs any more.

    A run and those that retried it stay or go together. Runs of a backfill that is not finished stay.
    """
    from dagster._core.execution.backfill import BulkActionStatus  # slow to load, and steps have no use for it

    needed = needed_runs(instance, checks)
    kept_families = {_family(record.dagster_run) for record in _records(instance, run_ids=sorted(needed))}
    kept_families |= {
        _family(record.dagster_run)
        for record in _records(instance)
        if not record.dagster_run.is_finished or _ended(record) >= before
    }
    backfills = {
        backfill.backfill_id
        for status in (BulkActionStatus.REQUESTED, BulkActionStatus.CANCELING, BulkActionStatus.FAILING)
        for backfill in instance.get_backfills(status=status)
    }
    for record in _records(instance, statuses=FINISHED_STATUSES):
        run = record.dagster_run
        if _family(run) not in kept_families and run.tags.get(BACKFILL_TAG) not in backfills:
            yield run.run_id


def remove_run(instance: dg.DagsterInstance, run_id: str) -> None:
    """Remove a run with its events and captured output. Nothing happens where it is gone already."""
    if not instance.has_run(run_id):
        return
    with contextlib.suppress(NotImplementedError):  # log managers of clouds keep what they have
        instance.compute_log_manager.delete_logs(prefix=[run_id])
    instance.delete_run(run_id)
    shard = getattr(instance.event_log_storage, "path_for_shard", None)  # SQLite keeps a file for each run
    if shard is not None:
        for suffix in ("", "-wal", "-shm", "-journal"):
            Path(shard(run_id) + suffix).unlink(missing_ok=True)


def _records(instance: dg.DagsterInstance, **how: Any) -> Iterator[dg.RunRecord]:
    """Records of runs, oldest first, a page at a time."""
    ids = how.pop("run_ids", None)
    pages = [None] if ids is None else [ids[start : start + PAGE] for start in range(0, len(ids), PAGE)]
    for page in pages:
        cursor = None
        while True:
            wanted = dg.RunsFilter(run_ids=page, **how)
            records = instance.get_run_records(filters=wanted, limit=PAGE, cursor=cursor, ascending=True)
            yield from records
            if len(records) < PAGE:
                break
            cursor = records[-1].dagster_run.run_id


def _family(run: dg.DagsterRun) -> str:
    return run.root_run_id or run.run_id


def _ended(record: dg.RunRecord) -> datetime.datetime:
    if record.end_time is not None:
        return datetime.datetime.fromtimestamp(record.end_time, datetime.UTC)
    told = record.update_timestamp
    return told if told.tzinfo else told.replace(tzinfo=datetime.UTC)
