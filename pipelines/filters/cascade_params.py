"""What can be set about the parts of the toxicity cascade that have files or services of their own.

The cascade's own parameters stand in `ToxicityParams` of `params.py`, those of neural models in `neural_params.py`.
"""

from pydantic import Field

from pipelines.profile import Params


class CalibrationParams(Params):
    """The labelled sample that the band is chosen from: CSV with a header, or JSON Lines, UTF-8."""

    path: str | None = Field(
        default=None, description="local file; a relative path starts at the profile's folder; null: none"
    )
    text: str = Field(default="text", min_length=1, description="field that holds the text")
    label: str = Field(default="label", min_length=1, description="field that holds what people call it")
    toxic: list[str] = Field(default=["1"], min_length=1, description="values of the label that mean toxic")
    language: str = Field(default="en", description="ISO 639 code of the language of all texts")
    target_recall: float = Field(
        default=0.99, gt=0, le=1, description="share of the texts that the neural models call toxic that reach them"
    )
    target_precision: float = Field(
        default=0.99, gt=0, le=1, description="share of the texts above the band that people call toxic, at least"
    )


class RemoteParams(Params):
    """A scorer on the network that speaks as Google's Perspective does. It reads what no neural model knows."""

    url: str | None = Field(
        default=None,
        pattern=r"^https?://[^@?\s]+$",
        description="where a text is sent, without a key; null: there is none",
    )
    languages: list[str] = Field(default=[], description="ISO 639 codes of the languages that it knows")
    attributes: list[str] = Field(
        default=["TOXICITY"], min_length=1, description="attributes to ask for; the first is the toxicity"
    )
    key_variable: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        description="environment variable that holds the key; it is recorded nowhere",
    )
    usd_per_call: str | None = Field(
        default=None,
        pattern=r"^[0-9]+([.][0-9]+)?$",
        description="price of one call, USD, in quotes; every call is charged, also those that fail",
    )
    window_bytes: int = Field(
        default=3000, ge=50, le=20_000, description="length of the passages that are sent one by one, bytes"
    )
    requests_per_second: float = Field(default=1.0, gt=0, le=10_000, description="requests sent at most, all workers")
    connections: int = Field(default=4, ge=1, le=256, description="requests under way at once")
    timeout_seconds: float = Field(default=30.0, gt=0, le=600, description="silence after which a request has failed")
    tries: int = Field(default=6, ge=1, le=20, description="requests for a passage before the step fails")
    backoff_seconds: float = Field(
        default=1.0,
        ge=0,
        le=600,
        description="pause before the second try; it doubles with each, and is longer where the service asks for that",
    )
