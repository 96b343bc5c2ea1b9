"""The engine that a profile asks for."""

from collections.abc import Iterator
from contextlib import contextmanager

from pipelines.engines.local import Engine
from pipelines.engines.spark import SparkEngine
from pipelines.engines.spark_application import Application
from pipelines.store import Store
from resources.settings import EngineParams


@contextmanager
def open_engine(params: EngineParams, store: Store) -> Iterator[Engine]:
    """The engine on a store, until the block ends: whatever Spark has started has ended then, too."""
    if params.kind == "local":
        yield Engine(store, params.workers)
        return
    with Application(params.spark.master or f"local[{params.workers}]", params.spark.conf) as application:
        yield SparkEngine(store, params.workers, application=application)


def describe_engine(params: EngineParams) -> str:
    """Where tasks run, in a sentence."""
    if params.kind == "local":
        return f"Runs shard tasks in {params.workers} worker processes on this machine."
    return f"Runs shard tasks as Spark jobs on {params.spark.master or f'{params.workers} cores of this machine'}."
