"""The executor of every run: steps one after another, each in a process of its own; the rest is the run's overhead."""

import atexit
import gc
import multiprocessing
import threading
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import forkserver, resource_tracker, synchronize
from pathlib import Path
from typing import Any

import dagster as dg
import psutil
from dagster._core.errors import DagsterExecutionInterruptedError, DagsterSubprocessError
from dagster._core.events import EngineEventData
from dagster._core.execution.retries import RetryMode
from dagster._core.executor.multiprocess import MultiprocessExecutor
from dagster._core.storage.tags import MAX_RETRIES_TAG

from pipelines.costs.account import Account
from pipelines.costs.ledger import RUN_LOCK, Busy, Ledger
from pipelines.costs.meter import Meter
from pipelines.costs.report import dollars
from pipelines.engines.local import PRELOAD
from pipelines.prices.book import PriceError, load_book
from pipelines.processes import become_subreaper, process_identity
from pipelines.training.owner import GRACE_SECONDS as TRAINER_GRACE_SECONDS
from pipelines.usage import UsageReader
from resources.datasets import needs_sources, run_partitions
from resources.metering import GRACE_SECONDS, serves_one_run
from resources.run_launcher import note_worker


class MeteredExecutor(MultiprocessExecutor):
    """Each step in a process of its own, one at a time (engines fill the cores); the rest is overhead of the run."""

    def __init__(self, ledger_url: str, prices: Path) -> None:
        super().__init__(
            retries=RetryMode.ENABLED,
            max_concurrent=1,
            # Steps fork from one process that has loaded the definitions: two seconds less for each of them.
            start_method="forkserver",
            explicit_forkserver_preload=[
                "jobs.definitions",
                "dagster._core.executor.multiprocess",
                PRELOAD,
                "resources.frozen",
            ],
        )
        self._ledger_url, self._prices = ledger_url, prices

    def execute(self, plan_context: Any, execution_plan: Any) -> Iterator[Any]:
        run = plan_context.dagster_run
        _refuse_without_sources(plan_context, execution_plan)
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
                _never_again(plan_context)
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
        told = run_cost(ledger, self._prices, run.run_id)
        yield dg.DagsterEvent.engine_event(plan_context, told, EngineEventData())


def _refuse_without_sources(plan_context: Any, execution_plan: Any) -> None:
    """Fail at once where a step works on sources and the run does not say which: Dagster's own words are no help."""
    if run_partitions(plan_context.dagster_run.tags):
        return
    layer = plan_context.job.get_definition().asset_layer
    chosen = {key.split("[")[0] for key in execution_plan.step_keys_to_execute}
    for key in layer.executable_asset_keys:
        if layer.get(key).partitions_def is not None and key.to_user_string() in chosen:
            _never_again(plan_context)
            raise dg.Failure(needs_sources(key.to_user_string()), allow_retries=False)


def _never_again(plan_context: Any) -> None:
    """Keep Dagster from starting a refused run again, as it does where no step failed: it would be refused again."""
    plan_context.instance.add_run_tags(plan_context.run_id, {MAX_RETRIES_TAG: "0"})


def run_cost(ledger: Ledger, prices: Path, run: str) -> str:
    """What a run has cost, in a sentence for its log."""
    try:
        account = Account.read(ledger, load_book(prices))
        attempts = [attempt for attempt in account.attempts if attempt.run == run]
        spent = account.buckets(attempts)
        saved = account.usd_of({action for attempt in attempts for action in account.reused(attempt)})
    except PriceError as error:
        return f"What this run cost is unknown: {error}"
    parts = {
        "published": spent.published,
        "wasted": spent.waste,
        "salvaged": spent.salvaged,
        "overhead": spent.overhead,
    }
    told = ", ".join(f"${dollars(usd)} {name}" for name, usd in parts.items() if usd)
    return f"This run cost ${dollars(spent.total)} ({told}); reuse saved ${dollars(saved)}."


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


def metered_executor(ledger_url: str, prices: Path) -> dg.ExecutorDefinition:
    """The executor of every job of a profile."""

    @dg.executor(
        name="metered",
        requirements=dg.multiple_process_executor_requirements(),
    )
    def metered(_: Any) -> MeteredExecutor:
        return MeteredExecutor(ledger_url, prices)

    return metered
