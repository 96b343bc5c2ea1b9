"""Writes docs/profile.md from the profile's own models and from docs/examples/: `python docs/generate_profile.py`.

A test compares the committed file with what this script gives, so the page never says anything else than the code.
"""

import types
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from resources.settings import Profile

DOCS = Path(__file__).resolve().parent
PAGE = DOCS / "profile.md"
EXAMPLES = ("folder", "jsonl", "parquet", "csv")

INTRODUCTION = """\
# The profile

<!-- Written by docs/generate_profile.py, as a test checks: edit the models' descriptions, not this page. -->

A profile is one YAML file that says what is milled and how. `corpusmill --help` lists the commands that read it; each
takes `--profile FILE`. Without it they read the file that `CORPUSMILL_PROFILE` names, and without that the demo's,
`config/demo.yaml`. Dagster's webserver, daemon and steps read the same variable.

- A key that is not listed here is refused, and the error names the nearest one that is.
- `corpusmill run --set section.key=value` overrides one key for one run; the value is YAML. `sources` can't be
  overridden: they are the partitions. Other programs give overrides in `CORPUSMILL_SET`, a JSON list of the same words.
- A source's relative `path` starts at the profile's folder. Relative paths of `store`, `ledger` and `prices` start at
  the project's folder.
- Rules between keys (`kv_heads` divides `heads`, say) are checked when the profile is loaded, before anything runs.
- Every parameter of a stage enters the id of the versions that the stage makes; the key of a cached result holds only
  those that can change its bytes. So another threshold under `filters` decides again and scores nothing again.
- `config/production.yaml` is a profile for larger corpora, to be copied.

## Your own data

Four profiles of about ten lines. All keys that they leave out have the defaults below.
"""

COLUMNS = "| key | type | range | default | meaning |\n|---|---|---|---|---|\n"
BOUNDS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<", "min_length": "length ≥", "max_length": "length ≤"}
TYPES = {str: "text", int: "integer", float: "number", bool: "true or false", type(None): "null", date: "date"}


def render() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    parts += [f"```yaml\n{(DOCS / 'examples' / f'{name}.yaml').read_text(encoding='utf-8')}```\n" for name in EXAMPLES]
    parts.append("## All keys\n")
    parts += [section(heading, model) for heading, model in sections()]
    return "\n".join(parts)


def sections() -> Iterator[tuple[str, type[BaseModel]]]:
    """(heading, model) of the profile's top level and of every section below it, in the order of the profile."""
    yield "Top level", Profile
    yield from _below("", Profile)


def section(heading: str, model: type[BaseModel]) -> str:
    """One section: what the model says about itself, and a table of its keys."""
    told = "" if model is Profile else " ".join((model.__doc__ or "").split()) + "\n\n"
    above = "" if model is Profile else f"{heading}."
    rows = [row(name, info, above) for name, info in model.model_fields.items()]
    return f"### {heading}\n\n{told}{COLUMNS}" + "".join(rows)


def row(name: str, info: FieldInfo, above: str) -> str:
    """The line of one key. A key that opens a section of its own points to it. above: the section that it stands in."""
    inner = _models_in(info.annotation)
    meaning = info.description or f"see [{above}{name}](#{above.replace('.', '')}{name})"
    cells = (
        f"`{name}`",
        "section" if inner and get_origin(info.annotation) is None else type_of(info.annotation),
        range_of(info),
        "" if inner and not info.is_required() else default_of(info),
        meaning,
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def type_of(annotation: Any) -> str:
    """A type in words that a writer of YAML knows."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation in TYPES:
        return TYPES[annotation]
    if origin is Literal:
        return "one of " + ", ".join(f"`{choice}`" if choice else "empty" for choice in inner)
    if origin in (types.UnionType, Union):
        return " or ".join(type_of(choice) for choice in inner)
    if origin is list:
        return "list of sections" if _models_in(annotation) else f"list of {type_of(inner[0])}"
    if origin is dict and _models_in(annotation):
        return "sections by name"
    if origin is dict:
        return f"mapping of {type_of(inner[0])} to {type_of(inner[1])}"
    raise TypeError(f"docs/generate_profile.py has no words for the type {annotation!r}")


def range_of(info: FieldInfo) -> str:
    """What the model's own constraints allow; empty where anything of the type goes."""
    told = [
        f"{sign} {number(getattr(bound, key))}"
        for bound in info.metadata
        for key, sign in BOUNDS.items()
        if getattr(bound, key, None) is not None
    ]
    told += [f"`{bound.pattern}`" for bound in info.metadata if getattr(bound, "pattern", None)]
    return ", ".join(told)


def default_of(info: FieldInfo) -> str:
    """The default as YAML has it."""
    if info.is_required():
        return "**required**"
    return f"`{yaml_value(info.default)}`"


def yaml_value(value: Any) -> str:
    """A value in YAML's short form."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value if value and value == value.strip() else f'"{value}"'
    if isinstance(value, list):
        return "[" + ", ".join(yaml_value(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {yaml_value(item)}" for key, item in value.items()) + "}"
    return number(value)


def number(value: float) -> str:
    """A number with thousands apart where it is large, and without an idle fraction."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"{value:,}".replace(",", "_") if isinstance(value, int) and abs(value) >= 10_000 else str(value)


def keys() -> list[str]:
    """Every key with its section, as `corpusmill run --set` writes it: 'dedup.threshold'."""
    return [
        name if model is Profile else f"{heading}.{name}"
        for heading, model in sections()
        for name in model.model_fields
    ]


def _below(prefix: str, model: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    for name, info in model.model_fields.items():
        for inner in _models_in(info.annotation):
            yield f"{prefix}{name}", inner
            yield from _below(f"{prefix}{name}.", inner)


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in get_args(annotation) for model in _models_in(inner)]


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
