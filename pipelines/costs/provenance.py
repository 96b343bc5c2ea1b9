"""What a run began with: the profile, the installed packages, Python, and the state of the project's checkout.

`Ledger.open_run` keeps it, once a run; `jobs/reproduce.py` tells it and works with it. Nothing here holds a password.
"""

import platform
import re
import subprocess
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml

from pipelines.profile import Params

PROJECT = "corpusmill"
HOME = Path(__file__).resolve().parents[2]
"""The project's folder, which may be a git checkout."""

GIT_SECONDS = 5.0
"""A git that takes longer is not waited for."""

MASK = "***"
_CREDENTIALS = re.compile(r"(://[^:/@\s]*:)\S*@")
_SECRET_ARGUMENT = re.compile(r"([?&](?:password|passwd|pwd|secret|token|api_?key|access_?key)=)[^&\s]*", re.IGNORECASE)
_SECRET_KEY = re.compile(r"(password|passwd|secret|api_?key|access_?key|webhook|(^|_)token$)", re.IGNORECASE)
_HEADER = re.compile(r"^(Name|Version):[ \t]*(\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Beginning:
    """What a run began with.

    profile: YAML, passwords masked. lock: every installed package, a line 'name==version' each, sorted. commit, dirty:
    of the project's git checkout (dirty: tracked files differ from the commit); None where there is none, or no git.
    """

    profile: str
    lock: str
    corpusmill: str
    commit: str | None
    dirty: bool | None
    python: str
    platform: str

    @property
    def packages(self) -> dict[str, str]:
        """Version of every package, by name."""
        return dict(line.split("==", 1) for line in self.lock.splitlines())

    @property
    def code(self) -> str:
        """The project's code, in words."""
        if self.commit is None:
            return f"{PROJECT} {self.corpusmill}, not a git checkout"
        return f"{PROJECT} {self.corpusmill}, git commit {self.commit}" + (" with local changes" if self.dirty else "")

    @property
    def requirements(self) -> str:
        """The lock as a file for `pip install -r`; the project itself, which no index has, stands in a comment."""
        packages = "".join(line for line in self.lock.splitlines(True) if not line.startswith(f"{PROJECT}=="))
        return f"# Python {self.python} on {self.platform}\n# {self.code}\n{packages}"


def observe(profile: Params) -> Beginning:
    """What a run that begins now begins with. Takes some 30 ms, most of them to read the packages' metadata."""
    packages = installed()
    commit, dirty = checkout(HOME)
    return Beginning(
        profile=yaml.safe_dump(masked(profile.model_dump(mode="json")), sort_keys=False, allow_unicode=True),
        lock="".join(f"{name}=={version}\n" for name, version in packages.items()),
        corpusmill=packages.get(PROJECT, "not installed"),
        commit=commit,
        dirty=dirty,
        python=platform.python_version(),
        platform=platform.platform(),
    )


def installed() -> dict[str, str]:
    """Version of every installed package by name, sorted. Of several of one name, that which is imported."""
    found: dict[str, tuple[str, str]] = {}
    for package in metadata.distributions():
        # Parsing the whole message, as `package.metadata` does, takes five times as long.
        text = package.read_text("METADATA") or package.read_text("PKG-INFO") or ""
        header = dict(_HEADER.findall(text.partition("\n\n")[0]))
        if {"Name", "Version"} <= header.keys():
            key = re.sub(r"[-_.]+", "-", header["Name"]).lower()
            found.setdefault(key, (header["Name"], header["Version"]))
    return dict(found[key] for key in sorted(found))


def checkout(folder: Path) -> tuple[str | None, bool | None]:
    """(commit, whether tracked files differ from it) of a folder; None where it is no git checkout of its own."""
    if not (folder / ".git").exists():
        return None, None
    command = ["git", "-C", str(folder), "status", "--porcelain=v2", "--branch", "--untracked-files=no"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=GIT_SECONDS, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None, None
    lines = told.splitlines()
    commits = [line.removeprefix("# branch.oid ") for line in lines if line.startswith("# branch.oid ")]
    if not commits or commits[0] == "(initial)":
        return None, None
    return commits[0], any(not line.startswith("#") for line in lines)


def masked(value: Any, key: str = "") -> Any:
    """The same JSON value without passwords: those of URLs, and texts whose key says that they are secret."""
    if isinstance(value, dict):
        return {name: masked(below, name) for name, below in value.items()}
    if isinstance(value, list):
        return [masked(below, key) for below in value]
    if not isinstance(value, str):
        return value
    if value and _SECRET_KEY.search(key):
        return MASK
    return _SECRET_ARGUMENT.sub(rf"\1{MASK}", _CREDENTIALS.sub(rf"\1{MASK}@", value))
