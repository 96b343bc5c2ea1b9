"""The launcher: runs a trainer in processes of its own, hands its reports on while it works, and says why it failed.

What the processes do is `resources/trainer_entry.py`; how they end when their owner is killed is
`pipelines/training/owner.py`.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import dagster as dg
from dagster._utils import tail_file

from pipelines.processes import process_identity
from pipelines.training.owner import GRACE_SECONDS
from pipelines.training.work import STOPPED_EXIT_CODE, Event, Report, TrainingError, WorkFolder

HOME = Path(__file__).resolve().parent.parent
"""The folder that the trainer imports this project from."""

TRAINER = ("-m", "resources.trainer_entry")
POLL_SECONDS = 0.2
LOG_LINES = 15
"""Last lines of the log that an error quotes."""


class TrainerFailed(TrainingError):
    """The trainer did not finish; the message says why, what is saved, and the way out."""


@dataclass(frozen=True)
class Launcher:
    """Launches trainers.

    processes: ranks on this machine, one per GPU (or gloo processes on a CPU). environment: variables for them, on top
    of this process's. grace_seconds: from asking them to stop until they are killed.
    """

    processes: int = 1
    environment: Mapping[str, str] = field(default_factory=dict)
    grace_seconds: float = GRACE_SECONDS

    def launch(self, work: Path, on_report: Report) -> None:
        """Train in a work folder until the model stands there.

        on_report is called in this thread with each of the trainer's reports. In a Dagster step they come through
        Pipes, with the trainer's own log lines; elsewhere through a file. Raises `TrainerFailed` when the trainer
        fails, is killed, or leaves no whole model. Whatever ends this call ends the trainer too: it is asked to stop,
        so that it saves, and killed after the grace.
        """
        folder = WorkFolder(work)
        follower = _Follower(folder, on_report)
        step = _current_step()
        with _pipes(step, folder) if step else _report_file(folder) as mail:
            process = self._start(folder, mail)
            try:
                while process.poll() is None:
                    follower.read(mail)
                    time.sleep(POLL_SECONDS)
            except BaseException:
                self._end(process)
                raise
        follower.read(mail)
        self._judge(process.returncode, follower, folder, mail)

    def _start(self, folder: WorkFolder, mail: "_Mail") -> subprocess.Popen[bytes]:
        entry = list(TRAINER)
        if self.processes > 1:
            ranks = ["--standalone", "--nproc_per_node", str(self.processes)]
            entry = ["-m", "torch.distributed.run", *ranks, *entry]
        owner = json.dumps(asdict(process_identity()))
        told = ["--work", str(folder.root), "--owner", owner, "--grace", str(self.grace_seconds)]
        with folder.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, *entry, *told, *mail.arguments],
                env={**os.environ, **_ENVIRONMENT, **self._paths(), **self.environment, **mail.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _paths(self) -> dict[str, str]:
        return {"PYTHONPATH": os.pathsep.join(filter(None, [str(HOME), os.environ.get("PYTHONPATH", "")]))}

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        try:
            _signal_group(process, signal.SIGTERM)
            process.wait(self.grace_seconds)
        except subprocess.TimeoutExpired:
            pass
        finally:
            if process.poll() is None:
                _signal_group(process, signal.SIGKILL)
                process.wait()

    def _judge(self, code: int, follower: "_Follower", folder: WorkFolder, mail: "_Mail") -> None:
        """Raise `TrainerFailed` unless everything says that the training is finished."""
        last, quoted = follower.last, follower.quote()
        at = f"after step {follower.step}" if follower.step else "before its first step"
        killed_by = -code if code < 0 else _signal_of_rank(quoted)
        if last.get("event") == "failed":
            raise TrainerFailed(last["message"] + (quoted if last.get("unexpected") else ""))
        if code == STOPPED_EXIT_CODE or last.get("event") == "stopped":
            raise TrainerFailed(f"the trainer was asked to stop {at} and saved its state; run it again to go on")
        if killed_by == signal.SIGKILL:
            raise TrainerFailed(
                f"the trainer was killed (signal 9) {at}, most often by the system running out of memory; lower "
                f"training.micro_batch_size. Run again, it goes on from its newest checkpoint{quoted}"
            )
        if killed_by:
            name = signal.strsignal(killed_by) or "unknown"
            raise TrainerFailed(f"the trainer was ended by signal {killed_by} ({name}) {at}{quoted}")
        if code:
            raise TrainerFailed(f"the trainer ended with exit code {code} {at}{quoted}")
        if last.get("event") != "finished" or not mail.closed():
            raise TrainerFailed(f"the trainer ended without saying that it had finished, {at}{quoted}")
        folder.read_summary()


_ENVIRONMENT = {
    "PYTHONUNBUFFERED": "1",
    "PYTHONSAFEPATH": "1",  # what lies in the current folder is not importable
    "TOKENIZERS_PARALLELISM": "false",
    "OMP_WAIT_POLICY": "PASSIVE",  # spinning threads collapse once another process wants a core
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_OFFLINE": "1",  # a trainer reads its work folder, nothing else
}


class _Mail(ABC):
    """How reports come: what the trainer must be told for it, what has come, and whether it was properly closed."""

    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = {}

    @abstractmethod
    def events(self, start: int) -> Sequence[Event]:
        """Reports from the start-th on."""

    @abstractmethod
    def closed(self) -> bool:
        """True once the sender has said that nothing more comes."""


class _PipesMail(_Mail):
    arguments = ("--pipes",)

    def __init__(self, session: dg.PipesSession) -> None:
        self._messages = session.message_handler
        self.environment = session.get_bootstrap_env_vars()

    def events(self, start: int) -> Sequence[Event]:
        return self._messages.get_custom_messages()[start:]

    def closed(self) -> bool:
        return self._messages.received_closed_message


class _FileMail(_Mail):
    """A file of JSON lines. Its last report, `finished`, is its closing message."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._events: list[Event] = []

    def events(self, start: int) -> Sequence[Event]:
        with self._path.open("rb") as file:
            file.seek(self._offset)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        self._events += map(json.loads, whole.splitlines())
        return self._events[start:]

    def closed(self) -> bool:
        return bool(self._events) and self._events[-1]["event"] == "finished"


class _Follower:
    """Hands on reports and log lines as they come, and remembers the last of both."""

    def __init__(self, folder: WorkFolder, on_report: Report) -> None:
        self._on_report = on_report
        self._log = folder.log
        self._log_offset = folder.log.stat().st_size if folder.log.exists() else 0
        self._lines: deque[str] = deque(maxlen=LOG_LINES)
        self._seen = 0
        self.last: Event = {}
        self.step = 0

    def read(self, mail: _Mail) -> None:
        """Take what is new."""
        for event in mail.events(self._seen):
            self._seen += 1
            self.last = event
            self.step = event.get("step", self.step)
            self._on_report(event)
        with suppress(FileNotFoundError), self._log.open("rb") as file:
            file.seek(self._log_offset)
            text = file.read()
            self._log_offset += len(text)
            told = text.decode(errors="replace")
            sys.stderr.write(told)
            self._lines.extend(line for line in told.splitlines() if line.strip())

    def quote(self) -> str:
        """The last lines of the log, to end an error message with."""
        return ". Its last words:\n" + "\n".join(self._lines) if self._lines else ""


def _current_step() -> dg.AssetExecutionContext | None:
    """The Dagster step that runs in this thread, None where there is none."""
    with suppress(dg.DagsterInvariantViolationError):
        return dg.AssetExecutionContext.get()
    return None


class _WholeLines(dg.PipesFileMessageReader):
    """Dagster's reader takes a line that is still being written for a message, and dies of it; this one waits."""

    def _reader_thread(self, handler: dg.PipesMessageHandler, is_resource_complete: threading.Event) -> None:
        line = ""
        for piece in tail_file(self._path, is_resource_complete.is_set):
            line += piece
            if line.endswith("\n"):
                handler.handle_message(json.loads(line))
                line = ""


@contextmanager
def _pipes(context: dg.AssetExecutionContext, folder: WorkFolder) -> Iterator[_Mail]:
    with dg.open_pipes_session(
        context=context,
        context_injector=dg.PipesTempFileContextInjector(),
        message_reader=_WholeLines(str(folder.root / "messages.jsonl")),
    ) as session:
        yield _PipesMail(session)


@contextmanager
def _report_file(folder: WorkFolder) -> Iterator[_Mail]:
    folder.reports.write_text("")
    yield _FileMail(folder.reports)


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _signal_of_rank(log: str) -> int | None:
    """The signal that ended a rank, from torchrun's account of the first failure."""
    found = re.search(r"exitcode\s*:\s*-(\d+)", log)
    return int(found.group(1)) if found else None
