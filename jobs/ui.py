"""`make ui`: Dagster's webserver and daemon on the command's own instance, on loopback only."""

import argparse
import os
import signal
import sys
from pathlib import Path

from jobs.environment import PROFILE_VARIABLE, chosen_profile, prepare_dagster_home
from resources.settings import HOME

SUPERSEDED = "ignore:Function `dev_command` is superseded"
"""Dagster says that `dg dev` has come; it starts the same services."""


def main() -> None:
    """Replace this process by Dagster's."""
    parser = argparse.ArgumentParser(prog="python -m jobs.ui", description=__doc__)
    parser.add_argument("--port", type=int, default=3000, help="port on 127.0.0.1")
    parser.add_argument(
        "--read-only",
        action="store_true",
        help="only a webserver, for viewers: it can launch, cancel and change nothing",
    )
    options = parser.parse_args()
    if os.environ.get(PROFILE_VARIABLE):  # Dagster's processes may work in other folders
        os.environ[PROFILE_VARIABLE] = str(Path(os.environ[PROFILE_VARIABLE]).resolve())
    prepare_dagster_home(chosen_profile())
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background jobs begin deaf to it
    what = "Dagster, read-only," if options.read_only else "Dagster"
    print(f"{what} opens at http://127.0.0.1:{options.port} (Ctrl-C ends it)", flush=True)
    address = ["--workspace", str(HOME / "workspace.yaml"), "--host", "127.0.0.1", "--port", str(options.port)]
    if options.read_only:
        command = ["-m", "dagster_webserver", "--read-only", "--code-server-log-level", "warning", *address]
    else:
        command = ["-W", SUPERSEDED, "-m", "dagster", "dev", "--log-level", "warning", *address]
    os.execv(sys.executable, [sys.executable, *command])


if __name__ == "__main__":
    main()
