"""Dagster's home: shipped settings are kept fresh there, edited ones are left alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from jobs import environment
from jobs.environment import chosen_profile, prepare_dagster_home
from pipelines.profile import ProfileError
from resources.settings import HOME, Profile
from tests.jobs.corpus import make_profile


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Profile:
    """A profile in a home of its own, and shipped settings that a test may change."""
    monkeypatch.setenv("DAGSTER_HOME", "")  # so that what is set is forgotten after the test
    monkeypatch.delenv("DAGSTER_HOME")
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    monkeypatch.setattr(environment, "HOME", tmp_path)
    return make_profile(tmp_path)


def test_settings_are_refreshed_as_long_as_nobody_has_edited_them(profile: Profile, tmp_path: Path) -> None:
    settings = prepare_dagster_home(profile) / "dagster.yaml"
    assert settings.parent == tmp_path / "dagster"
    assert yaml.safe_load(settings.read_text()) == {"telemetry": {"enabled": False}}

    (tmp_path / "deploy" / "dagster.yaml").write_text("nux:\n  enabled: false\n")
    prepare_dagster_home(profile)
    assert yaml.safe_load(settings.read_text()) == {"nux": {"enabled": False}}

    with settings.open("a") as file:
        file.write("telemetry:\n  enabled: true\n")
    edited = settings.read_text()
    (tmp_path / "deploy" / "dagster.yaml").write_text("nux:\n  enabled: true\n")
    prepare_dagster_home(profile)
    assert settings.read_text() == edited
    assert [file.name for file in settings.parent.glob("dagster.yaml*")] == ["dagster.yaml"]


def test_settings_of_the_user_are_never_overwritten(profile: Profile, tmp_path: Path) -> None:
    settings = tmp_path / "dagster" / "dagster.yaml"
    settings.parent.mkdir()
    settings.write_text("# mine\ntelemetry:\n  enabled: true\n")

    prepare_dagster_home(profile)

    assert settings.read_text().startswith("# mine")


def test_the_shipped_settings_are_what_dagster_reads(tmp_path: Path) -> None:
    from dagster._core.instance.config import dagster_instance_config

    (tmp_path / "dagster.yaml").write_text((HOME / "deploy" / "dagster.yaml").read_text())

    config, _ = dagster_instance_config(str(tmp_path))

    assert config["concurrency"]["runs"]["max_concurrent_runs"] == 1
    assert config["run_launcher"]["class"] == "LocalRunLauncher"
    assert config["run_retries"] == {"enabled": True, "max_retries": 2, "retry_on_asset_or_op_failure": False}


def test_several_first_commands_at_once_share_one_home(tmp_path: Path) -> None:
    make_profile(tmp_path)
    code = "from jobs.environment import *; prepare_dagster_home(chosen_profile())"
    home = {
        "CORPUSMILL_PROFILE": str(tmp_path / "profile.yaml"),
        "DAGSTER_HOME": str(tmp_path / "home"),
    }
    started = [
        subprocess.Popen([sys.executable, "-c", code], cwd=HOME, env=os.environ | home, stderr=subprocess.PIPE)
        for _ in range(4)
    ]

    told = [process.communicate()[1].decode() for process in started]

    assert [process.returncode for process in started] == [0] * 4, told


@pytest.mark.parametrize("home", ["a file", "a file/below"])
def test_a_home_that_cannot_be_used_is_told_in_a_sentence(
    profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    (tmp_path / "a file").write_text("")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / home))

    with pytest.raises(ProfileError, match=r"DAGSTER_HOME .* cannot be used .* set DAGSTER_HOME to another folder"):
        prepare_dagster_home(profile)


def test_overrides_in_the_environment_must_be_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORPUSMILL_SET", "{garbage")

    with pytest.raises(ProfileError, match="CORPUSMILL_SET must be a JSON list"):
        chosen_profile()
