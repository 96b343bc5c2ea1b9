"""The whole chain on a corpus whose every document's fate is known."""

import math
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from jobs.build import build_definitions, full_range
from pipelines.costs.account import Account
from pipelines.costs.ledger import Ledger
from pipelines.dataset import Dataset, Version
from pipelines.engines.local import Engine
from pipelines.prices.book import load_book
from pipelines.store import Store
from resources.settings import Profile, load_profile
from tests.jobs.corpus import FATES, make_profile

COST_KEYS = {
    "cost/usd",
    "cost/compute_hours",
    "cost/cpu_core_hours",
    "cost/gpu_hours",
    "cost/energy_kwh",
    "cost/co2e_kg",
    "cost/lineage_usd",
    "cost/saved_usd",
    "cost/ledger_id",
    "cost/price_book",
    "lineage/inputs",
}


class Mill:
    """A profile and a Dagster instance, run in this process."""

    def __init__(self, profile: Profile, instance: dg.DagsterInstance) -> None:
        self.profile, self.instance = profile, instance
        self.resources: dict[str, Any] = {}
        self.ledger, self.store = Ledger(profile.ledger_url), Store(profile.store_url)

    def run(self, selection: str = "*", *, extra: tuple = (), **how: Any) -> dg.ExecuteInProcessResult:
        definitions = build_definitions(self.profile, extra, **self.resources)
        assets = dg.AssetSelection.from_string(selection).resolve(definitions.resolve_asset_graph())
        how = how or {"tags": full_range(self.profile)}
        return definitions.resolve_job_def("full_job").execute_in_process(
            instance=self.instance, raise_on_error=False, asset_selection=list(assets), **how
        )

    def dataset(self, asset: str, *partitions: str) -> Dataset:
        names = partitions or self.profile.source_names
        pointers = [self.ledger.current(asset, name) or self.ledger.current(asset, "") for name in names]
        versions = tuple(Version.load(self.store, pointer.version) for pointer in dict.fromkeys(pointers))
        return Dataset(asset, versions, self.store)

    def account(self) -> Account:
        return Account.read(self.ledger, load_book(self.profile.prices_path))


def reason(result: dg.ExecuteInProcessResult) -> str:
    """Why a run failed, in our words."""
    errors = [e.event_specific_data.error for e in result.all_events if e.event_type_value == "STEP_FAILURE"]
    return " ".join((error.cause or error).message for error in errors)


@pytest.fixture
def mill(tmp_path: Path):
    with dg.DagsterInstance.ephemeral() as instance:
        yield Mill(make_profile(tmp_path), instance)


@pytest.fixture(scope="module")
def milled(tmp_path_factory: pytest.TempPathFactory):
    """One run of the whole chain, training included, that several tests look at."""
    with dg.DagsterInstance.ephemeral() as instance:
        mill = Mill(make_profile(tmp_path_factory.mktemp("milled")), instance)
        result = mill.run()
        assert result.success, reason(result)
        yield mill, result


@pytest.mark.parametrize("source", ["books", "web"])
@pytest.mark.parametrize("stage", ["raw_documents", "clean_documents", "unique_documents", "filtered_documents"])
def test_every_document_ends_where_it_should(milled, source: str, stage: str) -> None:
    mill, _ = milled
    stats = mill.dataset(stage, source).version.stats

    assert {rule: count for rule, count in stats["dropped"].items() if count} == FATES[source][stage]
    assert stats["documents_in"] == stats["documents_out"] + sum(stats["dropped"].values())


def test_the_reason_of_every_dropped_document_is_on_record(milled) -> None:
    mill, _ = milled
    decisions = mill.dataset("filtered_documents", "web").table("decisions").to_pylist()
    documents = mill.dataset("unique_documents", "web").table("documents").to_pylist()
    user_ids = {document["doc_id"]: document["uri"].rpartition("#")[2] for document in documents}

    dropped = {user_ids[row["doc_id"]]: row["rule"] for row in decisions if not row["keep"]}

    assert dropped == {"off topic": "perplexity_high", "insult": "toxicity"}


def test_the_copy_in_the_earlier_source_is_the_one_that_stays(milled) -> None:
    mill, _ = milled
    clusters = mill.dataset("duplicate_clusters").table("clusters").to_pylist()

    assert {(row["source"], row["kept_source"], row["level"]) for row in clusters} == {
        ("web", "books", "exact"),
        ("web", "web", "minhash"),
    }


def test_the_model_loads_with_transformers_and_has_learnt_something(milled, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="needs the train group")
    mill, _ = milled
    model = mill.dataset("pretrained_model")

    loaded = transformers.AutoModelForCausalLM.from_pretrained(model.folder("model", tmp_path / "model"))

    assert loaded.config.vocab_size == mill.dataset("tokenizer").version.stats["vocabulary_size"]
    assert model.version.stats["steps"] == 6
    assert math.isfinite(model.version.stats["loss"])


def test_every_materialization_carries_its_cost(milled) -> None:
    mill, result = milled
    made = [e.event_specific_data.materialization for e in result.get_asset_materialization_events()]

    assert len(made) == 9 * 2 + 6
    for materialization in made:
        assert materialization.metadata.keys() >= COST_KEYS, materialization.asset_key
        assert materialization.metadata["cost/usd"].value > 0
        attempt = mill.account().attempt(materialization.metadata["cost/ledger_id"].value)
        assert float(attempt.charge.usd) == materialization.metadata["cost/usd"].value
        assert attempt.partition == (materialization.partition or "")


def test_all_dollars_are_accounted_for(milled) -> None:
    mill, _ = milled
    account = mill.account()
    buckets = account.buckets()

    assert buckets.total == sum(attempt.charge.usd for attempt in account.attempts)
    assert buckets.published == buckets.total
    assert 0 < float(account.lineage_usd(mill.dataset("pretrained_model").version.id)) <= float(buckets.total)


def test_a_second_run_reuses_everything_and_gives_the_same_versions(milled) -> None:
    mill, _ = milled
    before = {(p.asset, p.partition): p.version for p in mill.ledger.all_current()}

    result = mill.run()

    assert result.success, reason(result)
    assert {(p.asset, p.partition): p.version for p in mill.ledger.all_current()} == before
    account = mill.account()
    again = [a for a in account.attempts if a.run == result.run_id]
    assert [a.id for a in again if account.made[a.id]] == []


@pytest.mark.parametrize(
    ("selection", "numbers", "datasets"),
    [
        ("*filtered_documents", (1, 3), 8 * 2 + 2),
        pytest.param("*training_blend", (1, 2, 5), 9 * 2 + 5, marks=pytest.mark.slow),
    ],
)
def test_versions_and_bytes_do_not_depend_on_workers_or_folder(
    tmp_path: Path, selection: str, numbers: tuple[int, ...], datasets: int
) -> None:
    seen = []
    for workers in numbers:
        folder = tmp_path / f"with {workers} workers"
        folder.mkdir()
        with dg.DagsterInstance.ephemeral() as instance:
            mill = Mill(make_profile(folder, workers=workers), instance)
            mill.resources["engine"] = Engine(mill.store, workers, alone_seconds=0)  # even for so little: a pool
            result = mill.run(selection)
            assert result.success, reason(result)
            versions = [Version.load(mill.store, pointer.version) for pointer in mill.ledger.all_current()]
            seen.append({(v.asset, v.partition): (v.id, v.parts) for v in versions})

    assert len(seen[0]) == datasets
    assert all(other == seen[0] for other in seen)


def test_a_launch_without_sources_is_refused_before_anything_is_stored(mill: Mill) -> None:
    result = mill.run("raw_documents", run_config={})

    assert not result.success
    assert "raw_documents needs sources" in reason(result)
    assert mill.ledger.history() == []


def test_a_one_source_run_is_refused_where_versions_would_mix(mill: Mill) -> None:
    assert mill.run("*training_mixture").success
    (Path(mill.profile.source("web").path) / "new.jsonl").write_text(
        '{"id": "n", "text": "' + "Brand new text. " * 20 + '"}'
    )

    result = mill.run("*training_mixture", partition_key="web")

    assert not result.success
    assert "rest on different versions of duplicate_clusters" in reason(result)
    assert "Run the full range" in reason(result)
    assert mill.run("*training_mixture").success  # the remedy it names


def test_one_source_alone_finishes_where_the_clusters_come_out_unchanged(mill: Mill) -> None:
    assert mill.run("*training_mixture").success

    result = mill.run("*training_mixture", partition_key="web")

    assert result.success, reason(result)


def test_an_unmetered_asset_is_refused_by_name(mill: Mill) -> None:
    @dg.asset
    def smuggled() -> int:
        return 1

    with pytest.raises(ValueError, match="asset smuggled is not metered"):
        build_definitions(mill.profile, [smuggled])


def test_a_missing_input_is_named(mill: Mill) -> None:
    result = mill.run("clean_documents")

    assert not result.success
    assert "raw_documents has not been made for books, web" in reason(result)


def test_a_source_that_fails_keeps_the_others_finished_work_but_publishes_nothing(mill: Mill) -> None:
    web = Path(mill.profile.source("web").path)
    hidden = web.rename(web.with_name("moved away"))

    failed = mill.run("raw_documents")

    assert not failed.success
    assert "web" in reason(failed)
    assert mill.ledger.history() == []
    buckets = mill.account().buckets()
    assert (buckets.published, buckets.salvaged) == (0, 0)
    assert buckets.waste == buckets.total > 0

    hidden.rename(web)
    assert mill.run("raw_documents").success

    buckets = mill.account().buckets()
    assert buckets.salvaged > 0  # books had been read, and were not read again
    assert buckets.total == sum(attempt.charge.usd for attempt in mill.account().attempts)


def test_a_failed_attempt_leaves_an_observation_with_its_cost(mill: Mill) -> None:
    web = Path(mill.profile.source("web").path)
    web.rename(web.with_name("moved away"))

    result = mill.run("raw_documents")

    observed = [
        e.event_specific_data.asset_observation for e in result.all_events if e.event_type_value == "ASSET_OBSERVATION"
    ]
    assert [(o.partition, o.metadata["cost/usd"].value >= 0) for o in observed] == [("web", True)]
    assert "web" in observed[0].metadata["error"].value


def test_the_launchpad_form_overrides_parameters_and_the_version_records_them(mill: Mill) -> None:
    assert mill.run("*duplicate_clusters").success
    config = {"ops": {"duplicate_clusters": {"config": {"threshold": 0.9}}}}

    result = mill.run("duplicate_clusters", tags=full_range(mill.profile), run_config=config)

    assert result.success, reason(result)
    version = mill.dataset("duplicate_clusters").version
    assert version.params["threshold"] == 0.9
    tags = result.get_asset_materialization_events()[0].event_specific_data.materialization.tags
    assert (
        tags["dagster/code_version"]
        != build_definitions(mill.profile).resolve_asset_graph().get(dg.AssetKey("duplicate_clusters")).code_version
    )


def test_the_launchpad_form_names_key_and_range(mill: Mill) -> None:
    assert mill.run("*clean_documents").success
    config = {"ops": {"duplicate_clusters": {"config": {"threshold": 7}}}}

    result = mill.run("duplicate_clusters", tags=full_range(mill.profile), run_config=config)

    assert not result.success
    assert "threshold" in reason(result)
    assert "less than or equal to 1" in reason(result)


def test_an_empty_range_of_sources_is_refused_with_their_order(mill: Mill) -> None:
    start, end = full_range(mill.profile)
    last, first = full_range(mill.profile).values()

    result = mill.run("raw_documents", tags={start: first, end: last})

    assert (
        "the range of sources is empty; give the first and the last in the order of the profile: books, web"
        in reason(result)
    )
    assert mill.ledger.history() == []


def test_a_lost_record_of_the_version_before_does_not_stop_a_new_one(mill: Mill) -> None:
    mill.run("raw_documents")
    lost = mill.dataset("raw_documents", "web").version.id
    (Path(mill.profile.store_url) / "versions" / f"{lost}.json").unlink()
    web = Path(mill.profile.source("web").path or "") / "part 1.jsonl"
    web.write_text(web.read_text() + '{"id": "new", "text": "Something new to read, which nobody has seen before."}\n')

    result = mill.run("raw_documents")

    assert result.success, reason(result)
    assert mill.dataset("raw_documents", "web").version.id != lost


def test_a_run_may_go_on_while_keys_around_the_work_are_edited(mill: Mill) -> None:
    path = Path(mill.profile.store_url).parent / "profile.yaml"

    def work(override: str) -> str:
        return load_profile(path, [override]).digest_of_work

    assert (
        work("alerts.webserver=http://127.0.0.1:3000") == work("timezone=Asia/Kolkata") == mill.profile.digest_of_work
    )
    assert work("filters.max_toxicity=0.5") != mill.profile.digest_of_work
