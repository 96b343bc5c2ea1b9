"""Which process works on a run: noted, looked after, and not mistaken for the one of an earlier run."""

import signal
import subprocess
import sys
from collections.abc import Iterator

import dagster as dg
import pytest
from dagster._core.launcher import WorkerStatus

from resources.run_launcher import LocalRunLauncher, note_worker, worker_of

WORKER = """
import signal, sys, time, dagster as dg
from resources.run_launcher import note_worker
with dg.DagsterInstance.from_config(sys.argv[1]) as instance:
    note_worker(instance, sys.argv[2])
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
print("noted", flush=True)
time.sleep(600)
"""


@pytest.fixture
def instance(tmp_path) -> Iterator[dg.DagsterInstance]:
    (tmp_path / "dagster.yaml").write_text("run_launcher: {module: resources.run_launcher, class: LocalRunLauncher}")
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        yield instance


def started(instance: dg.DagsterInstance, **tags: str) -> str:
    """The id of a run that is at work."""
    return instance.create_run_for_job(
        dg.GraphDefinition("nothing").to_job(), status=dg.DagsterRunStatus.STARTED, tags=tags
    ).run_id


def health(instance: dg.DagsterInstance, run: str) -> WorkerStatus:
    return instance.run_launcher.check_run_worker_health(instance.get_run_by_id(run)).status


def test_a_run_is_healthy_while_its_process_lives_and_is_ended_by_its_id(instance, tmp_path):
    run = started(instance)
    assert isinstance(instance.run_launcher, LocalRunLauncher)
    assert health(instance, run) == WorkerStatus.RUNNING  # nobody has said yet that he works on it
    process = subprocess.Popen([sys.executable, "-c", WORKER, str(tmp_path), run], stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"noted\n"
        assert worker_of(instance.get_run_by_id(run)).pid == process.pid
        assert health(instance, run) == WorkerStatus.RUNNING

        assert instance.run_launcher.terminate(run)
        assert process.wait(60) == -signal.SIGINT
    finally:
        process.kill()
    assert instance.get_run_by_id(run).status == dg.DagsterRunStatus.CANCELING
    assert health(instance, run) == WorkerStatus.FAILED


def test_a_retry_begins_without_the_process_of_the_run_before(instance):
    first = started(instance)
    note_worker(instance, first)

    retry = started(instance, **instance.get_run_by_id(first).tags)

    assert worker_of(instance.get_run_by_id(first)) is not None
    assert worker_of(instance.get_run_by_id(retry)) is None
    assert health(instance, retry) == WorkerStatus.RUNNING
