"""What metering costs, and what it sees: one reading of the process tree, beside psutil in the same run.

Run `python -m benchmarks.metering [--quick] [--json]`. Correctness is tested in tests/pipelines/test_usage.py.
"""

import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from benchmarks.harness import Measurement, main, seconds
from pipelines.costs.account import Account
from pipelines.costs.ledger import Ledger, Pointer
from pipelines.costs.meter import Meter
from pipelines.prices.book import load_book
from pipelines.usage import UsageReader

HEARTBEAT_SECONDS = 5.0
STAGE_SECONDS = 60.0
LIMIT_PERCENT = 1.0
"""Metering may take this share of a stage."""

SHORT_LIVED = """
import subprocess, sys
for _ in range(int(sys.argv[1])):
    subprocess.run([sys.executable, "-S", "-c", "sum(range(3_000_000))"])
"""


def measure(quick: bool) -> list[Measurement]:
    """Cost of a reading and its share of a heartbeat, of all metering of a stage, and what a reading sees."""
    found = []
    for descendants in (0, 20, 200):
        with asleep(descendants):
            ours, theirs = reading_microseconds(repeat=20 if quick else 100)
        name = f"one reading, {descendants} descendants"
        found.append(Measurement(name, "psutil", ours, theirs, "µs", 1.0, lower_is_better=True))
        share = ours / (HEARTBEAT_SECONDS * 1e6) * 100
        name = f"share of a {HEARTBEAT_SECONDS:g} s heartbeat, {descendants} descendants"
        found.append(Measurement(name, "our limit", share, LIMIT_PERCENT, "%", 1.0, lower_is_better=True))
    for attempts in (100, 1000):
        share = stage_percent(attempts, repeat=3 if quick else 10)
        name = f"metering of a {STAGE_SECONDS:g} s stage, {attempts} attempts in the ledger"
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


def stage_percent(attempts: int, repeat: int) -> float:
    """CPU time of all metering of one stage as a share of a stage that keeps one core busy for a minute, percent.

    Opening and closing the attempt, a heartbeat every 5 s, and the cost of the result with everything upstream, read
    from a ledger of so many attempts. Median.
    """
    book = load_book(Path(__file__).parents[1] / "config" / "prices" / "cloud-2026.yaml")
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(f"sqlite:///{folder}/ledger.db")
        meter = Meter(ledger, UsageReader(), whole_process=False)
        for number in range(attempts):
            _attempt(meter, f"v{number}", beats=0)
        spent = []
        for number in range(repeat):
            begun = time.process_time()
            opened = _attempt(meter, f"w{number}", beats=int(STAGE_SECONDS / HEARTBEAT_SECONDS))
            Account.read(ledger, book).lineage_usd(opened)
            spent.append(time.process_time() - begun)
    return statistics.median(spent) / STAGE_SECONDS * 100


def _attempt(meter: Meter, version: str, beats: int) -> str:
    with meter.attempt(root_run="run", run="run", step="step", asset="asset", partition=version) as attempt:
        attempt.made(version, [("asset", "", "v0")])
        for _ in range(beats):
            meter.ledger.heartbeat(attempt.id, "run", UsageReader().read(), {})
    meter.ledger.publish([Pointer("asset", version, version, attempt.id, "run")])
    return version


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
