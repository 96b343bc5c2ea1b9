"""The ledger while its SQLite file is locked, full or not to be used. Postgres: test_database_postgres.py."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from pipelines.costs import database
from pipelines.costs.ledger import Ledger, LedgerError, Pointer
from pipelines.usage import Usage


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.1)


@contextmanager
def locked(file: Path, seconds: float) -> Iterator[None]:
    """The file is another writer's for so long."""
    connection = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    connection.execute("BEGIN EXCLUSIVE")
    timer = threading.Timer(seconds, connection.rollback)
    timer.start()
    try:
        yield
    finally:
        timer.join()
        connection.close()


def open_attempt(ledger: Ledger) -> str:
    return ledger.open_attempt(
        root_run="r", run="r", step="s", asset="a", partition="p", role="stage", usage=Usage(cpu_seconds=1)
    )


def test_writes_wait_for_another_writer_and_heartbeats_are_left_out(file: Path, caplog) -> None:
    ledger = Ledger(f"sqlite:///{file}")
    attempt = open_attempt(ledger)

    with locked(file, seconds=1.0):
        ledger.heartbeat(attempt, "r", Usage(), {})
        ledger.close_attempt(attempt, "r", "done", Usage(), {"version": "v"})
        ledger.publish([Pointer("a", "p", "v", attempt, "r"), Pointer("a", "q", "v", attempt, "r")])

    assert [event.kind for event in ledger.events(kinds=("opened", "heartbeat", "closed"))] == ["opened", "closed"]
    assert [pointer.partition for pointer in ledger.history()] == ["p", "q"]
    waits = [record.message for record in caplog.records]
    assert waits == [f"{file}: database is locked; trying again for 120 s", f"{file} answers again"]


def test_who_waited_in_vain_says_for_what_and_the_next_one_does_not_wait_again(file: Path, monkeypatch) -> None:
    ledger = Ledger(f"sqlite:///{file}")
    monkeypatch.setattr(database, "PATIENCE_SECONDS", 0.3)

    with locked(file, seconds=1.5):
        for _ in range(2):
            with pytest.raises(LedgerError, match=r"ledger.db has been away or locked .*start the same command again"):
                open_attempt(ledger)

    assert open_attempt(ledger) == "r/s/0/p"


def test_a_full_disk_is_told_at_once(file: Path) -> None:
    ledger = Ledger(f"sqlite:///{file}")
    attempt = open_attempt(ledger)
    ledger._database._sql.dispose()
    full = sa.event.listens_for(ledger._database._sql, "connect")
    full(lambda connection, _: connection.execute("PRAGMA max_page_count = 1"))  # no page more than it has

    with pytest.raises(LedgerError, match=r"ledger.db cannot be used: its disk is full; make space there"):
        ledger.close_attempt(attempt, "r", "done", Usage(), {"error": "x" * 100_000})

    with pytest.raises(LedgerError, match="its disk is full"):
        ledger.heartbeat(attempt, "r", Usage(), {"task": "x" * 100_000})

    assert Ledger(f"sqlite:///{file}").events(kinds=("closed", "heartbeat")) == []


def test_a_file_of_another_kind_is_refused(file: Path) -> None:
    file.mkdir()

    with pytest.raises(LedgerError, match="unable to open database file; see whether"):
        Ledger(f"sqlite:///{file}")


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("mysql://u@h/d", "names mysql; write a SQLite file or a Postgres URL"),
        ("nonsense", "not a database URL"),
    ],
)
def test_another_database_is_refused(url: str, told: str) -> None:
    with pytest.raises(LedgerError, match=told):
        Ledger(url)


def test_a_ledger_of_an_earlier_version_gets_the_tables_that_it_lacks(file: Path) -> None:
    with closing(sqlite3.connect(file)) as old:
        old.execute("CREATE TABLE runs (run VARCHAR(64) PRIMARY KEY, time FLOAT, profile VARCHAR(64))")
        old.execute("INSERT INTO runs VALUES ('r', 0, 'digest')")
        old.commit()

    ledger = Ledger(f"sqlite:///{file}")

    ledger.open_run("r", "digest")
    assert open_attempt(ledger) == "r/s/0/p"
