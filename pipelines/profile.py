"""The user's profile: one YAML file, checked against parameter models, every error naming the key and what is allowed.

The models of the sections live with their stages; `resources/settings.py` puts them together into one profile.
"""

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar, get_args

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from pipelines.store import digest


class Params(BaseModel):
    """Base of every parameter model: unknown keys are refused, values don't change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=(), allow_inf_nan=False)

    @property
    def digest(self) -> str:
        """SHA-256 of the values, 64 hex digits."""
        return digest(self.model_dump(mode="json"))

    @property
    def recorded(self) -> dict[str, Any]:
        """The values as a version records them, JSON; without what only tells where this machine has something."""
        return self.model_dump(mode="json")

    @property
    def buys(self) -> bool:
        """Whether work with these parameters may ask services that are paid for."""
        return False

    @classmethod
    def restored(cls, recorded: Mapping[str, Any], here: Self) -> dict[str, Any]:
        """The values that `recorded` gave, with what it left out taken from the parameters of this machine."""
        return dict(recorded)


class ProfileError(ValueError):
    """The profile cannot be used; the message names file, key and what is allowed."""


Model = TypeVar("Model", bound=Params)


def load(path: Path, model: type[Model], overrides: Sequence[str] = ()) -> Model:
    """Read a YAML profile as `model`. overrides: 'section.key=value', the value in YAML.

    Raises `ProfileError` with one line per mistake.
    """
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ProfileError(f"there is no profile at {path}") from None
    except OSError as error:
        raise ProfileError(f"{path} cannot be read as a profile: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ProfileError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(tree, dict):
        raise ProfileError(f"{path} must hold keys and values at its top, such as 'sources:'")
    for override in overrides:
        _set(tree, override)
    try:
        return model.model_validate(tree)
    except ValidationError as error:
        told = "\n".join(f"{path.name}: {describe(detail, model)}" for detail in error.errors())
        raise ProfileError(told) from None


def _set(tree: dict[str, Any], override: str) -> None:
    name, equals, text = override.partition("=")
    keys = name.strip().split(".")
    if not equals or not all(keys):
        raise ProfileError(f"--set {override}: write section.key=value, for example dedup.threshold=0.8")
    if keys[0] == "sources":
        raise ProfileError("--set cannot change sources: they are the partitions; edit the profile instead")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        raise ProfileError(f"--set {override}: {text!r} is not a YAML value") from None
    place = tree
    for key in keys[:-1]:
        below = place.setdefault(key, {})
        if not isinstance(below, dict):
            raise ProfileError(f"--set {override}: {key} is a single value and has no key {keys[-1]}")
        place = below
    place[keys[-1]] = value


def describe(error: ErrorDetails, model: type[BaseModel]) -> str:
    """A validation error as a sentence: where it stands in the YAML, what was found, what is allowed."""
    where = ""
    for step in error["loc"]:
        where += f"[{step}]" if isinstance(step, int) else f".{step}" if where else str(step)
    if error["type"] == "extra_forbidden":
        allowed = sorted(_model_at(model, error["loc"][:-1]).model_fields)
        key = str(error["loc"][-1])
        near = difflib.get_close_matches(key, allowed, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        return f"{where} is not a key; {hint}allowed here: {', '.join(allowed)}"
    if error["type"] == "missing":
        return f"{where or 'the profile'} is missing"
    problem = error["msg"].removeprefix("Value error, ")
    found = error["input"]
    shown = "" if isinstance(found, dict | list | BaseModel) else f", not {found!r}"
    return f"{where or 'the profile'}: {problem[:1].lower() + problem[1:]}{shown}"


def _model_at(model: type[BaseModel], keys: Sequence[int | str]) -> type[BaseModel]:
    """The model that validates the value at this place of the tree."""
    for key in keys:
        if isinstance(key, int):
            continue
        field = model.model_fields.get(key)
        below = _models_in(field.annotation) if field else []
        if not below:
            return model
        model = below[0]
    return model


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in get_args(annotation) for model in _models_in(inner)]
