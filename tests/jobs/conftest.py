"""What tests of the command and of whole runs share."""

import multiprocessing
from multiprocessing import forkserver
from pathlib import Path

import pytest

from jobs.environment import PROFILE_VARIABLE, SET_VARIABLE


@pytest.fixture(autouse=True, scope="session")
def workers_begin_with_the_stages() -> None:
    """Worker processes of runs in this process are forked with the stages loaded, as those of a step of its own are."""
    multiprocessing.get_context("forkserver").set_forkserver_preload(["jobs.build"])
    forkserver.ensure_running()


@pytest.fixture(scope="session")
def milled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which everything up to the filtered documents has been made, with an evaluation set. Tests only read
    what is there, or add to its ledger."""
    import dagster as dg

    from tests.jobs.corpus import EXAM, make_profile, write_exam
    from tests.jobs.test_chain import Mill, reason

    folder = tmp_path_factory.mktemp("milled")
    write_exam(folder)
    profile = make_profile(folder, contamination={"sets": EXAM})
    with dg.DagsterInstance.ephemeral() as instance:
        result = Mill(profile, instance).run("*filtered_documents")
        assert result.success, reason(result)
    return folder


@pytest.fixture
def own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A Dagster home of the test's own; what the command exports is undone after it."""
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    for name in (PROFILE_VARIABLE, SET_VARIABLE):
        monkeypatch.setenv(name, "")
