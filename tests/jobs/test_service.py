"""Runs under a real webserver and daemon: cancelled, queued, and what becomes of them when a process is killed."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from pipelines.costs.ledger import Event
from pipelines.processes import ProcessIdentity, is_alive
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


def test_terminate_ends_a_step_that_does_not_react(make_mill: MakeMill, make_service: MakeService):
    # Given a step that no request reaches any more, as in a long call into foreign code
    mill = make_mill("mill", slow=0.4)
    service = make_service(mill)
    run = service.launch(*CLEANING)
    opened = service.open_attempt(run, "clean_documents", "web", finished_tasks=1)
    psutil.Process(opened.payload["owner"]["pid"]).suspend()

    cancel(service, run)

    # Then it is charged up to its last heartbeat, and the rest is overhead of the run
    attempt = mill.attempt("clean_documents", "web")
    assert (attempt.id, attempt.status) == (opened.attempt, "killed")
    assert attempt.usage.cpu_seconds == last_heartbeat(mill, opened)["cpu_seconds"] > 0
    assert [c.status for c in mill.coordinators()] == ["cancelled"]
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


def test_terminate_reaches_a_run_of_the_command(make_mill: MakeMill, make_service: MakeService):
    # Given a run that somebody started with `corpusmill run`, and a webserver beside it
    mill = make_mill("mill", slow=0.4)
    service = make_service(mill)
    command = mill.start("--select", "*clean_documents")
    opened = mill.open_attempt(command, "clean_documents", "web", finished_tasks=1)

    # When it is cancelled there
    cancel(service, opened.run)

    # Then the command says so, and what was used is charged
    assert command.end() == 1
    assert "cancelled" in command.told
    assert_charged(mill, opened)


# -- queued -------------------------------------------------------------------------------------------------------


def test_runs_that_are_launched_at_once_work_one_after_the_other(make_mill: MakeMill, make_service: MakeService):
    mill = make_mill("mill", slow=0.1)
    service = make_service(mill)

    launched = [service.launch(*CLEANING), service.launch(*CLEANING)]
    for run in launched:
        service.wait_for_status(run, "SUCCESS")

    first, second = sorted(map(service.run, launched), key=lambda run: run["startTime"])
    assert first["endTime"] <= second["startTime"]
    assert [c.status for c in mill.coordinators()] == ["done", "done"]
    assert {mill.account().attempt(a.id).status for a in mill.account().attempts} == {"done"}
    assert_every_dollar_is_in_one_bucket(mill)


# -- killed -------------------------------------------------------------------------------------------------------


def worker(mill: Mill, run: str) -> psutil.Process:
    """The process of a run."""
    (opened,) = [e for e in mill.ledger.events(kinds=("opened",), run=run) if e.payload["role"] == "coordinator"]
    return psutil.Process(opened.payload["owner"]["pid"])


def retry_of(service: Service, run: str) -> str:
    """The run that Dagster started again in the place of a failed one."""
    retries = wait_for(lambda: [r for r in service.runs() if r["parentRunId"] == run], "a retry")
    assert [retry["rootRunId"] for retry in retries] == [run]
    return retries[0]["runId"]


def at_work(make_mill: MakeMill, make_service: MakeService) -> tuple[Mill, Service, str]:
    """A run at work."""
    mill = make_mill("mill", slow=0.4)
    service = make_service(mill)
    run = service.launch(*CLEANING)
    service.open_attempt(run, "raw_documents", "books")
    return mill, service, run


def test_a_run_survives_the_daemon_and_queued_ones_wait_for_its_return(make_mill: MakeMill, make_service: MakeService):
    # Given a run at work, one in the queue, and a daemon that is killed
    mill, service, running = at_work(make_mill, make_service)
    queued = service.launch(*CLEANING)
    service.kill("daemon")

    # Then the first finishes, and the second begins once the daemon is back
    service.wait_for_status(running, "SUCCESS")
    assert service.status(queued) == "QUEUED"
    service.start_daemon()
    service.wait_for_status(queued, "SUCCESS")
    assert_every_dollar_is_in_one_bucket(mill)


def test_a_run_survives_the_webserver(make_mill: MakeMill, make_service: MakeService):
    mill, service, run = at_work(make_mill, make_service)

    service.kill("webserver")
    service.start_webserver()
    service.wait_until_it_answers()

    service.wait_for_status(run, "SUCCESS")
    assert_every_dollar_is_in_one_bucket(mill)


def test_a_run_survives_its_code_server_and_can_still_be_cancelled(make_mill: MakeMill, make_service: MakeService):
    mill, service, run = at_work(make_mill, make_service)

    worker(mill, run).parent().kill()

    opened = service.open_attempt(run, "clean_documents", "web", finished_tasks=1)
    cancel(service, run)
    assert_charged(mill, opened)


@pytest.mark.parametrize("machine", [False, True], ids=["its process alone", "with all its servers"])
def test_a_run_whose_process_is_killed_fails_and_another_goes_on(
    make_mill: MakeMill, make_service: MakeService, machine: bool
):
    # Given a run in the middle of its second step, whose process is killed; or with it daemon and code server, after
    # which nobody is left who had started it
    mill = make_mill("mill", slow=0.4)
    service = make_service(mill)
    run = service.launch(*CLEANING)
    opened = service.open_attempt(run, "clean_documents", "web", finished_tasks=1)
    killed = worker(mill, run)
    if machine:
        service.kill("daemon")
        killed.parent().kill()
    killed.kill()
    if machine:
        service.start_daemon()

    # Then its steps end, it is marked as failed, and a run is started in its place
    step = ProcessIdentity(**opened.payload["owner"])
    wait_for(lambda: not is_alive(step), "the step to end")
    service.wait_for_status(run, "FAILURE")
    retry = retry_of(service, run)
    service.wait_for_status(retry, "SUCCESS")

    # Which has not done again what was finished, and nothing is lost or counted twice
    account = mill.account()
    assert account.salvaged_usd(account.attempt(opened.attempt)) > 0
    assert {a.asset for a in account.attempts if a.run == retry and a.role == "stage"} == {"clean_documents"}
    assert [c.status for c in mill.coordinators()] == ["killed", "done"]
    assert_every_dollar_is_in_one_bucket(mill)


def test_a_run_that_would_fail_again_is_not_started_again(make_mill: MakeMill, make_service: MakeService):
    # Given a run that failed in a step, one that was refused, and one after them, whose process was killed
    mill = make_mill("mill", slow=0.4)
    service = make_service(mill)
    failed = service.launch("clean_documents")
    service.wait_for_status(failed, "FAILURE")
    refused = service.launch("raw_documents", tags={})
    service.wait_for_status(refused, "FAILURE")
    killed = service.launch("raw_documents")
    service.open_attempt(killed, "raw_documents", "books")
    worker(mill, killed).kill()

    # When the last has been started again, Dagster had looked at the others
    service.wait_for_status(retry_of(service, killed), "SUCCESS")

    assert {run["parentRunId"] for run in service.runs()} == {None, killed}
    assert "Not retrying run since it failed due to an asset or op failure" in service.messages(failed)


# -- viewers ------------------------------------------------------------------------------------------------------


def test_a_read_only_webserver_shows_everything_and_changes_nothing(make_mill: MakeMill):
    mill = make_mill("mill")
    mill.run("--select", "raw_documents")
    service = Service(mill, free_port())
    service.start_ui("--read-only")
    service.wait_until_it_answers()

    (run,) = service.runs()
    assert run["status"] == "SUCCESS"
    with pytest.raises(Refused, match="UnauthorizedError"):
        service.launch("raw_documents")
    deleted = service.ask("mutation M($run: String!) {did: deleteRun(runId: $run) {__typename}}", run=run["runId"])
    assert deleted["did"]["__typename"] == "UnauthorizedError"
    assert len(service.runs()) == 1
    assert not [process for process in mill.family() if "dagster._daemon" in process.cmdline()]
    listening = {c.laddr.ip for p in mill.family() for c in p.net_connections("tcp") if c.status == psutil.CONN_LISTEN}
    assert listening == {"127.0.0.1"}
