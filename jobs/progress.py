"""What a person sees while a run is under way: the ledger read once a second, told as lines.

Heartbeats carry how far each attempt is, so nothing but the ledger connects this with the steps.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

from pipelines.costs.account import Account
from pipelines.costs.ledger import Event, Ledger
from pipelines.costs.meter import heartbeats
from pipelines.costs.report import dollars
from pipelines.dataset import dataset_name
from pipelines.engines.task import Progress
from pipelines.prices.book import PriceBook

POLL_SECONDS = 1.0
QUIET_SECONDS = 15.0
"""Lines about the same attempt come no closer than this where the output is a file or a pipe."""


class Watcher:
    """Tells one run. milestones: called once, when the asset of that name has been published for the run."""

    def __init__(
        self, ledger: Ledger, prices: PriceBook, console: Console, milestones: dict[str, Callable[[], None]]
    ) -> None:
        self.ledger, self.prices, self.console = ledger, prices, console
        self._milestones = dict(milestones)
        self._told: set[str] = set()
        self._last_line: dict[str, tuple[float, str]] = {}
        self._started = time.time()

    def tell(self, run: str) -> None:
        """Print what is new."""
        opened = {event.attempt: event for event in self.ledger.events(kinds=("opened",), run=run)}
        ended = self.ledger.events(kinds=("closed", "settled"), run=run)
        for event in ended:
            if event.attempt not in self._told and opened[event.attempt].payload["role"] == "stage":
                self._told.add(event.attempt)
                self._tell_end(opened[event.attempt], event)
        over = {event.attempt for event in ended}
        for beat in self.ledger.newest_heartbeats(run):
            if beat.attempt not in over and beat.payload["progress"]:
                self._tell_progress(opened[beat.attempt], beat)
        published = {pointer.asset for pointer in self.ledger.history() if pointer.run == run}
        for asset in [name for name in self._milestones if name in published]:
            self._milestones.pop(asset)()

    def _tell_end(self, opened: Event, ended: Event) -> None:
        payload = ended.payload
        name = _name(opened)
        charge = Account([opened, ended], [], self.prices).attempt(opened.attempt).charge
        seconds = ended.time - opened.time
        status = payload.get("status", "killed")
        results = payload.get("results", {})
        total, made = sum(map(len, results.values())), len(results.get(opened.attempt, {}))
        reuse = "" if made == total else "  all reused" if not made else f"  {total - made} of {total} reused"
        if status != "done":  # what was looked up before it ended is not its work
            reuse = f"  {made} results kept" if made else ""
        mark = "✓" if status == "done" else "✗"
        at = _clock(time.time() - self._started)
        self.console.print(f"{at}  {mark} {name:<34} {seconds:6.1f} s   ${dollars(charge.usd)}{reuse}")
        if status != "done":
            self.console.print(f"        {payload.get('error') or payload.get('reason')}")

    def _tell_progress(self, opened: Event, beat: Event) -> None:
        line = f"        … {_name(opened)} {Progress(**beat.payload['progress']).told(beat.time)}"
        told_at, told = self._last_line.get(opened.attempt, (opened.time, ""))
        quiet = 0.0 if self.console.is_terminal else QUIET_SECONDS
        if line != told and beat.time - told_at >= quiet:
            self._last_line[opened.attempt] = (beat.time, line)
            self.console.print(line, style="dim")


@contextmanager
def watching(watcher: Watcher, run: str) -> Iterator[None]:
    """Tell a run from a thread until the block ends, then whatever is left."""
    with heartbeats(lambda: watcher.tell(run), POLL_SECONDS):
        yield
    watcher.tell(run)


def _name(opened: Event) -> str:
    return dataset_name(opened.payload["asset"], opened.payload["partition"])


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
