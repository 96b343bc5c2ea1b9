"""Run the same tasks as one Spark job: executors perform them against the shared store, only results come back.

The Spark application, from its start to its end, is `pipelines/engines/spark_application.py`.
"""

import pickle
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pipelines.engines.local import Engine
from pipelines.engines.spark_application import Application
from pipelines.engines.spark_errors import explained
from pipelines.engines.task import Inputs, Made, Result, Task, perform
from pipelines.store import Store, StoreError
from pipelines.usage import UsageReader

if TYPE_CHECKING:
    from pyspark import SparkContext

LOOK_SECONDS = 0.2
"""How often the driver looks for results while a job runs."""


@dataclass
class SparkEngine(Engine):
    """An engine whose tasks are done by Spark's executors, one partition each. Keys, bytes and order are the same.

    application: shared by all that are charged to one attempt or another; it starts with the first task to be done.
    """

    application: Application = field(default_factory=lambda: Application("local[*]", {}))
    _outside_before: float = field(init=False)

    def __post_init__(self) -> None:
        self._outside_before = self.application.outside_seconds()

    def run(self, task: Task) -> Result:
        """One task: in this process, or on the Spark session where the task says how."""
        if task.on_spark is None:
            return super().run(task)
        self._start([task])
        result = Result.load(self.store, task.key)
        if result is None:
            with self._charging():
                on_spark, session, reader = task.on_spark, self.application.session(), UsageReader()

                def work(inputs: Inputs, payload: Any) -> Iterable[Made]:
                    return on_spark(session, inputs, payload)

                result = perform(self.store, replace(task, run=work), self.attempt, lambda: self._used(reader))
        self._finished(result, task)
        return result

    def _perform(self, waiting: dict[int, Task]) -> Iterator[tuple[int, Result]]:
        stage = next(iter(waiting.values())).stage
        try:
            job = _Job(self.application.context(), self.store, self.attempt, waiting)
            for index, outcome in job.outcomes(self._charge):
                if isinstance(outcome, _Failure):
                    raise outcome.error() from _AtExecutor(outcome.traceback)
                if index == next(iter(waiting)):
                    self._refuse_another_store(waiting[index])
                yield index, outcome
        except Exception as error:  # noqa: BLE001 - raised in other words
            problem = explained(error, stage)
            self._charge()
            self.application.close()
            raise problem from error.__cause__
        except BaseException:
            self.application.kill()
            raise

    def _refuse_another_store(self, task: Task) -> None:
        """Executors elsewhere may have a folder of the same path that is not the same folder."""
        if self.application.elsewhere and self.store.local and self.store.action(task.key) is None:
            raise StoreError(
                f"Spark's executors wrote to a folder {self.store.root} that is not the one of this machine; set store "
                "to a place that all of them share: a mounted folder or an fsspec URL such as s3://bucket/corpus"
            )

    def _charge(self) -> None:
        self.progress.outside_cpu_seconds = self.application.outside_seconds() - self._outside_before

    def _used(self, reader: UsageReader) -> float:
        self._charge()
        return reader.read().cpu_seconds + self.progress.outside_cpu_seconds

    @contextmanager
    def _charging(self) -> Iterator[None]:
        """Charge what executors elsewhere use while the block runs. An interrupt ends the application."""
        ended = threading.Event()

        def charging() -> None:
            while not ended.wait(5 * LOOK_SECONDS):
                self._charge()

        thread = threading.Thread(target=charging, name="spark-charge", daemon=True)
        thread.start()
        try:
            yield
        except Exception as error:  # noqa: BLE001 - raised in other words
            raise explained(error, self.progress.stage) from error.__cause__
        except BaseException:
            self.application.kill()
            raise
        finally:
            ended.set()
            thread.join()


@dataclass(frozen=True)
class _Failure:
    """An error of a task, as it travels: pickled, unless it cannot be, and in words."""

    pickled: bytes | None
    sentence: str
    traceback: str

    @classmethod
    def of(cls, error: Exception) -> "_Failure":
        told = traceback.format_exception(error)
        try:
            pickled = pickle.dumps(error)
            pickle.loads(pickled)  # some can be written and not read
        except Exception:  # noqa: BLE001
            pickled = None
        return cls(pickled, traceback.format_exception_only(error)[-1].strip(), "".join(told))

    def error(self) -> Exception:
        if self.pickled is not None:
            with suppress(Exception):  # its module may be one that only executors have
                error: Exception = pickle.loads(self.pickled)
                return error
        return RuntimeError(self.sentence)


class _AtExecutor(Exception):
    """Where in an executor the error began: its traceback, in words."""


_Outcome = tuple[int, Result | _Failure]


class _Gathered:
    """How outcomes add up in an accumulator."""

    def zero(self, _: list[_Outcome]) -> list[_Outcome]:
        return []

    def addInPlace(self, gathered: list[_Outcome], more: list[_Outcome]) -> list[_Outcome]:
        gathered += more
        return gathered


class _Job:
    """Tasks as one Spark job. An outcome comes back in an accumulator when its task ends, not when the job does."""

    def __init__(self, context: "SparkContext", store: Store, attempt: str, tasks: dict[int, Task]) -> None:
        numbered = list(tasks.items())
        self._context, self._tasks = context, numbered
        self._gathered: Any = context.accumulator([], _Gathered())  # type: ignore[arg-type]
        self._work = partial(_perform_each, store, attempt, self._gathered)
        self._error: Exception | None = None
        self._ended = threading.Event()

    def outcomes(self, look: Callable[[], None]) -> Iterator[_Outcome]:
        """(number, outcome) of each task as it ends. look: called now and then meanwhile."""
        threading.Thread(target=self._run, name="spark-job", daemon=True).start()
        seen, ended = 0, False
        while not ended:
            ended = self._ended.wait(LOOK_SECONDS)
            gathered: list[_Outcome] = self._gathered.value
            while seen < len(gathered):
                yield gathered[seen]
                seen += 1
            look()
        if self._error is not None:
            raise self._error
        if seen != len(self._tasks):
            raise RuntimeError(f"Spark gave {seen} results of {len(self._tasks)} tasks; run the same again")

    def _run(self) -> None:
        try:
            self._context.setJobDescription(f"{self._tasks[0][1].stage}: {len(self._tasks)} tasks")
            self._context.parallelize(self._tasks, len(self._tasks)).foreachPartition(self._work)
        except Exception as error:  # noqa: BLE001 - raised where outcomes are awaited
            self._error = error
        finally:
            self._ended.set()


def _perform_each(store: Store, attempt: str, gathered: Any, tasks: Iterable[tuple[int, Task]]) -> None:
    """In an executor: perform tasks. An error is an outcome like any other, or Spark would try it three times again."""
    pa.set_cpu_count(1)  # the other cores are for the other tasks
    for index, task in tasks:
        try:
            outcome: Result | _Failure = perform(store, task, attempt)
        except Exception as error:  # noqa: BLE001 - raised in the driver
            outcome = _Failure.of(error)
        gathered.add([(index, outcome)])
