"""The engine: reuse, order, failures, and results that do not depend on the number of workers."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import psutil
import pyarrow as pa
import pytest

from pipelines.dataset import join_parts
from pipelines.engines.local import Engine, WorkerKilled
from pipelines.engines.task import File, Inputs, Made, Stats, Task
from pipelines.store import Store

ROOT = Path(__file__).parents[3]


def count(inputs: Inputs, number: int) -> Iterable[Made]:
    yield "rejects", pa.table({"source": ["s"], "uri": [str(number)], "reason": ["r"], "detail": [None]})
    yield "note", File(f"{number}.txt", str(number).encode())
    yield Stats({"number": number})


def fail(inputs: Inputs, number: int) -> Iterable[Made]:
    if number == 2:
        raise ValueError("task 2 does not like its input")
    return count(inputs, number)


def die(inputs: Inputs, number: int) -> Iterable[Made]:
    os.kill(os.getpid(), signal.SIGKILL)
    return ()


def sleep(inputs: Inputs, number: int) -> Iterable[Made]:
    time.sleep(60)
    return ()


def tasks(run=count, numbers=range(4)) -> list[Task]:
    return [Task(run, "test.count", 1, {"number": number}, payload=number) for number in numbers]


@pytest.mark.parametrize("in_threads", [False, True])
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_results_come_in_the_order_of_the_tasks_with_any_number_of_workers(
    store: Store, workers: int, in_threads: bool
) -> None:
    wanted = [replace(task, in_threads=in_threads) for task in tasks(numbers=range(9))]
    results = Engine(store, workers, alone_seconds=0).map(wanted)

    assert [result.stats["number"] for result in results] == list(range(9))
    parts = join_parts([result.parts for result in results])
    assert [shard.name for shard in parts["note"].shards] == [f"{number}.txt" for number in range(9)]
    assert parts["rejects"].rows == 9


def test_what_was_done_is_reused_and_only_the_rest_is_done(store: Store) -> None:
    Engine(store, 1).charged_to("first").map(tasks(numbers=range(3)))
    engine = Engine(store, 2).charged_to("second")

    results = engine.map(tasks(numbers=range(5)))

    assert [result.reused for result in results] == [True, True, True, False, False]
    assert {result.made_by for result in results} == {"first", "second"}
    assert (engine.progress.done, engine.progress.reused) == (5, 3)


@pytest.mark.parametrize(
    "other",
    [
        {"params": {"number": 1}},
        {"stage": "test.other"},
        {"version": 2},
        {"inputs": ("a",)},
        {"broadcast": ("a",)},
    ],
)
def test_whatever_a_result_depends_on_is_in_its_key(other: dict) -> None:
    base = {"run": count, "stage": "test.count", "version": 1, "params": {"number": 0}}

    assert Task(**base).key != Task(**(base | other)).key


def test_how_a_task_is_done_is_not_in_its_key() -> None:
    assert Task(count, "s", 1, {}, payload=1, rows=5).key == Task(fail, "s", 1, {}, payload=2).key


def test_a_failing_task_stops_the_rest_and_finished_work_stays(store: Store) -> None:
    engine = Engine(store, 1).charged_to("first")

    with pytest.raises(ValueError, match="does not like"):
        engine.map(tasks(fail))

    assert [result.stats["number"] for result in engine.results] == [0, 1]
    assert [r.reused for r in Engine(store, 1).charged_to("second").map(tasks())] == [True, True, False, False]


def test_a_failing_task_in_the_pool_is_raised_as_itself(store: Store) -> None:
    with pytest.raises(ValueError, match="does not like"):
        Engine(store, 2, alone_seconds=0).map(tasks(fail))


def test_a_killed_worker_is_explained(store: Store) -> None:
    with pytest.raises(WorkerKilled, match="running out of memory; use fewer workers"):
        Engine(store, 2, alone_seconds=0).map(tasks(die))


def test_no_tasks_give_no_results(store: Store) -> None:
    assert Engine(store, 2).map([]) == []


def test_a_task_measures_its_own_use(store: Store) -> None:
    (result,) = Engine(store, 1).map([Task(burn, "test.burn", 1, {}, payload=0.25)])

    assert 0.2 <= result.cpu_seconds < 5


def test_tasks_in_threads_measure_their_own_use_each(store: Store) -> None:
    both = [Task(burn, "test.burn", 1, {"seconds": s}, payload=s, in_threads=True) for s in (0.05, 0.5)]
    begun = time.process_time()
    short, long = Engine(store, 2).map(both)

    assert 0.05 <= short.cpu_seconds < 0.3
    assert 0.5 <= long.cpu_seconds < 0.8
    assert short.cpu_seconds + long.cpu_seconds <= time.process_time() - begun


def test_a_failing_task_in_a_thread_is_raised_as_itself_and_finished_work_stays(store: Store) -> None:
    wanted = [replace(task, in_threads=True) for task in tasks(fail)]
    with pytest.raises(ValueError, match="does not like"):
        Engine(store, 2).charged_to("first").map(wanted)

    assert [r.reused for r in Engine(store, 1).charged_to("second").map(tasks())][:2] == [True, True]


def test_tasks_that_work_alone_are_done_in_this_process_one_after_the_other(store: Store) -> None:
    wanted = [replace(task, alone=True) for task in tasks(tell_process)]
    told = [result.stats for result in Engine(store, 3, alone_seconds=0).map(wanted)]

    assert {one["process"] for one in told} == {os.getpid()}
    assert all(before["ended"] <= after["begun"] for before, after in pairwise(told))


def tell_process(inputs: Inputs, number: int) -> Iterable[Made]:
    begun = time.monotonic()
    time.sleep(0.01)
    yield Stats({"process": os.getpid(), "begun": begun, "ended": time.monotonic()})


def burn(inputs: Inputs, seconds: float) -> Iterable[Made]:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
    return ()


OWNER = """
import sys
from pipelines.engines.local import Engine
from pipelines.store import Store
from tests.pipelines.engines.test_local import sleep, tasks
if __name__ == "__main__":
    Engine(Store(sys.argv[1]), 2, alone_seconds=0).map(tasks(sleep))
"""


def test_workers_end_with_their_owner(tmp_path: Path) -> None:
    script = tmp_path / "owner.py"
    script.write_text(OWNER)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    owner = subprocess.Popen([sys.executable, str(script), str(tmp_path / "store")], env=environment, cwd=ROOT)
    workers: list[psutil.Process] = []
    while len(workers) < 4:  # resource tracker, fork server, two workers
        workers = psutil.Process(owner.pid).children(recursive=True)
        time.sleep(0.05)

    owner.kill()
    owner.wait()

    _, alive = psutil.wait_procs(workers, timeout=30)
    assert not alive
