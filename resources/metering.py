"""The meter as Dagster sees it: a resource for steps. The run's own share is metered by `executor.py`."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from multiprocessing import connection
from pathlib import Path

from pipelines.costs.ledger import Ledger
from pipelines.costs.meter import Meter
from pipelines.gpus import open_gpus
from pipelines.processes import ProcessIdentity, become_subreaper, pids_are_the_machines, process_identity
from pipelines.usage import UsageReader

GRACE_SECONDS = 3.5
"""From the request to stop until a step is killed, with all that it started. A trainer gets less, so its step can tell
what was used; a run that is cancelled in the UI has ended within five seconds."""

PROGRAMS = ("corpusmill", "command.py", "dg")
"""The command, as installed and as `python -m jobs.command`, and Dagster's, which runs a launch in its own process."""


def lock_owner() -> ProcessIdentity:
    """The process that holds the run lock for this step: the run's coordinator, or this one where there is none."""
    parent = multiprocessing.parent_process()
    if parent is not None and parent.pid is not None:
        return process_identity(parent.pid)
    return process_identity()


def serves_one_run() -> bool:
    """Whether this process exists for one step or one run, so that its start-up is part of the bill."""
    if multiprocessing.parent_process() is not None:
        return True
    return bool({"execute_run", "execute_step"} & set(sys.argv)) or Path(sys.argv[0]).name in PROGRAMS


def make_meter(ledger_url: str) -> Meter:
    """The meter of this process. A step's process ends with its coordinator from now on."""
    become_subreaper()
    if multiprocessing.parent_process() is not None:
        threading.Thread(target=_end_with_coordinator, daemon=True).start()
    return Meter(
        Ledger(ledger_url),
        UsageReader(open_gpus(pids_match=pids_are_the_machines())),
        whole_process=serves_one_run(),
    )


def _end_with_coordinator() -> None:
    """A step whose coordinator is gone is nobody's: interrupt it, and end the process if that does not help."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(GRACE_SECONDS)
    os._exit(1)
