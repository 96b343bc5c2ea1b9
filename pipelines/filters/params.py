"""What can be set about scoring and filtering, with ranges. Nothing is computed here.

Scores have parameters of their own (`ToxicityParams`, `PerplexityParams`, `ContaminationParams`); thresholds stand in
`FilterParams` alone, so that a threshold can change without anything being scored again.
"""

from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from pipelines.filters.cascade_params import CalibrationParams, RemoteParams
from pipelines.filters.language_model_params import CausalParams, KenlmParams
from pipelines.filters.neural_params import NeuralParams
from pipelines.profile import Params

MODEL_KINDS = ("ngram", "kenlm", "causal")

BUCKETS = ("head", "middle", "tail")
"""Of perplexity, from the lowest up."""


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
        description="score above which the neural models call a document toxic: the band is chosen for it, and scores "
        "of the screen are mapped to its sides; set filters.max_toxicity to the same",
    )
    band: list[float] | None = Field(
        default=None,
        min_length=2,
        max_length=2,
        description="lowest and highest score of the screen that leave it open; null: chosen from the sample",
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


class PerplexityParams(Params):
    """Which language model scores, how the n-gram model is trained, and how much of a document is read."""

    model: Literal["ngram", "kenlm", "causal"] = Field(
        default="ngram",
        description="'ngram', trained here on the reference sources; 'kenlm', an n-gram model in a file; 'causal', a "
        "causal language model of transformers",
    )
    kenlm: KenlmParams = KenlmParams()
    causal: CausalParams = CausalParams()
    order: int = Field(default=5, ge=2, le=5, description="length of the longest n-grams, words")
    max_megabytes: float = Field(
        default=50.0,
        gt=0,
        le=2000,
        description="text that each half of the reference may train on, 10^6 bytes; it decides how much disk training "
        "needs, not how much memory",
    )
    memory_megabytes: float = Field(
        default=400.0,
        ge=10,
        le=1_000_000,
        description="memory for sorting n-grams, for each of the two halves, 10^6 bytes; changes how long training "
        "takes, and nothing else",
    )
    max_vocabulary: int = Field(
        default=500_000, ge=100, le=10_000_000, description="most frequent words kept; all others are unknown words"
    )
    min_count: int = Field(
        default=2,
        ge=1,
        le=1000,
        description="n-grams of three and more words seen less often are dropped from the model, after they counted "
        "for the estimates",
    )
    min_tokens: int = Field(
        default=1000, ge=1, le=1_000_000_000, description="tokens without which half a reference is called too small"
    )
    max_scored_tokens: int = Field(
        default=1_000_000, ge=2, le=1_000_000_000, description="tokens read of one document when it is scored"
    )

    @model_validator(mode="after")
    def _model_is_named(self) -> Self:
        if self.model == "kenlm" and not self.kenlm.path:
            raise ValueError("model 'kenlm' needs a file: set kenlm.path")
        if self.model == "causal" and not (self.causal.path or self.causal.name):
            raise ValueError("model 'causal' needs a model: set causal.path or causal.name")
        return self

    def placed(self, folder: Path) -> Self:
        """The same, with relative paths that start at a folder."""

        def at(path: str | None) -> str | None:
            return path and str(folder / Path(path).expanduser())

        kenlm = {"path": at(self.kenlm.path), "tokenizer": at(self.kenlm.tokenizer)}
        causal = {"path": at(self.causal.path)}
        return self.model_copy(
            update={"kenlm": self.kenlm.model_copy(update=kenlm), "causal": self.causal.model_copy(update=causal)}
        )

    @property
    def recorded(self) -> dict[str, Any]:
        """The values without paths: a model is known by its content."""
        return self.model_dump(mode="json", exclude={"kenlm": {"path", "tokenizer"}, "causal": {"path"}})

    @classmethod
    def restored(cls, recorded: Mapping[str, Any], here: Self) -> dict[str, Any]:
        """The values that were recorded, with the paths that the models have here, if they are read by path."""
        kenlm, causal = dict(recorded["kenlm"]), dict(recorded["causal"])
        kenlm["path"] = here.kenlm.path
        kenlm["tokenizer"] = here.kenlm.tokenizer if kenlm["words"] == "pieces" else None
        causal["path"] = None if causal["name"] else here.causal.path
        return {**recorded, "kenlm": kenlm, "causal": causal}


class EvaluationSet(Params):
    """One evaluation set: a file of examples as JSON Lines or one JSON list, plain or compressed, told by content."""

    path: str = Field(min_length=1, description="local file; a relative path starts at the profile's folder")
    fields: list[str] = Field(
        min_length=1,
        description="fields whose text counts, in order: [question, answer], or [prompt, canonical_solution]",
    )
    id: str | None = Field(
        default=None, description="field that names an example; null: its number in the file, from 0"
    )


class ContaminationParams(Params):
    """Which evaluation sets are looked for in the documents. Words are compared without case and punctuation."""

    sets: dict[str, EvaluationSet] = Field(
        default={}, description="evaluation sets by name; empty: nothing is looked for, and no document is read"
    )
    ngram: int = Field(
        default=13,
        ge=8,
        le=13,
        description="consecutive words that make a match (13: GPT-3, 8: PaLM); an example with fewer is looked for "
        "whole, with fewer than 8 not at all",
    )
    common_examples: int = Field(
        default=10,
        ge=1,
        le=255,
        description="n-grams that more examples than this share are phrases, and not looked for",
    )

    @property
    def recorded(self) -> dict[str, Any]:
        """The values without the paths: a set is known by its content."""
        sets = {name: wanted.model_dump(mode="json", exclude={"path"}) for name, wanted in self.sets.items()}
        return super().recorded | {"sets": sets}

    @classmethod
    def restored(cls, recorded: Mapping[str, Any], here: Self) -> dict[str, Any]:
        """The values that were recorded, each set with the path that it has here, if it is here."""
        sets = {
            name: {**wanted, **({"path": here.sets[name].path} if name in here.sets else {})}
            for name, wanted in recorded["sets"].items()
        }
        return {**recorded, "sets": sets}


class FilterParams(Params):
    """Which scores let a document pass. A limit set to null is not applied."""

    max_toxicity: float | None = Field(
        default=0.95, ge=0, le=1, description="documents whose worst passage is more likely toxic than this are dropped"
    )
    toxic: Literal["document", "sentence"] = Field(
        default="document",
        description="beyond max_toxicity 'document' drops the document; 'sentence' cuts the sentences that score "
        "beyond it, and drops a document without such or of which nothing is left; needs toxicity.sentences_from",
    )
    unknown_languages: Literal["keep", "drop"] = Field(
        default="keep", description="what becomes of documents without a score, in a language that no scorer knows"
    )
    max_perplexity_percentile: float | None = Field(
        default=99.0,
        ge=0,
        le=100,
        description="percentile of the reference's own perplexities, to which the next factor applies",
    )
    max_perplexity_factor: float = Field(
        default=10.0,
        gt=0,
        le=1000,
        description="documents are dropped above this many times the perplexity at that percentile",
    )
    max_perplexity: float | None = Field(
        default=None, ge=1, description="absolute limit in the model's own units; the stricter of both limits holds"
    )
    min_perplexity: float | None = Field(
        default=5.0,
        ge=1,
        description="documents below are dropped: to a model that never saw it, only text copied from the reference or "
        "boilerplate is this predictable",
    )
    perplexity_of: str = Field(
        default="ngram",
        pattern=r"^(ngram|kenlm|causal|[0-9a-f]{8,64})$",
        description="the model that max_perplexity and min_perplexity are meant for: its kind (perplexity.model), or "
        "the beginning of its hash; while one of them is set, scores of another are refused",
    )
    buckets: list[Literal["head", "middle", "tail"]] | None = Field(
        default=None, min_length=1, description="buckets of perplexity that are kept; null: all"
    )
    head_percentile: float = Field(
        default=30.0,
        ge=0,
        le=100,
        description="percentile of the reference's perplexities, in the document's language, up to which it is 'head'",
    )
    middle_percentile: float = Field(
        default=60.0, ge=0, le=100, description="percentile up to which it is 'middle'; beyond it is 'tail'"
    )
    bucket_min_documents: int = Field(
        default=100,
        ge=1,
        le=1_000_000_000,
        description="a language in which the reference has fewer documents than this gets no buckets",
    )
    max_contamination: float | None = Field(
        default=0.0,
        ge=0,
        le=1,
        description="largest share of a document's words that may stand in passages of evaluation examples; 0: one "
        "such passage is too much",
    )
    decontaminate: Literal["document", "paragraph"] = Field(
        default="document",
        description="beyond max_contamination 'document' drops the document; 'paragraph' cuts the paragraphs that hold "
        "such passages, and drops a document of which nothing is left",
    )

    @model_validator(mode="after")
    def _buckets_in_order(self) -> Self:
        if self.middle_percentile < self.head_percentile:
            raise ValueError(
                f"middle_percentile {self.middle_percentile:g} lies below head_percentile {self.head_percentile:g}"
            )
        return self

    def limits_of_another_model(self, kind: str, sha256: str | None = None) -> str | None:
        """A sentence where an absolute limit of perplexity is set for another model than this; else None. sha256: the
        model's hash, None: not known yet."""
        names = ("max_perplexity", "min_perplexity")
        limits = [f"{name} {value:g}" for name in names if (value := getattr(self, name)) is not None]
        wanted = self.perplexity_of
        fits = wanted == kind or (wanted not in MODEL_KINDS and (sha256 is None or sha256.startswith(wanted)))
        if fits or not limits:
            return None
        scorer = f"{kind} {sha256[:12]}" if sha256 else kind
        return (
            f"{' and '.join(limits)} belong{'' if len(limits) > 1 else 's'} to the model {wanted} (perplexity_of), and "
            f"{scorer} scores; set to null what does not fit it, or perplexity_of to {kind} where the limits were "
            "chosen for it"
        )
