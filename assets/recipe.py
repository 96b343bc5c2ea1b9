"""What an asset is before Dagster hears of it: a body, what it is given, and the version that it makes of that.

`assets/metered.py` turns a recipe into a metered Dagster asset; `jobs/` also rehearses and reproduces with it.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipelines.dataset import Dataset, Draft, Version, seal
from pipelines.engines.local import Engine
from pipelines.health import Check
from pipelines.ingest.params import Source
from pipelines.profile import Params
from pipelines.store import Store, digest
from resources.settings import Profile

Narrowing = Callable[[Profile], Sequence[str]]

EARLIER = Dataset | None
"""Type of a body's parameter that is given the version before this one, where its parameters ask for `append_only`."""


@dataclass(frozen=True)
class Recipe:
    """How one asset is made. See `assets.metered.asset` for the fields."""

    body: Callable[..., Draft]
    group: str
    kinds: frozenset[str]
    shows: str
    stage_versions: tuple[int, ...]
    partitioned_by_source: bool = False
    narrow: Mapping[str, Narrowing] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    volatile_parts: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The asset's name: the body's."""
        return self.body.__name__

    @property
    def parameters(self) -> dict[str, type]:
        """What the body is given: name and type of each parameter."""
        return {p.name: p.annotation for p in inspect.signature(self.body, eval_str=True).parameters.values()}

    @property
    def inputs(self) -> list[str]:
        """Names of the assets that the body reads."""
        return [name for name, kind in self.parameters.items() if kind is Dataset]

    @property
    def params_model(self) -> type[Params] | None:
        """The parameter model of the body, if it has parameters."""
        return self.parameters.get("config")

    @property
    def borrowed(self) -> dict[str, type[Params]]:
        """Parameters of other assets that the body is given too, by name."""
        kinds = {name: kind for name, kind in self.parameters.items() if name != "config" and isinstance(kind, type)}
        return {name: kind for name, kind in kinds.items() if issubclass(kind, Params) and kind is not Source}

    def borrowed_from(self, profile: Profile) -> dict[str, Params]:
        """The borrowed parameters as a profile has them."""
        return {name: profile.section_of(kind) for name, kind in self.borrowed.items()}

    @property
    def code(self) -> str:
        """Version of the code that makes it: the `VERSION`s of its stage's modules."""
        return ".".join(map(str, self.stage_versions))

    def params_of(self, profile: Profile) -> Params | None:
        """The parameters that a profile has for it."""
        return profile.section_of(self.params_model) if self.params_model else None

    def code_version(self, profile: Profile, params: Params | None) -> str:
        """What Dagster compares to tell whether an asset is stale: code, parameters, and which sources it works on.

        The sources are whole where it reads them itself, with their paths, else their names in order.
        """
        said: list[Any] = [params.digest if params else None]
        said += [borrowed.digest for borrowed in self.borrowed_from(profile).values()]
        if Source in self.parameters.values():
            said.append([source.model_dump(mode="json") for source in profile.sources])
        elif not self.partitioned_by_source:
            said.append([list(self.sources_read(profile, name)) for name in self.inputs])
        return f"{self.code}-{digest(said)[:12]}"

    def sources_read(self, profile: Profile, name: str) -> Sequence[str]:
        """The sources of an input that are read where all are at hand."""
        return self.narrow[name](profile) if name in self.narrow else profile.source_names

    def make(
        self,
        partition: str,
        given: Mapping[str, Any],
        engine: Engine,
        *,
        params: Params | None,
        source: Source | None,
        last: Version | None = None,
    ) -> Version:
        """Run the body for one source ('' for an asset without partitions) and record the version that it made.

        given: what else the body asks for, by name; of a dataset with this partition the body gets only this one. last:
        the version that stands now, for a body that builds on it.
        """
        said = params.recorded if params else {}
        said |= {name: given[name].recorded for name in self.borrowed}
        if source is not None and Source in self.parameters.values():
            said["source"] = source.model_dump(mode="json", exclude={"path"})  # where this machine has it
        arguments: dict[str, Any] = {}
        for name, kind in self.parameters.items():
            if kind is Source:
                arguments[name] = source
            elif kind is Engine:
                arguments[name] = engine
            elif name == "config":
                arguments[name] = params
            elif kind == EARLIER:
                continue
            else:
                value = given[name]
                sliced = isinstance(value, Dataset) and partition and partition in value.partitions
                arguments[name] = value.of(partition) if sliced else value
        for name, kind in self.parameters.items():
            if kind == EARLIER:
                arguments[name] = self._earlier(engine.store, last, _datasets(arguments), said)
        draft = self.body(**arguments)
        return seal(
            engine.store,
            draft,
            asset=self.name,
            partition=partition,
            params=said,
            code_version=self.code,
            inputs=_datasets(arguments),
            actions=[result.key for result in engine.results],
            volatile_parts=self.volatile_parts,
        )

    def _earlier(
        self, store: Store, last: Version | None, inputs: Sequence[Dataset], said: Mapping[str, Any]
    ) -> Dataset | None:
        """The version to build on: the last one, or that which it was itself built on where it was made of the same, so
        that making it again changes nothing."""
        if last is None or not said.get("append_only"):
            return None
        made_of = {(data.asset, version.partition, version.id) for data in inputs for version in data.versions}
        if (made_of, said, self.code) == (
            {pin for pin in last.inputs if pin[0] != self.name},
            last.params,
            last.code_version,
        ):
            pins = [pin for asset, _, pin in last.inputs if asset == self.name]
            last = Version.load(store, pins[0]) if pins else None
        return Dataset(self.name, (last,), store) if last else None


def _datasets(arguments: Mapping[str, Any]) -> list[Dataset]:
    return [value for value in arguments.values() if isinstance(value, Dataset)]
