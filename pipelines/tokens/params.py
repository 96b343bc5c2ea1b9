"""Parameters of tokenization: the tokenizer, the token shards, the blend."""

from pydantic import Field, model_validator

from pipelines.profile import Params

BYTES = 256
"""Tokens that a byte-level vocabulary starts from: one for each byte."""

END_OF_TEXT = "<|endoftext|>"
PADDING = "<|pad|>"


class TokenizerParams(Params):
    """How the byte-level BPE tokenizer is trained."""

    sources: list[str] = Field(
        default=[], description="names of the sources that the tokenizer learns from; empty: all that it is given"
    )
    weights: dict[str, float] = Field(
        default={},
        description="weight of each source in the sample; only the proportions count, and a source without a weight "
        "gives nothing. Empty: in proportion to size",
    )
    vocabulary: int = Field(
        default=8192,
        ge=BYTES + 2,
        le=1_000_000,
        description="tokens in the vocabulary: special tokens, the 256 bytes and the merges learnt",
    )
    sample_megabytes: float = Field(
        default=64.0,
        ge=0.001,
        le=100_000,
        description="text to learn from, megabytes (10^6 bytes of UTF-8), held in memory while training",
    )
    min_frequency: int = Field(
        default=2, ge=1, le=1_000_000, description="how often a pair must occur in the sample to become a token"
    )
    seed: int = Field(default=0, ge=0, le=2**32 - 1, description="seed of the choice of sample documents")
    reserved_tokens: list[str] = Field(
        default=[], description="further special tokens, for example chat markers, that text is never split into"
    )

    @model_validator(mode="after")
    def _fits(self) -> "TokenizerParams":
        special = [END_OF_TEXT, PADDING, *self.reserved_tokens]
        if "" in special or len(set(special)) != len(special):
            raise ValueError(f"reserved_tokens: {self.reserved_tokens} holds an empty token, or one twice")
        if self.vocabulary < BYTES + len(special):
            raise ValueError(
                f"vocabulary: {self.vocabulary} tokens cannot hold {BYTES} bytes and {len(special)} special tokens"
            )
        for source, weight in self.weights.items():
            if not 0 < weight <= 1e9:
                raise ValueError(f"weights: the weight of {source!r} is {weight}; it must be above 0")
            if self.sources and source not in self.sources:
                raise ValueError(f"weights: {source!r} is not among tokenizer.sources ({', '.join(self.sources)})")
        return self


class TokenizeParams(Params):
    """How documents become token ids."""

    append_eos: bool = Field(
        default=True, description="put the end-of-text token after each document; without it documents run together"
    )


class BlendParams(Params):
    """How token shards are laid out for training."""

    validation_share: float = Field(
        default=0.01,
        ge=0,
        le=0.5,
        description="share of the documents of each source that is held out for validation, by a hash of doc_id",
    )
    seed: int = Field(
        default=0, ge=0, le=2**32 - 1, description="seed of the validation split and of the order of documents"
    )
    share_tolerance: float = Field(
        default=0.02,
        ge=0,
        le=1,
        description="how far a source's realised share may be from the one wanted before the blend reports it as off",
    )
