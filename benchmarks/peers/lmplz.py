"""lmplz, KenLM's trainer of n-gram models, built from the sources that kenlm's package on PyPI carries; and ours, each
as a process of its own, with the same text, settings and memory.

`python -m benchmarks.peers` builds it, where cmake, a C++ compiler and Boost are.
"""

import json
import shutil
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers import ENVIRONMENTS, ROOT, timed

VERSION = "0.3.0"
NAME = f"lmplz of kenlm {VERSION}"
PROGRAM = ENVIRONMENTS / f"kenlm-{VERSION}/build/bin/lmplz"
SETTINGS = ("--order", "5", "--prune", "0", "0", "1", "--discount_fallback")
"""As the stage trains: n-grams of three and more words that were seen once are left out."""

_MEASURED = """
import json, resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, capture_output=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps({"cpu_seconds": used.ru_utime + used.ru_stime, "megabytes": used.ru_maxrss * 1024 / 1e6}))
"""
"""Run from a small process: the peak of a program counts from what the process that started it held."""


@dataclass(frozen=True)
class Training:
    """What training took. megabytes: peak of memory, 10^6 bytes; of ours, beyond what it held before it began."""

    cpu_seconds: float
    megabytes: float


def build() -> None:
    """Fetch the sources and build the program. Raises `RuntimeError` that says what is missing."""
    if PROGRAM.exists():
        return
    if not shutil.which("cmake"):
        raise RuntimeError("it needs cmake, a C++ compiler and Boost (apt-get install cmake g++ libboost-all-dev)")
    ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
    fetch = [sys.executable, "-m", "pip", "download", "-qq", "--disable-pip-version-check", "--no-deps"]
    done(*fetch, "--no-binary", "kenlm", "-d", str(ENVIRONMENTS), f"kenlm=={VERSION}")
    with tarfile.open(ENVIRONMENTS / f"kenlm-{VERSION}.tar.gz") as sources:
        sources.extractall(ENVIRONMENTS, filter="data")
    folder = PROGRAM.parents[1]
    done("cmake", "-S", str(folder.parent), "-B", str(folder), "-DCMAKE_BUILD_TYPE=Release")
    done("cmake", "--build", str(folder), "--target", "lmplz", "--parallel")


def theirs(text: Path, arpa: Path, megabytes: int) -> Training:
    """Have lmplz train on a file, a document per line, of words that are cut, and write an ARPA file."""
    command = [str(PROGRAM), *SETTINGS, "-S", f"{megabytes}M", "-T", str(arpa.parent), "--text", str(text)]
    return Training(**json.loads(done(sys.executable, "-c", _MEASURED, *command, "--arpa", str(arpa))))


def ours(text: Path, folder: Path, megabytes: int) -> Training:
    """Train ours on the same file, and leave the model's files in a folder."""
    command = [sys.executable, "-m", "benchmarks.peers.training_script", str(text), str(folder), str(megabytes)]
    return Training(**json.loads(done(*command)))


def done(*command: str) -> str:
    """What a program prints. Raises as `timed` does."""
    return timed(list(command), ROOT)[1]
