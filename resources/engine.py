"""The engine and the price book as Dagster resources."""

from pathlib import Path

import dagster as dg
from dagster._config.pythonic_config import ConfigurableResourceFactory

from pipelines.engines.local import Engine
from pipelines.prices.book import PriceBook, load_book
from pipelines.store import Store


class EngineResource(ConfigurableResourceFactory[Engine]):
    """Runs shard tasks on this machine, on the dataset store."""

    store: str
    workers: int

    def create_resource(self, context: dg.InitResourceContext) -> Engine:
        """One engine for each step."""
        return Engine(Store(self.store), self.workers)


class PricesResource(ConfigurableResourceFactory[PriceBook]):
    """The price book that turns usage into dollars."""

    path: str

    def create_resource(self, context: dg.InitResourceContext) -> PriceBook:
        """The book as it stands now."""
        return load_book(Path(self.path))
