"""The ledger in Postgres: many writers, a server that goes away, and answers that are lost on the way."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
import sqlalchemy as sa

from pipelines.costs.database import database_url
from pipelines.costs.ledger import Ledger, LedgerError, Pointer
from pipelines.usage import Usage
from tests.pipelines.costs.test_database import open_attempt
from tests.pipelines.costs.test_ledger import assert_concurrent_writers_lose_nothing
from tests.postgres import PASSWORD, Postgres, server

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    yield from server()


class Wire:
    """A way to the server that can lose the answer to a commit, and the connection with it."""

    def __init__(self, port: int) -> None:
        self.lose = 0
        """So many answers to come are lost."""
        self._server = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._server)) as server, suppress(OSError):
            threading.Thread(target=self._answer, args=(server, client), daemon=True).start()
            while told := client.recv(1 << 16):
                losing = self.lose and b"COMMIT" in told
                if losing:
                    self.lose -= 1
                    client.shutdown(socket.SHUT_WR)
                server.sendall(told)
                if losing:
                    # The server closes once it has committed and been told that we are done.
                    server.shutdown(socket.SHUT_WR)
                    return

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while told := server.recv(1 << 16):
                client.sendall(told)


def test_concurrent_writers_lose_nothing(postgres: Postgres) -> None:
    assert_concurrent_writers_lose_nothing(postgres.url("writers"))


def test_a_write_whose_answer_was_lost_is_not_applied_twice(postgres: Postgres) -> None:
    wire = Wire(postgres.port)
    url = sa.make_url(postgres.url("lossy"))
    direct, ledger = Ledger(url.render_as_string(hide_password=False)), None
    ledger = Ledger(url.set(port=wire.port).update_query_dict({"sslmode": "disable"}).render_as_string(False))
    usage = Usage(cpu_seconds=1)

    wire.lose = 2
    attempt = open_attempt(ledger)
    wire.lose += 1
    ledger.heartbeat(attempt, "r", usage, {})
    wire.lose += 1
    ledger.close_attempt(attempt, "r", "done", usage, {"version": "v"})
    wire.lose += 1
    ledger.publish([Pointer("a", "p", "v", attempt, "r"), Pointer("a", "q", "v", attempt, "r")])

    assert wire.lose == 0
    assert attempt == "r/s/0/p"
    written = [event.kind for event in direct.events(kinds=("opened", "heartbeat", "closed", "settled"))]
    assert written == ["opened", "heartbeat", "closed"]
    assert [pointer.partition for pointer in direct.history()] == ["p", "q"]


def test_reads_and_writes_wait_for_a_server_that_comes_back(postgres: Postgres) -> None:
    ledger = Ledger(postgres.url("back"))
    attempt = open_attempt(ledger)
    postgres.stop()
    start = threading.Timer(3, postgres.start)
    start.start()

    ledger.heartbeat(attempt, "r", Usage(), {})
    opened = ledger.events()
    ledger.close_attempt(attempt, "r", "done", Usage(), {})

    start.join()
    assert [event.attempt for event in opened] == [attempt]
    assert [event.kind for event in ledger.events()] == ["opened", "closed"]
    assert ledger.newest_heartbeats("r") == []


@pytest.mark.parametrize(("change", "told"), [({"password": "wrong"}, "password"), ({"database": "no"}, "not exist")])
def test_a_refusal_is_told_at_once_and_without_the_password(postgres: Postgres, change: dict, told: str) -> None:
    url = sa.make_url(postgres.url(f"refused {told}")).set(**change)

    with pytest.raises(LedgerError, match=rf"{told}.*correct `ledger` in the profile") as refused:
        Ledger(url.render_as_string(hide_password=False))

    assert PASSWORD not in str(refused.value)
    assert "wrong" not in str(refused.value)


def test_the_tables_stand_in_a_schema_that_is_the_ledgers_own(postgres: Postgres) -> None:
    url = postgres.url("schema")
    Ledger(url)

    with sa.create_engine(url, poolclass=sa.NullPool).connect() as sql:
        assert sa.inspect(sql).get_table_names() == []  # nothing of the name that Dagster looks for
        assert "runs" in sa.inspect(sql).get_table_names(schema="corpusmill_ledger")


def test_a_url_without_a_driver_means_the_driver_that_dagster_uses() -> None:
    assert database_url("postgresql://u@h/d").drivername == "postgresql+psycopg2"
    assert database_url("postgresql+psycopg://u@h/d").drivername == "postgresql+psycopg"
