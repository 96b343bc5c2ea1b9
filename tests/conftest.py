"""What every test shares: no network, one thread per library, a store of its own."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from dagster._core.storage.defs_state.base import set_defs_state_storage
from hypothesis import settings

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ.setdefault("DAGSTER_DISABLE_TELEMETRY", "1")

from pipelines.store import Store

settings.register_profile("compiled", deadline=None)  # the first call of a kernel compiles it
settings.load_profile("compiled")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"))


@pytest.fixture(autouse=True)
def no_instance_of_another_test() -> Iterator[None]:
    """Dagster keeps the storage of the instance last opened in a context variable, and would ask it when it is gone."""
    with set_defs_state_storage(None):
        yield
