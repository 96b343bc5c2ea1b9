"""Parameters of the training mixture. What they lead to is computed in `plan.py`."""

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from pipelines.mixture.groups import SOURCE, refuse_unknown
from pipelines.profile import Params

MOST_EPOCHS = 1000


class MixtureParams(Params):
    """What share of each group of documents the model is to see, and how often at most."""

    by: str = Field(
        default=SOURCE,
        description="what shares are given to: source, language, license, bucket (head, middle or tail of the "
        "reference's perplexities) or metadata.FIELD, a field of the documents' metadata; its values are the groups, "
        "and documents without a value are the group 'unknown'",
    )
    shares: dict[str, float] = Field(
        default={},
        description="weight of each group in the mixture, by name; only the proportions count (0.2 and 0.8 mean the "
        "same as 1 and 4), 0 leaves a group out, and so does not naming it. Empty: by size and temperature",
    )
    temperature: float = Field(
        default=1.0,
        ge=1,
        le=1000,
        description="without shares, a group's share is in proportion to its tokens^(1/temperature): 1 is in "
        "proportion to size, more gives small groups more, 3.33 is the 0.3 of XLM-R (Conneau et al. 2020)",
    )
    token_budget: int = Field(
        default=0,
        ge=0,
        le=10**15,
        description="training tokens wanted in all; 0: as many as the groups hold, or fewer where a share would need "
        "more epochs of its group than are allowed",
    )
    max_epochs: float = Field(
        default=4.0,
        ge=0.01,
        le=MOST_EPOCHS,
        description="most passes over one group; up to 4 are nearly as good as fresh text (Muennighoff et al. 2023)",
    )
    epochs: dict[str, float] = Field(
        default={}, description="most passes over these groups, by name, in place of max_epochs"
    )
    if_short: Literal["others", "shrink", "refuse"] = Field(
        default="others",
        description="what happens where a group cannot supply its share of token_budget: 'others', the other groups "
        "make up for it; 'shrink', shares stay and there are fewer tokens; 'refuse', training_blend fails, once tokens "
        "are counted",
    )
    bytes_per_token: dict[str, float] = Field(
        default={},
        description="UTF-8 bytes per token of these groups, by name, where you know them; of other groups they are "
        "estimated from a sample. Only for the plan: the blend counts tokens",
    )

    @field_validator("by")
    @classmethod
    def _documents_carry_it(cls, by: str) -> str:
        return refuse_unknown(by)

    @field_validator("shares", "epochs", "bytes_per_token", mode="before")
    @classmethod
    def _yaml_names(cls, by_name: Any) -> Any:
        """Names that YAML takes for something else, 012 for ten, 1.10 for 1.1, and no for false, are refused."""
        for name in by_name if isinstance(by_name, dict) else ():
            if not isinstance(name, str):
                raise ValueError(
                    f"YAML reads one of these names as {name!r}, which is no text; put it in quotes: 'no', '2024'"
                )
        return by_name

    @field_validator("shares")
    @classmethod
    def _shares_can_be_met(cls, shares: dict[str, float]) -> dict[str, float]:
        for name, share in shares.items():
            if not 0 <= share <= 1e9:
                raise ValueError(f"the share of {name!r} is {share}; a share is 0 or more")
        if shares and not any(shares.values()):
            raise ValueError("every share is 0: name at least one group with a share above 0")
        return shares

    @field_validator("epochs")
    @classmethod
    def _epochs_can_be_had(cls, epochs: dict[str, float]) -> dict[str, float]:
        for name, most in epochs.items():
            if not 0.01 <= most <= MOST_EPOCHS:
                raise ValueError(f"{name!r} has {most} epochs; allowed are 0.01 to {MOST_EPOCHS}")
        return epochs

    @field_validator("bytes_per_token")
    @classmethod
    def _tokens_have_bytes(cls, bytes_per_token: dict[str, float]) -> dict[str, float]:
        for name, size in bytes_per_token.items():
            if not 0.1 <= size <= 1000:
                raise ValueError(f"{name!r} has {size} bytes per token; allowed are 0.1 to 1000")
        return bytes_per_token

    @model_validator(mode="after")
    def _one_rule_for_shares(self) -> "MixtureParams":
        if self.shares and self.temperature != 1:
            raise ValueError(
                f"temperature {self.temperature:g} has no effect beside shares: leave out temperature, or the shares"
            )
        return self

    @property
    def naming_groups(self) -> dict[str, list[str]]:
        """The keys that name groups, with the names."""
        return {
            "mixture.shares": list(self.shares),
            "mixture.epochs": list(self.epochs),
            "mixture.bytes_per_token": list(self.bytes_per_token),
        }
