"""Retention: old runs go from Dagster, and nothing that anyone still looks at changes."""

import datetime
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver
from dagster._core.loader import LoadingContextForTest
from dagster._core.test_utils import create_run_for_test, freeze_time, instance_for_test
from dagster._time import get_current_datetime

from jobs import housekeeping
from jobs.build import build_definitions
from jobs.command import main
from jobs.environment import PROFILE_VARIABLE
from jobs.housekeeping import needed_runs, removable_runs, remove_run
from jobs.sensors import housekeeping as sensor_module
from tests.jobs.corpus import make_profile
from tests.jobs.test_chain import Mill, reason

DAY = datetime.timedelta(days=1)


@pytest.fixture
def mill(tmp_path: Path) -> Iterator[Mill]:
    (tmp_path / "dagster").mkdir()
    with instance_for_test(temp_dir=str(tmp_path / "dagster")) as instance:
        yield Mill(make_profile(tmp_path, retention={"days": 3}), instance)


def run(mill: Mill, selection: str, **how: Any) -> str:
    result = mill.run(selection, **how)
    assert result.success, reason(result)
    return result.run_id


def failed_run(mill: Mill) -> str:
    web = Path(mill.profile.source("web").path)
    hidden = web.rename(web.with_name("moved away"))
    result = mill.run("raw_documents")
    assert not result.success
    hidden.rename(web)
    return result.run_id


def removable(mill: Mill, checks: tuple = ()) -> list[str]:
    """What may go a day from now."""
    return list(removable_runs(mill.instance, get_current_datetime() + DAY, checks))


def what_the_pages_show(mill: Mill) -> dict[str, Any]:
    """Latest record, staleness and materialized partitions of everything, as the UI asks for them."""
    graph = build_definitions(mill.profile).resolve_asset_graph()
    stale = CachingStaleStatusResolver(mill.instance, graph, LoadingContextForTest(mill.instance))
    shown: dict[str, Any] = {}
    for key in sorted(graph.get_all_asset_keys()):
        partitions = mill.profile.source_names if graph.get(key).is_partitioned else [None]
        for partition in partitions:
            shown[f"{key.to_user_string()}[{partition}] staleness"] = (
                stale.get_status(key, partition).value,
                sorted(str(cause.reason) for cause in stale.get_stale_causes(key, partition)),
            )
        shown[key.to_user_string()] = (
            mill.instance.get_latest_materialization_event(key),
            mill.instance.get_materialized_partitions(key),
            mill.instance.event_log_storage.get_latest_storage_id_by_partition(
                key, dg.DagsterEventType.ASSET_MATERIALIZATION
            ),
            [record.asset_entry.last_run_id for record in mill.instance.get_asset_records([key])],
        )
    return shown


def cost(mill: Mill, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    assert main(["cost", "--json", "--profile", str(tmp_path / "profile.yaml")]) == 0
    return json.loads(capsys.readouterr().out)


def test_what_goes_changes_neither_cost_nor_pages(
    mill: Mill, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PROFILE_VARIABLE, "")
    old = [run(mill, "raw_documents"), run(mill, "*clean_documents"), run(mill, "clean_documents")]
    failed = failed_run(mill)  # the newest that failed: its observation says what that cost
    compared = [run(mill, "raw_documents"), run(mill, "raw_documents", partition_key="web")]
    clean = run(mill, "clean_documents")  # stale or not by comparison with what it was made from
    raw = run(mill, 'key:"raw_documents" or key:"duplicate_clusters"')
    before, costs = what_the_pages_show(mill), cost(mill, tmp_path, capsys)
    assert costs

    gone = removable(mill)
    for run_id in gone:
        remove_run(mill.instance, run_id)

    assert gone == old
    assert {record.run_id for record in mill.instance.get_runs()} == {failed, *compared, clean, raw}
    assert what_the_pages_show(mill) == before
    assert cost(mill, tmp_path, capsys) == costs
    assert removable(mill) == []


def test_the_files_of_a_removed_run_are_gone(mill: Mill, tmp_path: Path) -> None:
    old, new = run(mill, "raw_documents"), run(mill, "raw_documents")
    assert list((tmp_path / "dagster").rglob(f"*{old}*"))

    remove_run(mill.instance, old)
    remove_run(mill.instance, old)  # nothing happens

    assert list((tmp_path / "dagster").rglob(f"*{old}*")) == []
    assert list((tmp_path / "dagster").rglob(f"*{new}*"))


def test_the_newest_of_each_source_and_kind_is_needed(mill: Mill) -> None:
    both = run(mill, "raw_documents")
    web = run(mill, "raw_documents", partition_key="web")
    assert needed_runs(mill.instance) >= {both, web}  # the newest of books is in the first

    failed = failed_run(mill)  # its observation, and what it planned, are the newest
    assert needed_runs(mill.instance) >= {both, web, failed}
    assert removable(mill) == []


def test_the_newest_evaluation_of_a_check_is_needed(mill: Mill) -> None:
    key = dg.AssetCheckKey(dg.AssetKey("elsewhere"), "looks_well")

    @dg.asset_check(asset="elsewhere", name="looks_well")
    def looks_well() -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=True)

    job = dg.define_asset_job("check_job", dg.AssetSelection.all_asset_checks())
    definitions = dg.Definitions(asset_checks=[looks_well], jobs=[job])
    runs = [
        definitions.resolve_job_def("check_job").execute_in_process(instance=mill.instance).run_id for _ in range(2)
    ]

    assert removable(mill, (key,)) == runs[:1]
    assert removable(mill) == runs


def test_young_and_unfinished_runs_stay_and_so_do_their_families(mill: Mill) -> None:
    done, going = dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.STARTED
    first = create_run_for_test(mill.instance, "full_job", status=done)
    create_run_for_test(mill.instance, "full_job", status=going, root_run_id=first.run_id, parent_run_id=first.run_id)
    alone = create_run_for_test(mill.instance, "full_job", status=done)
    create_run_for_test(mill.instance, "full_job", status=dg.DagsterRunStatus.STARTING)

    assert removable(mill) == [alone.run_id]
    assert list(removable_runs(mill.instance, get_current_datetime() - DAY)) == []


def test_many_runs_are_looked_at_page_by_page(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "PAGE", 3)
    made = [create_run_for_test(mill.instance, "j", status=dg.DagsterRunStatus.SUCCESS).run_id for _ in range(10)]

    assert removable(mill) == made


def tick(mill: Mill) -> str:
    definitions = build_definitions(mill.profile)
    (sensor,) = [one for one in definitions.sensors or [] if one.name == "housekeeping"]
    assert isinstance(sensor, dg.SensorDefinition)
    context = dg.build_sensor_context(instance=mill.instance, repository_def=definitions.get_repository_def())
    return sensor.evaluate_tick(context).skip_message or ""


def test_the_sensor_removes_a_few_at_a_time_and_only_what_is_old_enough(
    mill: Mill, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sensor_module, "LIMIT_RUNS", 2)
    runs = [run(mill, "raw_documents") for _ in range(4)]
    assert tick(mill) == "removed 0 runs older than 3 days; none is left that may go"

    with freeze_time(get_current_datetime() + 4 * DAY):
        assert tick(mill) == "removed 2 runs older than 3 days; more go at the next look"
        assert tick(mill) == "removed 1 runs older than 3 days; none is left that may go"

    assert [record.run_id for record in mill.instance.get_runs()] == runs[-1:]


def test_a_profile_that_says_nothing_keeps_everything(tmp_path: Path) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        mill = Mill(make_profile(tmp_path), instance)
        create_run_for_test(instance, "full_job", status=dg.DagsterRunStatus.SUCCESS)

        with freeze_time(get_current_datetime() + 4000 * DAY):
            assert tick(mill) == "the profile keeps all runs: retention.days is null"
        assert instance.get_runs_count() == 1
