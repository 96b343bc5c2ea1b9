"""A task: one unit of cached work, described by what it depends on. Engines run it; this module says what it is.

The key of a task hashes its stage, parameters and input objects, so a result is reused whenever nothing that it
depends on changed: that one rule is resume, increment and memo.
"""

import resource
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pipelines.dataset import SCHEMAS, Part, PartKind, Parts, Shard, parts_from, parts_record, read_table, write_shard
from pipelines.purchases import Journal, Quote
from pipelines.store import Store, digest
from pipelines.usage import Usage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class File:
    """A named file that a task made. kind 'tokens' for token shards. rows: documents in it, where it holds any."""

    name: str
    content: bytes | Path
    kind: PartKind = "files"
    rows: int = 0


@dataclass(frozen=True)
class Stats:
    """Counts and figures of a task, JSON values only. Engines hand them back; the stage adds them up."""

    values: dict[str, Any]


@dataclass(frozen=True)
class Kept:
    """What a task uses of work that others left unfinished: USD that they paid for it, by attempt."""

    usd: Mapping[str, Decimal]


PURCHASES = ("bought", "bought_usd")
"""What a record of an action and of a usage says of what was bought: units and dollars, by item."""

Made = tuple[str, pa.Table | File | Shard] | Stats | Kept
"""What a task yields: (part name, table or file; a `Shard` is stored already), at most one `Stats`, and one `Kept`."""


class Inputs:
    """The objects that a task may read: `tables` row-aligned tables of one shard, `broadcast` whatever all share."""

    def __init__(self, store: Store, objects: Sequence[str], broadcast: Sequence[str]) -> None:
        self.store = store
        self.objects = tuple(objects)
        self.broadcast_objects = tuple(broadcast)

    def table(self, index: int = 0, columns: Sequence[str] | None = None) -> pa.Table:
        """The index-th aligned input, as a table."""
        return read_table(self.store, self.objects[index], columns)

    def path(self, index: int) -> Path:
        """The index-th aligned input, as a local file."""
        return self.store.path(self.objects[index])

    def broadcast_table(self, index: int, columns: Sequence[str] | None = None) -> pa.Table:
        """The index-th broadcast input, as a table."""
        return read_table(self.store, self.broadcast_objects[index], columns)

    def broadcast_path(self, index: int) -> Path:
        """The index-th broadcast input, as a local file (model files, token files)."""
        return self.store.path(self.broadcast_objects[index])

    @property
    def broadcast_count(self) -> int:
        """How many broadcast inputs there are."""
        return len(self.broadcast_objects)


@dataclass(frozen=True)
class Task:
    """Work whose result depends on nothing but what stands here.

    run: a function of a module (picklable) from (inputs, payload) to what it made. stage: dotted name, for the key and
    for people. version: of the stage's code; raise it when results change. params: what of the parameters matters.
    inputs: aligned input objects. broadcast: objects every task of the stage shares. payload: how to do it (paths to
    read, a log to write to), not part of the key: it must not change what comes out. on_spark: the same work on a
    Spark session, for an engine that has one; it must make the same bytes, so it is not part of the key either.
    in_threads: it is compiled code that leaves the interpreter to others, so threads do as well as processes, which
    take a second to start. alone: it keeps all cores, or the GPU, at work by itself, so on one machine such tasks are
    done one after the other, in the process that asks for them. quote: says what the task is going to buy; such tasks
    are done by `Engine.run_each`, all of a stage at once, so that whoever rehearses knows all that it will buy.
    """

    run: Callable[[Inputs, Any], Iterable[Made]]
    stage: str
    version: int
    params: dict[str, Any]
    inputs: tuple[str, ...] = ()
    broadcast: tuple[str, ...] = ()
    payload: Any = None
    rows: int = 0
    on_spark: "Callable[[SparkSession, Inputs, Any], Iterable[Made]] | None" = None
    in_threads: bool = False
    alone: bool = False
    quote: Callable[[Inputs, Any], Quote] | None = None

    def quoted(self, store: Store) -> Quote:
        """What doing it is going to buy. Reads its inputs."""
        return self.quote(Inputs(store, self.inputs, self.broadcast), self.payload) if self.quote else Quote()

    @property
    def key(self) -> str:
        """The action key: 64 hex digits."""
        return digest(
            {
                "stage": self.stage,
                "version": self.version,
                "params": self.params,
                "inputs": list(self.inputs),
                "broadcast": list(self.broadcast),
                "pyarrow": pa.__version__,
            }
        )


@dataclass(frozen=True)
class Result:
    """What a task made, now or earlier. `made_by`: the attempt that paid for it. `cpu_seconds`: its own use. `bought`:
    what it bought itself, and no other quantity; nothing where an old record does not say. `kept_usd`: what other
    attempts, that came to no result, had paid for parts of it."""

    key: str
    parts: Parts
    stats: dict[str, Any]
    cpu_seconds: float
    wall_seconds: float
    made_by: str
    reused: bool
    bought: Usage = field(default_factory=Usage)
    kept_usd: Mapping[str, Decimal] = field(default_factory=dict)

    @property
    def bought_usd(self) -> Decimal:
        """What was paid for what it bought."""
        return sum(self.bought.bought_usd.values(), Decimal(0))

    @classmethod
    def load(cls, store: Store, key: str) -> "Result | None":
        """The standing result of an action, or None when it has to be done."""
        record = store.action(key)
        if record is None:
            return None
        return cls._from(record, reused=True)

    @classmethod
    def _from(cls, record: dict[str, Any], *, reused: bool) -> "Result":
        fields = ("key", "stats", "cpu_seconds", "wall_seconds", "made_by")
        bought = Usage.from_record({name: record[name] for name in PURCHASES if name in record})
        kept_usd = {attempt: Decimal(usd) for attempt, usd in record.get("kept_usd", {}).items()}
        parts = parts_from(record["parts"])
        return cls(**{f: record[f] for f in fields}, parts=parts, reused=reused, bought=bought, kept_usd=kept_usd)


def own_cpu_seconds() -> float:
    """What this process has used until now."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def cpu_seconds_with_children() -> float:
    """What this process and its ended children have used until now."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own_cpu_seconds() + used.ru_utime + used.ru_stime


def perform(
    store: Store,
    task: Task,
    attempt: str,
    used: Callable[[], float] = own_cpu_seconds,
    bought: Callable[[], Usage] = Usage,
) -> Result:
    """Run one task in this process, store what it makes, record the action.

    used: CPU seconds until now of whatever works for the task, where that is more than this process. bought: what was
    bought until now by nobody but this task and those before it.
    """
    parts: dict[str, list[Shard]] = {}
    kinds: dict[str, PartKind] = {}
    stats: dict[str, Any] = {}
    kept_usd: dict[str, str] = {}
    cpu_before, wall_before, bought_before = used(), time.monotonic(), bought()
    for made in task.run(Inputs(store, task.inputs, task.broadcast), task.payload):
        if isinstance(made, Stats):
            stats = made.values
            continue
        if isinstance(made, Kept):
            kept_usd = {by: str(usd) for by, usd in made.usd.items()}
            continue
        part, content = made
        if isinstance(content, File):
            raw = content.content
            size = raw.stat().st_size if isinstance(raw, Path) else len(raw)
            name = store.put_file(raw) if isinstance(raw, Path) else store.put(raw)
            parts.setdefault(part, []).append(Shard(name, size, content.rows, content.name))
            kinds[part] = content.kind
        elif isinstance(content, Shard):
            parts.setdefault(part, []).append(content)
            kinds[part] = "table" if part in SCHEMAS else "files"
        else:
            parts.setdefault(part, []).append(write_shard(store, part, content))
            kinds[part] = "table"
    record = {
        "key": task.key,
        "stage": task.stage,
        "parts": parts_record({name: Part(kinds[name], tuple(shards)) for name, shards in parts.items()}),
        "stats": stats,
        "cpu_seconds": used() - cpu_before,
        "wall_seconds": time.monotonic() - wall_before,
        "made_by": attempt,
    }
    own = (bought() - bought_before).record()
    items = [item for item, units in own["bought"].items() if units]
    if items:
        record |= {name: {item: own[name][item] for item in items} for name in PURCHASES}
    if kept_usd:
        record["kept_usd"] = kept_usd
    standing = store.record_action(task.key, record)
    return Result._from(standing, reused=standing["made_by"] != attempt)


@dataclass
class Progress:
    """How far an attempt's tasks are: read by heartbeats, written by the engine.

    started: Unix time, seconds. outside_cpu_seconds: what machines out of the meter's sight worked for the attempt.
    bought: what was bought for it of paid services; no other quantity of this usage is counted. journal: where each
    purchase is noted before it is made.
    """

    stage: str = ""
    started: float = 0.0
    done: int = 0
    total: int = 0
    reused: int = 0
    rows_done: int = 0
    rows_total: int = 0
    outside_cpu_seconds: float = 0.0
    extra: dict[str, Any] = field(default_factory=dict)
    bought: Usage = field(default_factory=Usage)
    journal: Journal | None = None

    def buy(self, what: Usage) -> None:
        """Note what is about to be bought, in the journal first: a process may be killed at any time. Not to be called
        from two threads at once. Raises `StoreError` where it cannot be noted, so that it is not bought."""
        if self.journal is not None:
            self.journal.note(what)
        self.bought = self.bought + what

    def record(self) -> dict[str, Any]:
        """Everything but what was bought, which is told as usage, as JSON values."""
        return {name: value for name, value in vars(self).items() if name not in ("bought", "journal")}

    def told(self, now: float) -> str:
        """For people: what is being done, how far it is, how fast it goes and how long it will take."""
        seconds = max(now - self.started, 1e-6)
        parts = [f"{self.done}/{self.total} tasks"] if self.total > 1 else []
        if self.rows_total:
            unit = self.extra.get("unit", "documents")
            parts.append(f"{self.rows_done:,}/{self.rows_total:,} {unit}, {self.rows_done / seconds:,.3g}/s")
            if self.rows_done and (self.done > 1 or self.rows_done > 20):  # the first hold start-up and tell little
                left = int(seconds * (self.rows_total - self.rows_done) / self.rows_done)
                parts.append(f"{left // 60}:{left % 60:02d} left")
        parts += [f"{key} {value}" for key, value in self.extra.items() if key != "unit"]
        return f"{self.stage}: {', '.join(parts) or 'at work'}"
