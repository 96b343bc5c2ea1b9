"""`make ui`: Dagster's webserver and daemon on the command's own instance, on loopback only."""

import argparse
import os
import signal
import sys
from pathlib import Path

from jobs.environment import PROFILE_VARIABLE, chosen_profile, prepare_dagster_home
from resources.settings import HOME


def main() -> None:
    """Replace this process by Dagster's."""
    parser = argparse.ArgumentParser(prog="python -m jobs.ui", description=__doc__)
    parser.add_argument("--port", type=int, default=3000, help="port on 127.0.0.1")
    port = parser.parse_args().port
    if os.environ.get(PROFILE_VARIABLE):  # Dagster's processes may work in other folders
        os.environ[PROFILE_VARIABLE] = str(Path(os.environ[PROFILE_VARIABLE]).resolve())
    prepare_dagster_home(chosen_profile())
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background jobs begin deaf to it
    print(f"Dagster opens at http://127.0.0.1:{port} (Ctrl-C ends it)", flush=True)
    arguments = ["dev", "--workspace", str(HOME / "workspace.yaml"), "--host", "127.0.0.1", "--port", str(port)]
    arguments += ["--log-level", "warning"]
    os.execv(sys.executable, [sys.executable, "-m", "dagster", *arguments])


if __name__ == "__main__":
    main()
