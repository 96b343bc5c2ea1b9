"""Ending in good order: a request to stop (SIGTERM), and the watch over the processes that a trainer works for.

A killed step cannot tell its trainer anything, so the trainer looks for itself. Launching stands in
`resources/launcher.py`.
"""

import os
import signal
import threading
import time
from collections.abc import Sequence
from types import FrameType

from pipelines.processes import ProcessIdentity, is_alive

GRACE_SECONDS = 2.5
"""From the request to stop until a process is killed: time to finish a step and save. A run that is cancelled has to be
gone within five seconds; what could not be saved by then is trained again from the newest checkpoint."""


class StopRequest:
    """Whether the trainer has been asked to stop; it looks between steps, and between batches of an evaluation."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def __call__(self) -> bool:
        """True once somebody asked."""
        return self._event.is_set()

    def wait(self, seconds: float) -> None:
        """Return after so long, or once somebody asks."""
        self._event.wait(seconds)

    def ask(self) -> None:
        """Ask the trainer to save and stop."""
        self._event.set()

    def on_sigterm(self) -> None:
        """Let SIGTERM ask. Only the main thread may call this."""

        def handle(_signal: int, _frame: FrameType | None) -> None:
            self.ask()

        signal.signal(signal.SIGTERM, handle)


def end_with(
    owners: Sequence[ProcessIdentity],
    stop: StopRequest,
    *,
    poll_seconds: float = 0.2,
    grace_seconds: float = GRACE_SECONDS,
) -> threading.Thread:
    """Watch the owners in a thread; when one is gone, ask to stop. Once somebody asked, the own process group is killed
    after the grace.

    The process must lead its group, or others would be killed with it. An owner on a host or in a container that can't
    be seen from here counts as alive. Returns the started thread.
    """

    def watch() -> None:
        while not stop() and all(is_alive(owner) is not False for owner in owners):
            stop.wait(poll_seconds)
        stop.ask()
        time.sleep(grace_seconds)
        os.killpg(os.getpgrp(), signal.SIGKILL)

    thread = threading.Thread(target=watch, name="owner-watch", daemon=True)
    thread.start()
    return thread
