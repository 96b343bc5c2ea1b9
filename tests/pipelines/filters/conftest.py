"""A store and an engine for every test of the filters."""

from pathlib import Path

import pytest

from pipelines.engines.local import Engine
from pipelines.filters.toxicity.screen import Screen, extract_screen
from pipelines.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"))


@pytest.fixture
def engine(store: Store) -> Engine:
    return Engine(store, workers=1, attempt="test")


@pytest.fixture(scope="session")
def screen() -> Screen:
    return extract_screen()
