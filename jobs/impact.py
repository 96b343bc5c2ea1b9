"""`corpusmill impact`: what a run would make again and what that would cost, before anybody presses Materialize.

Every asset's own recipe is rehearsed on the store as it stands (`pipelines/engines/rehearsal.py`): as long as all
results are at hand its next version is known and handed on. Below a result that is missing nothing can be known
without doing the work, so descendants count in full, by their last versions: "at most". Dollars are estimates from what
the same stages took before.
"""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

from assets.checks import StepChecks
from assets.recipe import Recipe
from jobs.build import assets_of
from jobs.outlook import Impact, Outcome, Outlook
from pipelines.costs.account import Account, Attempt
from pipelines.costs.ledger import Ledger, Pointer
from pipelines.dataset import Dataset, Version
from pipelines.engines.rehearsal import NotDone, Rehearsal, StoreView
from pipelines.engines.task import Task
from pipelines.health import refuse_unhealthy
from pipelines.prices.book import SMALLEST_USD, load_book
from pipelines.purchases import Quote
from pipelines.removals import Removals
from pipelines.store import Store
from pipelines.training.work import Report
from pipelines.usage import Usage
from resources.launcher import Launcher
from resources.settings import Profile

Place = tuple[str, str]
"""An asset and its partition, '' where it has none."""

ROW_PER_DOCUMENT = {
    "documents",
    "decisions",
    "buckets",
    "index",
    "toxicity",
    "perplexity",
    "contamination",
    "token_documents",
}
"""Parts that have a row for every document."""


def impact(profile: Profile) -> Impact:
    """What a run of a profile would do. Writes nothing; reads the source files as ingestion does, to know what changed.

    Raises `StoreError` where a current version is not whole.
    """
    ledger = Ledger(profile.ledger_url, settle=False)
    recipes = assets_of(profile)
    names = {recipe.name for recipe in recipes}
    current = [pointer for pointer in ledger.all_current() if pointer.asset in names]
    if not current:
        return Impact(())
    with StoreView(profile.store_url) as store:
        past = _Past(Account.read(ledger, load_book(profile.prices_path)), current, store, ledger.removals())
        forecast = _Forecast(profile, past, store)
        outlooks = [
            forecast.outlook(recipe, partition)
            for recipe in recipes
            for partition in (profile.source_names if recipe.partitioned_by_source else [""])
        ]
    return Impact(tuple(outlooks), past.run_usd)


@dataclass(frozen=True)
class _Work:
    """One result that was done, or is expected to be. seconds: of CPU, None where nobody knows. rows, tokens: that went
    through it, 0 where nobody counted. bought_usd: of what it bought."""

    key: str
    stage: str
    seconds: float | None
    rows: float
    tokens: float
    bought_usd: Decimal = Decimal(0)

    def times(self, growth: float) -> "_Work":
        """The same work on more or fewer rows."""
        seconds = None if self.seconds is None else self.seconds * growth
        bought_usd = self.bought_usd * Decimal(growth)
        return replace(
            self, seconds=seconds, rows=self.rows * growth, tokens=self.tokens * growth, bought_usd=bought_usd
        )


class _Past:
    """What earlier runs left: the last version of every dataset, and what its results took."""

    def __init__(self, account: Account, current: Iterable[Pointer], store: Store, removals: Removals) -> None:
        self._account, self._store, self.removals = account, store, removals
        self._seconds = {key: seconds for made in account.made.values() for key, seconds in made.items()}
        self._stages: dict[str, dict[str, _Work]] = defaultdict(dict)
        self.versions = {(p.asset, p.partition): Version.load(store, p.version) for p in current}
        self.done: dict[Place, list[_Work]] = defaultdict(list)
        """What each last version rests on, each result once."""
        for place, version in self.versions.items():
            for key in dict.fromkeys(version.actions):
                work = self._done(key)
                self.done[place].append(work)
                self._stages[work.stage][key] = work

    def _done(self, key: str) -> _Work:
        record = self._store.action(key)
        if record is None:  # its bytes are gone; the ledger still knows what it took
            return _Work(key, "", self._seconds.get(key), 0, 0)
        aligned = [part["shards"] for name, part in record["parts"].items() if name in ROW_PER_DOCUMENT]
        rows = max((sum(shard["rows"] for shard in shards) for shards in aligned), default=0)
        stats = record["stats"]
        rows = stats.get("documents_in") or stats.get("documents") or rows
        bought_usd = sum(map(Decimal, record.get("bought_usd", {}).values()), Decimal(0))
        return _Work(key, record["stage"], record["cpu_seconds"], rows, stats.get("tokens", 0), bought_usd)

    def expect(self, task: Task, place: Place) -> _Work:
        """What a task will take: by its rows as its stage did; where they are not known, as others of this dataset."""
        own = [] if task.rows else [work for work in self.done[place] if work.stage == task.stage]
        like = own or list(self._stages[task.stage].values()) or self.done[place]
        measured = [work for work in like if work.seconds is not None]
        if not measured:
            return _Work(task.key, task.stage, None, task.rows, 0)
        rows = sum(work.rows for work in measured)
        share = task.rows / rows if task.rows and rows else 1 / len(measured)
        seconds, tokens = sum(work.seconds or 0 for work in measured), sum(work.tokens for work in measured)
        return _Work(task.key, task.stage, seconds * share, task.rows or rows * share, tokens * share)

    def usd(self, place: Place, seconds: float) -> Decimal | None:
        """Dollars of an attempt whose own results take so many CPU seconds, purchases apart: these, the rest of the
        attempt (start-up included) as it was last time, and in proportion GPUs held. None before the first attempt."""
        attempt = self._attempt(place, working=seconds > 0)
        if attempt is None:
            return None
        made = sum(self._account.made[attempt.id].values())
        rest = max(attempt.usage.cpu_seconds - made, 0)
        if made and not seconds:
            rest = attempt.startup_cpu_seconds  # of what was never done without work, only the start is known
        usd = self._account.book.price(Usage(cpu_seconds=rest + seconds)).usd
        if made and attempt.usage.gpu_seconds:
            held = sum((line.usd for line in attempt.charge.lines if line.item != "cpu"), Decimal(0))
            usd += (held * Decimal(min(seconds / made, 1.0))).quantize(SMALLEST_USD)
        return usd

    def bought_usd(self, place: Place, works: Iterable[_Work], growth: float) -> Decimal:
        """What these results of a dataset bought; where no result says so, as in old stores, all that was bought for it
        the last time that it was worked on, times the growth."""
        usd = sum((work.bought_usd for work in works), Decimal(0))
        attempt = self._attempt(place, working=True)
        if not usd and attempt is not None and attempt.partition == place[1] and attempt.id not in self._account.paid:
            usd = attempt.charge.bought_usd * Decimal(growth)
        return usd.quantize(SMALLEST_USD)

    @property
    def run_usd(self) -> Decimal:
        """What the last coordinator of a run cost."""
        coordinators = [attempt for attempt in self._account.attempts if attempt.role == "coordinator"]
        return coordinators[-1].charge.usd if coordinators else Decimal(0)

    def _attempt(self, place: Place, *, working: bool) -> Attempt | None:
        """The last attempt at an asset, best one that did results itself (or did none), and of this source."""
        asset, partition = place
        ended = [a for a in self._account.attempts if a.asset == asset and a.status == "done" and a.role == "stage"]

        def likeness(attempt: Attempt) -> tuple[bool, bool]:
            return bool(self._account.made[attempt.id]) == working, attempt.partition == partition

        return max(reversed(ended), key=likeness, default=None)


@dataclass(frozen=True)
class _Next:
    """A dataset after the run. version: None where it cannot be known. rows: now and before, estimated."""

    version: Version | None
    touched: bool
    rows: float
    before: int


class _Forecast:
    """Goes through the assets in order and remembers what comes out of each."""

    def __init__(self, profile: Profile, past: _Past, store: StoreView) -> None:
        self._profile, self._past, self._store = profile, past, store
        self._partitioned = {recipe.name for recipe in assets_of(profile) if recipe.partitioned_by_source}
        self._next: dict[Place, _Next] = {}
        self._checks: dict[str, StepChecks] = {}
        self._coming: set[str] = set()
        """Keys of results that a dataset before this one is going to do: they are done once."""

    def outlook(self, recipe: Recipe, partition: str) -> Outlook:
        """What a run would do with a dataset. Those that it is made from must have been looked at."""
        place = recipe.name, partition
        last = self._past.versions.get(place)
        inputs = {name: self._read(recipe, name, partition) for name in recipe.inputs}
        rehearsal = Rehearsal(self._store, self._profile.engine.workers)
        version, failure = self._rehearse(recipe, partition, inputs, rehearsal)

        asked = {task.key for task, _ in rehearsal.asked}
        stages = {task.stage for task, _ in rehearsal.asked}
        found = {task.key for task, result in rehearsal.asked if result is not None}
        missing = {task.key: self._past.expect(task, place) for task, result in rehearsal.asked if result is None}
        unseen: dict[str, _Work] = {}
        if version is None and not failure:
            done = self._past.done[place]
            unseen = {w.key: w for w in done if w.stage not in stages and w.key not in missing}
        before = _rows(recipe, last)
        growth = _growth(inputs, rehearsal, missing.values(), before)
        cached = len(found) + len(self._coming & (missing.keys() | unseen.keys()))
        certain = [work for key, work in missing.items() if key not in self._coming]
        possible = [work.times(growth) for key, work in unseen.items() if key not in self._coming]
        buys = self._quote(recipe, version, failure, [task for task, result in rehearsal.asked if result is None])
        self._coming |= missing.keys() | unseen.keys()

        outcome = _outcome(version, last, failure, exact=bool(missing) and not unseen)
        rows = _rows(recipe, version) if version else before * growth
        self._next[place] = _Next(version, outcome != "untouched", rows, before)
        work = certain + possible
        seconds = [one.seconds for one in work if one.seconds is not None]
        known = len(seconds) == len(work) and outcome not in ("never made", "fails")
        usd = self._past.usd(place, sum(seconds)) if known else None
        bought_usd = self._past.bought_usd(place, possible, growth) if buys is None else buys.expected_usd
        return Outlook(
            asset=recipe.name,
            partition=partition,
            outcome=outcome,
            because=failure or ("" if outcome == "untouched" else self._because(recipe, last, inputs, asked)),
            cached=cached,
            to_do=len(certain) + _number(possible, growth if partition else 1.0),
            documents=round(_most((one.stage, one.rows) for one in work)),
            tokens=round(_most((one.stage, one.tokens) for one in work)) if last and "tokens" in last.stats else 0,
            usd=None if usd is None else usd + bought_usd,
            bought_usd=bought_usd,
            bought_at_most=None if buys is None else buys.most_usd,
        )

    def _quote(self, recipe: Recipe, version: Version | None, failure: str, missing: list[Task]) -> Quote | None:
        """What is going to be bought for a dataset; None where that shows only when its first results are there."""
        params = recipe.params_of(self._profile)
        if params is None or not params.buys or version is not None or failure:
            return Quote()
        paid = [task for task in missing if task.quote is not None]
        if not paid:
            return None
        return sum((task.quoted(self._store) for task in paid if task.key not in self._coming), Quote())

    def _read(self, recipe: Recipe, name: str, partition: str) -> list[_Next]:
        """What a dataset reads of one of its inputs."""
        if name not in self._partitioned:
            return [self._next[name, ""]]
        sources = [partition] if partition else recipe.sources_read(self._profile, name)
        return [self._next[name, source] for source in sources]

    def _rehearse(
        self, recipe: Recipe, partition: str, inputs: Mapping[str, list[_Next]], rehearsal: Rehearsal
    ) -> tuple[Version | None, str]:
        """The version that comes out, where that can be known, and why a run would fail, where it would."""
        given: dict[str, Any] = {name: _NoLauncher() for name, kind in recipe.parameters.items() if kind is Launcher}
        given["removals"] = self._past.removals
        given |= recipe.borrowed_from(self._profile)
        for name, read in inputs.items():
            versions = tuple(source.version for source in read if source.version is not None)
            if len(versions) < len(read):
                return None, ""
            given[name] = Dataset(name, versions, self._store)
        source = self._profile.source(partition) if partition else None
        params = recipe.params_of(self._profile)
        try:
            for data in given.values():
                for read in data.versions if isinstance(data, Dataset) else ():
                    refuse_unhealthy(read, self._profile.checks)
            before = self._past.versions.get((recipe.name, partition))
            version = recipe.make(partition, given, rehearsal, params=params, source=source, last=before)
            checks = self._checks.setdefault(recipe.name, StepChecks(recipe.name, recipe.checks, self._profile.checks))
            checks.look_at(version, before)
            *others, last = self._profile.source_names if partition else [""]
            if partition == last and all(self._next[recipe.name, other].version for other in others):
                checks.look_at_all()
            return version, ""
        except NotDone:
            return None, ""
        except Exception as error:  # noqa: BLE001 - whatever a body raises, a run would stop at it too
            return None, " ".join(str(error).split()) or type(error).__name__

    def _because(self, recipe: Recipe, last: Version | None, inputs: Mapping[str, list[_Next]], asked: set[str]) -> str:
        """Why a dataset is not as it stands. asked: keys of the results that were looked up."""
        if last is None:
            return "never made"
        told: list[str] = []
        params = recipe.params_of(self._profile)
        section = self._profile.section_name(recipe.params_model) if recipe.params_model else ""
        for key, value in params.recorded.items() if params else ():
            if last.params.get(key) != value:
                told.append(f"{section}.{key} {_short(last.params.get(key))} → {_short(value)}")
        if last.code_version != recipe.code:
            told.append(f"code {last.code_version} → {recipe.code}")
        if changed := [name for name, read in inputs.items() if any(source.touched for source in read)]:
            told.append(f"made from {', '.join(changed)}")
        if not told and not inputs:
            told.append("files or settings of the source")
        elif not told and asked <= set(last.actions):
            told.append("results are gone from the store")
        elif not told:  # a key hashes what a task reads, and with what
            told.append("a file that its settings name was edited, or a library changed")
        if Launcher in recipe.parameters.values():
            told.append("a training is counted as long as the last one")
        return "; ".join(told)


class _NoLauncher(Launcher):
    """Stands where a trainer would be launched."""

    def launch(self, work: Path, on_report: Report) -> NoReturn:
        raise NotDone("nothing is trained in a rehearsal")


def _outcome(version: Version | None, last: Version | None, failure: str, *, exact: bool) -> Outcome:
    if failure:
        return "fails"
    if version is not None:
        return "untouched" if last is not None and version.id == last.id else "reused"
    if last is None:
        return "never made"
    return "redone" if exact else "at most"


def _rows(recipe: Recipe, version: Version | None) -> int:
    """Rows of the part that stands for a dataset."""
    return version.parts[recipe.shows].rows if version is not None and recipe.shows in version.parts else 0


def _growth(inputs: Mapping[str, list[_Next]], rehearsal: Rehearsal, missing: Iterable[_Work], before: int) -> float:
    """How many times the rows of last time go in, or come out where no dataset is read; 1 where nobody knows."""
    if inputs:
        now = sum(source.rows for read in inputs.values() for source in read)
        before = sum(source.before for read in inputs.values() for source in read)
    else:
        at_hand = [result.parts for _, result in rehearsal.asked if result is not None]
        now = sum(parts["documents"].rows for parts in at_hand if "documents" in parts)
        now += sum(work.rows for work in missing)
    return now / before if before else 1.0


def _number(works: Iterable[_Work], growth: float) -> int:
    """How many results these are when there are more rows: one stage after the other, rounded up."""
    counts = Counter(work.stage for work in works)
    return sum(math.ceil(count * max(growth, 1.0)) for count in counts.values())


def _most(amounts: Iterable[tuple[str, float]]) -> float:
    """The largest sum of any stage: what passes two stages is the same."""
    sums: dict[str, float] = defaultdict(float)
    for stage, amount in amounts:
        sums[stage] += amount
    return max(sums.values(), default=0.0)


def _short(value: Any) -> str:
    told = json.dumps(value, ensure_ascii=False)
    return told if len(told) <= 40 else f"{told[:39]}…"
