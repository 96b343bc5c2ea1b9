"""The meter as Dagster sees it: a resource for steps, and the executor whose own use is the run's overhead."""

import atexit
import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import connection, forkserver, resource_tracker, synchronize
from pathlib import Path
from typing import Any

import dagster as dg
import psutil
from dagster._core.errors import DagsterExecutionInterruptedError, DagsterSubprocessError
from dagster._core.execution.retries import RetryMode
from dagster._core.executor.multiprocess import MultiprocessExecutor
from dagster._core.storage.tags import MAX_RETRIES_TAG

from pipelines.costs.ledger import RUN_LOCK, Busy, Ledger
from pipelines.costs.meter import Meter
from pipelines.gpus import open_gpus
from pipelines.processes import ProcessIdentity, become_subreaper, pids_are_the_machines, process_identity
from pipelines.training.owner import GRACE_SECONDS as TRAINER_GRACE_SECONDS
from pipelines.usage import UsageReader
from resources.run_launcher import note_worker

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


class MeteredExecutor(MultiprocessExecutor):
    """Each step in a process of its own, one at a time (engines fill the cores); the rest is overhead of the run."""

    def __init__(self, ledger_url: str) -> None:
        super().__init__(
            retries=RetryMode.ENABLED,
            max_concurrent=1,
            # Steps fork from one process that has loaded the definitions: two seconds less for each of them.
            start_method="forkserver",
            explicit_forkserver_preload=[
                "jobs.definitions",
                "dagster._core.executor.multiprocess",
                "resources.frozen",
            ],
        )
        self._ledger_url = ledger_url

    def execute(self, plan_context: Any, execution_plan: Any) -> Iterator[Any]:
        run = plan_context.dagster_run
        root_run = run.root_run_id or run.run_id
        become_subreaper()
        alone = serves_one_run()
        if alone:
            # A last look through all objects is a second of work after the meter has closed, for nothing.
            atexit.register(gc.freeze)
        ledger = Ledger(self._ledger_url)
        meter = Meter(ledger, UsageReader(), whole_process=alone)
        note_worker(plan_context.instance, run.run_id)
        with meter.coordinator(root_run=root_run, run=run.run_id, job=run.job_name):
            try:
                ledger.take_lock(RUN_LOCK, root_run, process_identity())
            except Busy:
                plan_context.instance.add_run_tags(run.run_id, {MAX_RETRIES_TAG: "0"})  # it would be refused again
                raise
            deadline = threading.Timer(GRACE_SECONDS, _kill_steps)
            deadline.daemon = True
            multiprocessing.get_context("forkserver").Event = _event  # type: ignore[method-assign]
            cancelled = False
            try:
                for event in super().execute(plan_context, execution_plan):
                    if _tells_steps_to_end(event) and not cancelled:
                        deadline.start()
                        cancelled = True
                    yield event
            except DagsterSubprocessError:
                if not cancelled:
                    raise
                raise DagsterExecutionInterruptedError from None  # a step was killed because it had to end
            finally:
                _wait_for_the_rest(alone=alone)
                deadline.cancel()
                ledger.release_lock(RUN_LOCK, root_run)


class _Request(synchronize.Event):
    """Asks a step to end. `set` does not wait until the step has heard of it: some never do."""

    def set(self) -> None:
        threading.Thread(target=super().set, daemon=True).start()


def _event() -> _Request:
    return _Request(ctx=multiprocessing.get_context("forkserver"))


def _tells_steps_to_end(event: dg.DagsterEvent) -> bool:
    return event.is_engine_event and "steps_interrupted" in event.engine_event_data.metadata


def _kill_steps() -> None:
    """Kill every process below this one but Python's own helpers, which end with it."""
    helpers = {
        forkserver._forkserver._forkserver_pid,  # type: ignore[attr-defined]
        resource_tracker._resource_tracker._pid,  # type: ignore[attr-defined]
    }
    for process in psutil.Process().children(recursive=True):
        if process.pid not in helpers:
            with suppress(psutil.Error):
                process.kill()


def _wait_for_the_rest(*, alone: bool) -> None:
    """Wait until the fork server and what the steps left behind have ended: what they still use is the run's overhead.

    A trainer whose step was killed saves its state first; until then nobody else may work in its folder.
    alone: all children of this process belong to the run.
    """
    forkserver._forkserver._stop()  # type: ignore[attr-defined]
    if alone:
        tracker = resource_tracker._resource_tracker._pid  # type: ignore[attr-defined]
        orphans = [child for child in psutil.Process().children() if child.pid != tracker]
        psutil.wait_procs(orphans, timeout=TRAINER_GRACE_SECONDS + GRACE_SECONDS)


def metered_executor(ledger_url: str) -> dg.ExecutorDefinition:
    """The executor of every job of a profile."""

    @dg.executor(
        name="metered",
        requirements=dg.multiple_process_executor_requirements(),
    )
    def metered(_: Any) -> MeteredExecutor:
        return MeteredExecutor(ledger_url)

    return metered
