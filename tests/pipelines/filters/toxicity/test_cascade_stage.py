"""The cascade as a stage: who read what, what is done again when something changes, and what is counted.

The neural model is a stand-in that knows one word; the real one is tested in test_neural.py.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.engines.local import Engine
from pipelines.filters.toxicity import experts
from pipelines.filters.toxicity.labelled import read_sample
from pipelines.filters.toxicity.params import CalibrationParams, ToxicityParams
from pipelines.filters.toxicity.screen import Screen
from pipelines.filters.toxicity.stage import score_toxicity
from pipelines.store import Store
from tests.pipelines.filters.corpus import documents
from tests.pipelines.filters.toxicity.stand_in import KIND, OPEN, RUDE, StandIn, config, identity, rows, scored


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> dict[str, StandIn]:
    """By checkpoint: a stand-in whose word is the checkpoint's name."""
    opened: dict[str, StandIn] = {}

    def open_one(params: str, *_: str) -> StandIn:
        name = json.loads(params)["checkpoint"]
        return opened.setdefault(name, StandIn(name))

    monkeypatch.setattr(experts, "_opened", open_one)
    monkeypatch.setattr(experts.neural, "identity", identity)
    return opened


def test_the_model_reads_what_the_screen_leaves_open(
    store: Store, engine: Engine, models: dict[str, StandIn], screen: Screen
) -> None:
    assert 0.3 < screen.score(documents(store, [OPEN]).table("documents")["text"], 500)[0] < 0.9
    given = documents(store, [KIND, RUDE, OPEN, f"{OPEN} cold", KIND], shard_rows=2)
    stats, data = scored(store, engine, given, config("cold"))
    assert models["cold"].read == [OPEN, f"{OPEN} cold"]
    kind, rude, *opened, again = rows(data)
    assert kind == again
    assert kind[0] < 0.5 < rude[0]
    assert [row[2] for row in (kind, rude, *opened)] == ["screen", "screen", "neural", "neural"]
    assert opened[0] == (pytest.approx(0.9), pytest.approx(0.45), "neural", None)
    assert rows(data, "toxicity_labels")[:2] == [
        ("neural:checkpoint", "insult", 0, 0),
        ("neural:checkpoint", "toxicity", pytest.approx(0.9), pytest.approx(0.45)),
    ]
    assert stats["scored_by"] == {"neural": 2, "screen": 3}
    assert stats["read_by"] == {"neural:checkpoint": 2}
    assert stats["band"] == {"low": 0.3, "high": 0.9, "threshold": 0.5}
    assert data.table("toxicity_screen")["screen"].to_pylist()[2] == pytest.approx(
        screen.score(documents(store, [OPEN]).table("documents")["text"], 500)[0]
    )


def test_a_model_of_which_nothing_is_asked_is_not_opened(
    store: Store, engine: Engine, models: dict[str, StandIn]
) -> None:
    stats, data = scored(store, engine, documents(store, [KIND, RUDE]), config("cold"))
    assert models == {}
    assert stats["scored_by"] == {"screen": 2}
    assert data.table("toxicity_labels").num_rows == 0


def test_another_band_screens_nothing_again_and_another_rule_reads_nothing_again(
    store: Store, engine: Engine, models: dict[str, StandIn]
) -> None:
    given = documents(store, [KIND, RUDE, OPEN])

    def done(wanted: ToxicityParams) -> list[str]:
        later = engine.charged_to("later")
        score_toxicity(given, wanted, later)
        return [store.action(result.key)["stage"].rpartition(".")[2] for result in later.results if not result.reused]

    score_toxicity(given, config("cold"), engine)
    assert done(config("cold")) == []
    assert done(config("cold", band=[0.31, 0.9])) == ["choose", "combine"]  # the same documents lie in it
    assert done(config("cold", band=[0, 1])) == ["choose", "neural", "combine"]
    assert done(config("evening")) == ["neural", "combine"]
    assert done(config("cold", "evening")) == ["choose", "neural", "combine"]
    assert done(config("cold", neural_threshold=0.7)) == ["combine"]


def test_several_models_decide_together_and_their_agreement_is_kept(
    store: Store, engine: Engine, models: dict[str, StandIn]
) -> None:
    given = documents(store, [OPEN])
    expected = {"mean": (1.9 / 3, 2 / 3), "majority": (0.9, 2 / 3), "any": (0.9, 2 / 3)}
    for rule, (score, agreed) in expected.items():
        _, data = scored(store, engine, given, config("cold", "morning", "evening", neural_decision=rule))
        [(toxicity, _, scorer, agreement)] = rows(data)
        assert (toxicity, scorer, agreement) == (pytest.approx(score), "neural", pytest.approx(agreed))
    names = [row[0] for row in rows(data, "toxicity_labels")]
    assert sorted(set(names)) == ["neural:checkpoint", "neural:checkpoint 2", "neural:checkpoint 3"]


def test_languages(store: Store, engine: Engine, models: dict[str, StandIn], tmp_path: Path) -> None:
    (tmp_path / "de.txt").write_text("Idiot\n", encoding="utf-8")
    (tmp_path / "en.txt").write_text("gizmo\n", encoding="utf-8")
    texts = ["Du Idiot", "Guten Tag", "холод cold", "今日は", "a lovely gizmo"]
    given = documents(store, texts, language=["de", "de", "ru", "ja", "en"])
    wanted = config(
        "cold",
        languages=("en", "ru"),
        lexicons={language: str(tmp_path / f"{language}.txt") for language in ("de", "en")},
    )
    stats, data = scored(store, engine, given, wanted)
    assert [(row[0], row[2]) for row in rows(data)] == [
        (0.5, "lexicon"),
        (0.0, "lexicon"),
        (pytest.approx(0.9), "neural"),  # the screen does not know the language, so it is not asked
        (None, None),
        (pytest.approx(0.1), "neural"),  # the lexicon's hit leaves open what the screen calls kind
    ]
    assert stats["unknown_language"] == {"ja": 1}
    assert stats["scored_by"] == {"lexicon": 2, "neural": 2}
    stats, data = scored(store, engine, given, wanted.model_copy(update={"unknown_languages": "neural"}))
    assert rows(data)[3] == (pytest.approx(0.1), pytest.approx(0.05), "neural", None)
    assert stats["unknown_language"] == {}


def test_a_changed_lexicon_is_noticed(store: Store, engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "de.txt"
    given = documents(store, ["Du Idiot"], language="de")
    found = []
    for entries in ("Idiot", "Trottel"):
        path.write_text(entries, encoding="utf-8")
        _, data = scored(store, engine, given, ToxicityParams(lexicons={"de": str(path)}))
        found.append(rows(data)[0][0])
    assert found == [0.5, 0.0]
    with pytest.raises(ValueError, match=r"the lexicon of de cannot be read from .*correct toxicity.lexicons.de"):
        score_toxicity(given, ToxicityParams(lexicons={"de": str(tmp_path / "none")}), engine)


def test_a_shard_that_memory_does_not_hold_is_read_again_under_the_key_of_half_the_batch(
    store: Store, engine: Engine, models: dict[str, StandIn]
) -> None:
    given = documents(store, [OPEN, f"{OPEN} cold"], shard_rows=1)
    models["cold"] = StandIn("cold", memory=300)
    stats, data = scored(store, engine, given, config("cold"))
    assert models["cold"].budgets == [1000, 1000, 500, 500, 250, 250]
    assert [row[2] for row in rows(data)] == ["neural", "neural"]
    assert (stats["out_of_memory"], stats["neural"]) == (4, {"neural:checkpoint": {"windows": 2}})
    models["cold"].memory = 1000  # elsewhere it would do, but what was made stands under the key that made it
    assert scored(store, engine.charged_to("later"), given, config("cold"))[1].version.id == data.version.id
    assert len(models["cold"].budgets) == 6


# -- the band from a sample -------------------------------------------------------------------------------------------


def sample(tmp_path: Path, kind: str) -> dict[str, Any]:
    labelled = [(KIND, 0)] * 8 + [(OPEN, 1)] * 4 + [(f"{KIND} on a cold morning", 0)] + [(f"{RUDE} in the cold", 1)] * 7
    path = tmp_path / f"sample.{kind}"
    if kind == "csv":
        path.write_text("comment,toxic\n" + "".join(f'"{text}",{label}\n' for text, label in labelled))
    else:
        lines = [json.dumps({"comment": text, "toxic": bool(label)}) for text, label in labelled]
        path.write_text("\n".join(lines) + "\n")
    toxic = ["1"] if kind == "csv" else ["true"]
    return {"path": str(path), "text": "comment", "label": "toxic", "toxic": toxic}


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_the_band_is_chosen_from_a_labelled_sample(
    store: Store,
    engine: Engine,
    models: dict[str, StandIn],
    screen: Screen,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    """Given a model that calls twelve of twenty texts toxic, one of which the screen thinks kind."""
    monkeypatch.setattr("pipelines.filters.toxicity.calibration.SHARD_ROWS", 8)
    calibration = sample(tmp_path, kind)
    wanted = config("cold", band=None, calibration={**calibration, "target_recall": 0.9})
    stats, data = scored(store, engine, documents(store, [KIND, RUDE, OPEN]), wanted)
    cheap = screen.score(documents(store, [OPEN, f"{KIND} on a cold morning"]).table("documents")["text"], 500)
    assert stats["band"]["low"] == pytest.approx(cheap[0])  # the kind one may be lost, one of twelve
    assert stats["band"]["low"] > cheap[1]
    told = stats["band_on_sample"]
    assert (told["texts"], told["positives"], told["recall"]["value"]) == (20, 12, pytest.approx(11 / 12))
    assert told["recall"]["low"] < 11 / 12 < told["recall"]["high"]
    assert (told["precision"]["value"], told["in_band"]["value"]) == (1.0, pytest.approx(4 / 20))
    assert [row[2] for row in rows(data)] == ["screen", "screen", "neural"]
    read = len(models["cold"].read)
    stricter = config("cold", band=None, calibration={**calibration, "target_recall": 1.0})
    stats, data = scored(store, engine, documents(store, [KIND, RUDE, OPEN]), stricter)
    assert stats["band"]["low"] == pytest.approx(cheap[1])
    assert len(models["cold"].read) == read, "another target reads the sample no second time"
    kept = [shard.name for shard in data.version.parts["calibration"].shards]
    kinds = ["documents", "toxicity_screen", "toxicity_labels"]
    assert sorted({name.partition(".")[0] for name in kept}) == sorted(kinds), "a collection of garbage spares them"
    assert len(kept) == 3 * 3  # the sample stands in three shards
    sha256 = told["sample_sha256"]
    Path(calibration["path"]).write_text(Path(calibration["path"]).read_text() + "\n")
    stats, _ = scored(store, engine, documents(store, [KIND]), stricter)
    assert stats["band_on_sample"]["sample_sha256"] != sha256


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"label": "rude"}, "record 1 of the labelled sample has no field 'rude'; it has comment, toxic"),
        ({"toxic": ["yes"]}, "0 of 20 texts of the labelled sample are toxic"),
        ({"path": "nowhere.csv"}, "the labelled sample cannot be read from nowhere.csv"),
    ],
)
def test_a_sample_that_does_not_fit_is_refused(
    store: Store, engine: Engine, models: dict[str, StandIn], tmp_path: Path, change: dict[str, Any], problem: str
) -> None:
    wanted = config("cold", band=None, calibration={**sample(tmp_path, "csv"), **change})
    with pytest.raises(ValueError, match=problem):
        score_toxicity(documents(store, [KIND]), wanted, engine)


@pytest.mark.parametrize(
    ("content", "toxic"),
    [
        ("text,label\nyou idiot,1\nhello,0\n", [True, False]),
        ('\ufefftext,label\n"you ""idiot"",\nreally", 1 \nhello, 0\n', [True, False]),
        ('{"text": "you idiot", "label": 1.0}\n{"text": "hello", "label": 0}\n', [True, False]),
        (
            '{"text": "you idiot", "label": "1"}\n{"text": " ", "label": 1}\n{"text": "hello", "label": false}\n',
            [True, False],
        ),
    ],
)
def test_a_label_means_the_same_however_it_was_written(tmp_path: Path, content: str, toxic: list[bool]) -> None:
    path = tmp_path / "sample"
    path.write_text(content, encoding="utf-8")
    assert read_sample(CalibrationParams(path=str(path))).toxic == toxic


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("text,label\nyou idiot,1\nhello,\n", "record 2 of the labelled sample has no label: label is ''"),
        ("text,label\nyou idiot,1\nhello,NaN\n", "record 2 of the labelled sample has no label: label is 'NaN'"),
        ('{"text": "you idiot", "label": NaN}\n', "record 1 of the labelled sample has no label: label is 'nan'"),
        ("text,label\nyou idiot,1\nhello, friend,0\n", "record 2 .* more cells than there are columns; put texts"),
        ("text,text,label\na,you idiot,1\n", "two columns of the labelled sample are called 'text'"),
        ("text,label\nyou idiot,1.0\nhello,0.0\n", r"0 of 2 texts .* \(labels: '0\.0', '1\.0'\)"),
    ],
)
def test_a_sample_whose_labels_are_in_doubt_is_refused(tmp_path: Path, content: str, problem: str) -> None:
    path = tmp_path / "sample"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=problem):
        read_sample(CalibrationParams(path=str(path)))
