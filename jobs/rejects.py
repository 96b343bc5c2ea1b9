"""`corpusmill rejects`: what every stage threw away and why, and on request a sample of it to look at.

Counts come from the versions' own records and cost nothing. For a sample the tables of decisions are read, and of the
documents only the shards that hold the sampled ones.
"""

import json
from bisect import insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc
import xxhash
from rich import box
from rich.console import Console
from rich.table import Table

from assets.previews import documents_before, measured
from assets.values import share
from jobs.tables import STAGES, one_line, say, terminal
from pipelines.costs.ledger import LedgerError, Pointer
from pipelines.dataset import Dataset, Version, read_table
from pipelines.store import Store, StoreError
from resources.settings import Profile

BEGINNING = 240
"""Characters of a rejected text that are shown."""


@dataclass(frozen=True)
class Count:
    """Documents of one source that a stage dropped for one reason. documents_in: all that it saw of the source."""

    stage: str
    source: str
    reason: str
    documents: int
    documents_in: int
    version: str


@dataclass(frozen=True)
class Rejected:
    """One rejected document or record. place: file, '#', record; None where the bytes that tell are gone. text: its
    beginning; None where it was not to be read, is gone, or never was one."""

    stage: str
    source: str
    reason: str
    doc_id: str | None
    place: str | None
    value: float | None
    threshold: float | None
    detail: str | None
    text: str | None


def rejects(
    pointers: Sequence[Pointer],
    profile: Profile,
    *,
    stage: str | None,
    reason: str | None,
    sample: int,
    as_json: bool,
) -> int:
    """Tell what the versions behind these pointers dropped; returns the exit code.

    stage, reason: only of these; None: of all. sample: documents shown of every reason of every dataset. Raises
    `LedgerError` where nothing was dropped for a reason that is asked for.
    """
    store = Store(profile.store_url)
    chosen = [p for p in pointers if p.asset in STAGES and stage in (None, STAGES[p.asset])]
    if pointers and not chosen:
        raise LedgerError(_nothing_of(pointers, stage))
    order = {name: number for number, name in enumerate(profile.source_names)}
    chosen.sort(key=lambda p: (list(STAGES).index(p.asset), order.get(p.partition, len(order)), p.partition))
    versions = [Version.load(store, pointer.version) for pointer in chosen]
    everything = [count for version in versions for count in counts_of(version)]
    counts = [count for count in everything if reason in (None, count.reason)]
    if reason is not None and not counts:
        known = ", ".join(sorted({count.reason for count in everything})) or "none"
        raise LedgerError(f"nothing was dropped for the reason {reason!r}; reasons are: {known}")
    with_text = profile.previews != "off"
    sampled = [one for version in versions for one in sample_of(version, store, reason, sample, with_text=with_text)]
    if as_json:
        print(json.dumps({"counts": list(map(vars, counts)), "sample": list(map(vars, sampled))}, indent=1))
        return 0
    console = terminal()
    if not versions:
        console.print("Nothing has been made yet: start with `corpusmill run`.")
        return 0
    console.print(_table(counts))
    _tell(sampled, console)
    if sampled and not with_text:
        console.print("No texts are shown: the profile has previews: off.")
    return 0


def _nothing_of(pointers: Sequence[Pointer], stage: str | None) -> str:
    """Why none of these datasets tells what was dropped by a stage, or by any."""
    asset = next((asset for asset, name in STAGES.items() if name == stage), None)
    there = dict.fromkeys(pointer.asset for pointer in pointers if pointer.asset in STAGES)
    if asset is None or not there:
        return f"nothing of that drops documents; what does is: {', '.join(STAGES)}"
    return f"{asset}, where {stage} drops documents, was not made yet or is not asked for; there is: {', '.join(there)}"


def counts_of(version: Version) -> list[Count]:
    """What a version dropped, by reason, the most frequent first."""
    dropped = sorted(version.stats.get("dropped", {}).items(), key=lambda item: (-item[1], item[0]))
    seen, stage = version.stats.get("documents_in", 0), STAGES[version.asset]
    return [Count(stage, version.partition, reason, n, seen, version.id) for reason, n in dropped if n]


def sample_of(version: Version, store: Store, reason: str | None, most: int, *, with_text: bool) -> list[Rejected]:
    """At most so many rejected documents of every reason, always the same ones: those with the smallest hashes.

    Reads nothing where most is 0. Memory: the decisions, or the documents, of one shard. Raises `LedgerError` where
    the decisions do not describe the documents that they were made on.
    """
    if not most:
        return []
    if "rejects" in version.parts:
        return _unread(version, store, reason, most)
    if "decisions" in version.parts:
        return _decided(version, store, reason, most, with_text)
    return []


def _unread(version: Version, store: Store, reason: str | None, most: int) -> list[Rejected]:
    """Input that could not be read: it has no text."""
    shards = (shard for shard in version.parts["rejects"].shards if shard.rows)
    rows = (row for shard in shards for row in read_table(store, shard.object, ["uri", "reason", "detail"]).to_pylist())
    ranked = ((row["reason"], (xxhash.xxh3_64_intdigest(row["uri"].encode()), row["uri"]), row) for row in rows)
    return [
        Rejected(STAGES[version.asset], version.partition, why, None, row["uri"], None, None, row["detail"], None)
        for why, _, row in _smallest(ranked, reason, most)
    ]


def _decided(version: Version, store: Store, reason: str | None, most: int, with_text: bool) -> list[Rejected]:
    """Documents that were decided against. A `doc_id` is a hash, so the smallest are a fair sample."""
    chosen = _smallest(_dropped(version, store), reason, most)
    told = _told(version, store, [place for _, _, place in chosen], with_text)
    return [
        Rejected(STAGES[version.asset], version.partition, rule, doc_id, **told[place])
        for rule, doc_id, place in chosen
    ]


def _dropped(version: Version, store: Store) -> Iterator[tuple[str, str, tuple[int, int]]]:
    """Rule, id, and (shard, row) of every document that was decided against."""
    for number, shard in enumerate(version.parts["decisions"].shards):
        if shard.rows:
            decisions = read_table(store, shard.object, ["doc_id", "keep", "rule"])
            rows = np.flatnonzero(pc.invert(decisions["keep"]).to_numpy())
            gone = decisions.take(rows)
            places = ((number, row) for row in rows.tolist())
            yield from zip(gone["rule"].to_pylist(), gone["doc_id"].to_pylist(), places, strict=True)


def _smallest(rows: Iterable[tuple[str, Any, Any]], reason: str | None, most: int) -> list[tuple[str, Any, Any]]:
    """Of rows (reason, rank, what it is of) the lowest so many of every reason, or of one, sorted by both."""
    found: defaultdict[str, list[tuple[str, Any, Any]]] = defaultdict(list)
    for row in rows:
        best = found[row[0]]
        if reason in (None, row[0]) and (len(best) < most or row[1] < best[-1][1]):
            insort(best, row, key=lambda one: one[1])
            del best[most:]
    return [row for why in sorted(found) for row in found[why]]


def _told(
    version: Version, store: Store, places: Iterable[tuple[int, int]], with_text: bool
) -> dict[tuple[int, int], dict[str, Any]]:
    """What was measured of documents, where they stand, and how their texts begin, by shard and row."""
    decided, before = version.parts["decisions"].shards, documents_before(Dataset(version.asset, (version,), store))
    if [shard.rows for shard in decided] != [shard.rows for shard in before]:
        raise LedgerError(
            f"the decisions of {version.name}@{version.id} do not describe the documents that it was made from; "
            f"materialize {version.asset} again"
        )
    by_shard: defaultdict[int, list[int]] = defaultdict(list)
    for number, row in places:
        by_shard[number].append(row)
    told: dict[tuple[int, int], dict[str, Any]] = {}
    for number, rows in by_shard.items():
        columns = ["value", "threshold", "detail"]
        decisions = read_table(store, decided[number].object, columns).take(rows).to_pylist()
        try:
            columns = ["uri", "text"] if with_text else ["uri"]
            documents = read_table(store, before[number].object, columns).take(rows).to_pylist()
        except StoreError:  # gc took what the version was made from
            documents = [{"uri": None}] * len(rows)
        for row, decision, document in zip(rows, decisions, documents, strict=True):
            text = document.get("text")
            beginning = None if text is None else text[:BEGINNING]
            told[number, row] = {**decision, "place": document["uri"], "text": beginning}
    return told


# -- what is told ---------------------------------------------------------------------------------------------------


def _table(counts: Sequence[Count]) -> Table:
    table = Table(title="What every stage dropped, and why", box=box.SIMPLE_HEAD, title_justify="left")
    for heading in ("stage", "source", "reason"):
        table.add_column(heading)
    for heading in ("documents", "of those that came in"):
        table.add_column(heading, justify="right")
    for count in counts:
        of_all = share(count.documents, count.documents_in)
        table.add_row(count.stage, count.source, count.reason, f"{count.documents:,}", of_all)
    return table


def _tell(sampled: Sequence[Rejected], console: Console) -> None:
    for one in sampled:
        why = measured({"value": one.value, "threshold": one.threshold, "detail": one.detail})
        place = one.place or f"{one.doc_id} (its file and text are no longer stored)"
        say(
            console,
            f"{one.stage}: {one.reason}" + (f" ({one_line(why)})" if why else ""),
            f"  {one.source}: {one_line(place)}",
            *([] if one.text is None else [f"  {one_line(one.text)}"]),
        )
