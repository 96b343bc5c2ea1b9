"""What a run would do, told beforehand, against what it then does."""

import json
import shutil
import sqlite3
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from jobs.build import ASSETS
from jobs.command import main
from jobs.impact import impact
from jobs.outlook import Impact, Outlook
from pipelines.costs.ledger import Ledger
from pipelines.dataset import Version
from pipelines.prices.book import load_book
from pipelines.store import Store
from pipelines.usage import Usage
from resources.settings import Profile, load_profile
from tests.jobs.corpus import make_profile
from tests.jobs.test_chain import Mill, reason

DATA = "*training_blend"
"""Everything but training, which takes longest."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the whole chain was run once."""
    pytest.importorskip("torch", reason="needs the train group")
    folder = tmp_path_factory.mktemp("made")
    with dg.DagsterInstance.ephemeral() as instance:
        result = Mill(make_profile(folder), instance).run()
        assert result.success, reason(result)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy of that folder, to change things in."""
    copy = tmp_path / "copy"
    shutil.copytree(made, copy)
    make_profile(copy)
    return copy


def changed(folder: Path, *overrides: str) -> Profile:
    return load_profile(folder / "profile.yaml", list(overrides))


def by_name(found: Impact) -> dict[str, Outlook]:
    return {outlook.name: outlook for outlook in found.outlooks}


def assets(outlooks: Iterable[Outlook]) -> set[str]:
    return {outlook.asset for outlook in outlooks}


def run(profile: Profile, selection: str = DATA) -> dict[str, tuple[int, int, Decimal]]:
    """Run; of each dataset, the results reused and done, and dollars."""
    with dg.DagsterInstance.ephemeral() as instance:
        mill = Mill(profile, instance)
        result = mill.run(selection)
        assert result.success, reason(result)
        account = mill.account()
    did = {}
    for attempt in account.attempts:
        if attempt.run == result.run_id:
            done = len(account.made[attempt.id])
            name = f"{attempt.asset}[{attempt.partition}]" if attempt.partition else attempt.asset
            did[name] = (len(attempt.named) - done, done, attempt.charge.usd)
    return did


DOWNSTREAM_OF_FILTERING = {
    "filtered_documents",
    "training_mixture",
    "tokenizer",
    "token_shards",
    "training_blend",
    "pretrained_model",
}


def test_a_changed_threshold_decides_again_and_scores_nothing(made: Path) -> None:
    found = impact(changed(made, "filters.max_toxicity=0.5"))

    assert assets(found.touched) == DOWNSTREAM_OF_FILTERING  # all descendants, not only the direct ones
    for source in ("books", "web"):
        direct = by_name(found)[f"filtered_documents[{source}]"]
        assert (direct.outcome, direct.cached) == ("redone", 0)
        assert direct.to_do == 4
        assert direct.because == "filters.max_toxicity 0.95 → 0.5"
    assert {o.outcome for o in found.touched if o.asset != "filtered_documents"} == {"at most"}


def test_changed_shares_tokenize_nothing(made: Path) -> None:
    found = impact(changed(made, "mixture.shares={books: 0.7, web: 0.3}"))

    assert assets(found.touched) == {"training_mixture", "training_blend", "pretrained_model"}
    mixture = by_name(found)["training_mixture"]
    assert (mixture.outcome, mixture.cached, mixture.to_do) == ("redone", 8, 1)  # measured already, planned again


def test_other_prompts_train_nothing(made: Path) -> None:
    found = impact(changed(made, "training.samples.prompts=[The miller]"))

    (model,) = found.touched
    assert (model.asset, model.outcome, model.cached, model.to_do, model.tokens) == (
        "pretrained_model",
        "redone",
        1,
        1,
        0,
    )


@pytest.mark.parametrize(
    "override", ["filters.max_toxicity=0.5", "dedup.threshold=0.9", "clean.min_characters=60", "blend.seed=7"]
)
def test_what_is_told_is_what_a_run_then_does(folder: Path, override: str) -> None:
    profile = changed(folder, override)
    predicted = by_name(impact(profile))

    did = run(profile)

    assert did.keys() == predicted.keys() - {"pretrained_model"}
    for name, (reused, done, _) in did.items():
        outlook = predicted[name]
        if outlook.outcome == "at most":
            assert done <= outlook.to_do, name
        else:
            assert (reused, done) == (outlook.cached, outlook.to_do), name
    assert assets(impact(profile).touched) == {"pretrained_model"}


def test_dollars_are_of_the_right_size(folder: Path) -> None:
    profile = changed(folder, "clean.min_characters=60")
    predicted = by_name(impact(profile))

    did = run(profile)

    told = sum(predicted[f"clean_documents[{source}]"].usd for source in ("books", "web"))
    paid = sum(did[f"clean_documents[{source}]"][2] for source in ("books", "web"))
    assert paid / 10 < told < paid * 10  # hundredths of a second: what is warm and what is not makes most of it


def test_where_nothing_changed_a_run_does_nothing(folder: Path) -> None:
    found = impact(changed(folder))

    assert found.touched == []
    assert found.to_do == 0
    assert found.usd == 0 < found.idle_usd
    did = run(changed(folder), "*")
    assert {name: (reused, done) for name, (reused, done, _) in did.items()} == {
        name: (outlook.cached, 0) for name, outlook in by_name(found).items()
    }


def test_an_edited_file_is_noticed_and_so_is_one_that_is_only_touched(folder: Path) -> None:
    part = folder / "web" / "part 1.jsonl"
    part.touch()
    assert impact(changed(folder)).touched == []

    part.write_text(part.read_text() + json.dumps({"id": "new", "text": "Words that nobody has read yet. " * 9}) + "\n")
    found = by_name(impact(changed(folder)))

    assert found["raw_documents[books]"].outcome == found["clean_documents[books]"].outcome == "untouched"
    web = found["raw_documents[web]"]
    assert (web.outcome, web.cached, web.to_do) == ("redone", 1, 1)
    assert web.because == "files or settings of the source"
    assert found["pretrained_model"].outcome == "at most"
    did = run(changed(folder))
    assert did["raw_documents[web]"][:2] == (1, 1)
    assert all(done <= found[name].to_do for name, (_, done, _) in did.items())


def test_going_back_costs_nothing(folder: Path) -> None:
    run(changed(folder, "mixture.shares={books: 0.7, web: 0.3}"))

    found = impact(changed(folder))

    assert {(o.asset, o.outcome) for o in found.touched} == {
        ("training_mixture", "reused"),
        ("training_blend", "reused"),
    }
    assert found.to_do == 0


def test_bytes_that_are_gone_are_to_be_made_again(folder: Path) -> None:
    profile = changed(folder)
    store = Store(profile.store_url)
    pointer = Ledger(profile.ledger_url).current("toxicity_scores", "web")
    lost = Version.load(store, pointer.version).parts["toxicity"].shards[0]
    store.path(lost.object).unlink()

    scores = by_name(impact(profile))["toxicity_scores[web]"]

    assert (scores.outcome, scores.to_do, scores.because) == ("redone", 1, "results are gone from the store")
    assert scores.usd > 0  # the ledger still knows what they took
    run(profile, "toxicity_scores")
    assert impact(profile).touched == []


def test_an_edited_evaluation_set_is_not_taken_for_results_that_are_gone(folder: Path) -> None:
    exam = folder / "exam.jsonl"
    exam.write_text(json.dumps({"question": "Which words of this question does no document hold?"}) + "\n")
    make_profile(folder, contamination={"sets": {"exam": {"path": "exam.jsonl", "fields": ["question"]}}})
    run(changed(folder), "contamination_scores")
    once = exam.read_text()
    edited = "a file that its settings name was edited, or a library changed"

    exam.write_text(once + json.dumps({"question": "Nor does any of them hold the words of this one."}) + "\n")

    scores = by_name(impact(changed(folder)))["contamination_scores[web]"]
    assert (scores.outcome, scores.because) == ("at most", edited)  # the index first: what it finds cannot be known
    run(changed(folder), "contamination_scores")
    assert by_name(impact(changed(folder)))["contamination_scores[web]"].outcome == "untouched"
    exam.write_text(once)
    back = by_name(impact(changed(folder)))["contamination_scores[web]"]
    assert (back.outcome, back.because, back.to_do) == ("untouched", "", 0)


def test_neither_store_nor_ledger_is_written(folder: Path) -> None:
    def state() -> tuple[Any, Any]:
        files = {str(p): p.stat().st_mtime_ns for p in (folder / "store").rglob("*")}
        with sqlite3.connect(folder / "ledger.db") as ledger:
            return files, list(ledger.iterdump())

    before = state()

    assert impact(changed(folder, "filters.max_toxicity=0.5")).touched
    assert impact(changed(folder, "training.samples.prompts=[The miller]")).touched
    assert impact(changed(folder)).touched == []

    assert state() == before


def test_a_run_that_would_fail_is_told(made: Path) -> None:
    found = impact(changed(made, "filters.min_perplexity=100000000"))

    broken = by_name(found)["filtered_documents[web]"]
    assert broken.outcome == "fails"
    assert "min_perplexity 1e+08 lies above" in broken.because
    assert "A run would stop at filtered_documents[books]." in found.sentence()


def test_a_source_that_was_never_made_is_not_counted_as_free(folder: Path) -> None:
    profile = (folder / "profile.yaml").read_text()
    (folder / "letters").mkdir()
    shutil.copy(folder / "books" / "part 1.jsonl", folder / "letters" / "one.jsonl")
    (folder / "profile.yaml").write_text(
        profile.replace("\nsources:\n", "\nsources:\n- {name: letters, path: letters}\n")
    )

    found = impact(changed(folder))

    new = by_name(found)["raw_documents[letters]"]
    assert (new.outcome, new.because, new.usd) == ("never made", "never made", None)
    assert new.to_do == 1
    assert "Never made before, so not counted in full: raw_documents[letters], clean_documents" in found.sentence()


def test_dollars_are_what_the_stage_took_for_as_many_documents(made: Path) -> None:
    """The estimate is the measured CPU of the results plus what the attempt used besides, at the book's rate."""
    profile = changed(made, "filters.max_toxicity=0.5")
    with dg.DagsterInstance.ephemeral() as instance:
        account = Mill(profile, instance).account()
    attempt = next(a for a in account.attempts if (a.asset, a.partition) == ("filtered_documents", "web"))
    everything = {
        key: seconds
        for other in account.attempts
        if other.asset == "filtered_documents"
        for key, seconds in account.made[other.id].items()
    }
    rest = attempt.usage.cpu_seconds - sum(account.made[attempt.id].values())
    documents = {"books": 16, "web": 13}

    told = by_name(impact(profile))["filtered_documents[web]"]

    share = documents["web"] / sum(documents.values())
    expected = load_book(profile.prices_path).price(Usage(cpu_seconds=rest + sum(everything.values()) * share)).usd
    assert told.documents == documents["web"]
    assert float(told.usd) == pytest.approx(float(expected), rel=1e-6)


def test_a_training_costs_what_the_last_one_held_gpus_for(folder: Path) -> None:
    profile = changed(folder, "training.max_steps=5")
    prompts = changed(folder, "training.samples.prompts=[The miller]")
    ledger, store, book = Ledger(profile.ledger_url), Store(profile.store_url), load_book(profile.prices_path)
    version = Version.load(store, ledger.current("pretrained_model", "").version)
    seconds = {key: store.action(key)["cpu_seconds"] for key in version.actions}
    device = next(iter(book.gpus.values())).names[0].replace("*", "")
    usage = Usage(cpu_seconds=sum(seconds.values()) + 5, gpu_seconds={device: 3600})
    attempt = ledger.open_attempt(
        root_run="r", run="r", step="s", asset="pretrained_model", partition="", role="stage", usage=Usage()
    )
    ledger.close_attempt(attempt, "r", "done", usage, {"results": {attempt: seconds}})

    again, samples = by_name(impact(profile))["pretrained_model"], by_name(impact(prompts))["pretrained_model"]

    assert float(again.usd) == pytest.approx(float(book.price(usage).usd), rel=1e-6)
    assert 0 < samples.usd < again.usd  # in proportion to the processor time of what is to be done


# -- the command -----------------------------------------------------------------------------------------------------


@pytest.fixture
def corpusmill(own_environment: None):
    return lambda *arguments: main(arguments)


def test_the_command_prints_a_table_and_a_total(corpusmill, made: Path, capsys: pytest.CaptureFixture) -> None:
    assert corpusmill("impact", "--set", "filters.max_toxicity=0.5", "--profile", str(made / "profile.yaml")) == 0

    told = " ".join(capsys.readouterr().out.split())
    assert "filtered_documents[web] filters.max_toxicity 0.95 → 0.5" in told
    untouched = "raw_documents, clean_documents, compliance_audit, duplicate_clusters, unique_documents"
    assert f"Untouched: {untouched}, toxicity_scores," in told
    found = impact(changed(made, "filters.max_toxicity=0.5"))
    assert (
        f"At most 6 of {len(ASSETS)} assets are made again: {found.to_do} of {found.to_do + found.cached} results, "
        f"29 documents, {found.passing('tokens'):,} tokens, about $0.000" in told
    )
    assert f"{found.cached} results are reused" in told


def test_the_command_as_json(corpusmill, made: Path, capsys: pytest.CaptureFixture) -> None:
    profile = str(made / "profile.yaml")
    assert corpusmill("impact", "--json", "--set", "blend.seed=7", "--profile", profile) == 0

    told = json.loads(capsys.readouterr().out)
    assert told["summary"].startswith(f"At most 2 of {len(ASSETS)} assets are made again")
    assert told["cached"] == sum(d["cached"] for d in told["datasets"]) > told["to_do"] > 0
    assert told["usd"] == pytest.approx(sum(d["usd"] for d in told["datasets"] if d["outcome"] != "untouched"))
    assert {d["asset"] for d in told["datasets"] if d["to_do"]} == {"training_blend", "pretrained_model"}


def test_nothing_changed_and_nothing_made(
    corpusmill, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert corpusmill("impact", "--profile", str(made / "profile.yaml")) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert told.startswith("Nothing changes: all ")
    assert f"results of {len(ASSETS)} assets are reused. A run costs about $0.0000" in told

    make_profile(tmp_path)
    assert corpusmill("impact", "--profile", str(tmp_path / "profile.yaml")) == 0
    assert capsys.readouterr().out == "Nothing has been made yet: a run does everything.\n"
    assert not (tmp_path / "store").exists()


def test_an_unknown_key_is_the_profiles_own_error(corpusmill, made: Path, capsys: pytest.CaptureFixture) -> None:
    assert corpusmill("impact", "--set", "dedup.treshold=1", "--profile", str(made / "profile.yaml")) == 1

    assert "dedup.treshold is not a key; did you mean 'threshold'?" in capsys.readouterr().err
