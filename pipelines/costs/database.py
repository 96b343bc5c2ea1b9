"""The ledger's database: SQLite or Postgres, one writer at a time, and patience while it is away or locked.

Nothing is known here of what the ledger writes; that is `pipelines/costs/ledger.py`. What is tried again must come to
the same if the first try went through after all: the answer to a commit can be lost with the connection.
"""

import logging
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import psutil
import sqlalchemy as sa

logger = logging.getLogger(__name__)

T = TypeVar("T")

PATIENCE_SECONDS = 120.0
"""A database that is away, or locked by another program, is tried again for this long."""

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.1, 5.0
"""Pauses between two tries: each is twice the one before."""

CONNECT_SECONDS = 10
"""A Postgres server that is silent for this long while we connect, or owe us a packet's receipt, is away."""

BUSY_SECONDS = 5
"""One try waits this long for another writer. Short, since a wait inside the database can't be interrupted."""

STALLED_SECONDS = 60
"""Postgres ends a writer's transaction that has stood still for this long, so that a machine that vanished in the
middle of one does not keep all others out."""

SCHEMA = "corpusmill_ledger"
"""Postgres schema of the ledger's tables: Dagster's, which may be in the same database, have a `runs` of their own. Not
the name that the database's user may have, since a user's tables are looked for in the schema of that name first."""

WRITER_LOCK = 0x6D696C6C
"""Postgres advisory lock that ledger writes queue on."""

UNSAFE_FILE_SYSTEMS = ("nfs", "cifs", "smb", "afs", "fuse.sshfs", "9p")

PASSING_STATES = ("08", "40", "53300", "55P03", "57P")
"""SQLSTATEs (or their classes) that pass: connection lost, deadlock, too many connections, lock not available, server
shutting down or starting up."""

PASSING_REFUSALS = ("starting up", "shutting down", "recovery", "too many", "remaining connection slots")
"""What Postgres says, without a SQLSTATE, to whom it refuses only for now."""

_given_up: set[str] = set()
"""Places of databases for which this process has waited in vain: until one answers, nobody waits for it again."""


class LedgerError(Exception):
    """The ledger refuses; the message says what and the way out."""


class Database:
    """One SQL database, by SQLAlchemy URL. Its tables are made by whoever finds them missing."""

    def __init__(self, url: str, tables: sa.MetaData) -> None:
        address = database_url(url)
        self.place = place_of(address)
        self._schema = None if address.get_backend_name() == "sqlite" else SCHEMA
        self._sql = _sqlite(address) if self._schema is None else _postgres(address)
        self.patiently(lambda: self._make(tables))

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A transaction alone among writers: what it reads stays true until it commits."""
        with self._sql.connect().execution_options(corpusmill_write=True) as connection, connection.begin():
            yield connection

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A connection to read with."""
        with self._sql.connect() as connection:
            yield connection

    def patiently(self, work: Callable[[], T]) -> T:
        """The result of `work`, which is done again while the database is away. Raises `LedgerError` when it stays so,
        or can't be used: its disk is full, it refuses us."""
        with self.telling():
            return patiently(self.place, work)

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Raise `LedgerError` from an error of the database that is not ours."""
        try:
            yield
        except sa.exc.DBAPIError as error:
            if (told := _unusable(self.place, error)) is None:
                raise
            raise LedgerError(told) from error

    def _make(self, tables: sa.MetaData) -> None:
        with self.reading() as sql:
            if set(tables.tables) <= set(sa.inspect(sql).get_table_names(schema=self._schema)):
                return
        with self.writing() as sql:
            if self._schema and not sa.inspect(sql).has_schema(self._schema):
                sql.execute(sa.schema.CreateSchema(self._schema))
            tables.create_all(sql)


def patiently(place: str, work: Callable[[], T]) -> T:
    """The result of `work`, done again while the database at `place` is away or locked; then raises `LedgerError`.

    Other errors are raised at once.
    """
    pause = FIRST_PAUSE_SECONDS
    since = time.monotonic()
    waiting = False
    while True:
        try:
            result = work()
        except Exception as error:
            if not is_passing(error):
                raise
            if place in _given_up or time.monotonic() - since > PATIENCE_SECONDS:
                _given_up.add(place)
                raise LedgerError(
                    f"the database at {place} has been away or locked for more than {PATIENCE_SECONDS:.0f} s "
                    f"({_said(error)}); once it answers, start the same command again: finished work is kept"
                ) from error
            if not waiting:
                logger.warning("%s: %s; trying again for %.0f s", place, _said(error), PATIENCE_SECONDS)
            waiting = True
        else:
            _given_up.discard(place)
            if waiting:
                logger.warning("%s answers again", place)
            return result
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


def is_passing(error: Exception) -> bool:
    """Whether an error says that the database is away or locked, so that the same may work in a moment."""
    cause = getattr(error, "orig", None) or error
    if isinstance(cause, sqlite3.Error):
        return getattr(cause, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    if state := _sqlstate(cause):
        return state.startswith(PASSING_STATES)
    if not {"OperationalError", "InterfaceError"} & {kind.__name__ for kind in type(cause).__mro__}:
        return False
    said = str(cause)  # no SQLSTATE: the server could not be reached, or did not let us in
    return "FATAL" not in said or any(words in said for words in PASSING_REFUSALS)


def database_url(url: str) -> sa.URL:
    """The URL of a ledger, with psycopg2 as the driver of a Postgres URL that names none, since Dagster uses it too."""
    try:
        address = sa.make_url(url)
    except sa.exc.ArgumentError:
        raise LedgerError(
            "`ledger` in the profile is not a database URL; write postgresql://user@host/database or a SQLite file"
        ) from None
    if address.drivername in ("postgresql", "postgres"):
        address = address.set(drivername="postgresql+psycopg2")
    if address.get_backend_name() not in ("sqlite", "postgresql"):
        raise LedgerError(
            f"`ledger` in the profile names {address.get_backend_name()}; write a SQLite file or a Postgres URL"
        )
    return address


def place_of(address: sa.URL) -> str:
    """Where a database is, for people: without a password, with no parameters."""
    if address.get_backend_name() == "sqlite":
        return address.database or ":memory:"
    return sa.URL.create(
        "postgresql", address.username, None, address.host, address.port, address.database
    ).render_as_string()


def _unusable(place: str, error: sa.exc.DBAPIError) -> str | None:
    """Why a database can't be used and the way out; None if the error is ours."""
    cause = error.orig
    code, state = getattr(cause, "sqlite_errorcode", 0) & 0xFF, _sqlstate(cause)
    if code == sqlite3.SQLITE_FULL or state == "53100":
        told = "its disk is full; make space there"
    elif code:
        told = f"{_said(error)}; see whether its disk is full and whether you may write there"
    elif isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError) or state == "42501":
        told = f"{_said(error)}; correct `ledger` in the profile, or what the server allows"
    else:
        return None
    return f"the ledger at {place} cannot be used: {told}, then start the same command again: finished work is kept"


def _sqlstate(cause: Any) -> str:
    return getattr(cause, "pgcode", None) or getattr(cause, "sqlstate", None) or ""


def _said(error: Exception) -> str:
    """What a database said, on one line."""
    return " ".join(str(getattr(error, "orig", None) or error).split())


def _postgres(address: sa.URL) -> sa.Engine:
    patience = {"connect_timeout": CONNECT_SECONDS, "tcp_user_timeout": 1000 * CONNECT_SECONDS}
    try:
        engine = sa.create_engine(
            address,
            # A connection for each transaction: none is stale after a pause, none is shared with a forked process.
            poolclass=sa.NullPool,
            connect_args={name: value for name, value in patience.items() if name not in address.query},
            execution_options={"schema_translate_map": {None: SCHEMA}},
        )
    except ModuleNotFoundError as error:
        raise LedgerError(
            f"the ledger at {place_of(address)} needs {error.name}; install it with: pip install -e '.[postgres]'"
        ) from None

    @sa.event.listens_for(engine, "begin")
    def _queued(connection: sa.Connection) -> None:
        # One writer at a time, as with SQLite: what a write reads stays true until it commits.
        if connection.get_execution_options().get("corpusmill_write"):
            connection.exec_driver_sql(f"SET LOCAL idle_in_transaction_session_timeout = '{STALLED_SECONDS}s'")
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{BUSY_SECONDS}s'")
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({WRITER_LOCK})")

    return engine


def _sqlite(address: sa.URL) -> sa.Engine:
    if address.database and address.database != ":memory:":
        path = Path(address.database)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LedgerError(
                f"the folder of the ledger at {path} cannot be made: {error.strerror}; mend that, or set `ledger` in "
                "the profile to another place"
            ) from error
        refuse_unsafe_file_system(path.parent)
    engine = sa.create_engine(address, connect_args={"timeout": BUSY_SECONDS})

    @sa.event.listens_for(engine, "connect")
    def _connected(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # transactions are begun below, not by the driver
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")

    @sa.event.listens_for(engine, "begin")
    def _begun(connection: sa.Connection) -> None:
        # A deferred transaction that reads and then writes fails under concurrency instead of waiting.
        write = connection.get_execution_options().get("corpusmill_write")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

    return engine


def refuse_unsafe_file_system(folder: Path, partitions: Sequence[Any] | None = None) -> None:
    """Raise `LedgerError` where SQLite's locking is not safe (network file systems)."""
    mounts = partitions if partitions is not None else psutil.disk_partitions(all=True)
    resolved = folder.resolve()
    holding = [m for m in mounts if resolved.is_relative_to(m.mountpoint)]
    kind = max(holding, key=lambda m: len(m.mountpoint)).fstype if holding else ""
    if kind.lower().startswith(UNSAFE_FILE_SYSTEMS):
        raise LedgerError(
            f"{folder} is on {kind}, where SQLite's locks are not safe; "
            "set `ledger` in the profile to a path on a local disk or to a Postgres URL"
        )
