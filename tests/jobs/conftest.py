"""What tests of the command share."""

from pathlib import Path

import pytest

from jobs.environment import PROFILE_VARIABLE, SET_VARIABLE


@pytest.fixture
def own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A Dagster home of the test's own; what the command exports is undone after it."""
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    for name in (PROFILE_VARIABLE, SET_VARIABLE):
        monkeypatch.setenv(name, "")
