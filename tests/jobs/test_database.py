"""Runs in real processes while what they write to is away, locked or full; and the same corpus on Postgres."""

import os
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.jobs import processes
from tests.jobs.processes import ROOT, Mill, Run, mills
from tests.jobs.service import Refused, Service, services
from tests.jobs.test_kills import assert_every_dollar_is_in_one_bucket, assert_same_as, mill_in_this_process
from tests.postgres import PASSWORD, Postgres, server

pytestmark = pytest.mark.slow

CLEANING = ("--select", "*clean_documents")
CHAIN = ("--select", "*filtered_documents")
POSTGRES_SETTINGS = ROOT / "deploy" / "dagster-postgres.yaml"
MINUTE = 60.0
SIX_SECONDS = 6.0
"""How long Dagster itself waits for a Postgres that is away."""

MakeMill = Callable[..., Mill]


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    yield from server()


@pytest.fixture
def make_mill(tmp_path: Path) -> Iterator[MakeMill]:
    yield from mills(tmp_path)


@pytest.fixture
def make_service() -> Iterator[Callable[..., Service]]:
    yield from services()


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict:
    """What the whole chain comes to on SQLite when nobody disturbs it."""
    pytest.importorskip("torch", reason="needs the `train` extra")
    return mill_in_this_process(tmp_path_factory.mktemp("uninterrupted"), "*").versions()


def end(run: Run) -> int:
    """The exit code of a run that has to wait."""
    try:
        return run.process.wait(600)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"the command does not end:\n{run.told}") from None


def knows(service: Service, run: str) -> bool:
    """Whether the webserver tells of a run. Its first question meets a connection that the server has closed."""
    with suppress(Refused):
        return bool(service.status(run))
    return False


# -- Postgres -----------------------------------------------------------------------------------------------------


def test_the_whole_chain_comes_out_as_on_sqlite_and_one_setting_is_enough(
    postgres: Postgres, make_mill: MakeMill, uninterrupted: dict
) -> None:
    # Given a profile whose ledger is in Postgres, and nothing else that is said
    mill = make_mill("mill", ledger=postgres.url("chain"))

    run = mill.start()

    # Then all versions are those of SQLite, and Dagster keeps its records in the same database
    assert end(run) == 0, run.told
    made = mill.versions()
    assert {dataset: version for dataset, (version, _) in made.items()} == {
        dataset: version for dataset, (version, _) in uninterrupted.items()
    }
    del made["pretrained_model", ""]  # whose files tell how long it took
    assert all(version == uninterrupted[dataset] for dataset, version in made.items())
    assert_every_dollar_is_in_one_bucket(mill)
    home = mill.folder / "dagster"
    assert not list(home.rglob("*.db"))
    # And the password stands nowhere but in the profile, where the user wrote it
    holding = [path for path in mill.folder.rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()]
    assert holding == [mill.folder / "profile.yaml"]


def test_a_run_waits_for_a_postgres_that_is_away_for_a_minute(
    postgres: Postgres, make_mill: MakeMill, uninterrupted: dict
) -> None:
    mill = make_mill("mill", slow=0.4, ledger=postgres.url("minute"))
    run = mill.start(*CLEANING)
    mill.open_attempt(run, "clean_documents", "books", finished_tasks=1)

    postgres.stop()
    time.sleep(MINUTE)
    assert run.process.poll() is None, run.told
    postgres.start()

    assert end(run) == 0, run.told
    assert "Connection refused" in run.told
    assert "answers again" in run.told
    assert "Traceback" not in run.told
    assert_same_as(uninterrupted, mill, "raw_documents", "clean_documents")
    assert_every_dollar_is_in_one_bucket(mill)
    assert {attempt.status for attempt in mill.account().attempts} == {"done"}


def test_a_run_of_the_webserver_waits_too(
    postgres: Postgres, make_mill: MakeMill, make_service: Callable[..., Service], uninterrupted: dict, monkeypatch
) -> None:
    url = postgres.url("webserver")
    monkeypatch.setenv("CORPUSMILL_POSTGRES", url)  # as whoever starts Dagster's processes by hand has to
    mill = make_mill("mill", slow=0.4, ledger=url)
    service = make_service(mill, POSTGRES_SETTINGS)
    launched = service.launch("raw_documents", "clean_documents")
    service.wait_for_status(launched, "STARTED")
    processes.wait_for(lambda: mill.ledger.newest_heartbeats(launched), "the run to be at work")

    postgres.stop()
    time.sleep(3 * SIX_SECONDS)
    postgres.start()

    processes.wait_for(lambda: knows(service, launched), "the webserver to answer")
    service.wait_for_status(launched, "SUCCESS")
    assert [process.poll() for process in service.processes.values()] == [None] * len(service.processes)
    assert_same_as(uninterrupted, mill, "raw_documents", "clean_documents")
    assert_every_dollar_is_in_one_bucket(mill)


def test_a_postgres_that_stays_away_ends_the_run_with_a_sentence_and_the_same_command_goes_on(
    postgres: Postgres, make_mill: MakeMill, uninterrupted: dict, monkeypatch
) -> None:
    # Given processes with less patience than they have
    impatient = "def _database(module):\n    module.PATIENCE_SECONDS = 12.0\n\nPATCHES = {{"
    patch = processes.PATCH.replace("PATCHES = {{", f'{impatient}"pipelines.costs.database": _database, ')
    monkeypatch.setattr(processes, "PATCH", patch)
    mill = make_mill("mill", slow=0.4, ledger=postgres.url("stays away"))
    run = mill.start(*CLEANING)
    mill.open_attempt(run, "clean_documents", "web", finished_tasks=1)

    # When the server does not come back while they wait
    postgres.stop()
    code = end(run)
    mill.wait_until_quiet()
    postgres.start()

    # Then the run has failed in a sentence, what was under way is settled, and nothing is lost
    assert code == 1, run.told
    last = run.told.strip().splitlines()[-1]
    assert "has been away or locked for more than 12 s" in last
    assert "start the same command again: finished work is kept" in last
    assert "Traceback" not in run.told
    assert "killed" in {attempt.status for attempt in mill.account().attempts}
    assert_every_dollar_is_in_one_bucket(mill)
    again = mill.run(*CLEANING)
    assert "reused" in again.told
    assert_same_as(uninterrupted, mill, "raw_documents", "clean_documents")
    assert_every_dollar_is_in_one_bucket(mill)


# -- SQLite -------------------------------------------------------------------------------------------------------


def test_a_run_waits_for_a_ledger_that_another_program_locks_for_a_minute(
    make_mill: MakeMill, uninterrupted: dict
) -> None:
    mill = make_mill("mill", slow=0.4)
    run = mill.start(*CLEANING)
    mill.open_attempt(run, "clean_documents", "books", finished_tasks=1)

    with closing(sqlite3.connect(mill.folder / "ledger.db", timeout=30, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        time.sleep(MINUTE)
        assert run.process.poll() is None, run.told
        other.execute("ROLLBACK")

    assert end(run) == 0, run.told
    assert "Traceback" not in run.told
    assert_same_as(uninterrupted, mill, "raw_documents", "clean_documents")
    assert_every_dollar_is_in_one_bucket(mill)
    assert {attempt.status for attempt in mill.account().attempts} == {"done"}


# -- full disks ---------------------------------------------------------------------------------------------------


class Disk:
    """A small file system in memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def resize(self, kilobytes: int) -> None:
        self._mount("-o", f"remount,size={kilobytes}k")

    def make(self, kilobytes: int) -> None:
        self.folder.mkdir()
        try:
            self._mount("-t", "tmpfs", "-o", f"size={kilobytes}k")
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("needs the right to mount a small file system")

    def _mount(self, *options: str) -> None:
        subprocess.run(["mount", *options, "tmpfs", self.folder], check=True, capture_output=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    small = Disk(tmp_path / "small")
    yield small
    if os.path.ismount(small.folder):
        subprocess.run(["umount", "--lazy", small.folder], check=True)


def goes_on(mill: Mill, wanted: dict) -> None:
    """The same command, now that there is space, comes to what was wanted, and its books are right."""
    again = mill.start(*CHAIN)
    assert end(again) == 0, again.told
    assert "reused" in again.told
    chain = {asset for asset, _ in mill.versions()}
    assert "filtered_documents" in chain
    assert_same_as(wanted, mill, *chain)
    assert_every_dollar_is_in_one_bucket(mill)


def test_a_full_store_is_named_and_nothing_half_written_counts(
    disk: Disk, make_mill: MakeMill, uninterrupted: dict
) -> None:
    disk.make(400)
    mill = make_mill("mill", store=str(disk.folder / "store"))

    run = mill.start(*CHAIN)

    assert end(run) == 1
    assert f"failed: the store at {disk.folder}/store cannot be written: No space left on device; " in run.told
    assert run.told.strip().splitlines()[-1].startswith("Finished work is kept. Once the cause is mended, go on with")
    assert mill.damaged() == []
    assert all(version == uninterrupted[dataset] for dataset, version in mill.versions().items())
    assert_every_dollar_is_in_one_bucket(mill)
    disk.resize(100_000)
    goes_on(mill, uninterrupted)


@pytest.mark.parametrize("beside", ["alone", "with what Dagster keeps"])
def test_a_full_disk_below_the_ledger_is_told_in_a_sentence(
    disk: Disk, make_mill: MakeMill, uninterrupted: dict, beside: str
) -> None:
    # By default Dagster's home lies beside the ledger.
    disk.make(320 if beside == "alone" else 1400)
    mill = make_mill("mill", ledger=str(disk.folder / "ledger.db"))
    if beside != "alone":
        (disk.folder / "dagster").mkdir()
        (mill.folder / "dagster").symlink_to(disk.folder / "dagster")

    run = mill.start(*CHAIN)

    assert end(run) == 1
    told: Any = run.told
    assert "Traceback" not in told
    assert "disk is full" in told
    assert f"{disk.folder}/" in told
    assert "finished work is kept" in told.lower()
    disk.resize(100_000)
    mill.wait_until_quiet()
    assert_every_dollar_is_in_one_bucket(mill)
    assert all(version == uninterrupted[dataset] for dataset, version in mill.versions().items())
    goes_on(mill, uninterrupted)
