"""The ledger: nothing lost, dead attempts settled, one run at a time."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections import namedtuple
from pathlib import Path

import pytest

from pipelines.costs.database import refuse_unsafe_file_system
from pipelines.costs.ledger import Busy, Ledger, LedgerError, Pointer
from pipelines.processes import ProcessIdentity, process_identity
from pipelines.usage import Usage

ROOT = Path(__file__).parents[3]

DYING = """
import os, signal, sys
from pipelines.costs.ledger import Ledger
from pipelines.usage import Usage
ledger = Ledger(sys.argv[1])
attempt = ledger.open_attempt(root_run="r", run="r", step="s", asset="a", partition="p", role="stage", usage=Usage())
ledger.heartbeat(attempt, "r", Usage(cpu_seconds=1.5), {})
ledger.heartbeat(attempt, "r", Usage(cpu_seconds=2.5), {})
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'ledger.db'}"


def open_attempt(ledger: Ledger, partition: str = "p", owner: ProcessIdentity | None = None) -> str:
    return ledger.open_attempt(
        root_run="r", run="r", step="s", asset="a", partition=partition, role="stage", usage=Usage(), owner=owner
    )


def write_many(url: str, writer: int, count: int) -> None:
    ledger = Ledger(url)
    for number in range(count):
        attempt = open_attempt(ledger, f"{writer}-{number}")
        ledger.close_attempt(attempt, "r", "done", Usage(cpu_seconds=1), {"version": f"v{writer}-{number}"})
        ledger.publish([Pointer("a", f"{writer}-{number}", "v", attempt, "r")])


def assert_concurrent_writers_lose_nothing(url: str) -> None:
    """Eight processes write at once; the first of them makes the tables, the others find them."""
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=write_many, args=(url, number, 25)) for number in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    ledger = Ledger(url)
    assert [writer.exitcode for writer in writers] == [0] * 8
    assert len(ledger.events(kinds=("opened",))) == len(ledger.events(kinds=("closed",))) == 200
    assert len({event.attempt for event in ledger.events(kinds=("closed",))}) == 200
    assert len(ledger.all_current()) == len(ledger.history()) == 200


def test_concurrent_writers_lose_nothing(url: str) -> None:
    assert_concurrent_writers_lose_nothing(url)


def test_tries_of_the_same_step_are_numbered(url: str) -> None:
    ledger = Ledger(url)

    assert [open_attempt(ledger), open_attempt(ledger), open_attempt(ledger, "q")] == ["r/s/0/p", "r/s/1/p", "r/s/0/q"]


def test_a_killed_attempt_is_settled_to_its_last_heartbeat_by_whoever_opens_the_ledger_next(url: str) -> None:
    died = subprocess.run([sys.executable, "-c", DYING, url], cwd=ROOT, check=False)
    assert died.returncode == -signal.SIGKILL

    ledger = Ledger(url)

    (settled,) = ledger.events(kinds=("settled",))
    assert settled.attempt == "r/s/0/p"
    assert Usage.from_record(settled.payload["usage"]).cpu_seconds == 2.5
    assert Ledger(url).settle() == []


def test_a_living_attempt_is_left_alone(url: str) -> None:
    open_attempt(Ledger(url))

    assert Ledger(url).settle() == []


def test_an_attempt_on_another_host_is_settled_after_three_minutes_of_silence(url: str, monkeypatch) -> None:
    ledger = Ledger(url)
    open_attempt(ledger, owner=ProcessIdentity("elsewhere", "boot", 1, 1))

    assert ledger.settle() == []
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 181)
    assert ledger.settle() == ["r/s/0/p"]


def test_a_run_reads_its_own_version_first(url: str) -> None:
    ledger = Ledger(url)
    ledger.publish([Pointer("a", "p", "mine", "t1", "run 1")])
    ledger.publish([Pointer("a", "p", "newer", "t2", "run 2")])

    assert ledger.current("a", "p", run="run 1").version == "mine"
    assert ledger.current("a", "p", run="run 3").version == "newer"
    assert ledger.current("a", "q") is None


def test_a_run_that_changes_its_profile_is_refused(url: str) -> None:
    ledger = Ledger(url)
    ledger.open_run("run", "digest 1")
    ledger.open_run("run", "digest 1")

    with pytest.raises(LedgerError, match="start a new run"):
        ledger.open_run("run", "digest 2")


def test_one_run_at_a_time(url: str) -> None:
    ledger = Ledger(url)
    holder = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        ledger.take_lock("corpus", "run 1", process_identity(holder.pid))
        ledger.take_lock("corpus", "run 1", process_identity(holder.pid))  # its own steps
        with pytest.raises(Busy, match="run 1 is at work"):
            ledger.take_lock("corpus", "run 2", process_identity())
    finally:
        holder.kill()
        holder.wait()

    ledger.take_lock("corpus", "run 2", process_identity())  # the holder is gone


def test_a_released_lock_is_free(url: str) -> None:
    ledger = Ledger(url)
    ledger.take_lock("corpus", "run 1", process_identity(os.getppid()))
    ledger.release_lock("corpus", "run 1")

    ledger.take_lock("corpus", "run 2", process_identity())


def test_a_network_file_system_is_refused_for_sqlite(tmp_path: Path) -> None:
    mount = namedtuple("mount", "mountpoint fstype")

    with pytest.raises(LedgerError, match="Postgres"):
        refuse_unsafe_file_system(tmp_path, [mount("/", "ext4"), mount(str(tmp_path), "nfs4")])
    refuse_unsafe_file_system(tmp_path, [mount("/", "nfs"), mount(str(tmp_path), "ext4")])
