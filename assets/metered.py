"""The project's own asset decorator: nothing that it builds escapes the meter.

A body sees one source at a time and returns a `Draft`; the decorator opens and closes one attempt per (asset,
source), gives the draft its version, and attaches the cost. Assets are built for a profile by `build`, not at import.
What the metadata says is `assets/metadata.py`.
"""

import inspect
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import dagster as dg

from assets.audit import evaluation, unaccounted_of_late
from assets.checks import StepChecks, check_specs
from assets.config import config_class, params_from
from assets.graph import definition_metadata, pool, tags
from assets.metadata import failure_metadata, materialization_metadata
from assets.outcomes import attention
from assets.previews import preview_metadata
from assets.recipe import Narrowing, Recipe
from pipelines.costs.ledger import RUN_LOCK, LedgerError, Pointer
from pipelines.costs.meter import Meter, heartbeats
from pipelines.costs.provenance import observe
from pipelines.dataset import Dataset, Draft, MixedVersions, Version, dataset_name
from pipelines.engines.local import Engine
from pipelines.engines.task import Progress
from pipelines.health import Check, Unhealthy, refuse_unhealthy
from pipelines.prices.book import PriceBook, PriceError
from pipelines.profile import Params
from pipelines.purchases import JOURNALS
from pipelines.removals import Removals
from pipelines.store import StoreError, digest
from resources.datasets import needs_sources
from resources.launcher import Launcher
from resources.metering import lock_owner
from resources.settings import Profile

TOLD_EVERY_SECONDS = 20.0
"""Between two lines in a run's log that say how far the work is."""

_METERED: WeakSet[Any] = WeakSet()
"""Op definitions that this module built; `refuse_unmetered` knows them by identity."""


@dataclass(frozen=True)
class MeteredAsset(Recipe):
    """An asset before it is built for a profile."""

    def build(self, profile: Profile, sources: dg.StaticPartitionsDefinition) -> dg.AssetsDefinition:
        """The Dagster asset for a profile."""
        params = self.params_of(profile)
        recipe = self

        def compute(context: dg.AssetExecutionContext, **given: Any) -> Iterator[Any]:
            yield from _Step(recipe, profile, context, given).run()

        annotations: dict[str, Any] = {"context": dg.AssetExecutionContext, **dict.fromkeys(self.inputs, Dataset)}
        if params is not None:
            annotations["config"] = config_class(params, f"{self.name}_config")
        if Launcher in self.parameters.values():
            annotations["launcher"] = dg.ResourceParam[Launcher]
        annotations["engine"] = dg.ResourceParam[Engine]
        annotations["meter"] = dg.ResourceParam[Meter]
        annotations["prices"] = dg.ResourceParam[PriceBook]
        positional = inspect.Parameter.POSITIONAL_OR_KEYWORD  # keyword-only inputs lose their dependency
        compute.__name__, compute.__doc__ = self.name, self.body.__doc__
        compute.__annotations__ = annotations
        compute.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [inspect.Parameter(name, positional, annotation=kind) for name, kind in annotations.items()]
        )
        built = dg.asset(
            group_name=self.group,
            kinds=set(self.kinds),
            owners=[profile.owner] if profile.owner else None,
            code_version=self.code_version(profile, params),
            partitions_def=sources if self.partitioned_by_source else None,
            backfill_policy=dg.BackfillPolicy.single_run(),  # global assets too, or range launches refuse them
            ins={
                name: dg.AssetIn(partition_mapping=dg.SpecificPartitionsPartitionMapping(list(names(profile))))
                for name, names in self.narrow.items()
            },
            metadata=definition_metadata(self),
            tags=tags(self, profile),
            pool=pool(self),
            check_specs=check_specs(self.name, self.checks),
            description=inspect.getdoc(self.body),
        )(compute)
        _METERED.add(built.node_def)
        return built


def asset(
    *,
    group: str,
    kinds: set[str],
    shows: str,
    stage_versions: Sequence[int],
    partitioned_by_source: bool = False,
    narrow: Mapping[str, Narrowing] | None = None,
    checks: Sequence[Check] = (),
    volatile_parts: Sequence[str] = (),
) -> Callable[[Callable[..., Draft]], MeteredAsset]:
    """Declare an asset whose body is metered.

    The body's parameters say what it is given: `Dataset` the input asset of that name, `config` its parameters,
    `Source` the source it works on, `Engine` and `Launcher` the resources.
    shows: the part whose rows and columns stand for the dataset. stage_versions: the `VERSION` of every module whose
    code decides what comes out. narrow: inputs of which only some sources are read. checks: what a version must
    pass. volatile_parts: parts that cannot be reproduced byte by byte.
    """

    def declare(body: Callable[..., Draft]) -> MeteredAsset:
        return MeteredAsset(
            body,
            group,
            frozenset(kinds),
            shows,
            tuple(stage_versions),
            partitioned_by_source,
            narrow or {},
            tuple(checks),
            tuple(volatile_parts),
        )

    return declare


def refuse_unmetered(assets: Sequence[Any]) -> None:
    """Raise `ValueError`, naming it, if an executable asset was not built here."""
    for definition in assets:
        if (
            isinstance(definition, dg.AssetsDefinition)
            and definition.is_executable
            and definition.node_def not in _METERED
        ):
            names = ", ".join(key.to_user_string() for key in definition.keys)
            raise ValueError(f"asset {names} is not metered: declare it with @asset from assets/metered.py")


class _Step:
    """One step: the body for each source, each in an attempt of its own; then all pointers move at once."""

    def __init__(self, recipe: MeteredAsset, profile: Profile, context: Any, given: dict[str, Any]) -> None:
        self.recipe, self.profile, self.context, self.given = recipe, profile, context, given
        self.engine: Engine = given["engine"]
        self.meter: Meter = given["meter"]
        self.prices: PriceBook = given["prices"]
        self.run_id: str = context.run.run_id
        self.root_run: str = context.run.root_run_id or context.run.run_id
        self.params: Params | None = None
        if recipe.params_model:
            self.params = params_from(given["config"], recipe.params_model)
        given |= recipe.borrowed_from(profile)
        if Removals in recipe.parameters.values():
            given["removals"] = self.meter.ledger.removals()
        self.published: list[Pointer] = []
        self.failure: dg.AssetObservation | None = None
        self.checks = StepChecks(recipe.name, recipe.checks, profile.checks)

    def run(self) -> Iterator[dg.AssetObservation | dg.AssetCheckResult | dg.Output[Dataset]]:
        try:
            made = self._work()
        except BaseException as error:
            if self.failure is not None:
                yield self.failure  # an event that is only logged is lost when the body raises
            if isinstance(error, Unhealthy):
                yield from self.checks.results()
            if isinstance(error, Unhealthy | MixedVersions | LedgerError | StoreError | PriceError):
                raise dg.Failure(str(error), allow_retries=False) from error
            raise
        yield dg.Output(
            made,
            data_version=dg.DataVersion(_data_version(made)),
            tags={"dagster/code_version": self.recipe.code_version(self.profile, self.params)},
        )
        yield from self.checks.results()
        found = unaccounted_of_late(self.context.instance, self.meter.ledger, self.recipe.name)
        yield dg.AssetCheckResult(**evaluation(self.recipe.name, found))

    def _work(self) -> Dataset:
        """All sources, then their pointers, at once."""
        partitions = self._partitions()
        self.meter.ledger.take_lock(RUN_LOCK, self.root_run, lock_owner())
        self.meter.ledger.open_run(self.root_run, self.profile.digest_of_work, lambda: observe(self.profile))
        for name in self.recipe.inputs:
            for version in self.given[name].versions:
                refuse_unhealthy(version, self.profile.checks)
        self.meter.step_begins(len(partitions))
        made = Dataset(self.recipe.name, tuple(map(self._attempt, partitions)), self.engine.store)
        self.checks.look_at_all()
        self.meter.ledger.publish(self.published)
        return made

    def _partitions(self) -> list[str]:
        if not self.recipe.partitioned_by_source:
            return [""]
        if not (self.context.has_partition_key or self.context.has_partition_key_range):
            raise dg.Failure(needs_sources(self.recipe.name), allow_retries=False)
        chosen = set(self.context.partition_keys)
        if not chosen:
            raise dg.Failure(
                f"{self.recipe.name}: the range of sources is empty; give the first and the last in the order of the "
                f"profile: {', '.join(self.profile.source_names)}",
                allow_retries=False,
            )
        return [source.name for source in self.profile.sources if source.name in chosen]

    def _attempt(self, partition: str) -> Version:
        recipe, attempt = self.recipe, None
        key = dg.AssetKey(recipe.name)
        try:
            with self.meter.attempt(
                root_run=self.root_run,
                run=self.run_id,
                step=recipe.name,
                asset=recipe.name,
                partition=partition,
                journals=self.engine.store.scratch_path(JOURNALS),
            ) as attempt:
                engine = self.engine.charged_to(attempt.id, attempt.progress)
                attempt.results = engine.results
                source = self.profile.source(partition) if partition else None
                before = self.meter.ledger.current(recipe.name, partition)
                last = Version.find(engine.store, before.version) if before else None
                with heartbeats(lambda: self._tell(partition, engine.progress), TOLD_EVERY_SECONDS):
                    version = recipe.make(partition, self.given, engine, params=self.params, source=source, last=last)
                self.checks.look_at(version, last)
                attempt.made(version.id, version.inputs)
        except BaseException as error:
            if attempt is not None and not isinstance(error, LedgerError):  # which may not know the attempt's end
                self.failure = dg.AssetObservation(
                    asset_key=key,
                    partition=partition or None,
                    description=f"failed: {error}"[:1000],
                    metadata=failure_metadata(attempt.id, self.meter.ledger, self.prices),
                )
            raise
        self.published.append(Pointer(recipe.name, partition, version.id, attempt.id, self.root_run))
        made = Dataset(recipe.name, (version,), self.engine.store)
        metadata = materialization_metadata(
            made, attempt.id, self.meter.ledger, self.prices, self.published, recipe.shows
        )
        metadata |= preview_metadata(made, self.profile.previews)
        self.context.add_asset_metadata(metadata, asset_key=key, partition_key=partition or None)
        if told := attention(version.stats):
            self.context.log.warning(f"{version.name}: {told}")
        return version

    def _tell(self, partition: str, progress: Progress) -> None:
        """How far the work is, in the run's log: what people see who look at the run in the UI."""
        if progress.started:
            self.context.log.info(f"{dataset_name(self.recipe.name, partition)}: {progress.told(time.time())}")


def _data_version(made: Dataset) -> str:
    """One per step: the version's id, or for a range the hash of its (partition, version) pairs."""
    if made.partitions == [""]:
        return made.version.id
    return digest([[v.partition, v.id] for v in made.versions])[:20]
