"""Why a run failed: each failed step with a sentence, and the class of cause that says what kind of remedy it needs.

Read from Dagster's event log, after the fact. Who is told stands in `jobs/sensors/alerts.py`.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.errors import DagsterExecutionInterruptedError
from dagster._core.events import RunFailureReason
from dagster._core.executor.child_process_executor import ChildProcessCrashException

THE_RUN = "the run"
"""Stands for the step where a run failed outside its steps."""

OUT_OF_MEMORY = "out of memory"
KILLED = "killed"
PREEMPTED = "preempted"
OUT_OF_DISK = "out of disk"
BAD_INPUT = "bad input"
LOST = "lost"

MEMORY_ERRORS = {"MemoryError", "OutOfMemoryError", "ArrowMemoryError", "WorkerKilled"}
INPUT_ERRORS = {
    "ArrowInvalid",
    "BadInput",
    "DagsterInvalidConfigError",
    "JSONDecodeError",
    "MixedVersions",
    "PriceError",
    "ProfileError",
    "UnicodeDecodeError",
    "Unhealthy",
    "ValidationError",
    "ValueError",
}
"""Names of classes, since the event log holds no more of an error than that."""

MEMORY_WORDS = re.compile(r"out of memory|can't allocate memory|cannot allocate memory", re.IGNORECASE)
DISK_WORDS = re.compile(
    r"no space left on device|disk quota exceeded|database or disk is full|disk is full", re.IGNORECASE
)
KILL_WORDS = re.compile(r"signal 9\b|SIGKILL")
STOP_WORDS = re.compile(r"signal 15\b|SIGTERM|was asked to stop")


@dataclass(frozen=True)
class Failure:
    """One failed step (or the run itself), the reason in a sentence, and the class of its cause."""

    step: str
    reason: str
    cause: str


def failures(instance: dg.DagsterInstance, run_id: str, *, oom_kill: bool = False) -> Sequence[Failure]:
    """Every failed step of a run, in order, or the run itself where no step failed.

    oom_kill: whether the kernel is known to have killed for memory meanwhile (see `OomKills`); without such evidence
    a process that ended by signal 9 was just killed.
    """
    told: dict[str, Failure] = {}
    crashes: dict[str | None, str] = {}
    outside: Any = None
    of_the_run: list[Failure] = []
    for event in _events(instance, run_id):
        if event.is_engine_event and event.engine_event_data.error is not None:
            error = event.engine_event_data.error
            if _crashed(error):
                crashes[event.step_key] = (event.message or "").partition(f"{event.step_key} ")[2]
            else:
                outside = error
        elif event.is_step_failure:
            error = event.step_failure_data.error
            crash = crashes.get(event.step_key) if _crashed(error) else None
            reason = f"its process {crash}" if crash else sentence(error)
            step = event.step_key or ""
            told.setdefault(step, Failure(step, reason, cause_class(error, reason, oom_kill=oom_kill)))
        elif event.is_job_failure:
            of_the_run.append(_of_the_run(event, outside, oom_kill=oom_kill))
    if told and all(failure.cause == f"error in {ChildProcessCrashException.__name__}" for failure in told.values()):
        stopped = [failure for failure in of_the_run if failure.cause == PREEMPTED]
        return stopped or list(told.values())  # whoever told the run to stop told its steps, too
    return list(told.values()) or of_the_run[:1]


def failed_checks(instance: dg.DagsterInstance, run_id: str) -> list[tuple[str, str, str]]:
    """Asset, check and what was found, of every asset check of a run that did not pass."""
    told = []
    for event in _events(instance, run_id):
        if event.event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            found = event.asset_check_evaluation_data
            if not found.passed:
                told.append((found.asset_key.to_user_string(), found.check_name, found.description or ""))
    return told


def cause_class(error: Any, reason: str, *, oom_kill: bool = False) -> str:
    """The class of a cause, of an error as Dagster keeps it and of the sentence that tells it."""
    names = [link.cls_name or "" for link in _chain(error)]
    said = "\n".join([reason, *(link.message for link in _chain(error))])
    if MEMORY_ERRORS.intersection(names):
        return OUT_OF_MEMORY
    if KILL_WORDS.search(reason):
        return OUT_OF_MEMORY if oom_kill else KILLED
    if DISK_WORDS.search(said):
        return OUT_OF_DISK
    if MEMORY_WORDS.search(said):
        return OUT_OF_MEMORY
    if STOP_WORDS.search(reason) or DagsterExecutionInterruptedError.__name__ in names:
        return PREEMPTED
    if INPUT_ERRORS.intersection(names) or names[-1:] == ["Failure"]:  # what our own decorator refuses
        return BAD_INPUT
    return f"error in {names[-1]}" if names else "no reason given"


def sentence(error: Any) -> str:
    """What an error says, without the name of its class. The cause, where there is one: the error is then Dagster's."""
    if error is None:
        return "no reason given"
    cause = error.cause or error
    if cause.cls_name == DagsterExecutionInterruptedError.__name__:
        return "it was interrupted"
    name, colon, said = cause.message.strip().partition(": ")
    return said if colon and name.rpartition(".")[2] == cause.cls_name else cause.message.strip()


class OomKills:
    """Counts the processes that the kernel killed because this process's cgroup (version 2) was out of memory.

    Runs that the daemon launched and this process share a cgroup where Dagster starts them as processes of one
    machine or container; elsewhere, and with cgroup version 1, there is no evidence.
    """

    def __init__(self, root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> None:
        self._root, self._own = root, own
        self._seen = self._count()

    def since_last_asked(self) -> bool:
        """Whether there were any since this was asked last, or since this object was made."""
        before, self._seen = self._seen, self._count()
        return self._seen > before

    def _count(self) -> int:
        try:
            path = next(line[3:] for line in self._own.read_text().splitlines() if line.startswith("0::"))
            events = (self._root / path.lstrip("/") / "memory.events").read_text()
        except (OSError, StopIteration):
            return 0
        return sum(int(line.split()[1]) for line in events.splitlines() if line.startswith("oom_kill "))


def _of_the_run(event: dg.DagsterEvent, outside: Any, *, oom_kill: bool) -> Failure:
    """outside: the last error that Dagster met around the run, when it could not be launched for example."""
    data: Any = event.event_specific_data  # none where the run was declared failed from outside
    why, error = getattr(data, "failure_reason", None), getattr(data, "error", None)
    if why is RunFailureReason.UNEXPECTED_TERMINATION:
        return Failure(THE_RUN, "it was interrupted, and nobody had cancelled it in Dagster", PREEMPTED)
    if error is None and outside is None:
        return Failure(THE_RUN, event.message or "no reason given", LOST)
    error = error or outside
    reason = sentence(error)
    return Failure(THE_RUN, reason, cause_class(error, reason, oom_kill=oom_kill))


def _events(instance: dg.DagsterInstance, run_id: str) -> Iterator[dg.DagsterEvent]:
    return (record.dagster_event for record in instance.all_logs(run_id) if record.dagster_event is not None)


def _chain(error: Any) -> Iterator[Any]:
    """An error and the causes below it, the innermost last."""
    while error is not None:
        yield error
        error = error.cause


def _crashed(error: Any) -> bool:
    """Whether an error says that the process of a step is gone."""
    return error is not None and error.cls_name == ChildProcessCrashException.__name__
