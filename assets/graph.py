"""What the asset graph shows of an asset before it was ever made: its columns, where its code is, what steers it."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg

from assets.metadata import table_schema
from assets.recipe import Recipe
from resources.launcher import Launcher
from resources.settings import Profile

GPU_POOL = "gpu"
"""Steps of this pool wait for one another: they hold the machine's GPUs."""


def definition_metadata(recipe: Recipe) -> dict[str, Any]:
    """Columns with their meanings, and the files where asset and stage stand."""
    stage = inspect.getclosurevars(recipe.body).globals
    functions = [recipe.body, *(used for used in stage.values() if inspect.isfunction(used))]
    references = dg.CodeReferencesMetadataValue(code_references=[_reference(function) for function in functions])
    return {**table_schema(recipe.shows), "dagster/code_references": references}


def tags(recipe: Recipe, profile: Profile) -> dict[str, str]:
    """The section of the profile that holds the asset's parameters, to select by: `tag:corpusmill/section=filters`."""
    model = recipe.params_model
    return {"corpusmill/section": profile.section_name(model)} if model else {}


def pool(recipe: Recipe) -> str | None:
    """The pool that an asset's step takes a slot of."""
    return GPU_POOL if Launcher in recipe.parameters.values() else None


def _reference(function: Callable[..., Any]) -> dg.LocalFileCodeReference:
    path, line = Path(inspect.getfile(function)).resolve(), inspect.getsourcelines(function)[1]
    return dg.LocalFileCodeReference(file_path=str(path), line_number=line, label=f"{path.parent.name}/{path.name}")
