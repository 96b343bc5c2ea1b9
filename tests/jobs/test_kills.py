"""What the ledger says after real runs in real processes that were killed, cancelled, or started twice."""

import contextlib
import json
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import dagster as dg
import psutil
import pytest

from jobs.build import build_definitions, full_range
from jobs.failures import failures
from pipelines.costs.ledger import RUN_LOCK, Event
from pipelines.dataset import Version
from resources.settings import load_profile
from tests.jobs.corpus import prose, write_profile
from tests.jobs.processes import AGAIN, MEASURED, WITH_RETRIES, Mill, kernel_cpu_seconds, mills

CHAIN = "*filtered_documents"
CLEANING = ("--select", "*clean_documents")
MakeMill = Callable[..., Mill]


@pytest.fixture
def make_mill(tmp_path: Path):
    yield from mills(tmp_path)


def mill_in_this_process(folder: Path, select: str, **sections: Any) -> Mill:
    """A mill that has run undisturbed."""
    mill = Mill.make(folder, **sections)
    definitions = build_definitions(mill.profile)
    chosen = dg.AssetSelection.from_string(select).resolve(definitions.resolve_asset_graph())
    with dg.DagsterInstance.ephemeral() as instance:
        result = definitions.resolve_job_def("full_job").execute_in_process(
            instance=instance, asset_selection=list(chosen), tags=full_range(mill.profile)
        )
    assert result.success
    mill.ledger.release_lock(RUN_LOCK, result.run_id)  # this process, which has it, lives on
    return mill


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory):
    """What a whole small chain comes to when nobody disturbs it."""
    return mill_in_this_process(tmp_path_factory.mktemp("uninterrupted"), CHAIN).versions()


def kill(opened: Event) -> None:
    """End the process of an attempt without a word."""
    os.kill(opened.payload["owner"]["pid"], signal.SIGKILL)


def last_heartbeat(mill: Mill, opened: Event) -> dict:
    """The last usage that an attempt told."""
    (beat,) = [b for b in mill.ledger.newest_heartbeats(opened.run) if b.attempt == opened.attempt]
    return beat.payload["usage"]


def assert_every_dollar_is_in_one_bucket(mill: Mill) -> None:
    account = mill.account()
    buckets = account.buckets()
    parts = (buckets.published, buckets.salvaged, buckets.waste, buckets.overhead)
    assert sum(parts) == buckets.total == sum((a.charge.usd for a in account.attempts), Decimal(0))
    assert min(parts) >= 0
    opened = [event.attempt for event in mill.ledger.events(kinds=("opened",))]
    assert sorted(opened) == sorted(attempt.id for attempt in account.attempts)  # each of them, once, and ended


def assert_same_as(uninterrupted: dict, mill: Mill, *assets: str) -> None:
    wanted = {key: version for key, version in uninterrupted.items() if not assets or key[0] in assets}
    assert mill.versions() == wanted
    assert mill.damaged() == []


# -- nothing is missing -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_ledger_has_what_the_kernel_counted_start_up_included(make_mill: MakeMill, uninterrupted) -> None:
    mill = make_mill("mill", slow=0.1)

    mill.prepare()
    kernel = kernel_cpu_seconds(mill.start("--select", CHAIN, program=MEASURED))

    told = sum(attempt.usage.cpu_seconds for attempt in mill.account().attempts)
    print(f"kernel {kernel:.2f} s, ledger {told:.2f} s, ratio {told / kernel:.4f}")
    assert kernel > 20
    assert told == pytest.approx(kernel, rel=0.02)
    assert {a.role for a in mill.account().attempts} == {"stage", "coordinator"}
    assert_same_as(uninterrupted, mill)


@pytest.mark.slow
def test_a_short_run_misses_no_more_than_the_end_of_the_interpreter(make_mill: MakeMill) -> None:
    mill = make_mill("mill")

    mill.prepare()
    kernel = kernel_cpu_seconds(mill.start("--select", "raw_documents", program=MEASURED))

    told = sum(attempt.usage.cpu_seconds for attempt in mill.account().attempts)
    assert kernel - 0.5 < told <= kernel


# -- killed -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_killed_step_is_settled_and_its_finished_shards_are_reused(make_mill: MakeMill, uninterrupted) -> None:
    # Given a run whose step is killed in the middle of its second source
    mill = make_mill("mill", slow=0.4)
    run = mill.start(*CLEANING)
    opened = mill.open_attempt(run, "clean_documents", "web", finished_tasks=1)
    kill(opened)

    # Then the command says so and how to go on
    assert run.end() == 1
    assert "clean_documents failed: its process was terminated by signal 9 (SIGKILL)" in run.told
    assert "go on with: corpusmill run" in run.told

    # And the attempt counts up to its last heartbeat, and has moved no pointer
    killed = mill.attempt("clean_documents", "web")
    assert (killed.id, killed.status, killed.error) == (opened.attempt, "killed", "its process is gone")
    assert killed.usage.cpu_seconds == last_heartbeat(mill, opened)["cpu_seconds"] > 0
    assert {pointer.asset for pointer in mill.ledger.all_current()} == {"raw_documents"}
    assert mill.account().buckets().salvaged == 0

    # When it is run again
    mill.run(*CLEANING)

    # Then what was finished is not done again, and everything is as if nothing had happened
    account = mill.account()
    assert account.salvaged_usd(account.attempt(opened.attempt)) > 0
    assert account.salvaged_usd(account.attempt(opened.attempt.replace("web", "books"))) > 0
    assert account.made[mill.attempt("clean_documents", "books").id] == {}
    assert_every_dollar_is_in_one_bucket(mill)
    assert_same_as(uninterrupted, mill, "raw_documents", "clean_documents")


@pytest.mark.slow
def test_a_killed_coordinator_leaves_no_orphan_and_no_lock(make_mill: MakeMill, uninterrupted) -> None:
    # Given a run whose coordinator, the command itself, is killed while a pool is at work
    mill = make_mill("mill", slow=0.4)
    run = mill.start(*CLEANING)
    opened = mill.open_attempt(run, "clean_documents", "web", finished_tasks=1)
    assert len(mill.family()) > 4  # the command, its fork server and tracker, the step, the step's pool
    run.signal(signal.SIGKILL)

    # Then everybody else ends too, and the step says what it had used
    mill.wait_until_quiet()
    ended = mill.attempt("clean_documents", "web")
    assert (ended.id, ended.status) == (opened.attempt, "cancelled")
    assert ended.usage.cpu_seconds >= last_heartbeat(mill, opened)["cpu_seconds"] > 0
    assert [c.status for c in mill.coordinators()] == ["killed"]
    assert {pointer.asset for pointer in mill.ledger.all_current()} == {"raw_documents"}

    # And the next run is free to go on
    mill.run(*CLEANING)
    assert mill.account().buckets().salvaged > 0
    assert_every_dollar_is_in_one_bucket(mill)
    assert_same_as(uninterrupted, mill, "raw_documents", "clean_documents")


def stages_begun(mill: Mill) -> int:
    """How many attempts of stages have ever been opened."""
    return sum(event.payload["role"] == "stage" for event in mill.ledger.events(kinds=("opened",)))


def owners_at_work(mill: Mill) -> set[int]:
    """Pids of the steps that have an attempt under way."""
    ledger = mill.ledger
    ended = {event.attempt for event in ledger.events(kinds=("closed", "settled"))}
    opened = [event for event in ledger.events(kinds=("opened",)) if event.attempt not in ended]
    return {event.payload["owner"]["pid"] for event in opened if event.payload["role"] == "stage"}


@pytest.mark.slow
def test_any_process_may_be_killed_at_any_moment(make_mill: MakeMill, uninterrupted) -> None:
    # Given a chain that is killed again and again: the command, a step, a worker, a fork server, whoever is there
    mill = make_mill("mill", slow=0.1)
    chance = random.Random(os.environ.get("PYTEST_SEED", "kills"))
    for number in range(15):
        before = stages_begun(mill)
        run = mill.start("--select", CHAIN)
        run.reaches(lambda before=before: stages_begun(mill) > before, "the first stage began")
        time.sleep(chance.uniform(0, 6) if number else 0)
        family = sorted(mill.family(), key=lambda process: process.pid)
        at_work = [process for process in family if process.pid in owners_at_work(mill)]
        if family:
            with contextlib.suppress(psutil.NoSuchProcess):  # it ended by itself meanwhile
                (family[0] if number and chance.random() < 0.3 else chance.choice(at_work or family)).kill()
        run.end()
        mill.wait_until_quiet()

    # When nobody disturbs it any more
    mill.run("--select", CHAIN)

    # Then it comes to what an undisturbed run comes to
    assert_same_as(uninterrupted, mill)
    assert_every_dollar_is_in_one_bucket(mill)
    assert {a.status for a in mill.account().attempts if a.role == "stage"} > {"done"}


# -- cancelled ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("number", "to_all"), [(signal.SIGINT, True), (signal.SIGINT, False), (signal.SIGTERM, False)])
def test_a_cancelled_run_is_counted_exactly_and_goes_on(
    make_mill: MakeMill, uninterrupted, number: signal.Signals, to_all: bool
) -> None:
    # Given a run that is cancelled in the middle: by Ctrl-C at a terminal, or by a signal to the command alone
    mill = make_mill("mill", slow=0.4)
    run = mill.start(*CLEANING)
    opened = mill.open_attempt(run, "clean_documents", "web", finished_tasks=1)
    run.signal(number, to_all=to_all)

    # Then it says so in a sentence, and nobody goes on working
    assert run.end() == 1
    assert "jobs/run.py" not in run.told  # no traceback of ours (Dagster's log watchers print theirs)
    assert "cancelled" in run.told
    mill.wait_until_quiet()

    # And the attempt was closed by itself, with all that it had used, which Dagster has on record
    ended = mill.attempt("clean_documents", "web")
    assert (ended.id, ended.status) == (opened.attempt, "cancelled")
    assert ended.usage.cpu_seconds >= last_heartbeat(mill, opened)["cpu_seconds"] > 0
    assert [c.status for c in mill.coordinators()] == ["cancelled"]
    assert observed_attempts(mill) == [opened.attempt]

    # And the next run goes on from there
    mill.run(*CLEANING)
    assert mill.account().buckets().salvaged > 0
    assert_every_dollar_is_in_one_bucket(mill)
    assert_same_as(uninterrupted, mill, "raw_documents", "clean_documents")


def observed_attempts(mill: Mill) -> list[str]:
    """The attempts that observations in Dagster's event log name."""
    with dg.DagsterInstance.from_config(str(mill.folder / "dagster")) as instance:
        records = instance.fetch_observations(dg.AssetKey("clean_documents"), limit=10).records
        return [str(record.asset_observation.metadata["cost/ledger_id"].value) for record in records]


# -- failed, and tried again --------------------------------------------------------------------------------------


FOUR = ["books", "letters", "notes", "web"]


def with_four_sources(make_mill: MakeMill) -> tuple[Mill, Callable[[], None]]:
    """A mill of four sources the third of which cannot be read, and what brings it back."""
    sources = [{"name": name, "path": name, "fields": {"id": "id"}} for name in FOUR]
    mill = make_mill("mill", sources=sources)
    for seed, name in enumerate(("letters", "notes")):
        (mill.folder / name).mkdir()
        lines = [f'{{"id": "{n}", "text": "{prose(500 + 100 * seed + n)}"}}\n' for n in range(5)]
        (mill.folder / name / "all.jsonl").write_text("".join(lines))
    notes = mill.folder / "notes"
    hidden = notes.rename(mill.folder / "elsewhere")
    notes.mkdir()
    (notes / "all.jsonl").write_text('{"no": "text"}\n')

    def bring_back() -> None:
        shutil.rmtree(notes)
        hidden.rename(notes)

    return mill, bring_back


@pytest.mark.slow
def test_a_failed_source_publishes_nothing_and_executing_again_counts_nothing_twice(make_mill: MakeMill) -> None:
    # Given a run that fails in the third of four sources
    mill, bring_back = with_four_sources(make_mill)
    run = mill.start(*CLEANING)
    assert run.end() == 1
    assert "raw_documents failed: " in run.told
    assert mill.ledger.history() == []
    first = mill.account().attempts
    assert [(a.partition, a.status) for a in first if a.role == "stage"] == [
        ("books", "done"),
        ("letters", "done"),
        ("notes", "failed"),
    ]

    # When it is executed again from where it failed
    bring_back()
    mill.run(program=AGAIN)

    # Then the tries are other attempts of the same root run, and the finished sources were not read again
    account = mill.account()
    assert {p.attempt for p in mill.ledger.all_current()}.isdisjoint(a.id for a in first)
    tries = [a.id.split("/")[1:] for a in account.attempts if a.asset == "raw_documents"]
    again = [["raw_documents", "1", name] for name in FOUR[:3]] + [["raw_documents", "0", "web"]]
    assert tries == [["raw_documents", "0", name] for name in FOUR[:3]] + again
    assert len({a.id.split("/")[0] for a in account.attempts}) == 1
    assert {p for p in FOUR if account.made[mill.attempt("raw_documents", p).id]} == {"notes", "web"}
    assert account.buckets().salvaged > 0
    assert_every_dollar_is_in_one_bucket(mill)


@pytest.mark.slow
def test_a_run_that_was_overtaken_by_another_is_not_continued(make_mill: MakeMill) -> None:
    # Given a run that failed half-way, and another one that has taken in new text since
    mill = make_mill("mill", slow=0.4)
    run = mill.start(*CLEANING)
    opened = mill.open_attempt(run, "clean_documents", "web")
    psutil.Process(opened.payload["owner"]["pid"]).kill()
    assert run.end() == 1
    (mill.folder / "web" / "new.jsonl").write_text(json.dumps({"id": "new", "text": prose(501)}) + "\n")
    mill.slow = 0
    mill.run(*CLEANING)
    known = mill.versions()

    # When the first is executed again from where it failed
    again = mill.start(program=AGAIN)

    # Then it does not make the old text current again
    assert again.end() == 1
    with dg.DagsterInstance.from_config(str(mill.folder / "dagster")) as instance:
        [failure] = failures(instance, instance.get_runs(limit=1)[0].run_id)
    assert "was overtaken: run" in failure.reason and "Start a new run" in failure.reason
    assert mill.versions() == known


@pytest.mark.slow
def test_every_retry_is_an_attempt_of_its_own(make_mill: MakeMill) -> None:
    # Given a job that tries again and again, and a source that comes back after two failures
    mill, bring_back = with_four_sources(make_mill)
    run = mill.start(program=WITH_RETRIES)
    run.reaches(lambda: [a.status for a in mill.account().attempts].count("failed") >= 2, "two failures")
    bring_back()
    assert run.end() == 0, run.told

    # Then each try has its attempts, the last one published, and the finished sources were read once
    account = mill.account()
    tries = [int(a.id.split("/")[2]) for a in account.attempts if a.partition == "books"]
    assert tries == list(range(len(tries)))
    assert len(tries) >= 3
    assert [bool(account.made[a.id]) for a in account.attempts if a.partition == "books"] == [
        number == 0 for number in tries
    ]
    assert mill.ledger.current("raw_documents", "books").attempt.split("/")[2] == str(tries[-1])
    assert_every_dollar_is_in_one_bucket(mill)


# -- two at once --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_second_run_is_refused_in_a_sentence_and_the_first_goes_on(make_mill: MakeMill, uninterrupted) -> None:
    mill = make_mill("mill", slow=0.4)
    first = mill.start(*CLEANING)
    opened = mill.open_attempt(first, "raw_documents", "books")

    second = mill.start(*CLEANING)

    assert second.end() == 1
    assert f"the run failed: run {opened.run[:8]} is at work on the corpus; wait for it or cancel it" in second.told
    assert first.end() == 0, first.told
    assert [a.status for a in mill.coordinators()] == ["failed", "done"]
    assert_every_dollar_is_in_one_bucket(mill)
    assert_same_as(uninterrupted, mill, "raw_documents", "clean_documents")


# -- training -----------------------------------------------------------------------------------------------------


TRAINING = {
    "hidden_size": 128,
    "layers": 4,
    "heads": 4,
    "kv_heads": 2,
    "intermediate_size": 256,
    "sequence_length": 8,
    "batch_size": 1,
    "max_steps": 400,
    "evaluate_every_steps": 200,
    "checkpoint_every_steps": 40,
    "validation_sequences": 4,
}


@pytest.fixture(scope="module")
def blended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store and a ledger with everything that training reads."""
    pytest.importorskip("transformers", reason="needs the train group")
    return mill_in_this_process(tmp_path_factory.mktemp("blended"), "*training_blend", training=TRAINING).folder


@pytest.fixture
def make_trainer(blended: Path, make_mill: MakeMill, tmp_path: Path) -> Callable[[str], Mill]:
    """Mills that have everything up to the blend."""

    def make(name: str) -> Mill:
        shutil.copytree(blended, tmp_path / name)
        mill = make_mill(name, slow=0.02, training=TRAINING)
        mill.profile = load_profile(write_profile(mill.folder, workers=2, training=TRAINING))
        return mill

    return make


def trainer_of(mill: Mill) -> psutil.Process | None:
    """The training process, once it has saved a checkpoint."""
    if not list(mill.folder.rglob("checkpoints/step-*/manifest.json")):
        return None
    for process in mill.family():
        if "resources.trainer_entry" in process.cmdline():
            return process
    return None


def trained(mill: Mill) -> dict:
    """What the model's training came to, but for times."""
    stats = Version.load(mill.store, mill.ledger.current("pretrained_model", "").version).stats
    return {key: stats[key] for key in ("steps", "loss", "tokens", "samples")}


@pytest.mark.slow
def test_a_killed_training_goes_on_from_its_checkpoint(make_trainer: Callable[[str], Mill]) -> None:
    # Given a training whose trainer is killed, then one whose step is killed
    mill = make_trainer("mill")
    select = ("--select", "pretrained_model")
    run = mill.start(*select)
    run.reaches(lambda: trainer_of(mill), "a checkpoint").kill()
    assert run.end() == 1
    assert "pretrained_model failed: the trainer was killed (signal 9)" in run.told
    assert mill.ledger.current("pretrained_model", "") is None

    run = mill.start(*select)
    opened = mill.open_attempt(run, "pretrained_model")
    trainer = run.reaches(lambda: trainer_of(mill), "the trainer")
    kill(opened)
    assert run.end() == 1
    assert "pretrained_model failed: its process was terminated by signal 9 (SIGKILL)" in run.told

    # Then the trainer has ended with its owner, and before its run did
    assert not trainer.is_running() or trainer.status() == psutil.STATUS_ZOMBIE
    mill.wait_until_quiet()
    saved = max(int(path.name.removeprefix("step-")) for path in mill.folder.rglob("checkpoints/step-*"))
    assert 40 <= saved < 400

    # And the next run goes on from the newest checkpoint, to the model of a training that nobody disturbed
    mill.run(*select)
    attempt = mill.attempt("pretrained_model")
    beats = [b for b in mill.ledger.events(kinds=("heartbeat",)) if b.attempt == attempt.id]
    assert min(steps for b in beats if (steps := b.payload["progress"]["rows_done"])) >= saved
    other = make_trainer("undisturbed")
    other.run(*select)
    assert trained(mill) == trained(other)
    assert_every_dollar_is_in_one_bucket(mill)
