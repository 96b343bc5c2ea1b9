"""Every way to launch the chain makes the same versions, or fails with the same sentence."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.corpus import BOOKS, prose, write_corpus
from tests.jobs.processes import ROOT, Mill, mills, wait_for
from tests.jobs.service import ENDED, Service, services

pytestmark = pytest.mark.slow

SOURCES = [{"name": name, "path": name, "fields": {"id": "id"}} for name in ("books", "web", "letters")]
GLOBAL = ("duplicate_clusters", "perplexity_model", "training_mixture", "tokenizer", "training_blend")
BY_SOURCE = (
    "raw_documents",
    "clean_documents",
    "compliance_audit",
    "unique_documents",
    "toxicity_scores",
    "perplexity_scores",
    "contamination_scores",
    "filtered_documents",
    "token_shards",
)
CORPUS = (*BY_SOURCE, *GLOBAL)
UP_TO_MIXTURE = tuple(name for name in CORPUS if name not in ("token_shards", "tokenizer", "training_blend"))
EVERY_MINUTE = "* * * * *"
REMEDY = "Run the full range of sources: what is unchanged is reused and costs nothing."

Versions = dict[tuple[str, str], str]


def add_letter(folder: Path, name: str, text: str) -> None:
    with (folder / "letters" / "part 1.jsonl").open("a") as file:
        file.write(json.dumps({"id": name, "text": text}) + "\n")


def make_mill(make: Callable[..., Mill], name: str, folder: Path) -> Mill:
    """A mill with three sources, so that two of them are not neighbours."""
    write_corpus(folder / name)
    (folder / name / "letters").mkdir()
    for number in range(12):
        add_letter(folder / name, f"l{number}", prose(500 + number))
    return make(name, sources=SOURCES, schedules={"nightly": EVERY_MINUTE}, watch={"every_seconds": 2})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("launches")


@pytest.fixture(scope="module")
def make(folder: Path) -> Iterator[Callable[..., Mill]]:
    yield from mills(folder)


@pytest.fixture(scope="module")
def truth(make: Callable[..., Mill], folder: Path) -> Versions:
    """What `corpusmill run` makes."""
    mill = make_mill(make, "truth", folder)
    mill.run()
    return {place: version for place, (version, _) in mill.versions().items()}


@pytest.fixture(scope="module")
def shared_service(make: Callable[..., Mill], folder: Path) -> Iterator[Service]:
    for start in services():
        yield start(make_mill(make, "service", folder))


@pytest.fixture
def service(shared_service: Service) -> Service:
    """At rest: what an earlier test started may end after that test, as a second tick of its schedule does."""
    wait_for(lambda: at_rest(shared_service), "earlier runs to end")
    return shared_service


@pytest.fixture
def other_service(make: Callable[..., Mill], folder: Path, request: pytest.FixtureRequest) -> Iterator[Service]:
    """One of its own, in which nothing has been made."""
    for start in services():
        yield start(make_mill(make, request.node.name, folder))


def published_since(mill: Mill, before: int) -> Versions:
    return {(p.asset, p.partition): p.version for p in mill.ledger.history()[before:]}


def of_the_corpus(versions: Versions) -> Versions:
    return {place: version for place, version in versions.items() if place[0] != "pretrained_model"}


def test_a_jobs_page(service: Service, truth: Versions) -> None:
    before = len(service.mill.ledger.history())

    service.wait_for_status(service.launch(), "SUCCESS")

    assert published_since(service.mill, before) == truth


@pytest.mark.timeout(2000)
def test_materialize_all_on_the_global_graph(service: Service, truth: Versions) -> None:
    before = len(service.mill.ledger.history())

    backfill = service.backfill(*CORPUS)
    assert outcome(service, backfill) == "COMPLETED_SUCCESS", failures(service, backfill)

    runs = [run for run in service.runs() if run["tags"].get("dagster/backfill") == backfill]
    assert {run["status"] for run in runs} == {"SUCCESS"} and len(runs) > 1
    assert published_since(service.mill, before) == of_the_corpus(truth)


@pytest.mark.parametrize("target", [("--assets", "*"), ("--job", "full_job")])
def test_dg_launch(service: Service, truth: Versions, target: tuple[str, str]) -> None:
    before = len(service.mill.ledger.history())

    told = dg(service.mill, "launch", *target, "--partition-range", "books...letters")

    assert told.returncode == 0, told.stdout + told.stderr
    assert published_since(service.mill, before) == truth


def test_the_command_on_the_same_instance(service: Service, truth: Versions) -> None:
    before = len(service.mill.ledger.history())

    service.mill.run()

    assert published_since(service.mill, before) == truth


def test_a_schedule(service: Service, truth: Versions) -> None:
    before = len(service.mill.ledger.history())

    service.start_schedule("nightly")
    run = wait_for(lambda: [r for r in service.runs() if r["tags"].get("dagster/schedule_name") == "nightly"], "a tick")
    service.stop_schedule("nightly")
    service.wait_for_status(run[-1]["runId"], "SUCCESS")
    wait_for(lambda: at_rest(service), "a second tick's run to end")

    assert published_since(service.mill, before) == of_the_corpus(truth)


def test_the_sensor_of_new_files(other_service: Service, truth: Versions) -> None:
    service = other_service

    service.start_sensor("new_files")
    [run] = wait_for(service.runs, "a run of the sensor")
    service.wait_for_status(run["runId"], "SUCCESS")

    assert published_since(service.mill, 0) == of_the_corpus(truth)
    assert len(service.runs()) == 1


def test_a_launch_without_sources_is_refused_however_it_is_made(service: Service) -> None:
    for asset in ("raw_documents", "clean_documents"):
        run = service.launch(asset, tags={})
        service.wait_for_status(run, "FAILURE")

        assert f"{asset} needs sources: choose partitions" in service.messages(run)


@pytest.mark.timeout(2000)
def test_a_backfill_of_two_sources_that_are_not_neighbours(other_service: Service) -> None:
    """It finishes while the clusters come out unchanged; else the reader of all sources names the remedy."""
    service, mill = other_service, other_service.mill
    service.wait_for_status(service.launch(*UP_TO_MIXTURE), "SUCCESS")
    known = mill.versions()

    unchanged = service.backfill(*UP_TO_MIXTURE, sources=["books", "letters"])
    assert outcome(service, unchanged) == "COMPLETED_SUCCESS", failures(service, unchanged)
    assert mill.versions() == known

    add_letter(mill.folder, "copied", BOOKS[5]["text"])
    changed = service.backfill(*UP_TO_MIXTURE, sources=["books", "letters"])
    assert outcome(service, changed) == "COMPLETED_FAILED"
    assert REMEDY in failures(service, changed)

    service.wait_for_status(service.launch(*UP_TO_MIXTURE), "SUCCESS")


def at_rest(service: Service) -> bool:
    return all(run["status"] in ENDED for run in service.runs())


def outcome(service: Service, backfill: str) -> str:
    """The status of a backfill that has ended: one run after another, so it takes a while."""

    def ended() -> bool:
        return service.backfill_status(backfill).startswith("COMPLETED")

    wait_for(ended, "the backfill to end", seconds=900)
    return service.backfill_status(backfill)


def failures(service: Service, backfill: str) -> str:
    runs = [run for run in service.runs() if run["tags"].get("dagster/backfill") == backfill]
    return "\n".join(service.messages(run["runId"]) for run in runs if run["status"] == "FAILURE")


def dg(mill: Mill, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Dagster's own command line, from the project's root, as its users type it."""
    program = shutil.which("dg", path=str(Path(sys.executable).parent))
    assert program
    environment: dict[str, Any] = mill.environment()
    return subprocess.run(
        [program, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
