"""A stage's parameters as the typed form of Dagster's launchpad, with the profile's values as defaults."""

from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import dagster as dg
from pydantic import Field, ValidationError, create_model
from pydantic.fields import FieldInfo

from pipelines.profile import Params, describe

Model = TypeVar("Model", bound=Params)


def config_class(values: Params, name: str) -> type[dg.Config]:
    """A Dagster config with the fields, descriptions and values of `values`; nested models become nested forms."""
    fields: dict[str, Any] = {}
    for key, info in type(values).model_fields.items():
        value = getattr(values, key)
        if isinstance(value, Params):
            below = config_class(value, f"{name}_{key}")
            fields[key] = (below, Field(default=below(), description=info.description))
        else:
            fields[key] = (_form_type(info.annotation), Field(default=_plain(value), description=_described(info)))
    return create_model(name, __base__=dg.Config, **fields)


def params_from(config: dg.Config, model: type[Model]) -> Model:
    """The parameters that a launchpad form holds. Raises `dg.Failure` naming key and range where they don't fit."""
    try:
        return model.model_validate(config.model_dump())
    except ValidationError as error:
        told = "; ".join(
            f"config: {describe(detail, model).removeprefix('the profile: ')}" for detail in error.errors()
        )
        raise dg.Failure(told, allow_retries=False) from None


def _form_type(annotation: Any) -> Any:
    """A field's type as Dagster's forms know it: choices are strings there, and sections in lists or by name are
    mappings; both are checked when they arrive."""
    kind, inner = get_origin(annotation), get_args(annotation)
    if kind is Literal and all(isinstance(choice, str) for choice in inner):
        return str
    if kind is list:
        return list[_form_type(inner[0])]
    if kind is dict:
        return dict[inner[0], _form_type(inner[1])]
    if kind in (UnionType, Union):
        return Union[tuple(_form_type(one) for one in inner)]  # noqa: UP007 - of as many as there are
    return dict[str, Any] if isinstance(annotation, type) and issubclass(annotation, Params) else annotation


def _plain(value: Any) -> Any:
    """A field's value as forms hold it: sections in lists and by name as mappings."""
    if isinstance(value, Params):
        return value.model_dump(mode="json", exclude_none=True)
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list) else value


def _described(info: FieldInfo) -> str | None:
    choices = [choice for choice in get_args(info.annotation) if isinstance(choice, str)]
    ranges = [
        f"{sign} {getattr(bound, key)}"
        for bound in info.metadata
        for key, sign in _SIGNS.items()
        if hasattr(bound, key)
    ]
    allowed = " or ".join(choices) or ", ".join(ranges)
    return f"{info.description} ({allowed})" if info.description and allowed else info.description


_SIGNS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
