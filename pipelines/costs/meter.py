"""The meter: opens an attempt, beats while it runs, closes it with what it used.

Whatever a process used before its first attempt (imports, loading the definitions) is the start-up of the attempts
that it was started for. What a run's processes used and no attempt recorded is the coordinator's overhead.
"""

import logging
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipelines.costs.ledger import HEARTBEAT_SECONDS, Ledger, LedgerError
from pipelines.engines.task import Progress, Result
from pipelines.purchases import Journal
from pipelines.usage import Usage, UsageReader

logger = logging.getLogger(__name__)


@dataclass
class OpenAttempt:
    """An attempt under way. The body's results and version are noted here before it closes."""

    id: str
    run: str
    progress: Progress = field(default_factory=Progress)
    results: list[Result] = field(default_factory=list)
    outcome: dict[str, Any] = field(default_factory=dict)
    usage: Usage | None = None
    """What it used: set when it has closed."""

    def made(self, version: str, pins: Sequence[tuple[str, str, str]]) -> None:
        """Note the version that came out and what it was made from."""
        self.outcome |= {"version": version, "pins": [list(pin) for pin in pins]}

    def _results(self) -> dict[str, dict[str, float]]:
        told: dict[str, dict[str, float]] = {}
        for result in self.results:
            told.setdefault(result.made_by, {})[result.key] = result.cpu_seconds
        return told

    def _paid(self) -> dict[str, dict[str, str]]:
        told: dict[str, dict[str, str]] = {}
        for result in self.results:
            for attempt, usd in {**result.kept_usd, result.made_by: result.bought_usd}.items():
                if usd:
                    told.setdefault(attempt, {})[result.key] = str(usd)
        return told


class Meter:
    """Meters the attempts of one process.

    whole_process: this process exists for the step (or the run) alone, so what it used since its start counts too.
    """

    def __init__(self, ledger: Ledger, reader: UsageReader, *, whole_process: bool) -> None:
        self.ledger = ledger
        self._read = reader.read
        self._mark = Usage() if whole_process else reader.read()
        self._startup = Usage()

    def step_begins(self, attempts: int) -> None:
        """Share what was used until now over the attempts that the step is about to open."""
        now = self._read()
        self._startup = Usage(cpu_seconds=(now - self._mark).cpu_seconds / max(attempts, 1))
        self._mark = now

    @contextmanager
    def attempt(
        self,
        *,
        root_run: str,
        run: str,
        step: str,
        asset: str,
        partition: str,
        role: str = "stage",
        journals: Path | None = None,
    ) -> Iterator[OpenAttempt]:
        """One attempt, from opening to closing. Any exception closes it as failed (or cancelled) and goes on.

        role: see `Ledger.open_attempt`; 'coordinator' makes all of it overhead. journals: folder in which what it buys
        is noted until it has closed.
        """
        startup, begun = self._startup, self._mark
        journal = None if journals is None else Journal(journals / f"{uuid.uuid4().hex}.jsonl")
        attempt_id = self.ledger.open_attempt(
            root_run=root_run,
            run=run,
            step=step,
            asset=asset,
            partition=partition,
            role=role,
            usage=startup + (self._read() - begun),
            journal=None if journal is None else journal.path,
        )
        attempt = OpenAttempt(attempt_id, run, Progress(journal=journal))
        status, error = "failed", None

        def used(now: Usage) -> Usage:
            outside = attempt.progress.outside_cpu_seconds
            told = Usage(cpu_seconds=outside, outside_cpu_seconds=outside) + attempt.progress.bought
            return startup + (now - begun) + told

        try:
            with heartbeats(
                lambda: self.ledger.heartbeat(attempt_id, run, used(self._read()), attempt.progress.record())
            ):
                yield attempt
            status = "done"
        except Exception as exception:
            error = f"{type(exception).__name__}: {exception}"[:2000]
            raise
        except BaseException:
            status, error = "cancelled", "cancelled"
            raise
        finally:
            now = self._read()
            attempt.usage, self._mark = used(now), now
            outcome = attempt.outcome | {
                "results": attempt._results(),
                "paid": attempt._paid(),
                "startup": startup.cpu_seconds,
            }
            if error is not None:
                outcome["error"] = error
            self.ledger.close_attempt(attempt_id, run, status, attempt.usage, outcome)
            if journal is not None:
                journal.remove()

    @contextmanager
    def coordinator(self, *, root_run: str, run: str, job: str) -> Iterator[str]:
        """The process that runs a run's steps: charged with what its tree used and no attempt of the run recorded."""

        def overhead() -> Usage:
            recorded = Usage()
            for usage in self._latest_usages(run):
                recorded = recorded + usage
            tree = self._read() - self._mark
            in_tree = recorded.cpu_seconds - recorded.outside_cpu_seconds
            return Usage(cpu_seconds=max(0.0, tree.cpu_seconds - in_tree), wall_seconds=tree.wall_seconds)

        attempt_id = self.ledger.open_attempt(
            root_run=root_run, run=run, step=f"run:{job}", asset="", partition="", role="coordinator", usage=overhead()
        )
        status = "failed"
        try:
            with heartbeats(lambda: self.ledger.heartbeat(attempt_id, run, overhead(), {})):
                yield attempt_id
            status = "done"
        except Exception:
            raise
        except BaseException:
            status = "cancelled"
            raise
        finally:
            self.ledger.settle()
            self.ledger.close_attempt(attempt_id, run, status, overhead(), {})

    def _latest_usages(self, run: str) -> list[Usage]:
        """The newest usage of every stage attempt of a run, ended or under way."""
        newest: dict[str, Usage] = {}
        coordinators: set[str] = set()
        told = self.ledger.newest_heartbeats(run) + self.ledger.events(run=run)
        for event in sorted(told, key=lambda e: (e.kind in ("closed", "settled"), e.kind == "heartbeat")):
            if event.payload.get("role") == "coordinator":
                coordinators.add(event.attempt)
            newest[event.attempt] = Usage.from_record(event.payload["usage"])
        return [usage for attempt, usage in newest.items() if attempt not in coordinators]


@contextmanager
def heartbeats(beat: Callable[[], None], seconds: float | None = None) -> Iterator[None]:
    """Call `beat` every few seconds from a thread until the block ends. A beat that fails is logged, not raised."""
    pause = HEARTBEAT_SECONDS if seconds is None else seconds
    ended = threading.Event()

    def beating() -> None:
        told = ""
        while not ended.wait(pause):
            try:
                beat()
            except LedgerError as error:
                if str(error) != told:  # once, not every few seconds
                    told = str(error)
                    logger.warning("a heartbeat could not be written: %s", told)
            except Exception:
                logger.warning("a heartbeat could not be written", exc_info=True)

    thread = threading.Thread(target=beating, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
