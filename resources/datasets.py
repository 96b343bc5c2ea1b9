"""The IO manager: assets are handed handles on versions, never data. Publishing is the decorator's business."""

from collections.abc import Mapping
from typing import Any

import dagster as dg
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_START_TAG, PARTITION_NAME_TAG

from pipelines.costs.ledger import Ledger
from pipelines.dataset import Dataset, Version
from pipelines.store import Store


def needs_sources(asset: str) -> str:
    """What is told of a launch that does not say for which sources."""
    return f"{asset} needs sources: choose partitions, or start the job with `corpusmill run`, which sends all of them"


def run_partitions(tags: Mapping[str, str]) -> bool:
    """Whether a run with these tags says for which sources it is."""
    return PARTITION_NAME_TAG in tags or ASSET_PARTITION_RANGE_START_TAG in tags


class DatasetIOManager(dg.IOManager):
    """Finds the versions that a step reads: its own run's where that has published one, else the current ones."""

    def __init__(self, store_url: str, ledger_url: str) -> None:
        self._store_url, self._ledger_url = store_url, ledger_url

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        """Nothing to do: the step moved its pointers when all its sources were done."""

    def load_input(self, context: dg.InputContext) -> Dataset:
        """The input as a dataset, its partitions in the profile's order. Fails with the names that are missing."""
        asset = context.asset_key.to_user_string()
        partitions = [""]
        if context.has_asset_partitions:
            wanted = set(context.asset_partition_keys)  # arrives in set order
            partitions = [key for key in context.asset_partitions_def.get_partition_keys() if key in wanted]
        run = context.step_context.dagster_run
        root_run = run.root_run_id or run.run_id
        ledger, store = Ledger(self._ledger_url), Store(self._store_url)
        current = {key: ledger.current(asset, key, run=root_run) for key in partitions}
        for key, own in current.items():
            newest = ledger.current(asset, key)
            if own and newest and own.run == root_run != newest.run:
                raise dg.Failure(
                    f"run {root_run[:8]} was overtaken: run {newest.run[:8]} has published {asset} since. Start a new "
                    "run instead of this one again; what is finished is reused",
                    allow_retries=False,
                )
        missing = [key or asset for key, pointer in current.items() if pointer is None]
        if missing:
            raise dg.Failure(
                f"{asset} has not been made for {', '.join(missing)}; materialize it first, for all sources",
                allow_retries=False,
            )
        versions = tuple(Version.load(store, pointer.version) for pointer in current.values() if pointer is not None)
        return Dataset(asset, versions, store)
