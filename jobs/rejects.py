"""`corpusmill rejects`: what every stage threw away and why, and on request a sample of it to look at.

Counts come from the versions' own records and cost nothing. For a sample the tables of decisions are read, and of the
documents only the shards that hold the sampled ones.
"""

import heapq
import json
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
from jobs.tables import STAGES, terminal
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
        raise LedgerError(f"nothing of that drops documents; what does is: {', '.join(STAGES)}")
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


def counts_of(version: Version) -> list[Count]:
    """What a version dropped, by reason, the most frequent first."""
    dropped = sorted(version.stats.get("dropped", {}).items(), key=lambda item: (-item[1], item[0]))
    seen, stage = version.stats.get("documents_in", 0), STAGES[version.asset]
    return [Count(stage, version.partition, reason, n, seen, version.id) for reason, n in dropped if n]


def sample_of(version: Version, store: Store, reason: str | None, most: int, *, with_text: bool) -> list[Rejected]:
    """At most so many rejected documents of every reason, always the same ones: those with the smallest hashes.

    Reads nothing where most is 0. Memory: the decisions, or the documents, of one shard.
    """
    if not most:
        return []
    if "rejects" in version.parts:
        return list(_unread(version, store, reason, most))
    return list(_decided(version, store, reason, most, with_text))


def _unread(version: Version, store: Store, reason: str | None, most: int) -> Iterator[Rejected]:
    """Input that could not be read: it has no text."""
    found: defaultdict[str, list[tuple[int, str, str | None]]] = defaultdict(list)
    for shard in version.parts["rejects"].shards:
        fresh: defaultdict[str, list[tuple[int, str, str | None]]] = defaultdict(list)
        for row in read_table(store, shard.object, ["uri", "reason", "detail"]).to_pylist() if shard.rows else ():
            fresh[row["reason"]].append((xxhash.xxh3_64_intdigest(row["uri"].encode()), row["uri"], row["detail"]))
        for why, rows in fresh.items():
            found[why] = heapq.nsmallest(most, [*found[why], *rows], key=lambda row: row[:2])
    for why, rows in sorted(found.items()):
        for _, uri, detail in rows if reason in (None, why) else ():
            yield Rejected(STAGES[version.asset], version.partition, why, None, uri, None, None, detail, None)


def _decided(version: Version, store: Store, reason: str | None, most: int, with_text: bool) -> Iterator[Rejected]:
    """Documents that were decided against. A `doc_id` is a hash, so the smallest are a fair sample."""
    found: defaultdict[str, list[tuple[str, int, int]]] = defaultdict(list)  # by reason: id, shard, row
    shards = version.parts["decisions"].shards if "decisions" in version.parts else ()
    for number, shard in enumerate(shards):
        if shard.rows:
            decisions = read_table(store, shard.object, ["doc_id", "keep", "rule"])
            rows = np.flatnonzero(pc.invert(decisions["keep"]).to_numpy())
            of_shard: defaultdict[str, list[tuple[str, int, int]]] = defaultdict(list)
            dropped = decisions.take(rows)
            for doc_id, rule, row in zip(
                dropped["doc_id"].to_pylist(), dropped["rule"].to_pylist(), rows.tolist(), strict=True
            ):
                of_shard[rule].append((doc_id, number, row))
            for rule, candidates in of_shard.items():
                found[rule] = heapq.nsmallest(most, [*found[rule], *candidates])
    chosen = [(rule, *one) for rule, some in sorted(found.items()) if reason in (None, rule) for one in some]
    told = _told(version, store, [(number, row) for _, _, number, row in chosen], with_text)
    for rule, doc_id, number, row in chosen:
        yield Rejected(STAGES[version.asset], version.partition, rule, doc_id, **told[number, row])


def _told(
    version: Version, store: Store, places: Iterable[tuple[int, int]], with_text: bool
) -> dict[tuple[int, int], dict[str, Any]]:
    """What was measured of documents, where they stand, and how their texts begin, by shard and row."""
    before = documents_before(Dataset(version.asset, (version,), store))
    by_shard: defaultdict[int, list[int]] = defaultdict(list)
    for number, row in places:
        by_shard[number].append(row)
    told: dict[tuple[int, int], dict[str, Any]] = {}
    for number, rows in by_shard.items():
        shard = version.parts["decisions"].shards[number]
        decisions = read_table(store, shard.object, ["value", "threshold", "detail"]).take(rows).to_pylist()
        try:
            columns = ["uri", "text"] if with_text else ["uri"]
            documents = read_table(store, before[number].object, columns).take(rows).to_pylist()
        except (StoreError, IndexError):  # gc took what the version was made from
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
        lines = [f"{one.stage}: {one.reason}" + (f" ({_line(why)})" if why else ""), f"  {one.source}: {_line(place)}"]
        if one.text is not None:
            lines.append(f"  {_line(one.text)}")
        for line in lines:
            console.print(line, soft_wrap=True, emoji=False)  # a text's :smile: is no emoji


def _line(text: str) -> str:
    """Text on one line, without what would move a terminal's cursor."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
