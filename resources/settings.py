"""The profile: everything that a user says, in one checked model. Defaults stand with the stages."""

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from pipelines.clean.params import CleanParams
from pipelines.dedup.params import DedupParams
from pipelines.filters.comparison_params import ComparisonParams
from pipelines.filters.contamination.params import ContaminationParams
from pipelines.filters.params import FilterParams
from pipelines.filters.perplexity.params import PerplexityParams
from pipelines.filters.toxicity.params import ToxicityParams
from pipelines.health import CheckParams
from pipelines.ingest.params import IngestParams, Source
from pipelines.mixture.params import MixtureParams
from pipelines.profile import Params, load
from pipelines.store import digest
from pipelines.tokens.blend_params import BlendParams
from pipelines.tokens.tokenize_params import TokenizeParams
from pipelines.tokens.tokenizer_params import TokenizerParams
from pipelines.training.params import PretrainParams
from resources.automation import AlertParams, RetentionParams, ScheduleParams, TimeZone, WatchParams

HOME = Path(__file__).resolve().parent.parent
"""The project's folder: relative paths of a profile's store, ledger and prices start here."""


AROUND_THE_WORK = {"owner", "timezone", "schedules", "watch", "alerts", "retention"}
"""Keys of the profile that may be edited while a run is at work."""


class SparkParams(Params):
    """The Spark application of `kind: spark`. It starts with the first task of a step that has to be done."""

    master: str | None = Field(
        default=None,
        pattern=r"^(local(\[.+\])?|local-cluster\[.+\]|(spark|k8s)://.+|yarn)$",
        description="Spark's master, such as spark://host:7077 or yarn; null: this machine, with engine.workers cores",
    )
    conf: dict[str, str] = Field(
        default={}, description="Spark's own properties, such as spark.executor.memory; they win over the project's"
    )

    @field_validator("conf", mode="before")
    @classmethod
    def _yaml_values(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {key: str(v).lower() if isinstance(v, bool) else str(v) for key, v in value.items()}


class EngineParams(Params):
    """Where shard tasks run."""

    kind: Literal["local", "spark"] = Field(
        default="local",
        description="'local', worker processes on this machine, or 'spark'; results do not depend on it",
    )
    workers: int = Field(default=2, ge=1, le=1024, description="worker processes; results do not depend on it")
    spark: SparkParams = SparkParams()


class LauncherParams(Params):
    """How training processes are started."""

    processes: int = Field(
        default=1, ge=1, le=1024, description="ranks on this machine, one for each GPU; the result hardly depends on it"
    )


class Profile(Params):
    """One profile. Sections are named after the stages; each has the parameters of one model."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$", description="name of the profile")
    owner: str | None = Field(
        default=None,
        pattern=r"^(team:[\w.-]+|[^@\s]+@[^@\s]+)$",
        description="owner of the assets: team:name or an e-mail",
    )
    store: str = Field(default="var/store", description="where datasets live: a folder or an fsspec URL")
    ledger: str = Field(default="var/ledger.db", description="ledger database: a SQLite file or an SQLAlchemy URL")
    prices: str = Field(default="config/prices/cloud-2026.yaml", description="price book")
    previews: Literal["ui", "store", "off"] = Field(
        default="ui",
        description="where samples of texts go: 'ui', Dagster's event log, which can't be rewritten; 'store', an "
        "object of the store, until it is collected; 'off', nowhere",
    )
    engine: EngineParams = EngineParams()
    sources: list[Source] = Field(min_length=1, description="the corpora, in order of priority: earlier ones are kept")
    reference_sources: list[str] = Field(
        default=[], description="sources of good text that the perplexity model learns from; empty: all"
    )
    ingest: IngestParams = IngestParams()
    clean: CleanParams = CleanParams()
    dedup: DedupParams = DedupParams()
    toxicity: ToxicityParams = ToxicityParams()
    perplexity: PerplexityParams = PerplexityParams()
    contamination: ContaminationParams = ContaminationParams()
    filter_benchmark: ComparisonParams = ComparisonParams()
    filters: FilterParams = FilterParams()
    mixture: MixtureParams = MixtureParams()
    tokenizer: TokenizerParams = TokenizerParams()
    tokenize: TokenizeParams = TokenizeParams()
    blend: BlendParams = BlendParams()
    training: PretrainParams = PretrainParams()
    launcher: LauncherParams = LauncherParams()
    checks: CheckParams = CheckParams()
    timezone: TimeZone = Field(
        default="UTC", description="IANA time zone of the schedules, such as Europe/Berlin or Asia/Kolkata"
    )
    schedules: ScheduleParams = ScheduleParams()
    watch: WatchParams = WatchParams()
    alerts: AlertParams = AlertParams()
    retention: RetentionParams = RetentionParams()

    @field_validator("previews", mode="before")
    @classmethod
    def _yaml_off(cls, value: Any) -> Any:
        return "off" if value is False else value  # YAML reads a bare `off` as false

    @model_validator(mode="after")
    def _names_exist(self) -> Self:
        names = [source.name for source in self.sources]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"two sources are named {min(twice)}; every source needs a name of its own")
        naming = {
            "reference_sources": self.reference_sources,
            "tokenizer.sources": self.tokenizer.sources,
            "tokenizer.weights": list(self.tokenizer.weights),
            **(self.mixture.naming_groups if self.mixture.by == "source" else {}),
            "watch.sources": self.watch.sources or [],
            "dedup.against": self.dedup.against,
            "clean.rules": [name for name in self.clean.rules if name != "*"],
        }
        for key, named in naming.items():
            for name in named:
                if name not in names:
                    raise ValueError(f"{key} names {name!r}, which is not a source; sources are {', '.join(names)}")
        for key in ("reference_sources", "tokenizer.sources", "tokenizer.weights", "mixture.shares"):
            if only_compared := [name for name in naming.get(key, []) if name in self.dedup.against]:
                raise ValueError(
                    f"{key} names {only_compared[0]!r}, of which nothing goes on: dedup.against names it too; take it "
                    "out of one of them"
                )
        for name in self.watch.sources or []:
            if name not in [source.name for source in self._with_files()]:
                raise ValueError(f"watch.sources names {name!r}, which reads no folder of its own; leave it out")
        return self

    @model_validator(mode="after")
    def _limits_fit_the_model(self) -> Self:
        if told := self.filters.limits_of_another_model(self.perplexity.model):
            raise ValueError(f"filters: {told}")
        return self

    @model_validator(mode="after")
    def _packed_for_the_training(self) -> Self:
        packed_for, read_for = self.blend.sequence_length, self.training.sequence_length
        if packed_for not in (None, read_for):
            raise ValueError(
                f"blend.sequence_length is {packed_for} and training.sequence_length {read_for}: make them equal"
            )
        return self

    @model_validator(mode="after")
    def _ids_fit(self) -> Self:
        tokens = self.tokenizer.vocabulary
        if self.tokenizer.kind != "loaded" and self.tokenize.dtype == "uint16" and tokens > 1 << 16:
            raise ValueError(f"tokenize.dtype: ids of {tokens:,} tokens do not fit uint16; set it to auto")
        return self

    @property
    def source_names(self) -> list[str]:
        """Names of the sources, in order of priority."""
        return [source.name for source in self.sources]

    @property
    def watched_sources(self) -> list[Source]:
        """The sources whose files the sensor `new_files` watches."""
        wanted = self.watch.sources
        return [source for source in self._with_files() if wanted is None or source.name in wanted]

    def _with_files(self) -> list[Source]:
        return [source for source in self.sources if source.path and source.reader != "environment"]

    @property
    def digest_of_work(self) -> str:
        """SHA-256 of what a run works with: all but the keys that only say when to start and whom to tell."""
        return digest(self.model_dump(mode="json", exclude=AROUND_THE_WORK))

    @property
    def ledger_url(self) -> str:
        """The ledger as an SQLAlchemy URL."""
        return self.ledger if "://" in self.ledger else f"sqlite:///{_at_home(self.ledger)}"

    @property
    def store_url(self) -> str:
        """The store as a path or an fsspec URL."""
        return self.store if "://" in self.store else _at_home(self.store)

    @property
    def prices_path(self) -> Path:
        """The price book's file."""
        return Path(_at_home(self.prices))

    def source(self, name: str) -> Source:
        """One source. Raises `KeyError` when there is none of that name."""
        return {source.name: source for source in self.sources}[name]

    def section_of(self, model: type[Params]) -> Params:
        """The section whose parameters are of this model."""
        return getattr(self, self.section_name(model))

    def section_name(self, model: type[Params]) -> str:
        """The key of the section whose parameters are of this model."""
        for key, info in type(self).model_fields.items():
            if info.annotation is model:
                return key
        raise KeyError(f"no section of the profile holds {model.__name__}")


def load_profile(path: Path, overrides: list[str] | None = None) -> Profile:
    """Read a profile. A relative path of a source, an evaluation set, a model or a tokenizer starts at its own folder.

    Raises `pipelines.profile.ProfileError`, one line per mistake.
    """
    profile = load(path, Profile, overrides or [])
    folder = path.resolve().parent
    placed = [
        s.model_copy(update={"path": str(folder / Path(s.path).expanduser())}) if s.path and "://" not in s.path else s
        for s in profile.sources
    ]
    sets = {
        name: wanted.model_copy(update={"path": str(folder / Path(wanted.path).expanduser())})
        for name, wanted in profile.contamination.sets.items()
    }
    contamination = profile.contamination.model_copy(update={"sets": sets})
    scorers = {"perplexity": profile.perplexity.placed(folder), "toxicity": profile.toxicity.placed(folder)}
    scorers["tokenizer"] = profile.tokenizer.placed(folder)
    scorers["filter_benchmark"] = profile.filter_benchmark.placed(folder)
    return profile.model_copy(update={"sources": placed, "contamination": contamination, **scorers})


def _at_home(path: str) -> str:
    return str(HOME / Path(path).expanduser())
