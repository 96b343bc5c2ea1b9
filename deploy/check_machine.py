"""Checks before anything is installed: Python, disk, network, port; one sentence for each that fails.

Runs on the system's Python, so it imports nothing but the standard library.
"""

import argparse
import shutil
import socket
import subprocess
import sys
import sysconfig
from pathlib import Path

MINIMUM_PYTHON = (3, 11)
DOWNLOAD_MEGABYTES = 700
INSTALLED_GIGABYTES = 2.5
NEEDED_GIGABYTES = 5.0

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Print what fails; returns 1 if anything does."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--install", action="store_true", help="check what an installation needs, and announce it")
    parser.add_argument("--port", type=int, help="check that this port is free")
    options = parser.parse_args()
    problems = [platform_problem(), python_problem()]
    if options.install:
        problems += [disk_problem(), venv_problem(), network_problem()]
    if options.port is not None:
        problems.append(port_problem(options.port))
    told = [problem for problem in problems if problem]
    for problem in told:
        print(problem, file=sys.stderr)
    if not told and options.install:
        print(
            f"Installing into .venv: {DOWNLOAD_MEGABYTES} MB of packages to download, {INSTALLED_GIGABYTES} GB on "
            "disk (with PyTorch's CPU wheel; its CUDA build adds 3 GB: see the README). "
            "Nothing else is downloaded, now or later."
        )
    return 1 if told else 0


def platform_problem(platform: str = sys.platform) -> str | None:
    """A sentence where the meter cannot count; a note on standard output where it counts less."""
    if platform == "darwin":
        print("On macOS the meter sees live child processes through psutil and counts no I/O; on Linux it is exact.")
    elif platform != "linux":
        return f"corpusmill meters processes as Linux and macOS count them and does not run on {platform}; use WSL."
    return None


def python_problem() -> str | None:
    """A sentence if this Python is too old."""
    if sys.version_info < MINIMUM_PYTHON:
        found = ".".join(map(str, sys.version_info[:3]))
        return f"Python 3.11 or newer is needed, this is {found}; try `make PYTHON=python3.11 demo`."
    return None


def disk_problem(free_bytes: int | None = None) -> str | None:
    """A sentence if there is too little room beside the project."""
    free = shutil.disk_usage(ROOT).free if free_bytes is None else free_bytes
    if free < NEEDED_GIGABYTES * 1e9:
        return f"{NEEDED_GIGABYTES:.0f} GB of free disk are needed for packages and data; {free / 1e9:.1f} are free."
    return None


def venv_problem() -> str | None:
    """A sentence if virtual environments or the C headers that some packages compile against are missing."""
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        return "This Python cannot make virtual environments; on Debian and Ubuntu install the package python3-venv."
    if not sysconfig.get_paths().get("include"):
        return "This Python has no include folder; install its development package (python3-dev)."
    return None


def network_problem() -> str | None:
    """A sentence if pip cannot reach its package index."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--retries", "1", "--timeout", "20", "--dest", str(ROOT / "var" / "check"), "six==1.16.0"]
    try:
        outcome = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    except subprocess.TimeoutExpired:
        return (
            "pip does not get an answer from its package index; check the network, or pip's proxy and index settings."
        )
    finally:
        shutil.rmtree(ROOT / "var" / "check", ignore_errors=True)
    if outcome.returncode:
        last = (outcome.stderr.strip().splitlines() or ["no reason given"])[-1]
        return f"pip cannot download packages ({last}); check the network, or pip's proxy and index settings."
    return None


def port_problem(port: int) -> str | None:
    """A sentence if something listens on the port already."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return f"Port {port} is in use; choose another: `make ui PORT={port + 1}`."
    return None


if __name__ == "__main__":
    sys.exit(main())
