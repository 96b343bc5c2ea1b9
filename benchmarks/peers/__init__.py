"""Deduplicators from PyPI, each in a virtual environment of its own below var/benchmarks, driven by a script of ours.

`python -m benchmarks.peers` makes the environments; `race.py` lets peers and us do the same work; `truth.py` says how
well it was done. A script takes INPUT OUTPUT LANGUAGE and is run by the peer's Python.
"""

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ENVIRONMENTS = ROOT / "var/benchmarks"
TIMEOUT_SECONDS = 1800


@dataclass(frozen=True)
class Peer:
    """One package at one version, which its name begins with. requirements: what pip installs, the package first.
    target: the ratio of times that we mean to reach."""

    name: str
    script: str
    requirements: tuple[str, ...]
    target: float
    tells_seconds: bool = False
    """Whether its script prints the seconds after imports, and nothing else."""
    options: tuple[str, ...] = ()
    """Further arguments of its script."""

    @property
    def folder(self) -> Path:
        """Its environment, which all of the same package and version share."""
        return ENVIRONMENTS / "-".join(self.name.split()[:2])

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin/python"

    @property
    def ready(self) -> bool:
        """Whether all requirements, at these versions, were installed."""
        return self._done.exists() and self._done.read_text(encoding="utf-8") == "\n".join(self.requirements)

    def install(self) -> None:
        """Make the environment, or make it again where the requirements have changed."""
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(self.folder)], check=True)
        pip = [str(self.python), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        subprocess.run([*pip, *self.requirements], check=True)
        self._done.write_text("\n".join(self.requirements), encoding="utf-8")

    def run(self, source: Path, target: Path, language: str) -> tuple[float, str]:
        """Deduplicate the Parquet folder source into target; wall seconds from the start of the process to its end, and
        what it printed."""
        command = [str(self.python), str(HERE / self.script), str(source), str(target), language, *self.options]
        return timed(command, target)

    @property
    def _done(self) -> Path:
        return self.folder / "installed.txt"


PEERS = (
    Peer("datatrove 0.10.1", "datatrove_script.py", ("datatrove[io,processing]==0.10.1", "spacy[ja]", "jieba"), 40),
    Peer("text-dedup 0.4.0", "text_dedup_script.py", ("text-dedup==0.4.0",), 12),
    Peer("rensa 0.5.0", "rensa_script.py", ("rensa==0.5.0", "pyarrow"), 4, tells_seconds=True),
    Peer(
        "rensa 0.5.0 in one process",
        "rensa_script.py",
        ("rensa==0.5.0", "pyarrow"),
        4,
        tells_seconds=True,
        options=("1",),
    ),
)

DATASETS = Peer("datasets 5.2.0", "datasets_tokens_script.py", ("datasets==5.2.0", "tokenizers"), 10)
"""No deduplicator: it tokenizes, as datatrove does, too (`benchmarks/tokens.py`)."""


def timed(command: list[str], folder: Path) -> tuple[float, str]:
    """Wall seconds of a process that runs in this folder, and what it printed.

    Raises `RuntimeError` with its last words when it fails.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    start = time.perf_counter()
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
    )
    seconds = time.perf_counter() - start
    if done.returncode:
        said = "\n".join(done.stderr.strip().splitlines()[-5:])
        raise RuntimeError(f"{' '.join(command[:3])} ended with {done.returncode}: {said}")
    return seconds, done.stdout
