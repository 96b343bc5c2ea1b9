"""Dagster's daemon, which goes on with a backfill every two seconds instead of every thirty."""

from dagster._daemon import controller
from dagster._daemon.cli import main

if __name__ == "__main__":
    controller.DEFAULT_DAEMON_INTERVAL_SECONDS = 2
    main()
