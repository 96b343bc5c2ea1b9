"""Dagster's run launcher, told which process works on a run: `dagster.yaml` names it.

Dagster's own forgets that once the code server that started the process is gone, or the machine was: such a run would
be at work for ever, and nobody could cancel it. What a run's process does is `resources/executor.py`.
"""

import json
import os
import signal
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import dagster as dg
from dagster._core.launcher import CheckRunHealthResult, DefaultRunLauncher, WorkerStatus

from pipelines.processes import ProcessIdentity, is_alive, process_identity

WORKER_TAG = ".dagster/corpusmill_worker"
"""Run tag, hidden in the UI: run id and identity of the process that works on the run, JSON."""


def note_worker(instance: dg.DagsterInstance, run_id: str) -> None:
    """Note that this process works on a run."""
    instance.add_run_tags(run_id, {WORKER_TAG: json.dumps({"run": run_id, **asdict(process_identity())})})


def worker_of(run: dg.DagsterRun) -> ProcessIdentity | None:
    """The process that works on a run, None as long as it has not said so."""
    noted = json.loads(run.tags.get(WORKER_TAG, "{}"))
    if noted.pop("run", None) != run.run_id:  # a retry begins with the tags of the run before
        return None
    return ProcessIdentity(**noted)


class LocalRunLauncher(DefaultRunLauncher):
    """Launches runs as Dagster does, notices when the process of a run is gone, and ends any that lives."""

    @property
    def supports_check_run_worker_health(self) -> bool:
        """True: Dagster asks about the process of every run that is at work."""
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Whether the process of a run lives. One that can't be seen from here counts as alive."""
        worker = worker_of(run)
        if worker is not None and is_alive(worker) is False:
            return CheckRunHealthResult(WorkerStatus.FAILED, f"its process {worker.pid} is gone")
        return CheckRunHealthResult(WorkerStatus.RUNNING)

    def terminate(self, run_id: str) -> Any:
        """Ask the process of a run to end: that of `corpusmill run`, too. Returns whether it has been asked."""
        run = self._instance.get_run_by_id(run_id)
        worker = worker_of(run) if run is not None and not run.is_finished else None
        if run is None or worker is None or not is_alive(worker):
            return super().terminate(run_id)
        self._instance.report_run_canceling(run)
        with suppress(ProcessLookupError):  # it has just ended by itself
            os.kill(worker.pid, signal.SIGINT)
        return True
