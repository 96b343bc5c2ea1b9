"""`make ui`: Dagster's webserver and daemon on the command's own instance, on loopback only."""

import argparse
import os
import sys

from jobs.environment import prepare_dagster_home
from resources.settings import HOME


def main() -> None:
    """Replace this process by Dagster's."""
    parser = argparse.ArgumentParser(prog="python -m jobs.ui", description=__doc__)
    parser.add_argument("--port", type=int, default=3000, help="port on 127.0.0.1")
    port = parser.parse_args().port
    prepare_dagster_home()
    print(f"Dagster opens at http://127.0.0.1:{port} (Ctrl-C ends it)", flush=True)
    arguments = ["dev", "--workspace", str(HOME / "workspace.yaml"), "--host", "127.0.0.1", "--port", str(port)]
    os.execv(sys.executable, [sys.executable, "-m", "dagster", *arguments])


if __name__ == "__main__":
    main()
