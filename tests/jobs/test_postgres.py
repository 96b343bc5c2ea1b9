"""How a profile whose ledger is in Postgres chooses Dagster's storage. With a real server: test_database.py."""

import importlib.util
import os
from pathlib import Path

import pytest
import yaml

from jobs.environment import prepare_dagster_home
from pipelines.profile import ProfileError
from resources.settings import HOME
from tests.jobs.corpus import make_profile

URL = "postgresql://miller:s3cret@database.example/corpus"


@pytest.fixture(autouse=True)
def _environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    monkeypatch.setenv("CORPUSMILL_POSTGRES", "")  # so that it is as it was after the test
    monkeypatch.delenv("CORPUSMILL_POSTGRES")


@pytest.fixture
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec("dagster")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found)


def settings(file: Path) -> dict:
    return yaml.safe_load(file.read_text())


def test_the_settings_for_postgres_differ_from_the_others_in_the_storage_alone() -> None:
    postgres = settings(HOME / "deploy" / "dagster-postgres.yaml")

    assert postgres.pop("storage")["custom"]["config"] == {"postgres_url": {"env": "CORPUSMILL_POSTGRES"}}
    assert postgres == settings(HOME / "deploy" / "dagster.yaml")


@pytest.mark.usefixtures("_installed")
def test_a_postgres_ledger_is_enough_to_have_dagster_there_too(tmp_path: Path) -> None:
    home = prepare_dagster_home(make_profile(tmp_path, ledger=URL))

    assert settings(home / "dagster.yaml") == settings(HOME / "deploy" / "dagster-postgres.yaml")
    assert os.environ["CORPUSMILL_POSTGRES"] == URL
    assert "s3cret" not in (home / "dagster.yaml").read_text()


@pytest.mark.usefixtures("_installed")
def test_dagster_may_have_another_database_than_the_ledger(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("CORPUSMILL_POSTGRES", "postgresql://dagster@elsewhere/dagster")

    prepare_dagster_home(make_profile(tmp_path, ledger=URL))

    assert os.environ["CORPUSMILL_POSTGRES"] == "postgresql://dagster@elsewhere/dagster"


def test_a_ledger_in_a_file_has_dagster_in_files(tmp_path: Path) -> None:
    home = prepare_dagster_home(make_profile(tmp_path))

    assert settings(home / "dagster.yaml") == settings(HOME / "deploy" / "dagster.yaml")
    assert "CORPUSMILL_POSTGRES" not in os.environ


def test_what_is_not_installed_is_named(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)

    with pytest.raises(ProfileError, match=r"needs dagster-postgres .*pip install -e '\.\[postgres\]'"):
        prepare_dagster_home(make_profile(tmp_path, ledger=URL))
