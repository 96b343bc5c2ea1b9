"""The meter against the kernel's own count, and what it leaves when an attempt fails."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.costs.ledger import Ledger
from pipelines.costs.meter import Meter, heartbeats
from pipelines.usage import Usage, UsageReader

ROOT = Path(__file__).parents[3]

STEP = """
import os, subprocess, sys, time
from pipelines.costs.ledger import Ledger
from pipelines.costs.meter import Meter
from pipelines.processes import become_subreaper
from pipelines.usage import UsageReader

def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass

become_subreaper()
burn(0.3)  # start-up
meter = Meter(Ledger(sys.argv[1]), UsageReader(), whole_process=True)
with meter.coordinator(root_run="run", run="run", job="job"):
    burn(0.2)  # overhead
    step = Meter(meter.ledger, UsageReader(), whole_process=False)
    step.step_begins(2)
    for source in ("web", "books"):
        with step.attempt(root_run="run", run="run", step="s", asset="a", partition=source):
            burn(0.4)
            subprocess.run([sys.executable, "-c", "sum(range(6_000_000))"])  # a short-lived child
os._exit(0)  # the interpreter's own end is not the meter's business
"""


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")


class Clock:
    """A reader whose CPU seconds are set by the test."""

    def __init__(self, cpu_seconds: float) -> None:
        self.cpu_seconds = cpu_seconds

    def read(self) -> Usage:
        return Usage(cpu_seconds=self.cpu_seconds)


def attempt(meter: Meter, partition: str = ""):
    return meter.attempt(root_run="r", run="r", step="s", asset="a", partition=partition)


def closed(ledger: Ledger) -> list[dict]:
    return [event.payload for event in ledger.events(kinds=("closed",))]


def test_everything_that_a_process_tree_used_is_in_the_ledger(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    child = subprocess.Popen([sys.executable, "-c", STEP, url], cwd=ROOT)
    _, status, kernel = os.wait4(child.pid, 0)
    assert status == 0

    told = sum(Usage.from_record(payload["usage"]).cpu_seconds for payload in closed(Ledger(url)))

    assert told == pytest.approx(kernel.ru_utime + kernel.ru_stime, rel=0.02)


def test_start_up_is_shared_by_the_attempts_that_the_step_opens(ledger: Ledger) -> None:
    clock = Clock(4.0)
    meter = Meter(ledger, clock, whole_process=True)
    meter.step_begins(2)
    for source, seconds in (("web", 1.0), ("books", 2.0)):
        with attempt(meter, source):
            clock.cpu_seconds += seconds

    assert [(p["usage"]["cpu_seconds"], p["startup"]) for p in closed(ledger)] == [(3.0, 2.0), (4.0, 2.0)]


def test_a_process_that_does_other_things_too_has_no_start_up(ledger: Ledger) -> None:
    clock = Clock(100.0)
    meter = Meter(ledger, clock, whole_process=False)
    meter.step_begins(1)
    with attempt(meter):
        clock.cpu_seconds += 1

    assert closed(ledger)[0]["usage"]["cpu_seconds"] == 1.0


@pytest.mark.parametrize(
    ("error", "status"), [(ValueError("no such file"), "failed"), (KeyboardInterrupt(), "cancelled")]
)
def test_an_attempt_that_ends_badly_is_closed_with_what_it_used(ledger: Ledger, error, status: str) -> None:
    clock = Clock(0.0)
    meter = Meter(ledger, clock, whole_process=True)
    with pytest.raises(type(error)), attempt(meter):
        clock.cpu_seconds = 2.0
        raise error

    (payload,) = closed(ledger)
    assert (payload["status"], payload["usage"]["cpu_seconds"]) == (status, 2.0)
    assert payload["error"] in ("ValueError: no such file", "cancelled")


def test_what_other_machines_worked_is_the_attempts_and_no_share_of_the_overhead(ledger: Ledger) -> None:
    clock = Clock(1.0)
    run = Meter(ledger, clock, whole_process=True)
    with run.coordinator(root_run="r", run="r", job="j"):
        step = Meter(ledger, clock, whole_process=False)
        step.step_begins(1)
        with attempt(step) as opened:
            clock.cpu_seconds += 5
            opened.progress.outside_cpu_seconds = 40
        clock.cpu_seconds += 2

    stage, coordinator = (Usage.from_record(payload["usage"]) for payload in closed(ledger))
    assert (stage.cpu_seconds, stage.outside_cpu_seconds) == (45, 40)
    assert (coordinator.cpu_seconds, coordinator.outside_cpu_seconds) == (3, 0)


def test_the_coordinator_pays_what_no_attempt_recorded(ledger: Ledger) -> None:
    clock = Clock(1.0)
    run = Meter(ledger, clock, whole_process=True)
    with run.coordinator(root_run="r", run="r", job="j"):
        step = Meter(ledger, clock, whole_process=False)
        step.step_begins(1)
        with attempt(step):
            clock.cpu_seconds += 5
        clock.cpu_seconds += 0.5

    assert [payload["usage"]["cpu_seconds"] for payload in closed(ledger)] == [5.0, 1.5]


def test_a_heartbeat_that_fails_does_not_end_the_work(caplog: pytest.LogCaptureFixture) -> None:
    beats: list[int] = []

    def beat() -> None:
        beats.append(1)
        raise OSError("database is locked")

    with heartbeats(beat, seconds=0.01):
        while len(beats) < 3:
            pass

    assert "a heartbeat could not be written" in caplog.text


def test_heartbeats_tell_progress(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.costs.meter.HEARTBEAT_SECONDS", 0.01)
    meter = Meter(ledger, UsageReader(), whole_process=False)
    with attempt(meter) as opened:
        opened.progress.rows_done = 7
        while not ledger.newest_heartbeats("r"):
            pass

    assert json.dumps(ledger.newest_heartbeats("r")[0].payload["progress"]["rows_done"]) == "7"
