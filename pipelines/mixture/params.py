"""Parameters of the training mixture. What they lead to is computed in `plan.py`."""

from pydantic import Field, field_validator

from pipelines.profile import Params


class MixtureParams(Params):
    """What share of each source the model is to see, and how often at most."""

    shares: dict[str, float] = Field(
        default={},
        description="weight of each source in the mixture, by source name; only the proportions count (0.2 and 0.8 "
        "mean the same as 1 and 4), 0 leaves a source out, and so does not naming it. Empty: in proportion to size",
    )
    token_budget: int = Field(
        default=0,
        ge=0,
        le=10**15,
        description="training tokens wanted in all; 0: as many as the sources hold, or fewer where a share would need "
        "more than max_epochs of its source",
    )
    max_epochs: float = Field(
        default=4.0,
        ge=0.01,
        le=1000,
        description="most passes over one source; up to 4 are nearly as good as fresh text (Muennighoff et al. 2023)",
    )
    bytes_per_token: float = Field(
        default=4.0,
        ge=0.5,
        le=64,
        description="estimated UTF-8 bytes per token, for planning before the text is tokenized",
    )

    @field_validator("shares")
    @classmethod
    def _shares_can_be_met(cls, shares: dict[str, float]) -> dict[str, float]:
        for source, share in shares.items():
            if not 0 <= share <= 1e9:
                raise ValueError(f"the share of {source!r} is {share}; a share is 0 or more")
        if shares and not any(shares.values()):
            raise ValueError("every share is 0: name at least one source with a share above 0")
        return shares
