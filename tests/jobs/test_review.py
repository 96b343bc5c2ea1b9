"""`corpusmill review`: documents go out to people, labels come back, and the hours stand beside what compute cost."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobs.command import main
from jobs.review import present_threshold
from pipelines.costs.ledger import Ledger, Pointer
from pipelines.dataset import Draft, seal
from pipelines.filters.toxicity.labelled import read_sample
from pipelines.filters.toxicity.params import CalibrationParams
from pipelines.removals import Removal, Removals
from pipelines.store import Store
from resources.settings import load_profile
from tests.jobs.corpus import INSULT, make_profile

Command = Callable[..., str]


@pytest.fixture
def corpusmill(milled: Path, capsys: pytest.CaptureFixture, own_environment: None) -> Command:
    """A command in the folder: what it printed, or with `fails` what it complained of."""

    def said(*arguments: str | Path, fails: bool = False) -> str:
        capsys.readouterr()
        assert main([*map(str, arguments), "--profile", str(milled / "profile.yaml")]) == int(fails)
        told = capsys.readouterr()
        return told.err if fails else told.out

    return said


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def label(path: Path, said: Callable[[dict[str, str]], dict[str, str]]) -> list[dict[str, str]]:
    """Fill in labels as a spreadsheet program would save them."""
    rows = [{**row, **said(row)} for row in rows_of(path)]
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return rows


@pytest.fixture
def labelled(tmp_path: Path, corpusmill: Command) -> Path:
    """A sample that two people have labelled, who disagree on one document."""
    path = tmp_path / "labels.csv"
    corpusmill("review", "export", path, "--annotators", "ann,ben", "--per-bin", "4")
    ids = sorted(row["doc_id"] for row in rows_of(path))

    def said(row: dict[str, str]) -> dict[str, str]:
        toxic = "fucking" in row["text"]
        return {"label_ann": str(int(toxic)), "label_ben": str(int(toxic or row["doc_id"] == ids[0]))}

    label(path, said)
    return path


def test_the_file_holds_texts_and_no_scores(tmp_path: Path, corpusmill: Command) -> None:
    path = tmp_path / "labels.csv"

    told = json.loads(corpusmill("review", "export", path, "--per-bin", "3", "--characters", "100", "--json"))

    rows = rows_of(path)
    assert list(rows[0]) == ["doc_id", "source", "uri", "language", "characters", "text", "label_1"]
    assert told["documents"] == len(rows) == sum(bin["drawn"] for bin in told["bins"])
    assert all(bin["drawn"] == min(3, bin["documents"]) for bin in told["bins"])
    insult = next(row for row in rows if row["uri"] == "part 2.jsonl#insult")
    assert (insult["text"], insult["characters"]) == (INSULT[:100], str(len(INSULT.strip())))
    assert {"books", "web"} == {row["source"] for row in rows}


def test_labels_come_back_as_agreement_and_quality(labelled: Path, corpusmill: Command) -> None:
    told = json.loads(corpusmill("review", "import", labelled, "--json"))

    documents = len(rows_of(labelled))
    assert told["labelled"] == {"ann": documents, "ben": documents}
    (pair,) = told["cohen_kappa"]
    assert (pair["annotators"], pair["documents"], told["tied"]) == (["ann", "ben"], documents, 1)
    assert 0 < pair["kappa"] < 1 and 0 < told["fleiss_kappa"] < 1
    assert told["present"]["threshold"] == 0.95
    assert (told["present"]["dropped"], told["present"]["precision"]["value"]) == (1, 1)
    assert told["booked"] is None


def test_people_read_tables_and_the_threshold_in_force(labelled: Path, corpusmill: Command) -> None:
    told = corpusmill("review", "import", labelled)

    assert "Agreement, Cohen's kappa" in told
    (line,) = [line for line in told.splitlines() if "in force" in line]
    assert line.split()[:2] == ["0.95", "1"]
    assert "Documents on which people are evenly split, counted nowhere: 1." in told


def test_hours_of_people_stand_beside_compute(labelled: Path, milled: Path, corpusmill: Command) -> None:
    def costs() -> dict[tuple[str, str], dict[str, Any]]:
        return {(c["asset"], c["partition"]): c for c in json.loads(corpusmill("cost", "--json"))}

    before = costs()
    hours = ["--hours", "2.5", "--usd-per-hour", "30"]

    told = corpusmill("review", "import", labelled, *hours)

    assert "Work of people: 2.5 hours, $75.00." in told
    after = costs()
    bought = {place: cost["bought_usd"] for place, cost in after.items() if cost["bought_usd"]}
    assert set(bought) == {("toxicity_scores", "books"), ("toxicity_scores", "web")}
    assert sum(bought.values()) == pytest.approx(75)
    rise = {place: after[place]["lineage_usd"] - before[place]["lineage_usd"] for place in after}
    assert rise["filtered_documents", "web"] == pytest.approx(bought["toxicity_scores", "web"])
    assert rise["unique_documents", "web"] == rise["perplexity_scores", "web"] == 0
    assert after["toxicity_scores", "web"]["usd"] == before["toxicity_scores", "web"]["usd"]
    assert "calls $" in corpusmill("cost")

    again = corpusmill("review", "import", labelled, *hours)

    assert "were noted before; nothing was added" in again
    assert costs() == after
    ledger = Ledger(load_profile(milled / "profile.yaml").ledger_url)
    assert all(event.kind != "opened" or event.payload["role"] != "people" or event.run.startswith("review-")
               for event in ledger.events())  # fmt: skip


def test_a_mistake_names_the_line_and_nothing_is_noted(labelled: Path, corpusmill: Command) -> None:
    spent = corpusmill("cost", "--json")
    first = rows_of(labelled)[0]["doc_id"]
    label(labelled, lambda row: {"label_ann": "perhaps"} if row["doc_id"] == first else {})

    told = corpusmill("review", "import", labelled, "--hours", "1", "--usd-per-hour", "30", fails=True)

    assert (
        told == f"{labelled}, line 2: label_ann is 'perhaps'; write 1 (to be dropped) or 0 (stays), or leave it empty\n"
    )
    assert corpusmill("cost", "--json") == spent


def test_the_labelled_texts_can_calibrate_the_cascade(
    labelled: Path, tmp_path: Path, corpusmill: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "calibration.jsonl"
    with monkeypatch.context() as patched:
        patched.setenv("CORPUSMILL_SET", '["toxicity.calibration.language=de"]')
        told = corpusmill("review", "import", labelled, "--calibration", path, fails=True)
    assert "no labelled document is in de" in told, "a sample has one language, which its texts must be in"
    assert not path.exists()

    corpusmill("review", "import", labelled, "--calibration", path)

    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(lines) == len(rows_of(labelled)) - 1  # without the one on which they disagree
    assert [line["text"] for line in lines if line["label"]] == [INSULT.strip()]  # whole, though the file may cut it
    assert sum(read_sample(CalibrationParams(path=str(path))).toxic) == 1
    assert "is there already" in corpusmill("review", "import", labelled, "--calibration", path, fails=True)


def test_a_text_that_was_forgotten_since_leaves_the_store_no_more(
    labelled: Path, tmp_path: Path, corpusmill: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "calibration.jsonl"
    (rude,) = [row["doc_id"] for row in rows_of(labelled) if row["label_ann"] == row["label_ben"] == "1"]
    removal = Removal("r1", 0.0, "asked for", (), documents=((rude, "web", "web/all.jsonl"),))
    monkeypatch.setattr(Ledger, "removals", lambda _: Removals((removal,)))

    corpusmill("review", "import", labelled, "--calibration", path)

    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert lines
    assert not any(line["label"] for line in lines)


def test_perplexity_is_reviewed_at_the_threshold_of_the_decisions(tmp_path: Path, corpusmill: Command) -> None:
    path = tmp_path / "labels.csv"

    corpusmill("review", "export", path, "--score", "perplexity", "--json")

    sample = json.loads((tmp_path / "labels.sample.json").read_text())
    assert sample["threshold"] in sample["edges"]
    off_topic = next(row["doc_id"] for row in rows_of(path) if row["uri"] == "part 2.jsonl#off topic")
    assert next(d["score"] for d in sample["documents"] if d["doc_id"] == off_topic) > sample["threshold"]


def test_the_threshold_in_force_is_that_of_the_newest_decisions(tmp_path: Path, own_environment: None) -> None:
    profile = make_profile(tmp_path)
    ledger, store = Ledger(profile.ledger_url), Store(profile.store_url)
    assert present_threshold(ledger, store, profile, "toxicity") == profile.filters.max_toxicity
    for name, limit in zip(profile.source_names, (0.9, 0.6), strict=False):
        draft = Draft({}, {"limits": {"max_toxicity": limit}})
        version = seal(store, draft, asset="filtered_documents", partition=name)
        ledger.publish([Pointer("filtered_documents", name, version.id, "attempt", "run")])
    assert present_threshold(ledger, store, profile, "toxicity") == 0.6


def test_what_cannot_be_meant_is_one_sentence(
    tmp_path: Path, labelled: Path, corpusmill: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "new.csv"
    assert "may hold labels; name another file" in corpusmill("review", "export", labelled, fails=True)
    assert "in a folder that exists" in corpusmill("review", "export", tmp_path / "no" / "x.csv", fails=True)
    assert "a name of its own" in corpusmill("review", "export", path, "--annotators", "a,a", fails=True)
    assert "holds 32,000" in corpusmill("review", "export", path, "--characters", "33000", fails=True)
    assert "belong together" in corpusmill("review", "import", labelled, "--hours", "1", fails=True)
    dear = ["--hours", "1e40", "--usd-per-hour", "30", "--calibration", path]
    assert "more than the ledger can hold" in corpusmill("review", "import", labelled, *dear, fails=True)
    assert not path.exists()
    moved = labelled.rename(tmp_path / "moved.csv")
    assert "moved.sample.json, which was exported beside" in corpusmill("review", "import", moved, fails=True)
    assert "precision" in corpusmill("review", "import", moved, "--sample", tmp_path / "labels.sample.json")
    (tmp_path / "moved.sample.json").write_text("{}")
    assert "is not what `review export` wrote" in corpusmill("review", "import", moved, fails=True)
    twin = tmp_path / "labels.tsv"  # whose sample would stand where that of labels.csv does
    assert "belongs to another sample" in corpusmill("review", "export", twin, fails=True)
    monkeypatch.setenv("CORPUSMILL_SET", '["previews=off"]')
    assert "no text may leave the store" in corpusmill("review", "export", path, fails=True)
    texts = ["--sample", tmp_path / "labels.sample.json", "--calibration", path]
    assert "no text may leave the store" in corpusmill("review", "import", moved, *texts, fails=True)
    assert not path.exists()


def test_before_there_are_scores_there_is_nothing_to_draw_from(tmp_path: Path, capsys, own_environment: None) -> None:
    make_profile(tmp_path)

    assert main(["review", "export", str(tmp_path / "x.csv"), "--profile", str(tmp_path / "profile.yaml")]) == 1

    assert "toxicity_scores was not made yet" in capsys.readouterr().err
