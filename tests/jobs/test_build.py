"""The definitions: they load quickly and anywhere, and every asset says what a newcomer needs."""

import os
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from jobs.build import build_definitions
from resources.settings import HOME, load_profile

HEAVY = ("torch", "transformers", "pyspark", "sklearn", "detoxify")


@pytest.fixture(scope="module")
def definitions() -> dg.Definitions:
    return build_definitions(load_profile(HOME / "config" / "demo.yaml"))


def test_definitions_load_without_the_heavy_packages() -> None:
    code = (
        f"import jobs.definitions, sys; jobs.definitions.definitions(); print([m for m in {HEAVY} if m in sys.modules])"
    )

    told = subprocess.run([sys.executable, "-c", code], cwd=HOME, capture_output=True, text=True, check=True).stdout

    assert told.strip() == "[]"


def succeeds(*command: str, cwd: Path, home: Path) -> str:
    """What a command says that must end well."""
    environment = os.environ | {"DAGSTER_HOME": str(home)}
    told = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr
    return told.stdout


def test_the_workspace_loads_from_any_directory(tmp_path: Path) -> None:
    workspace = str(HOME / "workspace.yaml")

    succeeds(sys.executable, "-m", "dagster", "definitions", "validate", "-w", workspace, cwd=tmp_path, home=tmp_path)


def test_every_asset_explains_itself(definitions: dg.Definitions) -> None:
    for asset in definitions.assets or []:
        assert isinstance(asset, dg.AssetsDefinition)
        for spec in asset.specs:
            assert spec.description, spec.key
            assert spec.kinds, spec.key
            assert spec.group_name != "default", spec.key
            assert spec.code_version, spec.key


def test_tables_have_described_columns(definitions: dg.Definitions) -> None:
    metadata = definitions.resolve_asset_graph().get(dg.AssetKey("filtered_documents")).metadata
    schema = metadata["dagster/column_schema"]

    assert [column.name for column in schema.columns][:4] == ["doc_id", "source", "uri", "text"]
    assert all(column.description for column in schema.columns)


def test_parameters_are_part_of_the_code_version() -> None:
    profile = load_profile(HOME / "config" / "demo.yaml")
    changed = load_profile(HOME / "config" / "demo.yaml", ["filters.max_toxicity=0.5"])

    before, after = (
        {
            node.key.to_user_string(): node.code_version
            for node in build_definitions(p).resolve_asset_graph().asset_nodes
        }
        for p in (profile, changed)
    )

    assert {name for name in before if before[name] != after[name]} == {"filtered_documents"}


@pytest.mark.parametrize("command", [("check", "defs"), ("list", "defs", "--json")])
def test_dagsters_own_command_line_works_from_the_projects_root(tmp_path: Path, command: tuple[str, ...]) -> None:
    program = str(Path(sys.executable).with_name("dg"))

    told = succeeds(program, *command, cwd=HOME, home=tmp_path)

    assert ("definitions loaded" if "check" in command else '"asset_key": "filtered_documents"') in told


def test_every_asset_leads_to_the_code_that_makes_it(definitions: dg.Definitions) -> None:
    for node in definitions.resolve_asset_graph().asset_nodes:
        references = node.metadata["dagster/code_references"].code_references
        asset, *stages = [reference.label for reference in references]
        assert asset.startswith("assets/") and stages, node.key
        assert all(Path(reference.file_path).exists() for reference in references)


def test_every_asset_has_an_owner_and_the_section_that_steers_it(definitions: dg.Definitions) -> None:
    nodes = {node.key.to_user_string(): node for node in definitions.resolve_asset_graph().asset_nodes}

    assert all(node.owners == ["team:corpusmill"] for node in nodes.values())
    assert nodes["filtered_documents"].tags["corpusmill/section"] == "filters"
    assert [name for name, node in nodes.items() if "corpusmill/section" not in node.tags] == ["unique_documents"]
    assert {name for name, node in nodes.items() if node.pools == {"gpu"}} == {"pretrained_model"}
