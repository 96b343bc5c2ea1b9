"""The user's profile: one YAML file, checked against the stages' own parameter models."""

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    """Base of every parameter model: unknown keys are refused, values don't change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=(), allow_inf_nan=False)
