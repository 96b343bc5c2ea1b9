"""Run tasks on this machine, in a pool of worker processes. What a task is stands in `pipelines/engines/task.py`."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from multiprocessing import connection
from multiprocessing.process import BaseProcess

import pyarrow as pa

from pipelines.engines.task import Progress, Result, Task, cpu_seconds_with_children, perform
from pipelines.store import Store

PRELOAD = "pipelines.engines.preload"
"""Module that servers import before processes are forked from them."""


class WorkerKilled(RuntimeError):
    """A worker process died without an error of its own."""


@dataclass
class Engine:
    """Runs tasks and remembers which results it handed out.

    workers: processes at work at once. attempt: who pays (see `pipelines/costs/ledger.py`). alone_seconds: how long
    this process works by itself before it starts a pool, which takes about a second. The results of tasks, and so
    every byte of every dataset, do not depend on any of these.
    """

    store: Store
    workers: int
    attempt: str = ""
    alone_seconds: float = 1.0
    results: list[Result] = field(default_factory=list)
    progress: Progress = field(default_factory=Progress)

    def charged_to(self, attempt: str, progress: Progress | None = None) -> "Engine":
        """The same engine with an empty memory, working for another attempt. progress: where that is told."""
        return replace(self, attempt=attempt, results=[], progress=progress or Progress())

    def run(self, task: Task) -> Result:
        """One task, in this process: for tasks that need the whole machine or launch a process of their own."""
        self._start([task])
        result = Result.load(self.store, task.key)
        if result is None:
            result = perform(self.store, task, self.attempt, cpu_seconds_with_children, lambda: self.progress.bought)
        self._finished(result, task)
        return result

    def run_each(self, tasks: Sequence[Task]) -> list[Result]:
        """All tasks, one after the other, each as `run` does it; results in the order of the tasks."""
        return [self.run(task) for task in tasks]

    def map(self, tasks: Sequence[Task]) -> list[Result]:
        """All tasks, at once; results in the order of the tasks. The first error stops the rest and is raised."""
        self._start(tasks)
        found: list[Result | None] = [Result.load(self.store, task.key) for task in tasks]
        for task, result in zip(tasks, found, strict=True):
            if result is not None:
                self._finished(result, task)
        waiting = {index: task for index, task in enumerate(tasks) if found[index] is None}
        for index, result in self._perform(waiting) if waiting else ():
            found[index] = result
            self._finished(result, tasks[index])
        return [result for result in found if result is not None]

    def _perform(self, waiting: dict[int, Task]) -> Iterator[tuple[int, Result]]:
        """Do these tasks; gives (number, result) of each as it ends, in any order."""
        if any(task.alone for task in waiting.values()):
            for index, task in waiting.items():
                yield index, perform(self.store, task, self.attempt)
            return
        if self.workers > 1 and all(task.in_threads for task in waiting.values()):
            yield from self._threaded(waiting)
            return
        pool_at = time.monotonic() + self.alone_seconds
        while waiting and (self.workers == 1 or len(waiting) == 1 or time.monotonic() < pool_at):
            index = next(iter(waiting))
            yield index, perform(self.store, waiting.pop(index), self.attempt)
        yield from self._pooled(waiting)

    def _threaded(self, tasks: dict[int, Task]) -> Iterator[tuple[int, Result]]:
        pool = ThreadPoolExecutor(min(self.workers, len(tasks)), thread_name_prefix="shards")
        try:
            working = {
                pool.submit(perform, self.store, task, self.attempt, time.thread_time): index
                for index, task in tasks.items()
            }
            for future in as_completed(working):
                yield working[future], future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)  # what is under way ends within seconds, and is stored whole

    def _pooled(self, tasks: dict[int, Task]) -> Iterator[tuple[int, Result]]:
        if not tasks:
            return
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([PRELOAD, *sorted({task.run.__module__ for task in tasks.values()})])
        others = set(multiprocessing.active_children())
        pool = ProcessPoolExecutor(min(self.workers, len(tasks)), mp_context=context, initializer=start_worker)
        cancelled = False
        try:
            waiting: dict[Future[Result], int] = {
                pool.submit(perform, self.store, task, self.attempt): index for index, task in tasks.items()
            }
            while waiting:
                done, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    yield waiting.pop(future), future.result()
        except BrokenProcessPool:
            raise WorkerKilled(
                f"a worker process of {next(iter(tasks.values())).stage} was killed, most often by the system running "
                "out of memory; use fewer workers (engine.workers) or smaller shards (ingest.shard_megabytes)"
            ) from None
        except Exception:
            raise
        except BaseException:
            cancelled = True
            raise
        finally:
            _end(pool, others, cancelled=cancelled)

    def _start(self, tasks: Sequence[Task]) -> None:
        self.progress.stage = tasks[0].stage if tasks else ""
        self.progress.started = time.time()
        self.progress.done = self.progress.reused = self.progress.rows_done = 0
        self.progress.total = len(tasks)
        self.progress.rows_total = sum(task.rows for task in tasks)

    def _finished(self, result: Result, task: Task) -> None:
        self.results.append(result)
        self.progress.done += 1
        self.progress.reused += result.reused
        self.progress.rows_done += task.rows


def _end(pool: ProcessPoolExecutor, others: set[BaseProcess], *, cancelled: bool) -> None:
    """Return when no worker of the pool is left. Those of a cancelled one are killed: what is stored is whole anyway.

    others: children of this process that are not the pool's. A second interrupt, and Ctrl-C makes two (the terminal's
    and the coordinator's), must not end the wait: workers that were never told of the end keep this process for ever.
    """
    interrupt: BaseException | None = None
    while True:
        try:
            pool.shutdown(wait=False, cancel_futures=True)
            while workers := set(multiprocessing.active_children()) - others:
                if cancelled:
                    for worker in workers:
                        worker.kill()
                connection.wait([worker.sentinel for worker in workers])
            break
        except Exception:
            raise
        except BaseException as error:  # noqa: BLE001 - raised again once the workers are gone
            cancelled, interrupt = True, error
    if interrupt is not None:
        raise interrupt


def start_worker() -> None:
    """What a worker process begins with: to end with its owner, however that ends, and to leave the other cores to the
    other workers.

    Ctrl-C reaches every process of a terminal: what becomes of the workers is for their owner to say.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pa.set_cpu_count(1)
    owner = multiprocessing.parent_process()
    assert owner is not None
    threading.Thread(target=_end_with, args=(owner.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)
