"""The sensor `new_files`: files that come, go, change, and are still being copied."""

import datetime
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test, freeze_time

from jobs.build import RANGE_END, RANGE_START, build_definitions
from tests.jobs.corpus import make_profile, prose, write_profile
from tests.jobs.daemon import daemon
from tests.jobs.test_chain import Mill, reason
from tests.jobs.watcher import Watcher, gone, open_attempt


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
