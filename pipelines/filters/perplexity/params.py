"""What can be set about language models: those trained here, KenLM's files, causal models of transformers. Limits stand
in `FilterParams`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from pipelines.profile import Params


class KenlmParams(Params):
    """An n-gram model in a file, and how text is cut for it: as the text was that it learned from."""

    path: str | None = Field(
        default=None,
        min_length=1,
        description="binary file of KenLM, or ARPA file; a relative path starts at the profile's folder; every worker "
        "reads it there",
    )
    words: Literal["whitespace", "folded", "pieces"] = Field(
        default="whitespace",
        description="'whitespace': words as they stand between white space; 'folded': as our own model reads, without "
        "case, digits as 0, signs apart; 'pieces': those of `tokenizer`",
    )
    tokenizer: str | None = Field(
        default=None, min_length=1, description="tokenizer.json whose pieces are the words, for 'pieces'"
    )
    sequence: Literal["line", "document"] = Field(
        default="line",
        description="'line': each line is a sentence and its end is a token, as CCNet scores; 'document': the text is "
        "one sentence and its end is not scored",
    )

    @model_validator(mode="after")
    def _pieces_have_a_tokenizer(self) -> Self:
        if (self.words == "pieces") != (self.tokenizer is not None):
            raise ValueError("words 'pieces' and tokenizer go together: set both or none")
        return self


class CausalParams(Params):
    """A causal language model of transformers, and how it is run. Nothing is downloaded."""

    path: str | None = Field(
        default=None,
        min_length=1,
        description="folder with model and tokenizer, as from_pretrained loads it; a relative path starts at the "
        "profile's folder; every worker reads it there",
    )
    name: str | None = Field(
        default=None,
        min_length=1,
        description="in place of a path: a model of the Hugging Face hub that lies in this machine's cache",
    )
    revision: str | None = Field(
        default=None, min_length=1, description="commit, tag or branch of that name; null: the one that is cached"
    )
    window: int = Field(default=1024, ge=2, le=1_000_000, description="tokens that the model reads at once")
    stride: int = Field(
        default=512,
        ge=1,
        le=1_000_000,
        description="tokens from one window to the next: each is scored once, after at least window - stride others",
    )
    batch_tokens: int | None = Field(
        default=None,
        ge=1,
        le=10_000_000,
        description="tokens of a batch, padding included; a shard for which memory does not suffice is done again with "
        "half of it; null: 8192 on a GPU, 1024 on a CPU, which larger batches make slower",
    )
    device: Literal["auto", "cpu", "cuda"] = Field(default="auto", description="auto: a GPU where there is one")
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        default="auto", description="auto: bfloat16 where a GPU has it, else float32"
    )

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.stride >= self.window:
            raise ValueError(
                f"stride {self.stride} must be less than window {self.window}, else tokens stand without what precedes "
                "them"
            )
        if self.path and self.name:
            raise ValueError("path and name are two places of one model: set one of them")
        if self.revision and not self.name:
            raise ValueError("revision is of a name on the hub, and name is not set")
        return self


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
