"""The command: what it prints, what it returns, one sentence for every mistake."""

import json
from pathlib import Path

import dagster as dg
import pytest

from jobs.build import build_definitions, full_range
from jobs.command import main
from jobs.environment import SET_VARIABLE
from jobs.run import without_effect
from pipelines.store import Store
from resources.settings import load_profile
from tests.jobs.corpus import make_profile, write_profile

pytestmark = pytest.mark.usefixtures("own_environment")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a profile whose raw and clean documents have been made."""
    folder = tmp_path_factory.mktemp("mill")
    profile = make_profile(folder)
    with dg.DagsterInstance.ephemeral() as instance:
        definitions = build_definitions(profile)
        assets = dg.AssetSelection.from_string("*clean_documents").resolve(definitions.resolve_asset_graph())
        assert (
            definitions.resolve_job_def("full_job")
            .execute_in_process(instance=instance, tags=full_range(profile), asset_selection=list(assets))
            .success
        )
    return folder


def corpusmill(*arguments: str) -> int:
    return main(arguments)


def test_cost_as_json_is_a_list_of_datasets(folder: Path, capsys: pytest.CaptureFixture) -> None:
    assert corpusmill("cost", "--json", "--profile", str(folder / "profile.yaml")) == 0

    costs = json.loads(capsys.readouterr().out)

    assert [(c["asset"], c["partition"]) for c in costs] == [
        ("raw_documents", "books"),
        ("raw_documents", "web"),
        ("clean_documents", "books"),
        ("clean_documents", "web"),
    ]
    for cost in costs:
        assert cost.keys() >= {"asset", "partition", "version", "usd", "lineage_usd", "compute_hours", "energy_kwh"}
        assert 0 < cost["usd"] <= cost["lineage_usd"]


def test_cost_is_a_table_with_the_rates_beside_it(folder: Path, capsys: pytest.CaptureFixture) -> None:
    assert corpusmill("cost", "--profile", str(folder / "profile.yaml")) == 0

    told = capsys.readouterr().out

    assert "clean_documents[web]" in told
    assert "published" in told
    assert "core-hour: 0.044625 USD per hour" in told


def test_cost_of_one_dataset_or_one_version(folder: Path, capsys: pytest.CaptureFixture) -> None:
    profile = ["--profile", str(folder / "profile.yaml"), "--json"]
    assert corpusmill("cost", "clean_documents[web]", *profile) == 0
    (one,) = json.loads(capsys.readouterr().out)

    assert corpusmill("cost", f"clean_documents@{one['version'][:8]}", *profile) == 0

    assert json.loads(capsys.readouterr().out) == [one]


def test_history_priced_with_another_book(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    profile = load_profile(folder / "profile.yaml")
    dearer = tmp_path / "dearer.yaml"
    dearer.write_text(profile.prices_path.read_text().replace('"0.044625"', '"0.089250"'))
    arguments = ["cost", "raw_documents[web]", "--json", "--profile", str(folder / "profile.yaml")]

    assert corpusmill(*arguments) == 0
    (cheap,) = json.loads(capsys.readouterr().out)
    assert corpusmill(*arguments, "--price-book", str(dearer)) == 0
    (dear,) = json.loads(capsys.readouterr().out)

    assert dear["usd"] == pytest.approx(2 * cheap["usd"], abs=1e-11)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["cost", "no_such_thing"], "no dataset 'no_such_thing' has been made; datasets are: clean_documents, raw"),
        (["cost", "--price-book", "nowhere.yaml"], "there is no price book at nowhere.yaml"),
        (["gc", "--keep", "0"], "at least 1 version"),
        (["run", "--set", "dedup.treshold=1"], "dedup.treshold is not a key; did you mean 'threshold'?"),
        (["run", "--select", "no_such_asset"], "no_such_asset"),
    ],
)
def test_a_mistake_is_one_sentence(
    folder: Path, capsys: pytest.CaptureFixture, arguments: list[str], told: str
) -> None:
    assert corpusmill(*arguments, "--profile", str(folder / "profile.yaml")) == 1

    captured = capsys.readouterr()
    assert told in captured.err
    assert "Traceback" not in captured.err


@pytest.mark.parametrize(
    ("override", "selected", "told"),
    [
        ("mixture.token_budget=5", {"training_blend"}, ["--set mixture.token_budget changes nothing here: it is for"]),
        ("mixture.token_budget=5", {"training_blend", "training_mixture"}, []),
        ("engine.workers=1", {"training_blend"}, []),
    ],
)
def test_what_is_set_for_assets_that_are_not_selected_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch, override: str, selected: set[str], told: list[str]
) -> None:
    monkeypatch.setenv(SET_VARIABLE, json.dumps([override]))
    profile = load_profile(folder / "profile.yaml")
    found = list(without_effect(profile, frozenset(map(dg.AssetKey, selected))))
    assert [line.partition(" training_mixture")[0] for line in found] == told
    assert list(without_effect(profile, None)) == []


def test_a_missing_profile_is_one_sentence(capsys: pytest.CaptureFixture) -> None:
    assert corpusmill("cost", "--profile", "/nowhere/profile.yaml") == 1
    assert "there is no profile at /nowhere/profile.yaml" in capsys.readouterr().err


def test_nothing_made_yet(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    make_profile(tmp_path)

    assert corpusmill("cost", "--profile", str(tmp_path / "profile.yaml")) == 0
    assert "start with `corpusmill run`" in capsys.readouterr().out


def test_gc_keeps_what_is_current(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    profile = load_profile(folder / "profile.yaml")
    orphan = Store(profile.store_url).put(b"nobody's")

    assert corpusmill("gc", "--json", "--profile", str(folder / "profile.yaml")) == 0

    swept = json.loads(capsys.readouterr().out)
    assert (swept["objects"], swept["spared_by_lease"]) == (0, 2)  # and the texts of which cleaning dropped one
    assert Store(profile.store_url).get(orphan) == b"nobody's"


def test_a_profiles_relative_paths_start_at_its_own_folder(tmp_path: Path) -> None:
    write_profile(tmp_path)

    assert load_profile(tmp_path / "profile.yaml").source("web").path == str(tmp_path / "web")
