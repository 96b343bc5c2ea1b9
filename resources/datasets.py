"""The IO manager: assets are handed handles on versions, never data. Publishing is the decorator's business."""

from typing import Any

import dagster as dg

from pipelines.costs.ledger import Ledger
from pipelines.dataset import Dataset, Version
from pipelines.store import Store


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
        ledger, store = Ledger(self._ledger_url), Store(self._store_url)
        current = {key: ledger.current(asset, key, run=run.root_run_id or run.run_id) for key in partitions}
        missing = [key or asset for key, pointer in current.items() if pointer is None]
        if missing:
            raise dg.Failure(
                f"{asset} has not been made for {', '.join(missing)}; materialize it first, for all sources",
                allow_retries=False,
            )
        versions = tuple(Version.load(store, pointer.version) for pointer in current.values() if pointer is not None)
        return Dataset(asset, versions, store)
