"""What can be set about language models that were made elsewhere: KenLM files and causal models of transformers.

Which kind of model scores, and what is trained here, stands in `PerplexityParams` of `params.py`.
"""

from typing import Literal, Self

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
