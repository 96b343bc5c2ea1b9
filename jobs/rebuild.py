"""Making a version again, with everything upstream of it, and comparing what comes out with what stands.

Each dataset is made from the inputs that it was pinned to, without cached results, in a store of its own on top of the
real one. How it is asked for and told is `jobs/reproduce.py`.
"""

import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from platform import python_version
from typing import Any

from pydantic import ValidationError

from assets.recipe import Recipe
from jobs.build import ASSETS, ON_REQUEST
from jobs.progress import QUIET_SECONDS
from pipelines.costs.ledger import Ledger
from pipelines.costs.meter import OpenAttempt, heartbeats
from pipelines.costs.provenance import Beginning, installed
from pipelines.dataset import Dataset, Part, Version, dataset_name
from pipelines.engines.local import Engine
from pipelines.engines.rehearsal import Rehearsal, StoreView
from pipelines.engines.task import Progress
from pipelines.ingest.params import Source
from pipelines.ingest.records import BadInput
from pipelines.overlay import Overlay
from pipelines.profile import Params, ProfileError
from pipelines.purchases import JOURNALS, Quote
from pipelines.removals import Removals
from pipelines.scratch import working_folder
from pipelines.store import Store, StoreError
from resources.engine import open_engine
from resources.launcher import Launcher
from resources.metering import make_meter
from resources.settings import EngineParams, Profile

LOSS_TOLERANCE = 0.02
"""Share by which the loss of a model that was trained again may differ. Weights need not be equal on other hardware."""

MEASURED = ("measured", "remote_calls")
"""The figures of a version that nobody can make again: times, memory, and calls, some of which are tried twice."""

SAME, DIFFERS, DAMAGED, SOURCE_CHANGED, OTHER_CODE, FAILED = (
    "same",
    "differs",
    "damaged",
    "source changed",
    "other code",
    "failed",
)


@dataclass(frozen=True)
class Training:
    """What came of a model that was trained again. losses: by name, (then, now)."""

    weights_equal: bool
    losses: dict[str, tuple[float, float]]

    @property
    def within_tolerance(self) -> bool:
        """Whether no loss differs by more than `LOSS_TOLERANCE` of what it was."""
        return all(abs(now - then) <= LOSS_TOLERANCE * abs(then) for then, now in self.losses.values())

    def __str__(self) -> str:
        told = [f"{name} {then:.4f}, now {now:.4f} ({now - then:+.4f})" for name, (then, now) in self.losses.items()]
        weights = "weights equal" if self.weights_equal else "weights not equal"
        return f"{weights}; {'; '.join(told)}; allowed ±{LOSS_TOLERANCE:.0%}"


@dataclass(frozen=True)
class Verdict:
    """What came of one dataset. rebuilt: the id that came out. bytes_compared: stored bytes that were read, hashed and
    found to be what came out again; without a model's weights."""

    asset: str
    partition: str
    version: str
    outcome: str
    remark: str = ""
    rebuilt: str | None = None
    bytes_compared: int = 0
    seconds: float = 0.0
    training: Training | None = None

    @property
    def name(self) -> str:
        """The dataset, 'asset' or 'asset[source]'."""
        return dataset_name(self.asset, self.partition)

    def record(self) -> dict[str, Any]:
        """The verdict as JSON values."""
        training = None
        if self.training is not None:
            losses = {name: {"then": then, "now": now} for name, (then, now) in self.training.losses.items()}
            training = {
                "weights_equal": self.training.weights_equal,
                "losses": losses,
                "tolerance": LOSS_TOLERANCE,
                "within_tolerance": self.training.within_tolerance,
            }
        return asdict(self) | {"training": training}


class _OtherCode(Exception):
    """A version that today's code can't make."""


def rebuild(
    versions: Sequence[Version],
    began: Mapping[str, Beginning | None],
    profile: Profile,
    store: Store,
    tell: Callable[[Verdict], None],
    at_work: Callable[[Version, float, Progress], None],
) -> tuple[list[Verdict], OpenAttempt]:
    """Make these versions again, in this order, and compare; returns verdicts and the attempt that was charged.

    versions: each after its inputs. began: what the runs that made them began with, by version id. tell: called with
    each verdict; at_work: now and then with the version that is being made, for how many seconds, and how far it is.

    The store is read only, and no lock is taken: what `gc` removes meanwhile is made here or missed by
    the dataset that reads it, which then says so. What is used is overhead in the ledger.
    """
    meter = make_meter(profile.ledger_url)
    run = f"reproduce-{uuid.uuid4().hex[:8]}"
    verdicts = []
    with (
        meter.attempt(
            root_run=run,
            run=run,
            step="reproduce",
            asset="",
            partition="",
            role="coordinator",
            journals=store.scratch_path(JOURNALS),
        ) as attempt,
        working_folder(store, "reproduce") as folder,
        open_engine(_engine_params(profile, store), overlay := Overlay(folder, store)) as engine,
    ):
        for version in versions:
            overlay.hold(version)
        for version in versions:
            begun = time.monotonic()
            charged = engine.charged_to(attempt.id, Progress(journal=attempt.progress.journal))
            work = _Rebuilding(version, began[version.id], profile, charged, overlay, meter.ledger.removals())
            try:
                with heartbeats(
                    lambda: at_work(version, time.monotonic() - begun, work.engine.progress),  # noqa: B023 - ends with it
                    QUIET_SECONDS,
                ):
                    verdict = work.verdict()
            finally:
                attempt.progress.outside_cpu_seconds += work.engine.progress.outside_cpu_seconds
                attempt.progress.bought += work.engine.progress.bought
            verdicts.append(replace(verdict, seconds=time.monotonic() - begun))
            tell(verdicts[-1])
    return verdicts, attempt


def quote(versions: Sequence[Version], profile: Profile, store: Store) -> tuple[Quote, list[str]]:
    """What making these versions again buys of paid services, and the datasets of which that cannot be told in full,
    since cached results are gone or were made with other libraries. Writes nothing."""
    removals = Ledger(profile.ledger_url, settle=False).removals()
    total, unknown = Quote(), []
    with StoreView(profile.store_url) as view, tempfile.TemporaryDirectory() as folder:
        for version in versions:
            rehearsal = Rehearsal(view, profile.engine.workers)
            work = _Rebuilding(version, None, profile, rehearsal, Overlay(Path(folder), store), removals)
            whole = work.rehearsed()
            try:
                total += sum((task.quoted(view) for task, _ in rehearsal.asked), Quote())
            except StoreError:  # the texts are gone
                whole = False
            unknown += [] if whole else [version.name]
    return total, unknown


def _engine_params(profile: Profile, store: Store) -> EngineParams:
    """Other machines don't see the folder of this one that stands before a store elsewhere."""
    return profile.engine if store.local else profile.engine.model_copy(update={"kind": "local"})


class _Rebuilding:
    """One version, made again."""

    def __init__(
        self,
        version: Version,
        began: Beginning | None,
        profile: Profile,
        engine: Engine,
        overlay: Overlay,
        removals: Removals,
    ) -> None:
        self.version, self.began, self.profile, self.overlay = version, began, profile, overlay
        self.engine, self.removals = engine, removals

    def verdict(self) -> Verdict:
        try:
            recipe = self._recipe()
            made = self._made(recipe, self._params(recipe))
        except _OtherCode as error:
            return self._verdict(OTHER_CODE, str(error))
        except BadInput as error:
            return self._verdict(SOURCE_CHANGED, f"{self._files()}: {error}")
        except Exception as error:  # noqa: BLE001 - the other datasets are looked at all the same
            return self._verdict(FAILED, str(error) or type(error).__name__)
        return self._compared(recipe, made)

    def rehearsed(self) -> bool:
        """Ask for all that it takes where that may buy something; the engine looks it up and does nothing. False where
        it cannot be asked for in full."""
        try:
            recipe = self._recipe()
            params = self._params(recipe)
        except Exception:  # noqa: BLE001 - whatever it is, nothing will be made
            return True
        try:
            if params is not None and params.buys:
                self._made(recipe, params)
        except Exception:  # noqa: BLE001 - whatever it is, the rest is not known
            return False
        return True

    def _made(self, recipe: Recipe, params: Params | None) -> Version:
        earlier = self._pinned(recipe.name)
        return recipe.make(
            self.version.partition,
            self._given(recipe),
            self.engine,
            params=params,
            source=self._source(recipe),
            last=earlier[0] if earlier else None,
        )

    # -- what it is made from -----------------------------------------------------------------------------------

    def _recipe(self) -> Recipe:
        recipe = {recipe.name: recipe for recipe in (*ASSETS, *(one for one, _ in ON_REQUEST))}.get(self.version.asset)
        if recipe is None:
            raise _OtherCode(f"today's code has no asset {self.version.asset}; {self._needed()}")
        if recipe.code != self.version.code_version:
            raise _OtherCode(
                f"made by code version {self.version.code_version}, today's is {recipe.code}; {self._needed()}"
            )
        return recipe

    def _params(self, recipe: Recipe) -> Params | None:
        if recipe.params_model is None:
            return None
        said = {key: value for key, value in self.version.params.items() if key not in ("source", *recipe.borrowed)}
        here = self.profile.section_of(recipe.params_model)
        return self._read(recipe.params_model, recipe.params_model.restored(said, here), set())

    def _source(self, recipe: Recipe) -> Source | None:
        """The source as it was described then, with the path that the profile has for it now."""
        if Source not in recipe.parameters.values():
            return None
        name = self.version.partition
        if name not in self.profile.source_names:
            raise ProfileError(
                f"the profile has no source {name!r} any more, so its files can't be found; choose one that has it "
                "with --profile"
            )
        said = self.version.params["source"] | {"path": self.profile.source(name).path}
        return self._read(Source, said, {"path"})

    def _read(self, model: type[Any], said: dict[str, Any], aside: set[str]) -> Any:
        """Recorded parameters as today's model. Raises `_OtherCode` when they would be recorded otherwise today."""
        try:
            params = model.model_validate(said)
        except ValidationError as error:
            raise _OtherCode(
                f"today's {model.__name__} does not take its parameters ({error.errors()[0]['msg']}); {self._needed()}"
            ) from None
        today = params.model_dump(mode="json")
        if other := [key for key in _other_keys(said, today) if key not in aside]:
            raise _OtherCode(f"today's {model.__name__} has other fields ({', '.join(other)}); {self._needed()}")
        return params

    def _given(self, recipe: Recipe) -> dict[str, Any]:
        """The pinned inputs, and what else the body asks for."""
        given: dict[str, Any] = {}
        for name, kind in recipe.parameters.items():
            if kind is Dataset:
                given[name] = Dataset(name, self._pinned(name), self.overlay)
            elif name in recipe.borrowed:
                said = recipe.borrowed[name].restored(self.version.params[name], self.profile.section_of(kind))
                given[name] = self._read(kind, said, set())
            elif kind is Launcher:
                given[name] = Launcher(self.profile.launcher.processes)
            elif kind is Removals:
                given[name] = self.removals  # also those that were asked for since: what is forgotten is not read again
        return given

    def _pinned(self, name: str) -> tuple[Version, ...]:
        pins = [pin for asset, _, pin in self.version.inputs if asset == name]
        return tuple(Version.load(self.overlay.below, pin) for pin in pins)

    # -- what came out ------------------------------------------------------------------------------------------

    def _compared(self, recipe: Recipe, made: Version) -> Verdict:
        version = self.version
        firm = {name: part for name, part in version.parts.items() if name not in recipe.volatile_parts}
        volatile = {name: part for name, part in version.parts.items() if name in recipe.volatile_parts}
        stored, weights = self.overlay.look_below(firm), self.overlay.look_below(volatile)
        training = _training(version, made, volatile) if volatile else None
        other = [name for name in _other_keys(firm, made.parts) if name not in volatile]
        known = {"rebuilt": made.id, "training": training}
        if made.id != version.id and Source in recipe.parameters.values() and self._read_other_files(made):
            return self._verdict(SOURCE_CHANGED, self._files(), **known)
        if made.id != version.id or other:
            what = f"part {', '.join(other)}" if other else "what it was made from, or its columns,"
            return self._verdict(DIFFERS, f"{what} came out otherwise; {self._packages()}", **known)
        then, now = ({key: said[key] for key in said if key not in MEASURED} for said in (version.stats, made.stats))
        if not volatile and (figures := _other_keys(then, now)):
            return self._verdict(DIFFERS, f"equal bytes, but other figures: {', '.join(figures)}", **known)
        if damaged := stored.damaged + weights.damaged:
            told = f"{len(damaged)} stored objects are not what they were ({damaged[0][:16]}… is the first)"
            return self._verdict(DAMAGED, f"{told}; delete them and run {version.asset} again", **known)
        known["bytes_compared"] = stored.whole
        if training is not None and not training.within_tolerance:
            return self._verdict(DIFFERS, str(training), **known)
        gone = "some of its bytes are no longer stored: there its ids were compared" if stored.gone else ""
        return self._verdict(SAME, "; ".join(filter(None, [str(training or ""), gone])), **known)

    def _read_other_files(self, made: Version) -> bool:
        """Whether an ingestion read other files: its tasks are named by them, and by the version of pyarrow."""
        same_libraries = self.began is None or not {"pyarrow", "python"} & _other_packages(self.began).keys()
        return set(made.actions) != set(self.version.actions) and same_libraries

    def _files(self) -> str:
        if forgotten := self.removals.of_source(self.version.partition):
            return f"documents of source {self.version.partition} were forgotten ({', '.join(forgotten)}), maybe since"
        unknown = " (or pyarrow is another one: its run has no record of its packages)" if self.began is None else ""
        return f"the files of source {self.version.partition} are not what they were{unknown}"

    def _needed(self) -> str:
        if self.began is None:
            return "its run has no record of the code that it worked with"
        return f"its run worked with {self.began.code}"

    def _packages(self) -> str:
        """In how far the installed packages explain a difference."""
        if self.began is None:
            return "its run has no record of its packages"
        other = [f"{name} {then}, now {now}" for name, (then, now) in _other_packages(self.began).items()]
        if not other:
            return "the packages are those of its run"
        more = f" and {len(other) - 3} more" if len(other) > 3 else ""
        return f"packages are not those of its run: {'; '.join(other[:3])}{more}"

    def _verdict(self, outcome: str, remark: str = "", **known: Any) -> Verdict:
        return Verdict(self.version.asset, self.version.partition, self.version.id, outcome, remark, **known)


def _training(version: Version, made: Version, volatile: Mapping[str, Part]) -> Training:
    losses = {
        name: (then, now)
        for name in ("validation_loss", "loss")
        if isinstance(then := version.stats.get(name), float) and isinstance(now := made.stats.get(name), float)
    }
    equal = all(name in made.parts and _weights(part) == _weights(made.parts[name]) for name, part in volatile.items())
    return Training(equal, losses)


def _weights(part: Part) -> list[tuple[str, str]]:
    """(name, hash) of a model's weight files, of all files where none is known as such (others tell of times, too)."""
    known = [shard for shard in part.shards if shard.name.endswith(".safetensors")]
    return [(shard.name, shard.object) for shard in known or part.shards]


def _other_keys(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Keys whose values are not equal, or that one of the two lacks."""
    return [key for key in sorted({*then, *now}) if (key in then, then.get(key)) != (key in now, now.get(key))]


def _other_packages(began: Beginning) -> dict[str, tuple[str, str]]:
    """(version then, version now) of Python and of every package that is another now, by name."""
    then = {"python": began.python, **began.packages}
    now = {"python": python_version(), **installed()}
    names = sorted({*then, *now})
    return {n: (then.get(n, "none"), now.get(n, "none")) for n in names if then.get(n) != now.get(n)}
