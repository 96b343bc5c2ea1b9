"""The ledger: what every attempt used, which versions are current, and who may run. Append only, in SQL.

An *attempt* is one try of one asset and source. Quantities stand here, never dollars, so history can be priced again:
`pipelines/costs/account.py` does that. `pipelines/costs/meter.py` writes the attempts.
"""

import functools
import json
import logging
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import sqlalchemy as sa

from pipelines.costs.database import Database, LedgerError, is_passing
from pipelines.costs.provenance import Beginning
from pipelines.processes import ProcessIdentity, is_alive, process_identity
from pipelines.purchases import Journal
from pipelines.removals import Removal, Removals
from pipelines.store import digest
from pipelines.usage import Usage

HEARTBEAT_SECONDS = 5.0
SILENT_SECONDS = 180.0
"""An attempt on another host is taken for dead after this long without a heartbeat: longer than the database may be
away (`PATIENCE_SECONDS`), since nobody could beat meanwhile."""

RUN_LOCK = "corpus"
"""Lock of whoever works on the corpus, a run or `gc`: one at a time, however launched."""

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

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

beginnings = sa.Table(
    "beginnings",
    metadata,
    sa.Column("run", sa.String(64), primary_key=True),
    sa.Column("payload", sa.Text, nullable=False),
)

texts = sa.Table(
    "texts",
    metadata,
    sa.Column("digest", sa.String(64), primary_key=True),
    sa.Column("content", sa.Text, nullable=False),
)
"""Long texts that many runs share (profiles and locks), once each."""

LONG = ("profile", "lock")
"""The fields of a run's beginning that stand in `texts`."""

locks = sa.Table(
    "locks",
    metadata,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("run", sa.String(64), nullable=False),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("time", sa.Float, nullable=False),
)


removals = sa.Table(
    "removals",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("time", sa.Float, nullable=False),
    sa.Column("removal", sa.String(64), nullable=False, index=True),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("payload", sa.Text, nullable=False),
)
"""What was to be forgotten ('asked'), and what was done about it ('certificate')."""


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


def _patiently(method: Callable[Concatenate["Ledger", P], T]) -> Callable[Concatenate["Ledger", P], T]:
    """A method that is done again while the database is away, its whole transaction: so doing it twice must be the
    same as doing it once."""

    @functools.wraps(method)
    def tried(self: "Ledger", *args: P.args, **kwargs: P.kwargs) -> T:
        return self._database.patiently(lambda: method(self, *args, **kwargs))

    return tried


class Ledger:
    """Events, pointers and the run lock in one SQL database (a SQLite file, or the Postgres that serves Dagster).

    Opening it settles the attempts of processes that are gone. Reads and writes wait for a database that is away or
    locked, up to two minutes (`pipelines/costs/database.py`), and no write is applied twice; then, or when it can't be
    used, they raise `LedgerError`.
    """

    def __init__(self, url: str, *, settle: bool = True) -> None:
        self.url = url
        self._database = Database(url, metadata)
        if settle:
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
        journal: Path | None = None,
    ) -> str:
        """Open an attempt; returns its id: root run, step, number of the try, partition.

        role: 'stage' for work on an asset, 'coordinator' for the process that runs the steps, 'people' for the work of
        people on a version. journal: the file in which it notes what it buys (`pipelines/purchases.py`).
        """
        payload = {
            "root_run": root_run,
            "step": step,
            "asset": asset,
            "partition": partition,
            "role": role,
            "owner": asdict(owner or process_identity()),
            "usage": usage.record(),
            "journal": None if journal is None else str(journal),
        }
        return self._open(f"{root_run}/{step}/", f"/{partition}", _line("", run, "opened", payload))

    @_patiently
    def _open(self, prefix: str, suffix: str, line: dict[str, Any]) -> str:
        with self._writing() as sql:
            opened = events.c.kind == "opened"
            query = sa.select(events).where(opened, events.c.attempt.startswith(prefix, autoescape=True))
            tries = [row for row in sql.execute(query) if row.attempt.endswith(suffix)]
            for row in tries:
                if (row.time, row.payload) == (line["time"], line["payload"]):
                    return row.attempt  # written already; the answer was lost
            attempt = f"{prefix}{len(tries)}{suffix}"
            sql.execute(events.insert().values(line | {"attempt": attempt}))
        return attempt

    def heartbeat(self, attempt: str, run: str, usage: Usage, progress: dict[str, Any]) -> None:
        """Say that an attempt is alive and what it has used so far. Left out while the database is away: the next one
        tells more. Raises `LedgerError` where the database can't be used."""
        try:
            with self._database.telling(), self._writing() as sql:
                self._append(sql, attempt, run, "heartbeat", {"usage": usage.record(), "progress": progress})
        except LedgerError as error:
            if not isinstance(error.__cause__, Exception) or not is_passing(error.__cause__):
                raise
            logger.info("a heartbeat was left out: %s", error.__cause__)

    def close_attempt(self, attempt: str, run: str, status: str, usage: Usage, outcome: dict[str, Any]) -> None:
        """Close an attempt. status: 'done', 'failed' or 'cancelled'.

        outcome: `version` and `pins` where it made one; `results`, every task result it rests on, as {attempt that
        made it: {action key: CPU seconds of its own}}; `paid`, what was bought for them, as {attempt that paid: {action
        key: USD as text}}; `startup`, CPU seconds; `error`.
        """
        payload = {"status": status, "usage": usage.record(), **outcome}
        self._append_once([_line(attempt, run, "closed", payload)], events)

    @_patiently
    def settle(self) -> list[str]:
        """Close the attempts whose process is gone, at their last heartbeat and at what their journal says they have
        bought; returns their ids."""
        if not self._sql_rows(self._open_query()):
            return []
        now, settled = time.time(), []
        journals: list[Journal] = []
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
                if opened.payload.get("journal"):
                    journal = Journal(Path(opened.payload["journal"]))
                    try:
                        usage = journal.added_to(usage)
                    except OSError as error:  # somebody else may be able to read it: nothing that was paid is lost
                        logger.warning("attempt %s cannot be settled: %s", opened.attempt, error)
                        continue
                    journals.append(journal)
                reason = f"no heartbeat for {SILENT_SECONDS:.0f} s" if alive is None else "its process is gone"
                self._append(sql, opened.attempt, opened.run, "settled", {"usage": usage, "reason": reason})
                settled.append(opened.attempt)
        for journal in journals:
            journal.remove()
        return settled

    # -- versions -----------------------------------------------------------------------------------------------

    def publish(self, published: Sequence[Pointer]) -> None:
        """Move the pointers of a step, all in one transaction."""
        now = time.time()
        self._append_once([{"time": now, **vars(pointer)} for pointer in published], pointers)

    @_patiently
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

    @_patiently
    def history(self) -> list[Pointer]:
        """Every pointer ever moved, oldest first."""
        with self._reading() as sql:
            return [_pointer(row) for row in sql.execute(sa.select(pointers).order_by(pointers.c.id))]

    @_patiently
    def published_by(self, attempts: Sequence[str]) -> list[Pointer]:
        """What these attempts published, oldest first. attempts: some hundreds at most."""
        query = sa.select(pointers).where(pointers.c.attempt.in_(attempts)).order_by(pointers.c.id)
        with self._reading() as sql:
            return [_pointer(row) for row in sql.execute(query)]

    # -- runs ---------------------------------------------------------------------------------------------------

    @_patiently
    def open_run(self, run: str, profile: str, began_with: Callable[[], Beginning] | None = None) -> None:
        """Note the digest of the profile that a run works with. Raises `LedgerError` if it began with another.

        began_with: says what else it begins with; asked by the first step of a run only, and kept.
        """
        query = sa.select(runs.c.profile).where(runs.c.run == run)
        with self._reading() as sql:
            known = sql.execute(query).scalar()
        began = began_with() if known is None and began_with else None  # looked for while nobody waits to write
        with self._writing() as sql:
            known = sql.execute(query).scalar()
            if known is None:
                sql.execute(runs.insert().values(run=run, time=time.time(), profile=profile))
                if began is not None:
                    self._keep_beginning(sql, run, began)
            elif known != profile:
                raise LedgerError(
                    f"run {run[:8]} began with another profile ({known[:8]}, now {profile[:8]}): "
                    "the profile was edited or exchanged meanwhile; start a new run"
                )

    @_patiently
    def began_with(self, run: str) -> Beginning | None:
        """What a run began with; None for a run that is older than this record."""
        with self._reading() as sql:
            payload = sql.execute(sa.select(beginnings.c.payload).where(beginnings.c.run == run)).scalar()
            if payload is None:
                return None
            record = json.loads(payload)
            for name in LONG:
                record[name] = sql.execute(sa.select(texts.c.content).where(texts.c.digest == record[name])).scalar()
        return Beginning(**record)

    @_patiently
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

    @contextmanager
    def alone(self, purpose: str) -> Iterator[None]:
        """While this process works on the corpus without being a run. Raises `Busy` where one is at work."""
        name = f"{purpose}-{uuid.uuid4().hex[:8]}"
        self.take_lock(RUN_LOCK, name, process_identity())
        try:
            yield
        finally:
            self.release_lock(RUN_LOCK, name)

    @_patiently
    def release_lock(self, name: str, run: str) -> None:
        """Give a lock back; nothing happens if the run does not hold it."""
        with self._writing() as sql:
            sql.execute(locks.delete().where(locks.c.name == name, locks.c.run == run))

    # -- removals -----------------------------------------------------------------------------------------------

    def ask_removal(self, removal: Removal) -> None:
        """Note that documents are to be forgotten; from the next run on no version holds them."""
        self._note_removal(removal.id, "asked", removal.record(), removal.time)

    def certify_removal(self, removal: str, certificate: dict[str, Any]) -> None:
        """Note what was done about a removal."""
        self._note_removal(removal, "certificate", certificate, time.time())

    def _note_removal(self, removal: str, kind: str, payload: dict[str, Any], at: float) -> None:
        line = {"time": at, "removal": removal, "kind": kind, "payload": json.dumps(payload, sort_keys=True)}
        self._append_once([line], removals)

    @_patiently
    def removals(self) -> Removals:
        """Everything that is to be forgotten, in the order in which it was asked for."""
        return Removals(tuple(Removal.of(payload) for _, payload in self._removal_lines("asked")))

    @_patiently
    def certificates(self) -> dict[str, list[dict[str, Any]]]:
        """By removal, what was done about it, oldest first."""
        found: dict[str, list[dict[str, Any]]] = {}
        for removal, payload in self._removal_lines("certificate"):
            found.setdefault(removal, []).append(payload)
        return found

    def _removal_lines(self, kind: str) -> list[tuple[str, dict[str, Any]]]:
        query = sa.select(removals).where(removals.c.kind == kind).order_by(removals.c.id)
        with self._reading() as sql:
            return [(row.removal, json.loads(row.payload)) for row in sql.execute(query)]

    # -- reading ------------------------------------------------------------------------------------------------

    @_patiently
    def events(self, *, kinds: Sequence[str] = ("opened", "closed", "settled"), run: str | None = None) -> list[Event]:
        """Events of these kinds, oldest first."""
        query = sa.select(events).where(events.c.kind.in_(kinds)).order_by(events.c.id)
        return self._sql_rows(query.where(events.c.run == run) if run else query)

    @_patiently
    def newest_heartbeats(self, run: str) -> list[Event]:
        """The last heartbeat of each attempt of a run."""
        newest = sa.select(sa.func.max(events.c.id)).where(events.c.kind == "heartbeat", events.c.run == run)
        return self._sql_rows(sa.select(events).where(events.c.id.in_(newest.group_by(events.c.attempt))))

    # -- SQL ----------------------------------------------------------------------------------------------------

    def _writing(self) -> AbstractContextManager[sa.Connection]:
        return self._database.writing()

    def _reading(self) -> AbstractContextManager[sa.Connection]:
        return self._database.reading()

    @_patiently
    def _append_once(self, rows: Sequence[dict[str, Any]], table: sa.Table) -> None:
        """Append rows in one transaction, unless they stand already: the answer to an earlier try can be lost."""
        if not rows:
            return
        same = [table.c[name] == value for name, value in rows[0].items()]
        with self._writing() as sql:
            if sql.execute(sa.select(table.c.id).where(*same).limit(1)).first() is None:
                sql.execute(table.insert(), rows)

    def _append(self, sql: sa.Connection, attempt: str, run: str, kind: str, payload: dict[str, Any]) -> None:
        sql.execute(events.insert().values(_line(attempt, run, kind, payload)))

    def _sql_rows(self, query: sa.Select[Any]) -> list[Event]:
        with self._reading() as sql:
            return [_event(row) for row in sql.execute(query)]

    def _keep_beginning(self, sql: sa.Connection, run: str, began: Beginning) -> None:
        record = asdict(began)
        for name in LONG:
            content, key = record[name], digest(record[name])
            if not sql.execute(sa.select(texts.c.digest).where(texts.c.digest == key)).first():
                sql.execute(texts.insert().values(digest=key, content=content))
            record[name] = key
        sql.execute(beginnings.insert().values(run=run, payload=json.dumps(record)))

    def _open_query(self) -> sa.Select[Any]:
        ended = sa.select(events.c.attempt).where(events.c.kind.in_(["closed", "settled"]))
        return sa.select(events).where(events.c.kind == "opened", events.c.attempt.not_in(ended))

    def _last_sign(self, sql: sa.Connection, run: str, otherwise: float) -> float:
        return sql.execute(sa.select(sa.func.max(events.c.time)).where(events.c.run == run)).scalar() or otherwise


def _line(attempt: str, run: str, kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    return {"time": time.time(), "attempt": attempt, "run": run, "kind": kind, "payload": json.dumps(payload)}


def _event(row: sa.Row[Any]) -> Event:
    return Event(row.time, row.attempt, row.run, row.kind, json.loads(row.payload))


def _pointer(row: sa.Row[Any]) -> Pointer:
    return Pointer(row.asset, row.partition, row.version, row.attempt, row.run)
