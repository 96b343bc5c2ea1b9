"""`filter_benchmark` through Dagster: there where a labelled sample is named, measured once, told with its dollars."""

import json
from pathlib import Path

import dagster as dg
import pytest

from jobs.build import build_definitions
from jobs.command import main
from jobs.rebuild import SAME
from resources.settings import Profile, load_profile
from tests.jobs.corpus import INSULT, make_profile, prose, write_profile
from tests.jobs.test_chain import Mill, reason

pytestmark = pytest.mark.usefixtures("own_environment")


@pytest.fixture(scope="module")
def benchmarked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    """A folder in which the benchmark has been made, and its metadata."""
    folder = tmp_path_factory.mktemp("benchmarked")
    insults = [f"{INSULT} {prose(number, 1)}" for number in range(30)]
    texts = [*((text, 1) for text in insults), *((prose(number, 4), 0) for number in range(500, 530))]
    (folder / "labelled.jsonl").write_text("".join(json.dumps({"text": t, "label": n}) + "\n" for t, n in texts))
    profile = make_profile(folder, filter_benchmark={"sample": {"path": "labelled.jsonl"}})
    with dg.DagsterInstance.ephemeral() as instance:
        result = Mill(profile, instance).run("*filter_benchmark")
        assert result.success, reason(result)
        (made,) = [event for event in result.all_events if _is_of(event, "filter_benchmark")]
        return folder, dict(made.materialization.metadata)


def _is_of(event: dg.DagsterEvent, asset: str) -> bool:
    return event.is_step_materialization and event.asset_key == dg.AssetKey(asset)


def test_without_a_sample_it_is_not_part_of_the_graph(tmp_path: Path) -> None:
    def assets(profile: Profile) -> set[str]:
        keys = build_definitions(profile).resolve_asset_graph().get_all_asset_keys()
        return {key.to_user_string() for key in keys}

    asked = write_profile(tmp_path, filter_benchmark={"sample": {"path": "labelled.jsonl"}})

    assert "filter_benchmark" in assets(load_profile(asked))
    assert "filter_benchmark" not in assets(load_profile(write_profile(tmp_path)))


@pytest.mark.slow
def test_people_read_a_table_a_plot_and_figures(benchmarked: tuple[Path, dict]) -> None:
    _, metadata = benchmarked

    told = {row.data["filter"]: row.data for row in metadata["what filters are worth"].value.records}
    assert set(told) == {"simhash", "screen", "perplexity"}
    assert told["screen"]["F1"].startswith("1.000 (0.8")
    assert all(float(row["$ per million documents"]) > 0 for row in told.values())
    assert metadata["plot/F1 by dollars per million documents"].value.startswith("![F1 by cost](<data:image/svg+xml,")
    assert metadata["filters/screen/f1"].value == 1
    assert metadata["cost/usd"].value > 0


@pytest.mark.slow
def test_what_was_measured_is_not_measured_again(benchmarked: tuple[Path, dict], capsys: pytest.CaptureFixture) -> None:
    folder, _ = benchmarked
    capsys.readouterr()

    assert main(["impact", "--json", "--profile", str(folder / "profile.yaml")]) == 0

    outcomes = {one["asset"]: one["outcome"] for one in json.loads(capsys.readouterr().out)["datasets"]}
    assert outcomes["filter_benchmark"] == "untouched"


@pytest.mark.slow
def test_it_is_made_again_with_other_times(benchmarked: tuple[Path, dict], capsys: pytest.CaptureFixture) -> None:
    folder, _ = benchmarked
    capsys.readouterr()

    assert main(["reproduce", "filter_benchmark", "--verify", "--json", "--profile", str(folder / "profile.yaml")]) == 0

    verdicts = json.loads(capsys.readouterr().out)["verdicts"]
    assert {one["asset"]: one["outcome"] for one in verdicts}["filter_benchmark"] == SAME
