"""The ledger: what every attempt used, which versions are current, and who may run. Append only, in SQL.

An *attempt* is one try of one asset and source. Quantities stand here, never dollars, so history can be priced again:
`pipelines/costs/account.py` does that. `pipelines/costs/meter.py` writes the attempts.
"""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
import sqlalchemy as sa

from pipelines.processes import ProcessIdentity, is_alive, process_identity
from pipelines.usage import Usage

HEARTBEAT_SECONDS = 5.0
SILENT_SECONDS = 60.0
"""An attempt on another host is taken for dead after this long without a heartbeat."""

RUN_LOCK = "corpus"
"""Lock of whoever works on the corpus, a run or `gc`: one at a time, however launched."""

WRITER_LOCK = 0x6D696C6C
"""Postgres advisory lock that ledger writes queue on."""

UNSAFE_FILE_SYSTEMS = ("nfs", "cifs", "smb", "afs", "fuse.sshfs", "9p")

metadata = sa.MetaData()

events = sa.Table(
    "events",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("time", sa.Float, nullable=False),
    sa.Column("attempt", sa.String(400), nullable=False, index=True),
    sa.Column("run", sa.String(64), nullable=False, index=True),
    sa.Column("kind", sa.String(16), nullable=False, index=True),
    sa.Column("payload", sa.Text, nullable=False),
)

pointers = sa.Table(
    "pointers",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("time", sa.Float, nullable=False),
    sa.Column("asset", sa.String(200), nullable=False),
    sa.Column("partition", sa.String(200), nullable=False),
    sa.Column("version", sa.String(64), nullable=False, index=True),
    sa.Column("attempt", sa.String(400), nullable=False, index=True),
    sa.Column("run", sa.String(64), nullable=False),
    sa.Index("pointers_of", "asset", "partition"),
)

runs = sa.Table(
    "runs",
    metadata,
    sa.Column("run", sa.String(64), primary_key=True),
    sa.Column("time", sa.Float, nullable=False),
    sa.Column("profile", sa.String(64), nullable=False),
)

locks = sa.Table(
    "locks",
    metadata,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("run", sa.String(64), nullable=False),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("time", sa.Float, nullable=False),
)


class LedgerError(Exception):
    """The ledger refuses; the message says what and the way out."""


class Busy(LedgerError):
    """Another run is at work."""


@dataclass(frozen=True)
class Pointer:
    """The current version of one partition of an asset, and the attempt that published it."""

    asset: str
    partition: str
    version: str
    attempt: str
    run: str


@dataclass(frozen=True)
class Event:
    """One line of the ledger."""

    time: float
    attempt: str
    run: str
    kind: str
    payload: dict[str, Any]


class Ledger:
    """Events, pointers and the run lock in one SQL database (a SQLite file, or the Postgres that serves Dagster).

    Opening it settles the attempts of processes that are gone.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._sql = _engine(url)
        metadata.create_all(self._sql)
        self.settle()

    # -- attempts -----------------------------------------------------------------------------------------------

    def open_attempt(
        self,
        *,
        root_run: str,
        run: str,
        step: str,
        asset: str,
        partition: str,
        role: str,
        usage: Usage,
        owner: ProcessIdentity | None = None,
    ) -> str:
        """Open an attempt; returns its id: root run, step, number of the try, partition.

        role: 'stage' for work on an asset, 'coordinator' for the process that runs the steps.
        """
        with self._writing() as sql:
            prefix = f"{root_run}/{step}/"
            suffix = f"/{partition}"
            tries = [
                attempt
                for (attempt,) in sql.execute(
                    sa.select(events.c.attempt).where(
                        events.c.kind == "opened", events.c.attempt.startswith(prefix, autoescape=True)
                    )
                )
                if attempt.endswith(suffix)
            ]
            attempt = f"{prefix}{len(tries)}{suffix}"
            payload = {
                "root_run": root_run,
                "step": step,
                "asset": asset,
                "partition": partition,
                "role": role,
                "owner": asdict(owner or process_identity()),
                "usage": usage.record(),
            }
            self._append(sql, attempt, run, "opened", payload)
        return attempt

    def heartbeat(self, attempt: str, run: str, usage: Usage, progress: dict[str, Any]) -> None:
        """Say that an attempt is alive and what it has used so far."""
        with self._writing() as sql:
            self._append(sql, attempt, run, "heartbeat", {"usage": usage.record(), "progress": progress})

    def close_attempt(self, attempt: str, run: str, status: str, usage: Usage, outcome: dict[str, Any]) -> None:
        """Close an attempt. status: 'done', 'failed' or 'cancelled'.

        outcome: `version` and `pins` where it made one; `results`, every task result it rests on, as {attempt that
        made it: {action key: CPU seconds of its own}}; `startup`, CPU seconds; `error`.
        """
        with self._writing() as sql:
            self._append(sql, attempt, run, "closed", {"status": status, "usage": usage.record(), **outcome})

    def settle(self) -> list[str]:
        """Close, at their last heartbeat, the attempts whose process is gone; returns their ids."""
        if not self._sql_rows(self._open_query()):
            return []
        now, settled = time.time(), []
        with self._writing() as sql:
            for opened in [_event(row) for row in sql.execute(self._open_query())]:
                last = sql.execute(
                    sa.select(events)
                    .where(events.c.attempt == opened.attempt, events.c.kind.in_(["opened", "heartbeat"]))
                    .order_by(events.c.id.desc())
                    .limit(1)
                ).one()
                alive = is_alive(ProcessIdentity(**opened.payload["owner"]))
                if alive or (alive is None and now - last.time < SILENT_SECONDS):
                    continue
                usage = json.loads(last.payload)["usage"]
                reason = f"no heartbeat for {SILENT_SECONDS:.0f} s" if alive is None else "its process is gone"
                self._append(sql, opened.attempt, opened.run, "settled", {"usage": usage, "reason": reason})
                settled.append(opened.attempt)
        return settled

    # -- versions -----------------------------------------------------------------------------------------------

    def publish(self, published: Sequence[Pointer]) -> None:
        """Move the pointers of a step, all in one transaction."""
        now = time.time()
        with self._writing() as sql:
            for pointer in published:
                sql.execute(pointers.insert().values(time=now, **vars(pointer)))

    def current(self, asset: str, partition: str, *, run: str | None = None) -> Pointer | None:
        """The current version of a partition; the run's own, where it has published one."""
        query = (
            sa.select(pointers)
            .where(pointers.c.asset == asset, pointers.c.partition == partition)
            .order_by(pointers.c.id.desc())
            .limit(1)
        )
        with self._reading() as sql:
            row = sql.execute(query.where(pointers.c.run == run)).first() if run else None
            row = row or sql.execute(query).first()
        return _pointer(row) if row else None

    def all_current(self) -> list[Pointer]:
        """The current version of every partition of every asset, in the order they were first published."""
        newest: dict[tuple[str, str], Pointer] = {}
        for pointer in self.history():
            newest[pointer.asset, pointer.partition] = pointer
        return list(newest.values())

    def history(self) -> list[Pointer]:
        """Every pointer ever moved, oldest first."""
        with self._reading() as sql:
            return [_pointer(row) for row in sql.execute(sa.select(pointers).order_by(pointers.c.id))]

    # -- runs ---------------------------------------------------------------------------------------------------

    def open_run(self, run: str, profile: str) -> None:
        """Note the digest of the profile that a run works with. Raises `LedgerError` if it began with another."""
        with self._writing() as sql:
            known = sql.execute(sa.select(runs.c.profile).where(runs.c.run == run)).scalar()
            if known is None:
                sql.execute(runs.insert().values(run=run, time=time.time(), profile=profile))
            elif known != profile:
                raise LedgerError(
                    f"run {run[:8]} began with another profile ({known[:8]}, now {profile[:8]}): "
                    "the profile was edited or exchanged meanwhile; start a new run"
                )

    def take_lock(self, name: str, run: str, owner: ProcessIdentity) -> None:
        """Take a named lock for a run and the process that works on it. Raises `Busy` while another owner lives.

        A run that is executed again, from where it failed, has the name of the first, but another owner.
        """
        with self._writing() as sql:
            held = sql.execute(sa.select(locks).where(locks.c.name == name)).first()
            if held:
                holder = ProcessIdentity(**json.loads(held.owner))
                if held.run == run and holder == owner:
                    return
                same_process = holder in (owner, process_identity())  # runs one after another in one, as in tests
                alive = is_alive(holder)
                silent = time.time() - self._last_sign(sql, held.run, held.time) > SILENT_SECONDS
                if not same_process and (alive or (alive is None and not silent)):
                    raise Busy(
                        f"run {held.run[:8]} is at work on the {name}; wait for it or cancel it, then start again"
                    )
            sql.execute(locks.delete().where(locks.c.name == name))
            sql.execute(locks.insert().values(name=name, run=run, owner=json.dumps(asdict(owner)), time=time.time()))

    def release_lock(self, name: str, run: str) -> None:
        """Give a lock back; nothing happens if the run does not hold it."""
        with self._writing() as sql:
            sql.execute(locks.delete().where(locks.c.name == name, locks.c.run == run))

    # -- reading ------------------------------------------------------------------------------------------------

    def events(self, *, kinds: Sequence[str] = ("opened", "closed", "settled"), run: str | None = None) -> list[Event]:
        """Events of these kinds, oldest first."""
        query = sa.select(events).where(events.c.kind.in_(kinds)).order_by(events.c.id)
        return self._sql_rows(query.where(events.c.run == run) if run else query)

    def newest_heartbeats(self, run: str) -> list[Event]:
        """The last heartbeat of each attempt of a run."""
        newest = sa.select(sa.func.max(events.c.id)).where(events.c.kind == "heartbeat", events.c.run == run)
        return self._sql_rows(sa.select(events).where(events.c.id.in_(newest.group_by(events.c.attempt))))

    # -- SQL ----------------------------------------------------------------------------------------------------

    @contextmanager
    def _writing(self) -> Iterator[sa.Connection]:
        with self._sql.connect().execution_options(corpusmill_write=True) as connection, connection.begin():
            yield connection

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        with self._sql.connect() as connection:
            yield connection

    def _sql_rows(self, query: sa.Select[Any]) -> list[Event]:
        with self._reading() as sql:
            return [_event(row) for row in sql.execute(query)]

    def _append(self, sql: sa.Connection, attempt: str, run: str, kind: str, payload: dict[str, Any]) -> None:
        sql.execute(
            events.insert().values(time=time.time(), attempt=attempt, run=run, kind=kind, payload=json.dumps(payload))
        )

    def _open_query(self) -> sa.Select[Any]:
        ended = sa.select(events.c.attempt).where(events.c.kind.in_(["closed", "settled"]))
        return sa.select(events).where(events.c.kind == "opened", events.c.attempt.not_in(ended))

    def _last_sign(self, sql: sa.Connection, run: str, otherwise: float) -> float:
        return sql.execute(sa.select(sa.func.max(events.c.time)).where(events.c.run == run)).scalar() or otherwise


def _event(row: sa.Row[Any]) -> Event:
    return Event(row.time, row.attempt, row.run, row.kind, json.loads(row.payload))


def _pointer(row: sa.Row[Any]) -> Pointer:
    return Pointer(row.asset, row.partition, row.version, row.attempt, row.run)


def _engine(url: str) -> sa.Engine:
    address = sa.make_url(url)
    if address.get_backend_name() != "sqlite":
        engine = sa.create_engine(address, pool_pre_ping=True)

        @sa.event.listens_for(engine, "begin")
        def _queued(connection: sa.Connection) -> None:
            # One writer at a time, as with SQLite: what a write reads stays true until it commits.
            if connection.get_execution_options().get("corpusmill_write"):
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({WRITER_LOCK})")

        return engine
    if address.database and address.database != ":memory:":
        path = Path(address.database)
        path.parent.mkdir(parents=True, exist_ok=True)
        refuse_unsafe_file_system(path.parent)
    engine = sa.create_engine(address, connect_args={"timeout": 60})

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
