"""Jobs and their times: fixed hours in real time zones, and Dagster's own scheduler that never starts a tick twice."""

import datetime
import itertools
from pathlib import Path
from zoneinfo import ZoneInfo

import dagster as dg
import pytest
from dagster._core.test_utils import freeze_time, instance_for_test
from dagster._utils.schedules import schedule_execution_time_iterator

from jobs.build import RANGE_END, RANGE_START, build_definitions
from pipelines.profile import ProfileError
from resources.settings import HOME, Profile, load_profile
from tests.jobs.corpus import make_profile, write_profile
from tests.jobs.daemon import daemon

UTC = datetime.UTC


def schedule(name: str, profile: Profile) -> dg.ScheduleDefinition:
    (found,) = [one for one in build_definitions(profile).schedules or [] if one.name == name]
    assert isinstance(found, dg.ScheduleDefinition)
    return found


def times(nightly: str, zone: str, start: datetime.datetime, count: int) -> list[datetime.datetime]:
    """The first times of the nightly schedule, in UTC."""
    profile = load_profile(HOME / "config" / "demo.yaml", [f"timezone={zone}", f"schedules.nightly={nightly}"])
    built = schedule("nightly", profile)
    assert built.execution_timezone == zone
    found = schedule_execution_time_iterator(start.timestamp(), built.cron_schedule, built.execution_timezone)
    return [time.astimezone(UTC) for time in itertools.islice(found, count)]


def test_three_jobs_explain_themselves_and_split_at_the_blend(tmp_path: Path) -> None:
    definitions = build_definitions(make_profile(tmp_path))
    jobs = {name: definitions.resolve_job_def(name) for name in ("corpus_job", "training_job", "full_job")}
    made = {name: {node.name for node in job.nodes} for name, job in jobs.items()}

    assert all(job.description for job in jobs.values())
    assert {"raw_documents", "training_blend"} <= made["corpus_job"]
    assert "pretrained_model" in made["training_job"]
    assert not made["corpus_job"] & made["training_job"]
    assert made["corpus_job"] | made["training_job"] <= made["full_job"]
    assert jobs["training_job"].partitions_def is None  # it needs no sources


def test_schedules_are_off_until_turned_on_and_gone_where_the_profile_has_no_time(tmp_path: Path) -> None:
    both = build_definitions(make_profile(tmp_path)).schedules or []
    without = build_definitions(make_profile(tmp_path, schedules={"weekly": None})).schedules or []

    assert [(one.name, one.job_name) for one in both] == [("nightly", "corpus_job"), ("weekly", "full_job")]
    assert {one.default_status for one in both} == {dg.DefaultScheduleStatus.STOPPED}
    assert [one.name for one in without] == ["nightly"]


def test_a_zone_with_a_half_hour_is_kept_to_the_minute() -> None:
    start = datetime.datetime(2026, 1, 1, tzinfo=UTC)

    assert times("30 2 * * *", "Asia/Kolkata", start, 2) == [
        datetime.datetime(2026, 1, 1, 21, 0, tzinfo=UTC),
        datetime.datetime(2026, 1, 2, 21, 0, tzinfo=UTC),
    ]


@pytest.mark.parametrize(
    ("day", "expected"),
    [
        (datetime.date(2026, 3, 29), datetime.datetime(2026, 3, 29, 1, 0, tzinfo=UTC)),  # no 2:30: at 3:00 summer time
        (datetime.date(2026, 10, 25), datetime.datetime(2026, 10, 25, 1, 30, tzinfo=UTC)),  # two of them: the later
    ],
)
def test_half_past_two_in_berlin_comes_once_on_every_day(day: datetime.date, expected: datetime.datetime) -> None:
    midnight = datetime.datetime.combine(day, datetime.time(), ZoneInfo("Europe/Berlin"))

    found = times("30 2 * * *", "Europe/Berlin", midnight.astimezone(UTC), 3)

    assert found[0] == expected
    local = [time.astimezone(ZoneInfo("Europe/Berlin")) for time in found]
    assert [time.date() - day for time in local] == [datetime.timedelta(days=n) for n in range(3)]
    assert [(time.hour, time.minute) for time in local[1:]] == [(2, 30), (2, 30)]


def test_a_tick_asks_for_one_run_of_all_sources(tmp_path: Path) -> None:
    profile = make_profile(tmp_path, timezone="Asia/Kolkata")
    time = datetime.datetime(2026, 1, 1, 2, 0, tzinfo=ZoneInfo("Asia/Kolkata"))
    with instance_for_test() as instance:
        context = dg.build_schedule_context(instance=instance, scheduled_execution_time=time)

        request = schedule("nightly", profile)(context)

    assert isinstance(request, dg.RunRequest)
    assert request.run_key == "nightly 2025-12-31T20:30Z"
    assert (request.tags[RANGE_START], request.tags[RANGE_END]) == ("books", "web")


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("timezone=Europe/Berln", "did you mean 'Europe/Berlin'?"),
        ("timezone=berlin", "did you mean 'Europe/Berlin'?"),
        ("timezone=asia/calcuta", "did you mean 'Asia/Calcutta'?"),
        ("timezone=''", "such as 'UTC'"),
        ("schedules.nightly=0 25 * * *", "write a cron line (minute hour day month weekday"),
        ("schedules.weekly=at night", "or null for no schedule, not 'at night'"),
        ("schedules.nightly=0 0 2 * * *", "write a cron line"),
    ],
)
def test_a_time_that_cannot_be_kept_is_refused_with_the_way_out(override: str, told: str) -> None:
    with pytest.raises(ProfileError) as refused:
        load_profile(HOME / "config" / "demo.yaml", [override])

    assert override.partition("=")[0] in str(refused.value)
    assert told in str(refused.value)


@pytest.mark.slow
def test_the_scheduler_starts_every_tick_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def at(hour: int, minute: int, day: int = 1) -> datetime.datetime:
        return datetime.datetime(2026, 6, day, hour, minute, tzinfo=UTC)

    def finish_all() -> None:
        for run in daemons.instance.get_runs():
            if not run.is_finished:
                daemons.instance.report_run_canceled(run)

    make_profile(tmp_path)
    profile = write_profile(tmp_path, schedules={"nightly": "30 2 * * *"})
    with daemon(profile, tmp_path / "dagster", monkeypatch) as daemons:
        with freeze_time(at(1, 0)):
            daemons.turn_on("nightly")
        daemons.tick_schedules(at(1, 1))
        assert daemons.instance.get_runs_count() == 0

        daemons.tick_schedules(at(2, 31))
        daemons.tick_schedules(at(2, 32))
        daemons.reload()
        daemons.restart()
        daemons.tick_schedules(at(2, 33))
        (run,) = daemons.instance.get_runs()
        assert (run.job_name, run.tags[RANGE_START], run.tags[RANGE_END]) == ("corpus_job", "books", "web")

        # One that has not ended holds back the next, which is not made up for
        daemons.tick_schedules(at(2, 31, day=2))
        assert daemons.instance.get_runs_count() == 1
        finish_all()
        daemons.tick_schedules(at(3, 0, day=2))
        assert daemons.instance.get_runs_count() == 1
        daemons.tick_schedules(at(2, 31, day=3))
        assert daemons.instance.get_runs_count() == 2
        finish_all()

        # Edited after it started, to a time that has been: not today again
        write_profile(tmp_path, schedules={"nightly": "0 2 * * *"})
        daemons.reload()
        daemons.tick_schedules(at(2, 40, day=3))
        daemons.tick_schedules(at(1, 59, day=4))
        assert daemons.instance.get_runs_count() == 2
        daemons.tick_schedules(at(2, 1, day=4))
        assert daemons.instance.get_runs_count() == 3
