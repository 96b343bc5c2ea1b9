"""One Spark application: how it starts, what its executors elsewhere have used, and how nothing of it is left.

Which tasks it does is `pipelines/engines/spark.py`. PySpark and Java are asked for when the first task has to be done.
"""

import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import psutil

from pipelines.engines.spark_errors import java_sentence

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

GRACE_SECONDS = 2.0
"""From the request to stop until the JVM is killed when a run is cancelled: less than a step is given to end."""

CLOSE_SECONDS = 15.0
"""The same when the work is done and Spark may take leave of its cluster."""

LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = Spark: %p %c{1}: %m%n%ex{1}%n
"""


class SparkMissing(RuntimeError):
    """Spark cannot be started; the message says what to install or to change."""


class Application:
    """A Spark application of this process, started when it is first asked for its context. Use it in a `with` block.

    A process can have one at a time. master: Spark's URL. conf: Spark's properties; they win over the ones set here.
    """

    def __init__(self, master: str, conf: Mapping[str, str]) -> None:
        self.master, self.conf = master, dict(conf)
        self._context: SparkContext | None = None
        self._folder: Path | None = None
        self._seconds = self._seconds_before = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def elsewhere(self) -> bool:
        """Whether the executors are no descendants of this process: the meter does not see them then."""
        return not self.master.startswith("local")

    def context(self) -> "SparkContext":
        """Spark's context, for jobs. Raises `SparkMissing` without PySpark, without Java, or without the master."""
        if self._context is None:
            _refuse_without_spark()
            _refuse_beside_another()
            self._folder = Path(tempfile.mkdtemp(prefix="corpusmill-spark-"))
            try:
                self._context = self._start(self._folder)
            except BaseException:
                self.kill()
                raise
        return self._context

    def session(self) -> "SparkSession":
        """A session on the same context, for DataFrames; it takes seconds more. Raises what `context` raises."""
        from pyspark.sql import SparkSession

        self.context()
        return SparkSession.builder.getOrCreate()

    def outside_seconds(self) -> float:
        """Core-seconds that tasks have held executors elsewhere, until now: Spark's own count; 0 on this machine.

        That is the time of each task, ended or not, times the cores that one takes (spark.task.cpus).
        """
        if self._context is not None and self.elsewhere:
            cores = int(self._context.getConf().get("spark.task.cpus") or 1)
            self._seconds = _task_seconds(self._context) * cores
        return self._seconds_before + self._seconds

    def close(self) -> None:
        """End the application, if it was started, and every process of it on this machine."""
        if self._context is not None:
            closing = threading.Thread(target=_stop, args=(self._context,), daemon=True)
            closing.start()
            with self._killing():
                closing.join(CLOSE_SECONDS)
        else:
            self.kill()

    def kill(self) -> None:
        """The same at once: the JVM is asked to end, and killed with all its descendants if it does not."""
        with self._killing():
            pass

    @contextmanager
    def _killing(self) -> Iterator[None]:
        """Whatever happens in the block, a second interrupt too, no process of the application is left after it."""
        if self._folder is None:
            yield
            return
        processes: list[psutil.Process] = []
        try:
            yield
            processes = self._processes()
            for process in processes[:1]:
                process.terminate()
            psutil.wait_procs(processes, GRACE_SECONDS)
        finally:
            processes = processes or self._processes()
            for process in processes:
                with suppress(psutil.Error):
                    process.kill()
            psutil.wait_procs(processes, GRACE_SECONDS)
            _forget()
            shutil.rmtree(self._folder, ignore_errors=True)
            self._context = self._folder = None
            self._seconds, self._seconds_before = 0.0, self._seconds_before + self._seconds

    def _processes(self) -> list[psutil.Process]:
        """The JVM, known by the folder in its arguments, and its descendants: executors and their Python workers."""
        for child in psutil.Process().children():
            with suppress(psutil.Error):
                if any(str(self._folder) in argument for argument in child.cmdline()):
                    return [child, *child.children(recursive=True)]
        return []

    def _start(self, folder: Path) -> "SparkContext":
        from pyspark import SparkConf, SparkContext
        from pyspark.errors import PySparkRuntimeError

        (folder / "log4j2.properties").write_text(LOGGING, encoding="utf-8")
        properties = self._defaults(folder) | self.conf
        java = f"-Dlog4j2.configurationFile={folder}/log4j2.properties -Djava.io.tmpdir={folder} -XX:-UsePerfData"
        properties["spark.driver.extraJavaOptions"] = f"{java} {self.conf.get('spark.driver.extraJavaOptions', '')}"
        conf = SparkConf(loadDefaults=False).setAll(list(properties.items()))
        environment = {"PYSPARK_PYTHON": self.conf.get("spark.pyspark.python", sys.executable)}
        if not self.elsewhere:
            environment["SPARK_LOCAL_IP"] = "127.0.0.1"
        try:
            with _environment(environment), _own_interrupts():
                return SparkContext(conf=conf)
        except PySparkRuntimeError:
            raise SparkMissing(
                "Spark's Java process ended while it started (its own words stand above); it needs Java 17 or newer, "
                "and properties under engine.spark.conf that it knows"
            ) from None
        except Exception as error:
            if not type(error).__module__.startswith("py4j"):
                raise
            raise SparkMissing(f"Spark does not start on {self.master}: {java_sentence(error)}") from None

    def _defaults(self, folder: Path) -> dict[str, str]:
        properties = {
            "spark.master": self.master,
            "spark.app.name": "corpusmill",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.catalogImplementation": "in-memory",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
        }
        if not self.elsewhere:
            properties |= {
                "spark.driver.host": "127.0.0.1",
                "spark.driver.bindAddress": "127.0.0.1",
                "spark.local.dir": str(folder),
                "spark.executorEnv.PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                "spark.python.daemon.module": "pipelines.engines.spark_daemon",
            }
        return properties


def _task_seconds(spark_context: "SparkContext") -> float:
    """What tasks of an application have taken, added up: ended ones by executor, and those under way."""
    context: Any = spark_context
    spark, jvm = context._jsc.sc(), context._jvm
    with suppress(Exception):
        spark.listenerBus().waitUntilEmpty(1000)  # the status hears of a task's end a moment after it
    status = spark.statusStore()
    seconds, under_way = 0.0, 0
    for executor in _each(status.executorList(False)):
        if executor.id() == "driver":  # does no tasks; what stands there is its age
            continue
        seconds += executor.totalDuration() / 1000
        under_way += executor.activeTasks()
    begun = []
    running = [jvm.org.apache.spark.status.api.v1.TaskStatus.RUNNING]
    by_id = jvm.org.apache.spark.status.api.v1.TaskSorting.ID
    for stage in _each(status.activeStages()) if under_way else ():
        tasks = status.taskList(stage.stageId(), stage.attemptId(), 0, stage.numActiveTasks(), by_id, running)
        begun += [task.launchTime().getTime() / 1000 for task in _each(tasks)]
    now = time.time()
    # A task can stand among those under way when its executor has counted it already: the oldest are too many then.
    return seconds + sum(max(0.0, now - start) for start in sorted(begun, reverse=True)[:under_way])


def _each(sequence: Any) -> Iterator[Any]:
    """The elements of a sequence of Scala's."""
    return (sequence.apply(number) for number in range(sequence.size()))


def _refuse_without_spark() -> None:
    try:
        import pandas  # noqa: F401 - PySpark hands Arrow batches over only where it is installed
        import pyspark  # noqa: F401
    except ImportError:
        raise SparkMissing(
            "engine.kind: spark needs PySpark and pandas, which are not both here: pip install -e '.[spark]', then run "
            "again"
        ) from None
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java", path=f"{home}/bin" if home else None) is None:
        where = f"under JAVA_HOME ({home})" if home else "on the PATH, and JAVA_HOME is not set"
        raise SparkMissing(
            f"engine.kind: spark needs Java, and there is no java {where}; install a runtime, 17 or newer "
            "(on Debian and Ubuntu the package openjdk-17-jre-headless), then run again"
        )


def _refuse_beside_another() -> None:
    from pyspark import SparkContext

    if (other := SparkContext._active_spark_context) is not None:
        raise SparkMissing(
            f"this process has a Spark application already ({other.appName} on {other.master}), and can have one only; "
            "stop that first"
        )


def _stop(context: "SparkContext") -> None:
    with suppress(Exception):
        context.stop()


def _forget() -> None:
    """Let PySpark start another JVM in this process, although the one it knows of is gone."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context: Any = SparkContext
    active, gateway = context._active_spark_context, context._gateway
    if active is not None and active._accumulatorServer is not None:
        active._accumulatorServer.shutdown()
    if gateway is not None:
        with suppress(Exception):
            gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()
    context._active_spark_context = context._gateway = context._jvm = None
    SparkSession._instantiatedSession = None


@contextmanager
def _environment(said: Mapping[str, str]) -> Iterator[None]:
    """PySpark hands its JVM some things in no other way."""
    before = {name: os.environ.get(name) for name in said}
    os.environ.update(said)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """SIGINT stays with whoever had it: PySpark takes it, and the step would no longer hear that it is cancelled."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
