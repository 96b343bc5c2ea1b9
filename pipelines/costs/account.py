"""What the ledger's quantities cost: per attempt, per dataset with everything upstream, and what was wasted.

The one identity that always holds, to the last digit: published + salvaged + waste + overhead = total. Nothing is
written here; another price book gives another account of the same history.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

from pipelines.costs.ledger import Event, Ledger, Pointer
from pipelines.prices.book import SMALLEST_USD, Charge, PriceBook
from pipelines.usage import Usage

ZERO = Decimal(0)
PEOPLE = "people"
"""Role of an attempt that is the work of people on a version: it makes none."""


Action = tuple[str, str]
"""One result as the ledger knows it: the attempt that made it, or paid for a part of it, and the key of what it did."""


@dataclass(frozen=True)
class Attempt:
    """One ended attempt. `named`: all results that it rests on, made by itself or reused, and what others had paid for
    parts of them."""

    id: str
    run: str
    step: str
    asset: str
    partition: str
    role: str
    status: str
    usage: Usage
    book: PriceBook
    startup_cpu_seconds: float
    opened: float
    ended: float
    version: str | None = None
    pins: tuple[tuple[str, str, str], ...] = ()
    named: frozenset[Action] = frozenset()
    error: str | None = None

    @cached_property
    def charge(self) -> Charge:
        """What it cost. Raises `pipelines.prices.book.PriceError` for a GPU that the book has no price for."""
        return self.book.price(self.usage)


@dataclass(frozen=True)
class Buckets:
    """Where the money went, USD. total = published + salvaged + waste + overhead, exactly."""

    published: Decimal
    salvaged: Decimal
    waste: Decimal
    overhead: Decimal

    @property
    def total(self) -> Decimal:
        """All closed and settled attempts and coordinators."""
        return self.published + self.salvaged + self.waste + self.overhead


class Account:
    """The ledger as it stands, priced with one book. Memory grows with attempts and actions, not with heartbeats."""

    def __init__(self, events: Iterable[Event], pointers: Iterable[Pointer], book: PriceBook) -> None:
        self.book = book
        self.attempts, self.made, self.paid = _attempts(events, book)
        self._by_id = {attempt.id: attempt for attempt in self.attempts}
        self.pointers = list(pointers)
        self._publishing = {pointer.attempt for pointer in self.pointers}
        self._first: dict[str, Attempt] = {}
        """The attempt that first made each version."""
        self._people: dict[str, list[Attempt]] = defaultdict(list)
        """The work of people on each version."""
        made_versions = [attempt for attempt in self.attempts if attempt.version is not None]
        for attempt in made_versions:
            if attempt.role == PEOPLE:
                self._people[str(attempt.version)].append(attempt)
            elif attempt.id in self._publishing:
                self._first.setdefault(str(attempt.version), attempt)
        for attempt in made_versions:  # made, but never current: still explains what consumers pinned within a run
            if attempt.role != PEOPLE:
                self._first.setdefault(str(attempt.version), attempt)
        self._named = {action for a in self.attempts if a.id in self._publishing for action in a.named}
        self._shares_of: dict[str, dict[str, Decimal]] = {}

    @classmethod
    def read(cls, ledger: Ledger, book: PriceBook) -> "Account":
        """The account of everything that the ledger holds."""
        return cls(ledger.events(), ledger.history(), book)

    def attempt(self, attempt_id: str) -> Attempt:
        """A closed or settled attempt. Raises `KeyError` for one that is open or unknown."""
        return self._by_id[attempt_id]

    def published(self, attempt: Attempt) -> bool:
        """Whether the attempt's version became current. The work of people is done on a version that did."""
        return attempt.id in self._publishing or attempt.role == PEOPLE

    # -- one dataset --------------------------------------------------------------------------------------------

    def lineage(self, version: str) -> set[str]:
        """The version and everything upstream of it, each once."""
        seen: set[str] = set()
        waiting = [version]
        while waiting:
            current = waiting.pop()
            if current in seen:
                continue
            seen.add(current)
            maker = self._first.get(current)
            if maker is not None:
                waiting.extend(pin for _, _, pin in maker.pins)
        return seen

    def lineage_usd(self, version: str) -> Decimal:
        """Cost of a version and everything upstream: the sum over the *set* of actions, so a diamond counts once; and
        the work of people on each of these versions."""
        actions: set[Action] = set()
        publications = ZERO
        for member in self.lineage(version):
            maker = self._first.get(member)
            if maker is not None:
                actions |= maker.named
                publications += self._publication_usd(maker)
            publications += self.people_usd(member)
        return publications + self.usd_of(actions)

    def people_usd(self, version: str) -> Decimal:
        """What the work of people on a version cost."""
        return sum((attempt.charge.usd for attempt in self._people[version]), ZERO)

    def own_usd(self, version: str) -> Decimal:
        """Cost of a version without what is upstream of it: its results, at what they cost when they were made."""
        maker = self._first.get(version)
        return ZERO if maker is None else self._publication_usd(maker) + self.usd_of(maker.named)

    def usd_of(self, actions: Iterable[Action]) -> Decimal:
        """What these results cost together, each once."""
        return sum((self._shares(maker).get(key, ZERO) for maker, key in set(actions)), ZERO)

    def reused(self, attempt: Attempt) -> set[Action]:
        """Results that an attempt took from other runs than its own."""
        return {(maker, key) for maker, key in attempt.named if not self._same_run(maker, attempt)}

    def saved_usd(self, attempt: Attempt) -> Decimal:
        """What the results that an attempt reused had cost when they were made, in other runs than its own."""
        return self.usd_of(self.reused(attempt))

    def _same_run(self, maker: str, attempt: Attempt) -> bool:
        return maker in self._by_id and self._by_id[maker].run == attempt.run

    # -- where the money went -----------------------------------------------------------------------------------

    def buckets(self, attempts: Iterable[Attempt] | None = None) -> Buckets:
        """The four buckets over these attempts (all by default)."""
        sums: dict[str, Decimal] = defaultdict(Decimal)
        for attempt in self.attempts if attempts is None else attempts:
            if attempt.role == "coordinator":
                sums["overhead"] += attempt.charge.usd
            elif self.published(attempt):
                sums["published"] += attempt.charge.usd
            else:
                salvaged = self.salvaged_usd(attempt)
                sums["salvaged"] += salvaged
                sums["waste"] += attempt.charge.usd - salvaged
        return Buckets(sums["published"], sums["salvaged"], sums["waste"], sums["overhead"])

    def salvaged_usd(self, attempt: Attempt) -> Decimal:
        """What a later published version uses of an attempt that published nothing."""
        if attempt.role == "coordinator" or self.published(attempt):
            return ZERO
        return sum((usd for key, usd in self._shares(attempt.id).items() if (attempt.id, key) in self._named), ZERO)

    def wasted_usd(self, attempt: Attempt) -> Decimal:
        """What nothing uses of an attempt that published nothing."""
        if attempt.role == "coordinator" or self.published(attempt):
            return ZERO
        return attempt.charge.usd - self.salvaged_usd(attempt)

    def _publication_usd(self, attempt: Attempt) -> Decimal:
        """What a published attempt cost beside its results: all of it, where others had made them."""
        return attempt.charge.usd - sum(self._shares(attempt.id).values()) if self.published(attempt) else ZERO

    def _shares(self, maker: str) -> dict[str, Decimal]:
        """USD of every action of an attempt: what it bought itself, and a share of what else the attempt cost.

        An attempt that published: the rest over its actions, each its own measured use and a share of what is left
        (start-up, and purchases of which no action knows) in proportion. An attempt that published nothing: each action
        its own use only, the rest is waste. An attempt that this ledger does not know (another ledger on the same
        store): the CPU time that the store recorded, at the book's rate.
        """
        if maker not in self._shares_of:
            made, paid = self.made[maker], self.paid.get(maker, {})
            own = sum(made.values())
            attempt = self._by_id.get(maker)
            if attempt is None:
                usd, whole = self.book.price(Usage(cpu_seconds=own)).usd, own
            else:
                charge = attempt.charge
                paid = _at_most(paid, charge.bought_usd)
                if self.published(attempt):
                    usd, whole = charge.usd - sum(paid.values()), own
                else:
                    usd, whole = charge.usd - charge.bought_usd, max(own, attempt.usage.cpu_seconds)
            shares = _shares(usd, made, whole)
            self._shares_of[maker] = {key: shares.get(key, ZERO) + paid.get(key, ZERO) for key in {**shares, **paid}}
        return self._shares_of[maker]


def _at_most(paid: dict[str, Decimal], usd: Decimal) -> dict[str, Decimal]:
    """The same amounts as far as `usd` goes: of a process that was killed where nobody could look, the ledger can know
    less than the results that it left."""
    shown: dict[str, Decimal] = {}
    for key, amount in paid.items():
        shown[key] = min(amount, usd)
        usd -= shown[key]
    return shown


def _shares(usd: Decimal, seconds: dict[str, float], whole: float) -> dict[str, Decimal]:
    """Each one's share of `usd` by its seconds of `whole`, in whole multiples of the smallest amount.

    Shares of cumulative seconds are rounded, not single ones: so they add up to the share of the sum.
    """
    shares: dict[str, Decimal] = {}
    before, passed = ZERO, 0.0
    for key, own in seconds.items():
        passed += own
        upto = (usd * Decimal(min(passed / whole, 1.0))).quantize(SMALLEST_USD) if whole else ZERO
        shares[key], before = upto - before, upto
    return shares


def _attempts(
    events: Iterable[Event], book: PriceBook
) -> tuple[list[Attempt], dict[str, dict[str, float]], dict[str, dict[str, Decimal]]]:
    """The ended attempts; for each the CPU seconds of every action that it is known to have done; and USD of what these
    bought.

    A killed attempt could not say what it had done; the attempts that reuse its results say it.
    """
    opened: dict[str, Event] = {}
    ended: dict[str, Event] = {}
    made: dict[str, dict[str, float]] = defaultdict(dict)
    paid: dict[str, dict[str, Decimal]] = defaultdict(dict)
    for event in events:
        if event.kind == "opened":
            opened[event.attempt] = event
        elif event.kind == "closed" or (event.kind == "settled" and event.attempt not in ended):
            ended[event.attempt] = event
            for maker, actions in event.payload.get("results", {}).items():
                made[maker].update(actions)
            for maker, amounts in event.payload.get("paid", {}).items():
                paid[maker].update({key: Decimal(usd).quantize(SMALLEST_USD) for key, usd in amounts.items()})
    return [_attempt(opened[name], end, book) for name, end in ended.items() if name in opened], made, paid


def _attempt(opened: Event, ended: Event, book: PriceBook) -> Attempt:
    begun: dict[str, Any] = opened.payload
    end: dict[str, Any] = ended.payload
    usage = Usage.from_record(end["usage"])
    return Attempt(
        id=opened.attempt,
        run=opened.run,
        step=begun["step"],
        asset=begun["asset"],
        partition=begun["partition"],
        role=begun["role"],
        status=end.get("status", "killed"),
        usage=usage,
        book=book,
        startup_cpu_seconds=end.get("startup", 0.0),
        opened=opened.time,
        ended=ended.time,
        version=end.get("version"),
        pins=tuple((a, p, v) for a, p, v in end.get("pins", ())),
        named=frozenset(
            (maker, key)
            for told in (end.get("results", {}), end.get("paid", {}))
            for maker, actions in told.items()
            for key in actions
        ),
        error=end.get("error") or end.get("reason"),
    )
