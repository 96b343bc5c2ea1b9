"""Parameters of training, with ranges. What of them decides the model, and so enters the cache key, is told by
`PretrainParams.result_params`; the sizes' effect on parameters and FLOPs stands in `model.py`."""

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from pipelines.profile import Params

RECOVERABLE = frozenset({"micro_batch_size", "checkpoint_every_steps", "keep_checkpoints", "report_every_steps"})
"""Fields that may differ between a killed run and the run that resumes it: they decide memory, disk and reports."""

MEASURING = frozenset({"device_peak_teraflops", "samples"})
"""Fields that are used to describe the finished model, not to make it."""


class SampleParams(Params):
    """Texts that the finished model continues, so that people can see what it has learned."""

    prompts: list[str] = Field(
        default=["The", "This is", "def "], max_length=16, description="beginnings that the model continues"
    )
    tokens: int = Field(default=60, ge=1, le=2048, description="longest continuation, tokens")
    temperature: float = Field(default=0.8, ge=0, le=5, description="0: the likeliest token; 1: as the model says")


class PretrainParams(Params):
    """Pretraining of a Llama from random weights. The defaults suit a demonstration on a CPU."""

    hidden_size: int = Field(default=128, ge=8, le=16_384, description="width of the residual stream")
    layers: int = Field(default=4, ge=1, le=200, description="transformer blocks")
    heads: int = Field(default=4, ge=1, le=256, description="attention heads; must divide hidden_size")
    kv_heads: int = Field(default=2, ge=1, le=256, description="key and value heads (grouped queries); divides heads")
    intermediate_size: int = Field(default=384, ge=8, le=65_536, description="width inside a SwiGLU feed-forward block")
    tied_embeddings: bool = Field(default=True, description="the output layer shares the embedding's weights")
    rope_theta: float = Field(default=10_000.0, ge=1, le=1e9, description="base of the rotary position frequencies")

    sequence_length: int = Field(default=128, ge=8, le=131_072, description="tokens a sequence predicts")
    attention: Literal["sample", "document"] = Field(
        default="sample",
        description="what a token sees: sample, all that stands before it in its sequence; document, only what is of "
        "its own document, and no token is predicted from another document's; its mask takes sequence_length² bytes "
        "for each sequence of a micro-batch",
    )
    batch_size: int = Field(default=8, ge=1, le=65_536, description="sequences per optimizer step, over all processes")
    micro_batch_size: int = Field(
        default=8, ge=1, le=4096, description="sequences a device holds at once: decides memory, not the result"
    )
    max_steps: int = Field(
        default=600, ge=0, le=10_000_000, description="most optimizer steps; the blend's end comes first. 0: up to it"
    )

    learning_rate: float = Field(default=5e-3, gt=0, le=1, description="highest learning rate, reached after warm-up")
    final_learning_rate_share: float = Field(
        default=0.1, ge=0, le=1, description="last learning rate as a share of the highest (cosine decay)"
    )
    warmup_share: float = Field(
        default=0.05, ge=0, le=1, description="share of the steps over which the learning rate rises"
    )
    weight_decay: float = Field(default=0.1, ge=0, le=1, description="AdamW's decay, of matrices only")
    gradient_clip: float = Field(default=1.0, gt=0, le=1000, description="largest norm of the whole gradient")

    evaluate_every_steps: int = Field(
        default=100, ge=1, le=1_000_000, description="steps between validation losses; the last step always has one"
    )
    validation_sequences: int = Field(
        default=64, ge=0, le=1_000_000, description="held-out sequences a validation loss is taken over; 0: none"
    )
    publish: Literal["last", "best"] = Field(
        default="last", description="which weights become the model: of the last step or of the lowest validation loss"
    )
    checkpoint_every_steps: int = Field(default=200, ge=1, le=1_000_000, description="steps between checkpoints")
    keep_checkpoints: int = Field(default=2, ge=1, le=100, description="newest checkpoints kept, beside the best one")
    report_every_steps: int = Field(default=5, ge=1, le=100_000, description="steps between reports of the loss")

    seed: int = Field(default=1, ge=0, le=2**31 - 1, description="seed of weights, data order and samples")
    device: Literal["auto", "cpu", "cuda"] = Field(default="auto", description="auto: a GPU where there is one")
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        default="auto", description="of matrix products; weights are always float32. auto: bfloat16 where a GPU has it"
    )
    device_peak_teraflops: float | None = Field(
        default=None, gt=0, le=1e6, description="dense peak of one device in this precision; without it MFU is N/A"
    )
    samples: SampleParams = Field(default=SampleParams(), description="texts the finished model continues")

    @model_validator(mode="after")
    def _sizes_fit(self) -> Self:
        if self.hidden_size % self.heads:
            raise ValueError(f"hidden_size {self.hidden_size} is not a multiple of heads {self.heads}")
        if self.heads % self.kv_heads:
            raise ValueError(f"heads {self.heads} is not a multiple of kv_heads {self.kv_heads}")
        if (self.hidden_size // self.heads) % 2:
            raise ValueError(
                f"hidden_size {self.hidden_size} / heads {self.heads} is odd; rotary positions need an even head size"
            )
        if self.publish == "best" and not self.validation_sequences:
            raise ValueError("publish 'best' needs a validation loss: set validation_sequences above 0")
        return self

    def result_params(self) -> dict[str, Any]:
        """The fields that decide the model, as JSON values: of its cache key, and what a resumed run must share."""
        return self.model_dump(mode="json", exclude=set(RECOVERABLE | MEASURING))
