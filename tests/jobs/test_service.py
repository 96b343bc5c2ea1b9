"""Runs under a real webserver and daemon: cancelled, queued, and what becomes of them when a process is killed."""

import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from pipelines.costs.ledger import Event
from resources.settings import load_profile
from tests.jobs.corpus import write_profile
from tests.jobs.processes import Mill, mills, wait_for
from tests.jobs.service import Refused, Service, free_port, services
from tests.jobs.test_kills import (
    TRAINING,
    assert_every_dollar_is_in_one_bucket,
    last_heartbeat,
    mill_in_this_process,
    trained,
    trainer_of,
)

pytestmark = pytest.mark.slow

CLEANING = ("raw_documents", "clean_documents")
CANCEL_SECONDS = 5.0
"""From the button *Terminate* until nobody works for the run."""

MakeMill = Callable[..., Mill]
MakeService = Callable[[Mill], Service]


@pytest.fixture
def make_mill(tmp_path: Path):
    yield from mills(tmp_path)


@pytest.fixture
def make_service():
    yield from services()


# -- cancelled ----------------------------------------------------------------------------------------------------


def cancel(service: Service, run: str) -> None:
    """Press *Terminate*: all that the run started has ended in time, and Dagster says so."""
    at_work = len(service.run_processes())
    begun = time.monotonic()
    service.terminate(run)
    answered = time.monotonic() - begun
    wait_for(lambda: not service.run_processes(), "the processes of the run to end")
    ended = time.monotonic() - begun
    service.wait_for_status(run, "CANCELED")
    told = time.monotonic() - begun
    print(f"{at_work} processes; answered after {answered:.2f} s, gone after {ended:.2f} s, told after {told:.2f} s")
    assert at_work > 2  # the run's process, its fork server and tracker, and at least the step
    assert ended < CANCEL_SECONDS


def assert_charged(mill: Mill, opened: Event) -> None:
    """The cancelled attempt has been closed by itself with all that it had used, and no pointer moved."""
    asset, partition = opened.payload["asset"], opened.payload["partition"]
    attempt = mill.attempt(asset, partition)
    assert (attempt.id, attempt.status) == (opened.attempt, "cancelled")
    assert attempt.usage.cpu_seconds >= last_heartbeat(mill, opened)["cpu_seconds"] > 0
    assert attempt.charge.usd > 0
    assert [c.status for c in mill.coordinators()] == ["cancelled"]
    assert mill.ledger.current(asset, partition) is None
    assert_every_dollar_is_in_one_bucket(mill)


def test_terminate_ends_a_pool_within_five_seconds_and_charges_it(make_mill: MakeMill, make_service: MakeService):
    # Given a run with a pool at work
    mill = make_mill("mill", slow=0.4)
    service = make_service(mill)
    run = service.launch(*CLEANING)
    opened = service.open_attempt(run, "clean_documents", "web", finished_tasks=1)

    # When it is cancelled
    cancel(service, run)

    # Then what it used is charged, and the next run is free to go on from there
    assert_charged(mill, opened)
    service.wait_for_status(service.launch(*CLEANING), "SUCCESS")
    assert mill.account().buckets().salvaged > 0
    assert_every_dollar_is_in_one_bucket(mill)


@pytest.fixture(scope="module")
def blended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store and a ledger with everything that training reads."""
    pytest.importorskip("transformers", reason="needs the train group")
    return mill_in_this_process(tmp_path_factory.mktemp("blended"), "*training_blend", training=TRAINING).folder


@pytest.fixture
def make_trainer(blended: Path, make_mill: MakeMill, tmp_path: Path) -> Callable[..., Mill]:
    """Mills that have everything up to the blend."""

    def make(name: str, **sections) -> Mill:
        shutil.copytree(blended, tmp_path / name)
        mill = make_mill(name, slow=0.02, training=TRAINING, **sections)
        mill.profile = load_profile(write_profile(mill.folder, workers=2, training=TRAINING, **sections))
        return mill

    return make


@pytest.mark.parametrize("processes", [1, 2])
def test_terminate_ends_a_trainer_within_five_seconds_and_its_checkpoint_remains(
    make_trainer: Callable[..., Mill], make_service: MakeService, processes: int
):
    # Given a run whose trainer has saved a checkpoint, once in a process of its own and once in two
    mill = make_trainer("mill", launcher={"processes": processes})
    service = make_service(mill)
    run = service.launch("pretrained_model")
    opened = service.open_attempt(run, "pretrained_model")
    service.reaches(run, lambda: trainer_of(mill), "a checkpoint")

    # When it is cancelled
    cancel(service, run)

    # Then what it used is charged
    assert_charged(mill, opened)
    saved = max(int(path.parent.name.removeprefix("step-")) for path in mill.folder.rglob("step-*/manifest.json"))
    assert 40 <= saved < TRAINING["max_steps"]

    # And the next run goes on from the newest checkpoint
    service.wait_for_status(service.launch("pretrained_model"), "SUCCESS")
    attempt = mill.attempt("pretrained_model")
    beats = [b for b in mill.ledger.events(kinds=("heartbeat",)) if b.attempt == attempt.id]
    assert min(steps for b in beats if (steps := b.payload["progress"]["rows_done"])) >= saved
    assert trained(mill)["steps"] == TRAINING["max_steps"]
    assert_every_dollar_is_in_one_bucket(mill)
