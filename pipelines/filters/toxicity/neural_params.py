"""What can be set about a neural classifier of toxic language. Nothing is loaded here.

How it scores stands in `neural.py`; which documents it reads, in `cascade.py`.
"""

from typing import Literal, Self, TypeVar

from pydantic import Field, field_validator, model_validator

from pipelines.profile import Params

Released = Literal["original", "unbiased", "multilingual", "original-small", "unbiased-small"]
Codes = TypeVar("Codes", str, list[str], dict[str, str])


def language_codes(codes: Codes) -> Codes:
    """The codes, each spelt as documents spell theirs; another would match none, and nothing would say so. Raises
    `ValueError` for a code that is not."""
    for code in [codes] if isinstance(codes, str) else codes:
        if not (2 <= len(code) <= 3 and code.isascii() and code.isalpha() and code.islower()):
            raise ValueError(f"{code!r} is no ISO 639 code in small letters, such as 'en'")
    return codes


class NeuralParams(Params):
    """A model in Detoxify's format, and how it is run. Nothing is downloaded."""

    model: Released | None = Field(
        default=None,
        description="a model that Detoxify released; its weights must lie in torch's cache, or in `checkpoint`",
    )
    checkpoint: str | None = Field(
        default=None,
        min_length=1,
        description="checkpoint in Detoxify's format; a relative path starts at the profile's folder; every worker "
        "reads it there; it is a pickle, which can run code: take only files that you trust",
    )
    huggingface_config_path: str | None = Field(
        default=None,
        min_length=1,
        description="folder with config.json and the tokenizer's files; null: the model that the checkpoint names must "
        "lie in this machine's Hugging Face cache",
    )
    languages: list[str] = Field(
        default=["en"], description="ISO 639 codes of the languages that the model knows; it reads no other"
    )
    window_tokens: int = Field(
        default=512,
        ge=8,
        le=1_000_000,
        description="tokens that are scored at once, the model's marks included, or as many as the model can read; "
        "longer texts are scored by windows of equal length",
    )
    overlap_tokens: int = Field(
        default=32, ge=0, le=100_000, description="tokens that two neighbouring windows share at least"
    )
    batch_tokens: int | None = Field(
        default=None,
        ge=1,
        le=100_000_000,
        description="tokens of a batch at most, padding included; null: 4,096 on a CPU, 65,536 on a GPU; documents for "
        "which memory does not suffice are scored again with half of it",
    )
    device: Literal["auto", "cpu", "cuda"] = Field(default="auto", description="auto: all GPUs where there are any")
    precision: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        default="auto", description="auto: float32 on a CPU; on a GPU bfloat16 where it has it, else float16"
    )
    quantize: bool = Field(
        default=False,
        description="weights of linear layers as int8, and their inputs batch by batch; on a CPU alone",
    )
    runtime: Literal["torch", "onnx"] = Field(
        default="torch", description="'onnx': exported when it is opened, and run by ONNX Runtime"
    )
    threads: int = Field(
        default=1, ge=1, le=1024, description="threads of a CPU in each worker; workers fill the cores by themselves"
    )

    _codes = field_validator("languages")(language_codes)

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if not (self.model or self.checkpoint):
            raise ValueError("a neural model needs a checkpoint: set checkpoint, or model to one that was released")
        if self.overlap_tokens * 2 > self.window_tokens:
            raise ValueError(
                f"overlap_tokens {self.overlap_tokens} is more than half of window_tokens {self.window_tokens}; "
                "lower it"
            )
        if self.quantize and self.device == "cuda":
            raise ValueError("quantize is for a CPU, and device is 'cuda': set one of them otherwise")
        if (self.quantize or self.runtime == "onnx") and self.precision not in ("auto", "float32"):
            raise ValueError(
                f"precision {self.precision!r} is for runtime 'torch' without quantize: set one of them otherwise"
            )
        return self
