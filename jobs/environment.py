"""What a process of ours is told by its environment: the profile, its overrides, Dagster's home. Read here only."""

import fcntl
import importlib.util
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import dagster as dg

from pipelines.profile import ProfileError
from pipelines.store import digest
from resources.settings import HOME, Profile, load_profile

PROFILE_VARIABLE, SET_VARIABLE = "CORPUSMILL_PROFILE", "CORPUSMILL_SET"
PASSWORD_VARIABLE = "CORPUSMILL_SMTP_PASSWORD"
POSTGRES_VARIABLE = "CORPUSMILL_POSTGRES"
"""Where Dagster's own storage is, for `deploy/dagster-postgres.yaml`: its processes inherit it, no file holds it."""

SQLITE = "dagster.yaml"
PREPARED = ".corpusmill"
"""File of a DAGSTER_HOME that is locked while it is prepared, and says when that was done."""

FIRST_SETTINGS = "de831eee78a7a9ae77e68bf66ccd616d8ea298999fe41c2ef3e637992cb2dd3c"
"""Digest of the `dagster.yaml` that was written before its first line said whose it is."""


def chosen_profile() -> Profile:
    """The profile that `CORPUSMILL_PROFILE` names (by default the demo's), with the overrides of `CORPUSMILL_SET`.

    `CORPUSMILL_SET` is a JSON list of 'section.key=value', as `corpusmill run --set` exports it.
    """
    for category in (dg.BetaWarning, dg.PreviewWarning):  # range runs and Pipes sessions, which our tests cover
        warnings.filterwarnings("ignore", category=category)
    path = Path(os.environ.get(PROFILE_VARIABLE) or HOME / "config" / "demo.yaml")
    return load_profile(path, chosen_overrides())


def chosen_overrides() -> list[str]:
    """The overrides of `CORPUSMILL_SET`, 'section.key=value' each. Raises `ProfileError` where it is no list."""
    try:
        return list(map(str, json.loads(os.environ.get(SET_VARIABLE) or "[]")))
    except (ValueError, TypeError):
        raise ProfileError(f"{SET_VARIABLE} must be a JSON list such as '[\"dedup.threshold=0.8\"]'") from None


def smtp_password() -> str | None:
    """The password of the profile's e-mail user, which stands nowhere but in the environment."""
    return os.environ.get(PASSWORD_VARIABLE)


def prepare_dagster_home(profile: Profile) -> Path:
    """One absolute DAGSTER_HOME for command and UI, with the shipped settings where it has none of its own.

    It lies beside the profile's ledger where that is a file, so that the runs of two profiles do not mix. Where the
    ledger is in Postgres, so is what Dagster stores, in the same database unless `CORPUSMILL_POSTGRES` names another.
    Raises `ProfileError` where it cannot be made or written.
    """
    beside = Path(profile.ledger_url.removeprefix("sqlite:///")).parent
    default = beside / "dagster" if profile.ledger_url.startswith("sqlite:///") else HOME / "var" / profile.name
    home = Path(os.environ.get("DAGSTER_HOME") or default).resolve()
    os.environ["DAGSTER_HOME"] = str(home)
    shipped = SQLITE
    if profile.ledger_url.startswith("postgres"):
        if importlib.util.find_spec("dagster_postgres") is None:
            raise ProfileError(
                "ledger: Dagster needs dagster-postgres for a Postgres URL; install it: pip install -e '.[postgres]'"
            )
        os.environ.setdefault(POSTGRES_VARIABLE, profile.ledger_url)
        shipped = "dagster-postgres.yaml"
    try:
        home.mkdir(parents=True, exist_ok=True)
        with (home / PREPARED).open("a+") as prepared:
            fcntl.flock(prepared, fcntl.LOCK_EX)
            _refresh(home / "dagster.yaml", (HOME / "deploy" / shipped).read_text())
            prepared.seek(0)
            if shipped == SQLITE and not prepared.read():
                _make_storage()
                prepared.write("Dagster's storage has been made.\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ProfileError(
            f"DAGSTER_HOME {home} cannot be used ({error}); make room or set DAGSTER_HOME to another folder"
        ) from None
    return home


def _make_storage() -> None:
    """Have Dagster make its SQLite files, in a process of its own: two that make them at once would ruin them."""
    made = subprocess.run([sys.executable, "-m", "dagster", "instance", "info"], capture_output=True, text=True)
    if made.returncode:
        *_, last = made.stderr.strip().splitlines() or ["no reason given"]
        raise OSError(f"Dagster cannot make its storage there: {last}")


def _refresh(settings: Path, shipped: str) -> None:
    """Write the shipped settings, unless there are some that somebody has edited."""
    if settings.exists():
        present = settings.read_text()
        first, _, rest = present.partition("\n")
        if not first.startswith(_mark(rest)) and digest(present) != FIRST_SETTINGS:
            return
    content = f"{_mark(shipped)}: refreshed after an update of corpusmill, until somebody edits it.\n{shipped}"
    if settings.exists() and settings.read_text() == content:
        return
    fresh = settings.with_name(f"{settings.name}.{os.getpid()}")
    try:
        fresh.write_text(content)
        fresh.replace(settings)  # other processes may read it meanwhile
    finally:
        fresh.unlink(missing_ok=True)


def _mark(settings: str) -> str:
    """How the first line of a file begins that holds these settings as corpusmill wrote them."""
    return f"# corpusmill {digest(settings)[:20]}"
