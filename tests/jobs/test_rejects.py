"""`corpusmill rejects`: what every stage dropped, in numbers and to look at; and decontamination through the chain."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

import jobs.rejects
from jobs.command import main
from jobs.rebuild import SAME
from pipelines.costs.ledger import Ledger, LedgerError
from pipelines.dataset import Dataset, Draft, Part, Version, seal, write_shard
from pipelines.schemas import DECISIONS, DOCUMENTS
from pipelines.store import Store
from resources.settings import load_profile
from tests.jobs.corpus import EXAM, FATES, INSULT, WEB, make_profile
from tests.jobs.test_chain import Mill, reason

STAGES = {
    "raw_documents": "ingestion",
    "clean_documents": "cleaning",
    "unique_documents": "deduplication",
    "filtered_documents": "filtering",
}


Command = Callable[..., str]


@pytest.fixture
def corpusmill(capsys: pytest.CaptureFixture, own_environment: None) -> Command:
    """A command in a folder: what it printed, or with `fails` what it complained of."""

    def said(folder: Path, *arguments: str, fails: bool = False) -> str:
        capsys.readouterr()
        assert main([*arguments, "--profile", str(folder / "profile.yaml")]) == int(fails)
        told = capsys.readouterr()
        return told.err if fails else told.out

    return said


@pytest.fixture
def rejects(corpusmill: Command) -> Callable[..., dict[str, Any]]:
    return lambda folder, *options: json.loads(corpusmill(folder, "rejects", "--json", *options))


def names(told: dict[str, Any]) -> dict[str, str]:
    """Reason of every sampled document, by its place."""
    return {one["place"]: one["reason"] for one in told["sample"]}


def test_counts_are_those_of_every_stage_and_reason(milled: Path, rejects) -> None:
    told = rejects(milled)

    expected = {
        (STAGES[asset], source, why): count
        for source, stages in FATES.items()
        for asset, reasons in stages.items()
        for why, count in reasons.items()
    } | {("filtering", "web", "contamination"): 1}
    assert {(c["stage"], c["source"], c["reason"]): c["documents"] for c in told["counts"]} == expected
    assert [c["documents_in"] for c in told["counts"] if c["stage"] == "ingestion"] == [len(WEB) + 1] * 4
    assert told["sample"] == []


def test_without_a_sample_no_table_is_read(milled: Path, rejects, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs.rejects, "read_table", lambda *_: pytest.fail("a table was read"))

    assert rejects(milled, "--stage", "filtering")["counts"]


def test_a_sample_has_place_reason_measure_and_the_beginning_of_the_text(milled: Path, rejects) -> None:
    told = rejects(milled, "--sample", "2")

    assert names(told) == {
        "part 1.jsonl#w0": "duplicate_id",
        "part 2.jsonl#empty": "empty_text",
        "part 2.jsonl#no text": "missing_field",
        "part 2.jsonl#10": "invalid_json",
        "part 2.jsonl#short": "too_short",
        "part 2.jsonl#copy": "exact",
        "part 2.jsonl#near-copy": "minhash",
        "part 2.jsonl#insult": "toxicity",
        "part 2.jsonl#off topic": "perplexity_high",
        "part 1.jsonl#w4": "contamination",
    }
    by_reason = {one["reason"]: one for one in told["sample"]}
    short, broken, insult = by_reason["too_short"], by_reason["invalid_json"], by_reason["toxicity"]
    assert (short["value"], short["threshold"], short["text"]) == (len("Too short."), 50, "Too short.")
    assert (broken["doc_id"], broken["text"]) == (None, None)
    assert "line" in broken["detail"]
    assert INSULT.startswith(insult["text"]) and len(insult["text"]) == jobs.rejects.BEGINNING
    assert by_reason["contamination"]["detail"] == "exam#found"
    assert all(one["source"] == "web" for one in told["sample"])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--reason", "toxicity"], {"toxicity"}),
        (["--stage", "deduplication"], {"exact", "minhash"}),
        (["clean_documents"], {"too_short"}),
        (["filtered_documents[web]", "--reason", "contamination"], {"contamination"}),
    ],
)
def test_reason_stage_and_dataset_narrow_both(milled: Path, rejects, options: list[str], expected: set[str]) -> None:
    told = rejects(milled, "--sample", "1", *options)

    assert {count["reason"] for count in told["counts"]} == expected == set(names(told).values())


def test_a_sample_is_always_the_same_and_no_larger_than_asked_for(tmp_path: Path, rejects) -> None:
    profile = make_profile(tmp_path)
    lines = [json.dumps({"id": f"s{number}", "text": f"Short {number}."}) + "\n" for number in range(30)]
    (tmp_path / "web" / "part 3.jsonl").write_text("".join(lines))
    with dg.DagsterInstance.ephemeral() as instance:
        assert Mill(profile, instance).run("*clean_documents").success

    told = rejects(tmp_path, "--sample", "5", "--reason", "too_short")

    assert len(told["sample"]) == 5
    ids = [one["doc_id"] for one in rejects(tmp_path, "--sample", "40", "--reason", "too_short")["sample"]]
    assert len(ids) == 31
    assert [one["doc_id"] for one in told["sample"]] == sorted(ids)[:5]
    assert told == rejects(tmp_path, "--sample", "5", "--reason", "too_short")


def test_people_get_a_table_and_the_sampled_documents(milled: Path, corpusmill: Command) -> None:
    told = corpusmill(milled, "rejects", "--sample", "1")

    assert "What every stage dropped, and why" in told
    lines = [" ".join(line.split()) for line in told.splitlines()]
    assert "cleaning web too_short 1 6.2 %" in lines
    assert lines[lines.index("cleaning: too_short (10 against 50)") + 1 :][:2] == [
        "web: part 2.jsonl#short",
        "Too short.",
    ]


def test_no_text_is_shown_where_previews_are_off(milled: Path, corpusmill: Command, monkeypatch) -> None:
    monkeypatch.setenv("CORPUSMILL_SET", '["previews=off"]')

    told = corpusmill(milled, "rejects", "--sample", "9")
    record = json.loads(corpusmill(milled, "rejects", "--sample", "9", "--json"))

    assert "part 2.jsonl#short" in told and "Too short." not in told
    assert "No texts are shown: the profile has previews: off." in told
    assert {one["text"] for one in record["sample"]} == {None}


def test_a_document_whose_text_was_collected_is_still_named(milled: Path, rejects, corpusmill: Command) -> None:
    profile = load_profile(milled / "profile.yaml")
    store, ledger = Store(profile.store_url), Ledger(profile.ledger_url)
    shards = Version.load(store, ledger.current("raw_documents", "web").version).parts["documents"].shards
    paths = [store.path(shard.object) for shard in shards]
    for path in paths:
        path.rename(path.with_suffix(".away"))
    try:
        (one,) = rejects(milled, "--sample", "1", "--reason", "too_short")["sample"]
        printed = corpusmill(milled, "rejects", "--sample", "1", "--reason", "too_short")
    finally:
        for path in paths:
            path.with_suffix(".away").rename(path)

    assert (one["place"], one["text"], one["value"]) == (None, None, len("Too short."))
    assert "no longer stored" in printed


def test_what_cannot_be_meant_is_one_sentence(milled: Path, tmp_path: Path, corpusmill: Command) -> None:
    assert "reasons are: contamination, " in corpusmill(milled, "rejects", "--reason", "toxic", fails=True)
    assert "what does is: raw_documents, " in corpusmill(milled, "rejects", "duplicate_clusters", fails=True)
    assert "no dataset 'books' has been made" in corpusmill(milled, "rejects", "books", fails=True)
    profile = make_profile(tmp_path)
    assert corpusmill(tmp_path, "rejects") == "Nothing has been made yet: start with `corpusmill run`.\n"
    with dg.DagsterInstance.ephemeral() as instance:
        assert Mill(profile, instance).run("*clean_documents").success
    assert (
        "filtered_documents, where filtering drops documents, was not made yet or is not asked for; there is: "
        "raw_documents, clean_documents" in corpusmill(tmp_path, "rejects", "--stage", "filtering", fails=True)
    )


def test_decisions_that_describe_other_documents_are_no_collected_text(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    decided = pa.table(
        {"doc_id": ["a", "b"], "keep": [True, False], "stage": "xy", "rule": "xy", "value": [None] * 2}
        | {"threshold": [None] * 2, "detail": [None] * 2},
        schema=DECISIONS,
    )
    document = pa.table({name: ["a"] for name in DOCUMENTS.names}, schema=DOCUMENTS)

    def dataset(asset: str, part: str, table: pa.Table, *inputs: Dataset) -> Dataset:
        draft = Draft({part: Part("table", (write_shard(store, part, table),))})
        return Dataset(asset, (seal(store, draft, asset=asset, partition="web", inputs=inputs),), store)

    raw = dataset("raw_documents", "documents", document)
    clean = dataset("clean_documents", "decisions", decided, raw)

    with pytest.raises(LedgerError, match=r"decisions of clean_documents\[web\]@.* do not describe the documents"):
        jobs.rejects.sample_of(clean.version, store, None, 1, with_text=True)


# -- decontamination through the chain ------------------------------------------------------------------------------


def test_explain_tells_the_share_and_the_example(milled: Path, corpusmill: Command) -> None:
    told = corpusmill(milled, "explain", "#w4")

    assert "exam#found" in told
    assert "(passes at most 0), 1 passage of evaluation sets, most like exam#found." in told
    assert "Contamination: 0 (passes at most 0)." in corpusmill(milled, "explain", "#b3")


def test_a_version_with_evaluation_sets_can_be_made_again_and_nothing_is_left_to_do(
    milled: Path, corpusmill: Command
) -> None:
    verified = json.loads(corpusmill(milled, "reproduce", "contamination_scores[web]", "--verify", "--json"))
    assert verified["reproduced"]
    assert {verdict["outcome"] for verdict in verified["verdicts"]} == {SAME}
    outcomes = {
        (dataset["asset"], dataset["outcome"])
        for dataset in json.loads(corpusmill(milled, "impact", "--json"))["datasets"]
        if dataset["asset"] in ("contamination_scores", "filtered_documents")
    }
    assert outcomes == {("contamination_scores", "untouched"), ("filtered_documents", "untouched")}


def test_hits_are_shown_with_the_documents_place_where_previews_allow_it(milled: Path) -> None:
    from assets.previews import preview_metadata

    profile = load_profile(milled / "profile.yaml")
    store, ledger = Store(profile.store_url), Ledger(profile.ledger_url)
    version = Version.load(store, ledger.current("contamination_scores", "web").version)
    made = Dataset("contamination_scores", (version,), store)

    (row,) = preview_metadata(made, "ui")["preview of hits"].records

    assert (row.data["document"], row.data["example"]) == ("part 1.jsonl#w4", "exam#found")
    assert preview_metadata(made, "off") == {}
    sets = version.stats["evaluation_sets"]["exam"]
    assert (sets["examples"], sets["examples_found"], sets["documents"]) == (2, 1, 1)


def test_the_launchpad_holds_the_sets_of_the_profile(milled: Path, tmp_path: Path) -> None:
    (tmp_path / "exam.jsonl").write_bytes((milled / "exam.jsonl").read_bytes())
    profile = make_profile(tmp_path, contamination={"sets": EXAM})
    with dg.DagsterInstance.ephemeral() as instance:
        from jobs.build import full_range

        mill = Mill(profile, instance)
        assert mill.run("*unique_documents").success
        config = {"ops": {"contamination_scores": {"config": {"ngram": 8}}}}
        result = mill.run("contamination_scores", tags=full_range(profile), run_config=config)
        assert result.success, reason(result)
        params = mill.dataset("contamination_scores", "web").version.params
    assert params["ngram"] == 8
    assert params["sets"] == {"exam": {"fields": ["question", "answer"], "id": "name"}}
