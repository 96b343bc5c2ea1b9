"""Sensors: files that change, attempts that lost their process, records that the ledger does not know."""

import datetime
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test, freeze_time

from assets.audit import CHECK, unaccounted
from jobs.build import RANGE_END, RANGE_START, build_definitions
from pipelines.costs.ledger import Ledger
from pipelines.processes import ProcessIdentity, process_identity
from pipelines.usage import Usage
from resources.settings import Profile
from tests.jobs.corpus import make_profile, prose, write_profile
from tests.jobs.daemon import daemon
from tests.jobs.test_chain import Mill, reason


@dataclass
class Watcher:
    """A sensor that is looked at again and again, with the cursor that it left."""

    profile: Profile
    instance: dg.DagsterInstance
    name: str = "new_files"
    cursor: str | None = None
    events: list[Any] = field(default_factory=list)

    def tick(self) -> dg.RunRequest | str:
        """The run that is asked for, or why there is none."""
        definitions = build_definitions(self.profile)
        (sensor,) = [one for one in definitions.sensors or [] if one.name == self.name]
        assert isinstance(sensor, dg.SensorDefinition)
        context = dg.build_sensor_context(
            instance=self.instance, cursor=self.cursor, repository_def=definitions.get_repository_def()
        )
        told = sensor.evaluate_tick(context)
        self.cursor = told.cursor or self.cursor
        self.events = list(told.asset_events)
        for event in self.events:
            self.instance.report_runless_asset_event(event)
        requests = told.run_requests or []
        assert len(requests) <= 1
        return requests[0] if requests else told.skip_message or ""

    def fires(self) -> dg.RunRequest:
        """The run that is asked for, once nothing moves any more."""
        first = self.tick()
        told = first if isinstance(first, dg.RunRequest) else self.tick()
        assert isinstance(told, dg.RunRequest), told
        return told


@pytest.fixture
def mill(tmp_path: Path) -> Iterator[Mill]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield Mill(make_profile(tmp_path), instance)


@pytest.fixture
def ingested(mill: Mill) -> Mill:
    result = mill.run("raw_documents")
    assert result.success, reason(result)
    return mill


def folder(mill: Mill, source: str = "web") -> Path:
    return Path(mill.profile.source(source).path)


def add_file(mill: Mill, name: str = "new.jsonl", seed: int = 500) -> Path:
    path = folder(mill) / name
    path.write_text(json.dumps({"id": f"n{seed}", "text": prose(seed)}) + "\n")
    return path


# -- new files ----------------------------------------------------------------------------------------------------


def test_all_sensors_are_off_and_say_what_they_do(mill: Mill) -> None:
    sensors = build_definitions(mill.profile).sensors or []

    assert [s.name for s in sensors] == ["new_files", "settlement", "audit", "failure_alert", "housekeeping"]
    for sensor in sensors:
        assert isinstance(sensor, dg.SensorDefinition)
        assert sensor.default_status == dg.DefaultSensorStatus.STOPPED
        assert sensor.description


def test_what_was_never_ingested_starts_one_run_of_all_sources(mill: Mill) -> None:
    watcher = Watcher(mill.profile, mill.instance)

    assert "waiting until a look finds the same" in str(watcher.tick())
    request = watcher.tick()

    assert isinstance(request, dg.RunRequest)
    assert (request.tags[RANGE_START], request.tags[RANGE_END]) == ("books", "web")
    assert request.run_key


def test_what_is_ingested_already_starts_none_at_the_first_look(ingested: Mill) -> None:
    watcher = Watcher(ingested.profile, ingested.instance)

    assert watcher.tick() == "nothing new: raw_documents was made from what the watched sources hold"
    assert watcher.tick() == "nothing new: every watched source holds what it held"


def test_a_new_file_a_changed_one_and_a_removed_one_start_a_run_each_batch_once(ingested: Mill) -> None:
    watcher = Watcher(ingested.profile, ingested.instance)
    watcher.tick()
    keys = set()

    new = add_file(ingested)
    keys.add(watcher.fires().run_key)
    assert "nothing new" in str(watcher.tick())
    new.write_text(new.read_text().replace("n500", "n501"))
    keys.add(watcher.fires().run_key)
    new.unlink()
    (folder(ingested) / "part 1.jsonl").unlink()
    keys.add(watcher.fires().run_key)

    assert "nothing new" in str(watcher.tick())
    assert len(keys) == 3


def test_files_that_are_still_being_copied_are_one_batch(ingested: Mill) -> None:
    watcher = Watcher(ingested.profile, ingested.instance)
    watcher.tick()

    for number in range(3):
        add_file(ingested, f"new {number}.jsonl", number + 600)
        told = watcher.tick()
        assert told == "web changed; waiting until a look finds the same as the one before"

    assert isinstance(watcher.tick(), dg.RunRequest)
    assert "nothing new" in str(watcher.tick())


def test_a_touched_file_starts_nothing(ingested: Mill) -> None:
    watcher = Watcher(ingested.profile, ingested.instance)
    watcher.tick()

    os.utime(folder(ingested) / "part 1.jsonl", (1, 1))
    copied = shutil.copy2(folder(ingested) / "part 2.jsonl", folder(ingested).parent / "copy")
    Path(copied).replace(folder(ingested) / "part 2.jsonl")  # another inode, the same content

    assert [watcher.tick() for _ in range(3)] == ["nothing new: every watched source holds what it held"] * 3


def test_the_content_decides_where_size_and_time_are_the_same(ingested: Mill) -> None:
    watcher = Watcher(ingested.profile, ingested.instance)
    path = folder(ingested) / "part 1.jsonl"
    os.utime(path, (1e9, 1e9))
    watcher.tick()

    content = path.read_text()
    path.write_text(content.replace("w1", "w9"))
    os.utime(path, (1e9, 1e9))

    assert path.stat().st_size == len(content.encode())
    assert isinstance(watcher.fires(), dg.RunRequest)


def test_a_lost_cursor_and_lost_hints_give_the_same_run_key(ingested: Mill) -> None:
    add_file(ingested)
    watcher = Watcher(ingested.profile, ingested.instance)
    request = watcher.fires()

    watcher.cursor = None
    shutil.rmtree(Path(ingested.store.root) / "work")
    again = watcher.fires()
    watcher.cursor = "written by hand"

    assert request.run_key == again.run_key == watcher.fires().run_key


def test_content_that_comes_back_starts_a_run_again(ingested: Mill) -> None:
    watcher = Watcher(ingested.profile, ingested.instance)
    watcher.tick()
    keys = []
    for _ in range(2):
        new = add_file(ingested)
        keys.append(watcher.fires().run_key)
        assert ingested.run("raw_documents").success
        new.unlink()
        keys.append(watcher.fires().run_key)
        assert ingested.run("raw_documents").success

    assert len(set(keys)) == 4  # Dagster would take an old key for a run that has been


def test_what_a_run_by_hand_took_in_starts_none(ingested: Mill) -> None:
    watcher = Watcher(ingested.profile, ingested.instance)
    watcher.tick()

    add_file(ingested)
    assert ingested.run("raw_documents").success

    assert "raw_documents was made from what" in str(watcher.tick())


def a_run(instance: dg.DagsterInstance, job: str, status: dg.DagsterRunStatus) -> dg.DagsterRun:
    """A run that is on record, and nothing else."""
    return create_run_for_test(instance, job, status=status)


def test_what_changes_while_a_run_is_queued_waits_and_is_not_lost(ingested: Mill) -> None:
    watcher = Watcher(ingested.profile, ingested.instance)
    watcher.tick()
    add_file(ingested)
    watcher.fires()
    run = a_run(ingested.instance, "corpus_job", dg.DagsterRunStatus.STARTING)

    late = add_file(ingested, "late.jsonl", 700)
    told = [str(watcher.tick()) for _ in range(3)]
    assert set(told) == {f"web changed; waiting for the end of run {run.run_id[:8]}, which may take it in"}

    # The run begins after the change, and takes it in
    assert ingested.run("raw_documents").success
    ingested.instance.report_run_canceled(run)
    assert "raw_documents was made from what" in str(watcher.tick())

    # Or it had listed its files before
    late.unlink()
    assert isinstance(watcher.tick(), str)
    assert isinstance(watcher.tick(), dg.RunRequest)


def test_a_training_run_and_one_whose_process_is_gone_hold_nothing_back(ingested: Mill) -> None:
    watcher = Watcher(ingested.profile, ingested.instance)
    watcher.tick()
    add_file(ingested)
    a_run(ingested.instance, "training_job", dg.DagsterRunStatus.STARTED)
    killed = a_run(ingested.instance, "full_job", dg.DagsterRunStatus.STARTED)
    assert killed.run_id[:8] in str(watcher.tick())

    open_attempt(ingested.ledger, killed.run_id, gone(), role="coordinator")

    assert isinstance(watcher.tick(), dg.RunRequest)


def test_a_folder_that_vanished_is_told_and_starts_nothing(ingested: Mill) -> None:
    watcher = Watcher(ingested.profile, ingested.instance)
    watcher.tick()
    moved = folder(ingested).rename(folder(ingested).with_name("moved"))

    told = [str(watcher.tick()) for _ in range(2)]

    assert set(told) == {
        f"waiting: source 'web': there is no folder or file {str(folder(ingested))!r}; correct its `path`"
    }
    moved.rename(folder(ingested))
    assert "nothing new" in str(watcher.tick())


def test_an_empty_folder_is_taken_for_a_disk_that_is_not_mounted(ingested: Mill) -> None:
    watcher = Watcher(ingested.profile, ingested.instance)
    watcher.tick()
    for path in folder(ingested).iterdir():
        path.unlink()

    told = [str(watcher.tick()) for _ in range(3)]

    assert all("source 'web' is empty now" in one for one in told)


def test_only_sources_with_files_are_watched_and_of_those_the_named(tmp_path: Path) -> None:
    profile = make_profile(tmp_path, watch={"sources": ["books"]})
    with dg.DagsterInstance.ephemeral() as instance:
        watcher = Watcher(profile, instance)
        watcher.fires()
        (tmp_path / "web" / "new.jsonl").write_text("{}")

        assert "nothing new" in str(watcher.tick())

        nothing = [{"name": "code", "reader": "environment", "what": "code"}]
        unwatched = make_profile(tmp_path, sources=nothing, reference_sources=[])
        assert "there is nothing to watch" in str(Watcher(unwatched, instance).tick())


def test_the_cursor_stays_small_however_many_files_there_are(tmp_path: Path) -> None:
    profile = make_profile(tmp_path)
    for number in range(2000):
        (tmp_path / "web" / f"{number:04}.txt").write_text(f"file {number:04}")
    with dg.DagsterInstance.ephemeral() as instance:
        watcher = Watcher(profile, instance)
        watcher.fires()

    assert len(watcher.cursor or "") < 500


@pytest.mark.slow
def test_daemon_restart_reset_and_reload_start_no_second_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_profile(tmp_path)
    now = datetime.datetime(2026, 6, 1, tzinfo=datetime.UTC)
    with daemon(write_profile(tmp_path), tmp_path / "dagster", monkeypatch) as daemons:

        def look_again(times: int) -> None:
            nonlocal now
            for _ in range(times):
                now += datetime.timedelta(minutes=2)
                daemons.tick_sensors(now)

        with freeze_time(now):
            daemons.turn_on("new_files")
        look_again(3)
        (run,) = daemons.instance.get_runs()
        assert (run.job_name, run.tags[RANGE_END]) == ("corpus_job", "web")

        look_again(2)
        daemons.instance.report_run_canceled(run)  # without having made anything
        look_again(2)
        daemons.forget("new_files")
        daemons.reload()
        look_again(3)
        assert daemons.instance.get_runs_count() == 1

        (tmp_path / "web" / "new.jsonl").write_text(json.dumps({"id": "n", "text": prose(900)}))
        look_again(3)
        assert daemons.instance.get_runs_count() == 2


# -- settlement ---------------------------------------------------------------------------------------------------


def gone() -> ProcessIdentity:
    """A process of this machine that has ended."""
    own = process_identity()
    return ProcessIdentity(own.host, own.boot_id, own.pid, own.started - 1)


def open_attempt(ledger: Ledger, run: str, owner: ProcessIdentity, role: str = "stage") -> str:
    return ledger.open_attempt(
        root_run=run, run=run, step="s", asset="a", partition="", role=role, usage=Usage(cpu_seconds=1), owner=owner
    )


def test_settlement_closes_what_lost_its_process_and_says_how_many(mill: Mill) -> None:
    watcher = Watcher(mill.profile, mill.instance, "settlement")
    assert watcher.tick() == "no attempt had lost its process"
    attempt = open_attempt(mill.ledger, "run", gone())
    alive = open_attempt(mill.ledger, "other", process_identity())

    assert watcher.tick() == f"1 attempts had lost their process and were closed: {attempt}"
    assert watcher.tick() == "no attempt had lost its process"
    assert alive not in {event.attempt for event in mill.ledger.events(kinds=("settled",))}


# -- audit --------------------------------------------------------------------------------------------------------


def evaluations(watcher: Watcher) -> dict[str, bool]:
    return {event.asset_key.to_user_string(): event.passed for event in watcher.events}


def by_hand(partition: str | None, **metadata: Any) -> dg.AssetMaterialization:
    return dg.AssetMaterialization("raw_documents", partition=partition, metadata=metadata)


def test_the_audit_passes_what_the_ledger_published_and_says_so_once(ingested: Mill) -> None:
    watcher = Watcher(ingested.profile, ingested.instance, "audit")

    watcher.tick()
    assert evaluations(watcher) == {"raw_documents": True}
    assert watcher.events[0].check_name == CHECK

    watcher.tick()
    assert watcher.events == []


def test_the_audit_finds_what_was_reported_by_hand_or_borrows_an_attempt(ingested: Mill) -> None:
    mine = unaccounted(ingested.instance, ingested.ledger, "raw_documents")
    assert mine == []
    pointer = ingested.ledger.current("raw_documents", "web")
    assert pointer is not None
    borrowed = {"cost/ledger_id": pointer.attempt, "corpusmill/version": pointer.version}
    ingested.instance.report_runless_asset_event(by_hand("web"))
    ingested.instance.report_runless_asset_event(by_hand("books", **borrowed))
    ingested.instance.report_runless_asset_event(by_hand("web", **{**borrowed, "corpusmill/version": "0" * 20}))
    ingested.instance.report_runless_asset_event(by_hand("web", **{**borrowed, "cost/ledger_id": "run/step/0/web"}))

    found = unaccounted(ingested.instance, ingested.ledger, "raw_documents")

    assert [(one.partition, one.run) for one in found] == [("web", ""), ("books", ""), ("web", ""), ("web", "")]
    assert [one.reason for one in found] == [
        "names no attempt: it was reported by hand or made by other code",
        f"names version {pointer.version}, which attempt {pointer.attempt} did not publish for it",
        f"names version {'0' * 20}, which attempt {pointer.attempt} did not publish for it",
        "names the attempt run/step/0/web, which published nothing in this ledger",
    ]
    assert unaccounted(ingested.instance, ingested.ledger, "raw_documents", found[1].storage_id) == found[2:]


def test_the_audit_stays_failed_until_what_was_found_is_wiped(ingested: Mill) -> None:
    watcher = Watcher(ingested.profile, ingested.instance, "audit")
    watcher.tick()
    ingested.instance.report_runless_asset_event(by_hand("web"))
    watcher.tick()
    assert evaluations(watcher) == {"raw_documents": False}

    assert ingested.run("raw_documents").success
    watcher.tick()
    assert evaluations(watcher) == {"raw_documents": False}
    watcher.tick()
    assert watcher.events == []  # told already

    ingested.instance.wipe_assets([dg.AssetKey("raw_documents")])
    watcher.tick()
    assert evaluations(watcher) == {"raw_documents": True}


def test_the_audit_finds_all_that_a_lost_ledger_knew(ingested: Mill) -> None:
    Path(ingested.profile.ledger_url.removeprefix("sqlite:///")).unlink()

    found = unaccounted(ingested.instance, Ledger(ingested.profile.ledger_url), "raw_documents")

    assert sorted(one.partition for one in found) == ["books", "web"]
