"""What a process of ours is told by its environment: the profile, its overrides, Dagster's home. Read here only."""

import json
import os
import shutil
import warnings
from pathlib import Path

import dagster as dg

from resources.settings import HOME, Profile, load_profile

PROFILE_VARIABLE, SET_VARIABLE = "CORPUSMILL_PROFILE", "CORPUSMILL_SET"


def chosen_profile() -> Profile:
    """The profile that `CORPUSMILL_PROFILE` names (by default the demo's), with the overrides of `CORPUSMILL_SET`.

    `CORPUSMILL_SET` is a JSON list of 'section.key=value', as `corpusmill run --set` exports it.
    """
    for category in (dg.BetaWarning, dg.PreviewWarning):  # range runs and Pipes sessions, which our tests cover
        warnings.filterwarnings("ignore", category=category)
    path = Path(os.environ.get(PROFILE_VARIABLE) or HOME / "config" / "demo.yaml")
    return load_profile(path, json.loads(os.environ.get(SET_VARIABLE) or "[]"))


def prepare_dagster_home(profile: Profile) -> Path:
    """One absolute DAGSTER_HOME for command and UI, with the shipped settings where it has none of its own.

    It lies beside the profile's ledger where that is a file, so that the runs of two profiles do not mix.
    """
    beside = Path(profile.ledger_url.removeprefix("sqlite:///")).parent
    default = beside / "dagster" if profile.ledger_url.startswith("sqlite:///") else HOME / "var" / profile.name
    home = Path(os.environ.setdefault("DAGSTER_HOME", str(default)))
    home.mkdir(parents=True, exist_ok=True)
    if not (home / "dagster.yaml").exists():
        shutil.copyfile(HOME / "deploy" / "dagster.yaml", home / "dagster.yaml")
    return home
