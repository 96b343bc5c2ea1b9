"""What can be set about the tokenizer: trained on a sample of the corpus, or loaded as it is.

How it is trained stands in `tokenizer_training.py`, how it is found and loaded in `loading.py`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from pipelines.profile import Params

BYTES = 256
"""Tokens that a byte-level vocabulary starts from: one for each byte."""

END_OF_TEXT = "<|endoftext|>"
PADDING = "<|pad|>"

OF_LOADED = frozenset({"path", "name", "revision"})
OF_TRAINED = frozenset({"vocabulary", "min_frequency", "pattern", "digits", "nfc"})
"""Parameters that only a tokenizer of this kind has."""


class TokenizerParams(Params):
    """The tokenizer: byte-level BPE or unigram trained on a sample, or one that exists. Nothing is downloaded."""

    kind: Literal["bpe", "unigram", "loaded"] = Field(
        default="bpe",
        description="'bpe', merges of bytes; 'unigram', pieces of bytes with probabilities (extra `unigram`); "
        "'loaded', a tokenizer of Hugging Face as it is",
    )
    path: str | None = Field(
        default=None,
        min_length=1,
        description="of 'loaded': folder with the tokenizer's files, or its tokenizer.json; a relative path starts at "
        "the profile's folder; every worker reads it there",
    )
    name: str | None = Field(
        default=None,
        min_length=1,
        description="of 'loaded': name on the Hugging Face Hub; it must lie in this machine's cache",
    )
    revision: str | None = Field(
        default=None, min_length=1, description="branch, tag or commit of `name`; null: what the cache calls main"
    )
    sources: list[str] = Field(
        default=[],
        description="names of the sources that the tokenizer learns from and is measured on; empty: all that it is "
        "given",
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
        description="tokens to train: special tokens, the 256 bytes and what is learnt",
    )
    sample_megabytes: float = Field(
        default=64.0,
        ge=0.001,
        le=100_000,
        description="text to learn from and to measure on, megabytes (10^6 bytes of UTF-8), held in memory",
    )
    min_frequency: int = Field(
        default=2,
        ge=1,
        le=1_000_000,
        description="of 'bpe': how often a pair must occur in the sample to become a token",
    )
    pattern: Literal["gpt2", "gpt4"] = Field(
        default="gpt4",
        description="where text is cut before tokens are learnt: 'gpt2', as GPT-2 and GPT-NeoX do; 'gpt4', as GPT-4, "
        "Llama 3 and Qwen do: line breaks stay with the sign before them, any one sign with the word after it",
    )
    digits: Literal["single", "three", "whole"] = Field(
        default="single",
        description="'single': every digit is a token; 'three': numbers are cut in groups of up to three from the left "
        "(pattern 'gpt4'); 'whole': numbers are words",
    )
    nfc: bool = Field(
        default=False,
        description="compose characters (Unicode NFC) before encoding; no other normalisation is offered, as others "
        "lose what was written",
    )
    seed: int = Field(default=0, ge=0, le=2**32 - 1, description="seed of the choice of sample documents")
    bos_token: str | None = Field(
        default=None,
        min_length=1,
        description="token that a sequence begins with; null: that of the loaded tokenizer, and of one trained here "
        "the end-of-text token, as in GPT-2",
    )
    eos_token: str | None = Field(
        default=None,
        min_length=1,
        description=f"token that ends a document; null: that of the loaded tokenizer, and {END_OF_TEXT} of one trained "
        "here",
    )
    pad_token: str | None = Field(
        default=None,
        min_length=1,
        description=f"token that fills batches, another one than that of the end; null: that of the loaded tokenizer, "
        f"and {PADDING} of one trained here",
    )
    reserved_tokens: list[str] = Field(
        default=[],
        description="further special tokens, for example chat markers, that text is never split into; a loaded "
        "tokenizer gets those that it lacks",
    )
    lossy: Literal["refuse", "accept"] = Field(
        default="refuse",
        description="what to do with a tokenizer that does not give every text back as it was (composed characters "
        "aside): 'accept' it, and count the texts that it changes",
    )

    @property
    def named_sources(self) -> list[str]:
        """The sources to learn from and to measure on, where any are named; empty: all of them."""
        return sorted(self.weights) or self.sources

    @property
    def special_tokens(self) -> list[str]:
        """The special tokens of a tokenizer trained here, in the order of their ids."""
        eos = self.eos_token or END_OF_TEXT
        return list(dict.fromkeys([self.bos_token or eos, eos, self.pad_token or PADDING, *self.reserved_tokens]))

    @model_validator(mode="after")
    def _fits(self) -> Self:
        reserved = self.reserved_tokens
        if "" in reserved or len(set(reserved)) != len(reserved):
            raise ValueError(f"reserved_tokens: {reserved} holds an empty token, or one twice")
        if words := [token for token in reserved if token.isspace() or "".join(token.split()).isalnum()]:
            raise ValueError(
                f"reserved_tokens: {words[0]!r} is ordinary text, which others would take for the token: write "
                "it with signs at both ends, such as <|name|>"
            )
        eos = self.eos_token or (None if self.kind == "loaded" else END_OF_TEXT)  # what a loaded one has is not known
        if self.pad_token is not None and self.pad_token == eos:
            raise ValueError(
                f"pad_token: {self.pad_token!r} is the end-of-text token too, so that training could not tell padding "
                "from the end; name another one, which may be among reserved_tokens"
            )
        special = self.special_tokens
        if self.kind != "loaded" and self.vocabulary < BYTES + len(special):
            raise ValueError(
                f"vocabulary: {self.vocabulary} tokens cannot hold {BYTES} bytes and {len(special)} special tokens"
            )
        if self.kind == "unigram" and self.min_frequency != type(self).model_fields["min_frequency"].default:
            raise ValueError("min_frequency is of kind 'bpe'; leave it out")
        if self.digits == "three" and self.pattern != "gpt4":
            raise ValueError("digits 'three' is part of pattern 'gpt4': set pattern, or digits 'single' or 'whole'")
        for source, weight in self.weights.items():
            if not 0 < weight <= 1e9:
                raise ValueError(f"weights: the weight of {source!r} is {weight}; it must be above 0")
            if self.sources and source not in self.sources:
                raise ValueError(f"weights: {source!r} is not among tokenizer.sources ({', '.join(self.sources)})")
        return self

    @model_validator(mode="after")
    def _is_found(self) -> Self:
        if self.path and self.name:
            raise ValueError("path and name are two places of one tokenizer: set one of them")
        if self.revision and not self.name:
            raise ValueError("revision is of a name on the hub, and name is not set")
        if (self.kind == "loaded") != bool(self.path or self.name):
            raise ValueError(
                f"kind is {self.kind!r}: 'loaded' needs a tokenizer, in path or name, and of no other kind is one read"
            )
        idle = sorted(self.model_fields_set & OF_TRAINED) if self.kind == "loaded" else []
        if changed := [name for name in idle if getattr(self, name) != type(self).model_fields[name].default]:
            raise ValueError(
                f"{changed[0]}: a loaded tokenizer is taken as it is, so this has no effect; leave it out, or train "
                "one by kind 'bpe' or 'unigram'"
            )
        return self

    def placed(self, folder: Path) -> Self:
        """The same, with a relative path that starts at a folder."""
        return self.model_copy(update={"path": self.path and str(folder / Path(self.path).expanduser())})

    @property
    def recorded(self) -> dict[str, Any]:
        """The values without the path: a tokenizer is known by its content."""
        return self.model_dump(mode="json", exclude={"path"})

    @classmethod
    def restored(cls, recorded: Mapping[str, Any], here: Self) -> dict[str, Any]:
        """The values that were recorded, with the path that the tokenizer has here, if it was loaded from one."""
        read_by_path = recorded.get("kind") == "loaded" and not recorded.get("name")
        return {**recorded, "path": here.path if read_by_path else None}
