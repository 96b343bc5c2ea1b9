"""The Spark engine: the same results, bytes and order as on this machine, errors in a sentence, nothing left behind."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil
import pytest

from pipelines.dataset import Shard, write_shard
from pipelines.engines.local import Engine, WorkerKilled
from pipelines.engines.spark import SparkEngine
from pipelines.engines.spark_application import Application, SparkMissing
from pipelines.engines.spark_errors import explained, python_error
from pipelines.engines.task import File, Inputs, Made, Stats, Task
from pipelines.store import Store, StoreError
from tests.pipelines.engines.standalone import REACHABLE, standalone_cluster
from tests.pipelines.engines.test_local import count, die

ROOT = Path(__file__).parents[3]

with_spark = pytest.mark.skipif(
    shutil.which("java") is None
    or not all(any((Path(p) / name).is_dir() for p in sys.path) for name in ("pyspark", "pandas")),
    reason="needs Java and the spark group",
)


def fail(inputs: Inputs, number: int) -> Iterable[Made]:
    if number == 2:
        raise StoreError("task 2 does not like its input")
    return count(inputs, number)


def never(inputs: Inputs, number: int) -> Iterable[Made]:
    raise AssertionError("this was to be done on Spark")


def burn(inputs: Inputs, number: int) -> Iterable[Made]:
    end = time.process_time() + 0.5
    while time.process_time() < end:
        pass
    yield from count(inputs, number)


def sleep(inputs: Inputs, folder: Path) -> Iterable[Made]:
    (folder / f"{os.getpid()}").touch()
    time.sleep(600)
    return ()


def write_rejects(inputs: Inputs, number: int) -> Shard:
    (rejects, _, _) = count(inputs, number)
    return write_shard(inputs.store, *rejects)


def count_on_spark(session, inputs: Inputs, number: int) -> Iterable[Made]:
    """What `count` makes; its table is made and stored by an executor, its number goes through a DataFrame."""
    (row,) = session.range(number, number + 1).collect()
    (shard,) = session.sparkContext.parallelize([row.id], 1).map(partial(write_rejects, inputs)).collect()
    yield "rejects", shard
    yield "note", File(f"{number}.txt", str(number).encode())
    yield Stats({"number": number})


def fail_on_spark(session, inputs: Inputs, number: int) -> Iterable[Made]:
    session.sparkContext.parallelize([number], 1).map(lambda one: fail(inputs, 2)).collect()
    return ()


def tasks(run=count, numbers: Iterable[int] = range(4)) -> list[Task]:
    return [Task(run, "test.count", 1, {"number": number}, payload=number, rows=10) for number in numbers]


def parts(store: Store, work: list[Task]) -> list:
    return [result.parts for result in Engine(store, 1).map(work)]


# -- without Spark ----------------------------------------------------------------------------------------------


def test_where_everything_is_cached_nothing_is_started(store: Store) -> None:
    made = Engine(store, 1).charged_to("first").map(tasks())
    application = Application("no such master", {})

    with application:
        engine = SparkEngine(store, 2, application=application).charged_to("second")
        found = engine.map(tasks(never))
        one = engine.run(replace(tasks(never, [3])[0], on_spark=fail_on_spark))

    assert [result.parts for result in found] == [result.parts for result in made]
    assert (one.reused, engine.progress.reused, len(engine.results)) == (True, 1, 5)


def test_without_java_one_sentence_says_what_to_install(store: Store, monkeypatch, tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="needs the spark group")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(SparkMissing, match=r"needs Java, .* openjdk-17-jre-headless"):
        SparkEngine(store, 2, application=Application("local[2]", {})).map(tasks())


def test_without_pyspark_one_sentence_says_what_to_install(store: Store, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)

    with pytest.raises(SparkMissing, match=r"needs PySpark and pandas, .* pip install -e '\.\[spark\]'"):
        SparkEngine(store, 2, application=Application("local[2]", {})).map(tasks())


def test_a_task_that_needs_no_spark_is_run_here(store: Store) -> None:
    engine = SparkEngine(store, 2, application=Application("no such master", {}))

    assert engine.run(tasks()[1]).stats == {"number": 1}


def test_how_a_task_is_done_on_spark_is_not_in_its_key() -> None:
    (task,) = tasks(numbers=[0])

    assert replace(task, on_spark=count_on_spark).key == task.key


def test_a_stored_shard_is_a_result_like_a_table(store: Store) -> None:
    def stored(inputs: Inputs, number: int) -> Iterable[Made]:
        for made in count(inputs, number):
            yield (made[0], write_shard(store, *made)) if isinstance(made, tuple) and made[0] == "rejects" else made

    work = replace(tasks(numbers=[1])[0], run=stored, params={"other": "key"})

    assert parts(store, [work]) == parts(store, tasks(numbers=[1]))


@pytest.mark.parametrize(
    ("last_line", "error"),
    [
        ("ValueError: no such thing", ValueError("no such thing")),
        ("pipelines.store.StoreError: object 1 is gone", StoreError("object 1 is gone")),
        ("nowhere.Unknown: 1", RuntimeError("nowhere.Unknown: 1")),
        ("UnicodeDecodeError: five are needed", RuntimeError("UnicodeDecodeError: five are needed")),
    ],
)
def test_the_error_below_javas_stack_comes_back_as_itself(last_line: str, error: Exception) -> None:
    told = f"""Job aborted due to stage failure: Task 0 in stage 0.0: org.apache.spark.api.python.PythonException:
Traceback (most recent call last):
  File "task.py", line 1, in work
    raise Something
{last_line}

\tat org.apache.spark.api.python.BasePythonRunner
Driver stacktrace:
"""
    found = python_error(told)

    assert (type(found), str(found)) == (type(error), str(error))


def test_what_does_not_come_from_spark_stays_as_it_is() -> None:
    error = StoreError("object 1 is gone")

    assert explained(error, "test.count") is error


# -- on this machine --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def application() -> Iterator[Application]:
    with Application("local[2]", {}) as application:
        yield application


@pytest.mark.slow
@with_spark
def test_results_bytes_and_order_are_those_of_this_machine(store: Store, application, tmp_path: Path) -> None:
    engine = SparkEngine(store, 2, application=application).charged_to("first")

    results = engine.map(tasks(numbers=range(7)))

    assert [result.parts for result in results] == parts(Store(str(tmp_path / "other")), tasks(numbers=range(7)))
    assert [result.stats["number"] for result in results] == list(range(7))
    assert {result.made_by for result in results} == {"first"}
    assert (engine.progress.done, engine.progress.rows_done, engine.progress.outside_cpu_seconds) == (7, 70, 0)
    again = SparkEngine(store, 2, application=application).charged_to("second").map(tasks(numbers=range(9)))
    assert [result.reused for result in again] == [True] * 7 + [False] * 2


@pytest.mark.slow
@with_spark
def test_a_task_with_a_form_for_spark_is_done_there(store: Store, application, tmp_path: Path) -> None:
    work = replace(tasks(never, [5])[0], on_spark=count_on_spark)

    result = SparkEngine(store, 2, application=application).run(work)

    assert [result.parts] == parts(Store(str(tmp_path / "other")), tasks(numbers=[5]))
    assert not result.reused


@pytest.mark.slow
@with_spark
def test_an_error_is_the_tasks_own_and_what_was_done_stays(store: Store, application) -> None:
    engine = SparkEngine(store, 2, application=application).charged_to("first")
    with pytest.raises(StoreError, match=r"^task 2 does not like its input$"):
        engine.map(tasks(fail))
    with pytest.raises(StoreError, match=r"^task 2 does not like its input$"):
        engine.run(replace(tasks(never, [2])[0], on_spark=fail_on_spark))
    with pytest.raises(WorkerKilled, match="running out of memory"):
        engine.map(tasks(die, [8, 9]))

    done = {result.stats["number"] for result in engine.results}
    again = SparkEngine(store, 2, application=application).charged_to("second").map(tasks())
    assert {result.stats["number"] for result in again if result.reused} >= done
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# -- processes of a driver of its own ---------------------------------------------------------------------------


DRIVER = """
import json, sys
from pathlib import Path
from pipelines.engines.spark import SparkEngine
from pipelines.engines.spark_application import Application
from pipelines.engines.task import Task
from pipelines.processes import become_subreaper
from pipelines.store import Store
from pipelines.usage import UsageReader
from tests.pipelines.engines.test_spark import burn, sleep
if __name__ == "__main__":
    what, master, folder = sys.argv[1:]
    become_subreaper()
    with Application(master, json.loads(sys.stdin.readline())) as application:
        engine = SparkEngine(Store(folder + "/store"), 2, application=application)
        if what == "sleep":
            engine.map([Task(sleep, "test.sleep", 1, {"number": n}, payload=Path(folder)) for n in range(2)])
        before = UsageReader().read()
        results = engine.map([Task(burn, "test.burn", 1, {"number": n}, payload=n) for n in range(6)])
        seen = UsageReader().read() - before
    told = {
        "numbers": [result.stats["number"] for result in results],
        "burnt": sum(result.cpu_seconds for result in results),
        "outside": engine.progress.outside_cpu_seconds,
        "wall": seen.wall_seconds,
        "seen": seen.cpu_seconds,
        "seen_after_the_end": UsageReader().read().cpu_seconds - before.cpu_seconds,
    }
    print(json.dumps(told), flush=True)
"""


class Drivers:
    """Drivers in processes of their own, and all that they start."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.mark = folder, f"test-{folder.name}-{os.getpid()}"
        (folder / "driver.py").write_text(DRIVER)

    def start(self, what: str, master: str, **conf: str) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, str(self.folder / "driver.py"), what, master, str(self.folder)],
            env=os.environ | {"PYTHONPATH": str(ROOT), "SPARK_TEST": self.mark},
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(conf) + "\n")
        process.stdin.flush()
        return process

    def run(self, what: str, master: str, **conf: str) -> dict:
        process = self.start(what, master, **conf)
        told, _ = process.communicate(timeout=400)
        assert process.returncode == 0
        return json.loads(told)

    def left(self) -> list[psutil.Process]:
        """Processes that work for a driver, wherever in the tree they are."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                living = process.status() != psutil.STATUS_ZOMBIE
                if living and process.environ().get("SPARK_TEST") == self.mark:
                    found.append(process)
        return found


@pytest.fixture
def drivers(tmp_path: Path) -> Iterator[Drivers]:
    drivers = Drivers(tmp_path)
    try:
        yield drivers
    finally:
        for process in drivers.left():
            process.kill()


def wait_for(condition, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


@pytest.mark.slow
@with_spark
@pytest.mark.parametrize("master", ["local[2]", "local-cluster[2,1,1024]"])
def test_the_meter_sees_executors_below_it_even_when_they_have_ended(drivers: Drivers, master: str) -> None:
    import pyspark

    kept = Path(pyspark.__file__).parent / "work"  # where the workers of local-cluster have their folders
    there_before = set(kept.iterdir()) if kept.is_dir() else set()
    try:
        told = drivers.run("burn", master)
    finally:
        for folder in set(kept.iterdir()) - there_before if kept.is_dir() else ():
            shutil.rmtree(folder, ignore_errors=True)

    assert told["numbers"] == list(range(6))
    assert 3.0 <= told["burnt"] <= told["seen"] <= told["seen_after_the_end"]
    assert told["outside"] == 0
    assert not drivers.left()


@pytest.mark.slow
@with_spark
def test_who_is_cancelled_leaves_nobody(drivers: Drivers) -> None:
    driver = drivers.start("sleep", "local[2]")
    assert wait_for(lambda: len([f for f in drivers.folder.iterdir() if f.name.isdigit()]) == 2, 300)
    assert len(drivers.left()) >= 5  # driver, JVM, the daemon, two workers

    driver.send_signal(signal.SIGINT)

    assert wait_for(lambda: not drivers.left(), 5), drivers.left()
    assert driver.wait() != 0


@pytest.mark.slow
@with_spark
def test_a_killed_driver_leaves_nobody(drivers: Drivers) -> None:
    driver = drivers.start("sleep", "local[2]")
    assert wait_for(lambda: len([f for f in drivers.folder.iterdir() if f.name.isdigit()]) == 2, 300)

    driver.kill()

    assert wait_for(lambda: not drivers.left(), 30), drivers.left()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    yield from standalone_cluster(tmp_path)


@pytest.mark.slow
@with_spark
def test_executors_elsewhere_are_charged_as_spark_says(drivers: Drivers, cluster: str, tmp_path: Path) -> None:
    told = drivers.run("burn", cluster, **REACHABLE)

    assert told["numbers"] == list(range(6))
    assert 3.0 <= told["burnt"] <= told["outside"] <= 2 * told["wall"]
    work = [Task(burn, "test.burn", 1, {"number": n}, payload=n) for n in range(6)]
    there = Engine(Store(str(tmp_path / "store")), 1).charged_to("here").map(work)
    assert all(result.reused for result in there)
    assert [result.parts for result in there] == parts(Store(str(tmp_path / "other")), work)
