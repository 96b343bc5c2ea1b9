"""Toxic sentences: where sentences end, which are listed, and what cutting them leaves; documents nobody can score."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given as hypothesis_given
from hypothesis import strategies as st

from pipelines.dataset import Dataset, Draft, Part, write_shard
from pipelines.engines.local import Engine
from pipelines.filters.cutting import Verdict, cut, without
from pipelines.filters.decide import filter_documents
from pipelines.filters.params import FilterParams
from pipelines.filters.toxicity import experts
from pipelines.filters.toxicity.params import ToxicityParams
from pipelines.filters.toxicity.sentences import sentence_ends
from pipelines.filters.toxicity.stage import score_toxicity
from pipelines.store import Store
from tests.pipelines.filters.corpus import (
    document_table,
    documents,
    perplexity_model,
    perplexity_scores,
    published,
    unsearched,
)
from tests.pipelines.filters.toxicity.stand_in import OPEN, StandIn, identity


def sentences(text: str) -> list[str]:
    ends = sentence_ends(text)
    return [text[a:b] for a, b in zip([0, *ends], ends, strict=False)]


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("One. Two!  Three?", ["One. ", "Two!  ", "Three?"]),
        ("a line\n\nanother", ["a line\n\n", "another"]),
        ('He said "no." Then he left…', ['He said "no." ', "Then he left…"]),
        ("3.14 is pi", ["3.14 is pi"]),
        ("你好。你是谁？我", ["你好。", "你是谁？", "我"]),
        ("「はい。」と言った。", ["「はい。」", "と言った。"]),
        ("क्या? हाँ। ठीक", ["क्या? ", "हाँ। ", "ठीक"]),
        ("end. \n", ["end. \n"]),
        (" \n ", []),
        ("", []),
    ],
)
def test_where_a_sentence_ends(text: str, cut: list[str]) -> None:
    assert sentences(text) == cut


@hypothesis_given(st.text('ab.!? \n。"', max_size=40))
def test_sentences_are_the_text_in_pieces(text: str) -> None:
    if text.strip():
        assert "".join(sentences(text)) == text
        assert all(sentences(text))


def test_endless_marks_and_spaces_are_cut_before_the_world_ends() -> None:
    """Looked at from each of its places, a run of a million signs would take days."""
    for run in ("!?" * 500_000, " " * 1_000_000, "." * 1_000_000):
        assert sentences(f"so{run}go on") == [f"so{run}go on"]
        assert sentences(f"so{run}.\n go on") == [f"so{run}.\n ", "go on"]


@hypothesis_given(st.binary(max_size=30), st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=4))
def test_what_is_cut_is_gone_and_all_else_stays(data: bytes, places: list[tuple[int, int]]) -> None:
    size = len(data)
    spans = sorted((min(a, b, size), min(max(a, b), size)) for a, b in places)
    kept = bytes(byte for at, byte in enumerate(data) if not any(a <= at < b for a, b in spans))
    left = without(data, spans)
    assert left in (kept, kept.rstrip())
    assert spans or left == data


RUDE, KIND, LATER = "You stupid fucking idiot! ", "A lovely day in the garden. ", "We had tea and cake."


def scored(store: Store, engine: Engine, given: Dataset, **config: Any) -> tuple[dict[str, Any], Dataset]:
    draft = score_toxicity(given, ToxicityParams.model_validate(config), engine)
    return draft.stats, published(store, draft, "toxicity_scores", "book")


def test_toxic_sentences_are_listed_where_they_stand(store: Store, engine: Engine) -> None:
    text = f"Ä {KIND}{RUDE}{LATER}"
    given = documents(store, [text, KIND, RUDE, RUDE], language=["en", "en", "en", "ja"], shard_rows=2)
    stats, data = scored(store, engine, given, sentences_from=0.5)
    ids = given.table("documents")["doc_id"].to_pylist()
    found = data.table("toxicity_sentences").to_pylist()
    assert [(row["doc_id"], row["scorer"]) for row in found] == [(ids[0], "screen"), (ids[2], "screen")]
    raw = text.encode()
    assert raw[found[0]["start"] : found[0]["start"] + found[0]["length"]].decode() == RUDE
    assert min(row["toxicity"] for row in found) > 0.9
    assert (stats["sentences_scored"], stats["sentences_listed"], stats["sentences_from"]) == (4, 2, 0.5)
    assert scored(store, engine, given)[1].table("toxicity_sentences").num_rows == 0


def test_a_sentence_goes_through_the_cascade_as_a_document_does(
    store: Store, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a model that knows one word, a sentence that the screen is not sure of is listed by that word."""
    model = StandIn("cold", memory=300)
    monkeypatch.setattr(experts, "_opened", lambda *_: model)
    monkeypatch.setattr(experts.neural, "identity", identity)
    given = documents(store, [f"{OPEN}. {KIND}{RUDE}"])
    config = {"neural": [{"checkpoint": "cold", "batch_tokens": 600}], "band": [0.3, 0.9], "sentences_from": 0.5}
    stats, data = scored(store, engine, given, **config)
    found = [(row["scorer"], row["start"]) for row in data.table("toxicity_sentences").to_pylist()]
    assert found == [("neural", 0), ("screen", len(f"{OPEN}. {KIND}"))]
    assert (model.budgets, stats["out_of_memory"]) == ([600, 300], 1)  # the sentences, again with half the batch
    scored(store, engine, given, **config)
    assert len(model.budgets) == 2
    monkeypatch.setattr(experts, "VERSION", 99)
    scored(store, engine, given, **config)
    assert model.budgets[2:] == [600, 300], "code that reads otherwise reads again"


def decided(store: Store, engine: Engine, given: Dataset, toxicity: Dataset, **config: Any) -> tuple[Any, Dataset]:
    perplexity = perplexity_scores(store, given, [500.0] * given.table("documents").num_rows)
    model = perplexity_model(store, [100.0, 1000.0], {"en": 99})
    wanted = FilterParams(max_perplexity_percentile=None, min_perplexity=None, **config)
    draft = filter_documents(given, toxicity, perplexity, unsearched(store), model, wanted, engine)
    return draft.stats, published(store, draft, "filtered_documents", "book")


def told(data: Dataset) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in data.table("decisions").select(["keep", "rule", "detail"]).to_pylist()]


def test_toxic_sentences_are_cut_and_a_document_of_which_nothing_is_left_is_dropped(
    store: Store, engine: Engine
) -> None:
    given = documents(store, [KIND, f"{KIND}{RUDE}{LATER}", f"{LATER} {RUDE}", f"{RUDE}{RUDE}"])
    _, toxicity = scored(store, engine, given, sentences_from=0.0)
    stats, data = decided(store, engine, given, toxicity, toxic="sentence", max_toxicity=0.8)
    assert data.table("documents")["text"].to_pylist() == [KIND, f"{KIND}{LATER}", LATER]
    size = len(RUDE)
    assert told(data) == [
        (True, "kept", None),
        (True, "kept", f"1 sentences, {size} bytes cut"),
        (True, "kept", f"1 sentences, {size + 1} bytes cut"),  # the space before it goes too
        (False, "toxicity", "nothing else is left"),
    ]
    assert stats["cut"] == {"documents": 2, "sentences": 2, "paragraphs": 0, "bytes": 2 * size + 1}
    assert stats["bytes_in"] - stats["bytes_out"] == stats["cut"]["bytes"] + 2 * size
    assert sum(stats["kept_beyond"].values()) == 0
    whole = decided(store, engine, given, toxicity, max_toxicity=0.8)[1]
    assert [row[1] for row in told(whole)] == ["kept", "toxicity", "toxicity", "toxicity"]


def test_a_toxic_document_without_a_toxic_sentence_goes_whole(store: Store, engine: Engine) -> None:
    given = documents(store, [RUDE])
    _, toxicity = scored(store, engine, given, sentences_from=0.9)
    score = toxicity.table("toxicity")["toxicity"][0].as_py()
    stats, data = decided(store, engine, given, toxicity, toxic="sentence", max_toxicity=score)
    assert told(data) == [(True, "kept", None)]  # at the limit is not above it
    assert stats["documents_out"] == 1
    empty = toxicity.table("toxicity_sentences").slice(0, 0)
    unlisted = with_sentences(store, toxicity, empty)
    assert told(decided(store, engine, given, unlisted, toxic="sentence", max_toxicity=0.91)[1]) == [
        (False, "toxicity", None)
    ]


def with_sentences(store: Store, toxicity: Dataset, listed: Any) -> Dataset:
    parts = dict(toxicity.version.parts)
    parts["toxicity_sentences"] = Part("table", (write_shard(store, "toxicity_sentences", listed),))
    return published(store, Draft(parts, toxicity.version.stats), "toxicity_scores", "book")


@pytest.mark.parametrize(
    ("config", "problem"),
    [({}, r"toxicity_scores\[book\] lists no sentences"), ({"sentences_from": 0.9}, "lists sentences from 0.9 on")],
)
def test_sentences_that_are_not_listed_cannot_be_cut(
    store: Store, engine: Engine, config: dict[str, Any], problem: str
) -> None:
    given = documents(store, [RUDE])
    _, toxicity = scored(store, engine, given, **config)
    with pytest.raises(ValueError, match=f"{problem}.*set toxicity.sentences_from to 0.8 or less"):
        decided(store, engine, given, toxicity, toxic="sentence", max_toxicity=0.8)


def test_documents_that_no_scorer_can_read_are_kept_or_dropped_and_nothing_is_scored_for_that(
    store: Store, engine: Engine
) -> None:
    given = documents(store, [KIND, "今日は", "x"], language=["en", "ja", None])
    _, toxicity = scored(store, engine, given)
    kept, data = decided(store, engine, given, toxicity)
    assert [row[1] for row in told(data)] == ["kept", "kept", "kept"]
    later = engine.charged_to("later")
    dropped, data = decided(store, later, given, toxicity, unknown_languages="drop")
    assert [row[1] for row in told(data)] == ["kept", "toxicity_unknown", "toxicity_unknown"]
    assert data.table("decisions")["value"].to_pylist() == [None, None, None]
    assert dropped["dropped"]["toxicity_unknown"] == 2
    assert dropped["unjudged"]["toxicity"] == kept["unjudged"]["toxicity"] == {"ja": 1, "und": 1}
    assert [store.action(result.key)["stage"] for result in later.results] == ["filters.decide"]


def test_two_rules_cut_one_document_once() -> None:
    """Given a sentence inside of a paragraph that another rule cuts, and two rules that leave nothing together."""
    table = document_table(["One. Two.\n\nThree.", "One. Two."])
    nothing = np.zeros(2)
    by_sentence = Verdict(nothing, nothing > 0, {0: [(0, 5)], 1: [(0, 5)]}, unit="sentences")
    by_paragraph = Verdict(nothing, nothing > 0, {0: [(0, 11)], 1: [(5, 9)]}, unit="paragraphs")
    left = cut(table, [by_sentence, by_paragraph])
    assert left.documents["text"].to_pylist() == ["Three.", ""]
    assert left.details == {0: "1 sentences, 5 bytes cut; 1 paragraphs, 11 bytes cut", 1: "nothing else is left"}
    assert (left.bytes.tolist(), left.emptied.tolist()) == ([11, 9], [False, True])
    assert by_sentence.objects(left.emptied).tolist() == [False, True]


def test_a_limit_that_the_band_was_not_made_for_is_told(store: Store, engine: Engine) -> None:
    given = documents(store, [KIND])
    made = scored(store, engine, given)[1]
    only_scores = {"toxicity": made.version.parts["toxicity"]}  # else it would be the same version
    cascaded = published(store, Draft(only_scores, {"band": {"threshold": 0.5}}), "toxicity_scores", "book")
    assert "toxicity_limit" not in decided(store, engine, given, cascaded, max_toxicity=0.5)[0]
    assert "toxicity_limit" not in decided(store, engine, given, made, max_toxicity=0.9)[0]
    told = decided(store, engine, given, cascaded, max_toxicity=0.9)[0]["toxicity_limit"]
    assert told.startswith("max_toxicity 0.9 is not the neural_threshold 0.5")
