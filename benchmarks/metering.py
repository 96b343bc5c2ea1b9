"""What metering costs, and what it sees: one reading of the process tree, beside psutil in the same run.

Run `python -m benchmarks.metering [--quick] [--json]`. Correctness is tested in tests/pipelines/test_usage.py.
"""

import resource
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from benchmarks.harness import Measurement, main, seconds
from pipelines.usage import UsageReader

HEARTBEAT_SECONDS = 5.0
LIMIT_PERCENT = 1.0
"""Metering may take this share of a stage."""

SHORT_LIVED = """
import subprocess, sys
for _ in range(int(sys.argv[1])):
    subprocess.run([sys.executable, "-S", "-c", "sum(range(3_000_000))"])
"""


def measure(quick: bool) -> list[Measurement]:
    """Cost of a reading with 0, 20 and 200 descendants, its share of a heartbeat, and what it sees."""
    found = []
    for descendants in (0, 20, 200):
        with asleep(descendants):
            ours, theirs = reading_microseconds(repeat=20 if quick else 100)
        name = f"one reading, {descendants} descendants"
        found.append(Measurement(name, "psutil", ours, theirs, "µs", 1.0, lower_is_better=True))
        share = ours / (HEARTBEAT_SECONDS * 1e6) * 100
        name = f"share of a {HEARTBEAT_SECONDS:g} s heartbeat, {descendants} descendants"
        found.append(Measurement(name, "our limit", share, LIMIT_PERCENT, "%", 1.0, lower_is_better=True))
    ours, theirs = short_lived_percent(children=60 if quick else 200)
    found.append(Measurement("CPU time of short-lived grandchildren seen", "psutil, every 1 s", ours, theirs, "%", 2.0))
    return found


@contextmanager
def asleep(count: int) -> Iterator[None]:
    """So many child processes that only exist."""
    children = [subprocess.Popen(["cat"], stdin=subprocess.PIPE) for _ in range(count)]
    try:
        yield
    finally:
        for child in children:
            child.communicate()


def reading_microseconds(repeat: int) -> tuple[float, float]:
    """Medians of one reading by us and by psutil, taken in turns."""
    reader = UsageReader()
    turns = [(seconds(reader.read), seconds(psutil_cpu_seconds)) for _ in range(repeat)]
    ours, theirs = zip(*turns, strict=True)
    return statistics.median(ours) * 1e6, statistics.median(theirs) * 1e6


def psutil_cpu_seconds() -> float:
    """CPU time of this process and of every live descendant."""
    total = 0.0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        try:
            times = process.cpu_times()
            process.memory_info()
        except psutil.Error:
            continue
        total += times.user + times.system
    return total


def short_lived_percent(children: int) -> tuple[float, float]:
    """Share of the kernel's count that we see, and that adding up samples of live processes sees, in percent."""
    reader, ended, highest = UsageReader(), threading.Event(), dict[int, float]()

    def sampling() -> None:
        while not ended.wait(1.0):
            for process in psutil.Process().children(recursive=True):
                try:
                    times = process.cpu_times()
                except psutil.Error:
                    continue
                highest[process.pid] = times.user + times.system

    before, kernel_before = reader.read(), resource.getrusage(resource.RUSAGE_CHILDREN)
    own_before = resource.getrusage(resource.RUSAGE_SELF)
    thread = threading.Thread(target=sampling)
    thread.start()
    process = subprocess.Popen([sys.executable, "-c", SHORT_LIVED, str(children)])
    while process.poll() is None:  # read while they live, as heartbeats do
        reader.read()
        ended.wait(0.2)
    ended.set()
    thread.join()
    used, own = reader.read() - before, resource.getrusage(resource.RUSAGE_SELF)
    kernel = resource.getrusage(resource.RUSAGE_CHILDREN)
    truth = kernel.ru_utime + kernel.ru_stime - kernel_before.ru_utime - kernel_before.ru_stime
    ourselves = own.ru_utime + own.ru_stime - own_before.ru_utime - own_before.ru_stime
    return (used.cpu_seconds - ourselves) / truth * 100, sum(highest.values()) / truth * 100


if __name__ == "__main__":
    main(measure, "Cost and truth of metering a process tree.")
