"""The process that Spark's Python workers fork from, on this machine: PySpark's own, but it lets the kernel count them.

PySpark's daemon ignores SIGCHLD, so the kernel drops the times of a worker that has ended, and the meter with it.
"""

import signal
from typing import Any

from pyspark import daemon


def main() -> None:
    """PySpark's daemon, told of children that end only when it looks."""
    set_handler = signal.signal

    def keep_children(number: int, handler: Any) -> Any:
        if number == signal.SIGCHLD and handler == signal.SIG_IGN:
            handler = signal.SIG_DFL  # ended workers stay zombies, whose times are theirs, until this process ends
        return set_handler(number, handler)

    signal.signal = keep_children  # type: ignore[assignment]
    daemon.manager()


if __name__ == "__main__":
    main()
