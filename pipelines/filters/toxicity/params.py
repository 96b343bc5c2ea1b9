"""What can be set about the toxicity cascade. Parameters of neural models stand in `neural_params.py`, limits in
`FilterParams`."""

from collections.abc import Mapping
from decimal import Decimal
from itertools import zip_longest
from pathlib import Path
from typing import Any, ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from pipelines.filters.known_file import KnownFile
from pipelines.filters.toxicity.neural_params import NeuralParams, language_codes
from pipelines.profile import Params


class LabelledSample(Params):
    """Texts that people have labelled: CSV with a header, or JSON Lines, UTF-8. `corpusmill review` makes one."""

    KEY: ClassVar[str] = "filter_benchmark.sample"
    """Where the profile names it."""

    path: str | None = Field(
        default=None, description="local file; a relative path starts at the profile's folder; null: none"
    )
    text: str = Field(default="text", min_length=1, description="field that holds the text")
    label: str = Field(default="label", min_length=1, description="field that holds what people call it")
    toxic: list[str] = Field(default=["1"], min_length=1, description="values of the label that mean toxic")
    language: str = Field(default="en", description="ISO 639 code of the language of all texts")

    _code = field_validator("language")(language_codes)

    @property
    def file(self) -> KnownFile:
        """The file, where there is one."""
        return KnownFile(self.path or "", "labelled sample", f"{self.KEY}.path")


class CalibrationParams(LabelledSample):
    """The labelled sample that the band is chosen from: CSV with a header, or JSON Lines, UTF-8."""

    KEY: ClassVar[str] = "toxicity.calibration"

    target_recall: float = Field(
        default=0.99, gt=0, le=1, description="share of the texts that the neural models call toxic that reach them"
    )
    target_precision: float = Field(
        default=0.99, gt=0, le=1, description="share of the texts above the band that people call toxic, at least"
    )


class RemoteParams(Params):
    """A scorer on the network that speaks as Google's Perspective does. It reads what no neural model knows."""

    url: str | None = Field(
        default=None,
        pattern=r"^https?://[^@?\s]+$",
        description="where a text is sent, without a key; null: there is none",
    )
    languages: list[str] = Field(default=[], description="ISO 639 codes of the languages that it knows")
    attributes: list[str] = Field(
        default=["TOXICITY"], min_length=1, description="attributes to ask for; the first is the toxicity"
    )
    key_variable: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        description="environment variable that holds the key; it is recorded nowhere",
    )
    usd_per_call: str | None = Field(
        default=None,
        pattern=r"^[0-9]+([.][0-9]+)?$",
        description="price of one call, USD, in quotes; every call is charged, also those that fail",
    )
    window_bytes: int = Field(
        default=3000, ge=50, le=20_000, description="length of the passages that are sent one by one, bytes"
    )
    requests_per_second: float = Field(default=1.0, gt=0, le=10_000, description="requests sent at most, all workers")
    connections: int = Field(default=4, ge=1, le=256, description="requests under way at once")
    timeout_seconds: float = Field(default=30.0, gt=0, le=600, description="silence after which a request has failed")
    tries: int = Field(default=6, ge=1, le=20, description="requests for a passage before the step fails")
    backoff_seconds: float = Field(
        default=1.0,
        ge=0,
        le=600,
        description="pause before the second try; it doubles with each, and is longer where the service asks for that",
    )

    _codes = field_validator("languages")(language_codes)

    @field_validator("url")
    @classmethod
    def _can_be_asked(cls, url: str | None) -> str | None:
        try:
            parts = urlsplit(url or "http://none")
            named = bool(parts.hostname) and parts.port != 0
        except ValueError:
            named = False
        if not named:
            raise ValueError("must be an address with a host that can be asked, such as https://host:8443/path")
        return url

    @field_validator("attributes")
    @classmethod
    def _named_once(cls, attributes: list[str]) -> list[str]:
        if len({*attributes, ""}) <= len(attributes):
            raise ValueError("must name each attribute once")
        return attributes


class ToxicityParams(Params):
    """How documents are scored for toxic language: cheap scorers first, expensive ones where those leave it open."""

    languages: list[str] = Field(
        default=["en"],
        description="ISO 639 codes of the languages the screen is trusted with; a document in a language that no "
        "scorer knows gets no score",
    )
    window_bytes: int = Field(
        default=500,
        ge=50,
        le=1_000_000,
        description="length of the passages that are scored one by one, bytes; a document scores as its worst passage",
    )
    lexicons: dict[str, str] = Field(
        default={},
        description="files of toxic words and phrases, one per line, by ISO 639 code of their language; a relative "
        "path starts at the profile's folder",
    )
    lexicon_certainty: float = Field(
        default=0.5,
        gt=0,
        lt=1,
        description="chance that one hit of a lexicon is toxic; k hits in a passage score 1 - (1 - certainty)^k",
    )
    neural: list[NeuralParams] = Field(
        default=[],
        description="neural classifiers; where the screen knows the language, they read only what it leaves open",
    )
    neural_decision: Literal["mean", "majority", "any"] = Field(
        default="mean", description="the score that several neural models give together; majority: their lower median"
    )
    neural_threshold: float = Field(
        default=0.5,
        gt=0,
        lt=1,
        description="score above which the neural models call a document toxic: the band is chosen for it, and cheap "
        "scores are mapped to its sides; set filters.max_toxicity to the same",
    )
    band: list[float] | None = Field(
        default=None,
        min_length=2,
        max_length=2,
        description="lowest and highest cheap score (screen, lexicon) that leave it open; null: chosen from the sample",
    )
    calibration: CalibrationParams = CalibrationParams()
    remote: RemoteParams = RemoteParams()
    unknown_languages: Literal["nobody", "neural", "remote"] = Field(
        default="nobody", description="who scores documents in a language that no scorer knows"
    )
    sentences_from: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="in documents that score so much, sentences that do are listed, for filters.toxic: sentence; null: "
        "no sentence is scored",
    )

    _codes = field_validator("languages", "lexicons")(language_codes)

    @model_validator(mode="after")
    def _the_cascade_is_whole(self) -> Self:
        if self.band is not None and not 0 <= self.band[0] <= self.band[1] <= 1:
            raise ValueError(f"band must be two scores from 0 to 1, the lower first, not {self.band}")
        experts = bool(self.neural or self.remote.url)
        if self.band is not None and self.calibration.path is not None:
            raise ValueError("give band or calibration.path, not both: the band is chosen from the sample")
        if self.neural and self.band is None and self.calibration.path is None:
            raise ValueError(
                "neural needs to know what the screen leaves open: give band, such as [0.05, 0.95], or [0, 1] to have "
                "every document read, or calibration.path to have it chosen"
            )
        if self.calibration.path is not None and not self.neural:
            raise ValueError("calibration chooses the band for neural models, and neural names none")
        if self.calibration.path is not None and self.calibration.language not in self.languages:
            raise ValueError(f"calibration.language {self.calibration.language} is not among languages of the screen")
        if self.calibration.path is not None and not any(self.calibration.language in m.languages for m in self.neural):
            raise ValueError(
                f"no neural model knows calibration.language {self.calibration.language}, so no band can be chosen; "
                "correct it, or give band"
            )
        if self.remote.url is not None and self.remote.usd_per_call is None:
            raise ValueError('remote.usd_per_call is missing; give the price of a call, "0" where there is none')
        wanted = {"neural": bool(self.neural), "remote": self.remote.url is not None}
        if not wanted.get(self.unknown_languages, True):
            raise ValueError(f"unknown_languages is {self.unknown_languages}, which is not set; set it, or say nobody")
        if self.band is not None and not experts:
            raise ValueError("band says what experts read, and there is none: give neural or remote.url")
        return self

    def placed(self, folder: Path) -> Self:
        """The same with relative paths starting at a folder."""

        def at(path: str | None) -> str | None:
            return None if path is None else str(folder / Path(path).expanduser())

        calibration = self.calibration.model_copy(update={"path": at(self.calibration.path)})
        lexicons = {language: str(at(path)) for language, path in self.lexicons.items()}
        neural = [
            model.model_copy(update={path: at(getattr(model, path)) for path in _MODEL_PATHS}) for model in self.neural
        ]
        return self.model_copy(update={"calibration": calibration, "lexicons": lexicons, "neural": neural})

    @property
    def recorded(self) -> dict[str, Any]:
        """The values without the paths: files are known by their content."""
        said = self.model_dump(mode="json")
        said["calibration"]["given"] = said["calibration"].pop("path") is not None
        for model in said["neural"]:
            for path in _MODEL_PATHS:
                del model[path]
        return said | {"lexicons": sorted(self.lexicons)}

    @property
    def buys(self) -> bool:
        """Whether the remote scorer may be asked, and its calls cost anything."""
        return self.remote.url is not None and Decimal(self.remote.usd_per_call or "0") > 0

    @classmethod
    def restored(cls, recorded: Mapping[str, Any], here: Self) -> dict[str, Any]:
        """The values that were recorded, each file with the path that it has here, if it is here."""
        calibration = dict(recorded["calibration"])
        calibration["path"] = here.calibration.path if calibration.pop("given") else None
        lexicons = {language: here.lexicons.get(language, "") for language in recorded["lexicons"]}
        neural = [
            {**said, **({path: getattr(mine, path) for path in _MODEL_PATHS} if mine else {})}
            for said, mine in zip_longest(recorded["neural"], here.neural[: len(recorded["neural"])])
        ]
        return {**recorded, "calibration": calibration, "lexicons": lexicons, "neural": neural}


_MODEL_PATHS = ("checkpoint", "huggingface_config_path")
"""Keys of a neural model that only tell where this machine has it."""
