"""Code versions: none of the modules that decide what comes out is left out of them."""

import importlib
import inspect
import pkgutil
from types import ModuleType

import pytest

import pipelines.mixture
import pipelines.tokens
from assets import mixing, tokenization


def stages() -> list[ModuleType]:
    """The modules of tokenization and mixing that have a `VERSION`."""
    names = [
        f"{package.__name__}.{found.name}"
        for package in (pipelines.mixture, pipelines.tokens)
        for found in pkgutil.iter_modules(package.__path__)
    ]
    return [module for module in map(importlib.import_module, names) if hasattr(module, "VERSION")]


@pytest.mark.parametrize("stage", stages(), ids=lambda stage: stage.__name__)
def test_the_version_of_a_stage_is_in_the_code_version_of_an_asset(stage: ModuleType) -> None:
    said = [
        f"{name}.VERSION" in inspect.getsource(assets)
        for assets in (mixing, tokenization)
        for name, value in vars(assets).items()
        if value is stage
    ]

    assert any(said)
