"""What went wrong in Spark, as one sentence: the error of the Python code at the bottom of it, without Java's stack."""

import re
from pydoc import locate

from pipelines.engines.local import WorkerKilled

PYTHON_ERROR = re.compile(r"^([A-Za-z_][\w.]*)(?:: (.*))?$", re.MULTILINE)
"""The line of a traceback that names the error: the first one that is not indented."""


def explained(error: Exception, stage: str) -> Exception:
    """An error of PySpark or of its JVM as one of ours; any other as it is.

    A Python error in an executor comes back as its own type where that takes a message, else as `RuntimeError`.
    """
    if type(error).__module__.partition(".")[0] not in ("py4j", "pyspark"):
        return error
    told = java_words(error)
    if "PYTHON_WORKER_CRASHED" in told or "Python worker exited unexpectedly" in told or "OutOfMemoryError" in told:
        return WorkerKilled(
            f"a Spark executor's worker process of {stage} was killed, most often by the system running out of memory; "
            "use fewer cores for each executor (engine.spark.conf: spark.executor.cores; on this machine "
            "engine.workers) or smaller shards (ingest.shard_megabytes)"
        )
    return python_error(told) or RuntimeError(f"Spark could not do {stage}: {java_sentence(error)}")


def python_error(told: str) -> Exception | None:
    """The error that a Python traceback in these words ends with, None where there is none."""
    begin, _, below = told.rpartition("Traceback (most recent call last):\n")
    found = PYTHON_ERROR.search(below) if begin or below != told else None
    if found is None:
        return None
    kind, message = locate(found[1]), found[2] or ""
    if found[1] == "ModuleNotFoundError":
        return RuntimeError(
            f"a Spark executor has {message[:1].lower()}{message[1:]}; every executor needs this project and its "
            "packages installed, and spark.pyspark.python under engine.spark.conf names their Python"
        )
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            return kind(message)
        except TypeError:  # it takes more than a message
            pass
    return RuntimeError(found[0])


def java_words(error: Exception) -> str:
    """All that an error which came out of the JVM says."""
    java = getattr(error, "java_exception", None)
    try:
        return str(java.toString() if java is not None else error)
    except Exception:  # noqa: BLE001 - the JVM is gone, and with it what it had to say
        return "its Java process has ended"


def java_sentence(error: Exception) -> str:
    """Its first line."""
    lines = [line.strip() for line in java_words(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
