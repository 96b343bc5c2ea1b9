"""Parameters of the blend: what is held out, in what order, and how documents become sequences."""

from typing import Literal

from pydantic import Field, model_validator

from pipelines.profile import Params


class BlendParams(Params):
    """How token shards are laid out for training."""

    validation_share: float = Field(
        default=0.01,
        ge=0,
        le=0.5,
        description="share of the documents that is held out for validation, by a hash of their content",
    )
    seed: int = Field(
        default=0, ge=0, le=2**32 - 1, description="seed of the validation split and of the order of documents"
    )
    packing: Literal["concatenate", "best_fit"] = Field(
        default="concatenate",
        description="how documents become sequences. concatenate: one after the other, cut wherever a sequence is "
        "full; best_fit: only documents longer than a sequence are cut, and what does not fill one is padding",
    )
    sequence_length: int | None = Field(
        default=None,
        ge=1,
        le=1_048_576,
        description="tokens that a sequence predicts: needed to pack by best_fit, and only there; the same as "
        "training.sequence_length",
    )
    share_tolerance: float = Field(
        default=0.02,
        ge=0,
        le=1,
        description="how far a group's realised share may be from the one wanted before the blend reports it as off; "
        "a wanted group without tokens is off in any case",
    )

    @model_validator(mode="after")
    def _length_where_it_matters(self) -> "BlendParams":
        if self.packing == "best_fit" and self.sequence_length is None:
            raise ValueError("packing 'best_fit' needs sequence_length: the same as training.sequence_length")
        if self.packing != "best_fit" and self.sequence_length is not None:
            raise ValueError(
                f"sequence_length {self.sequence_length} has no effect with packing {self.packing!r}: leave it out"
            )
        return self
