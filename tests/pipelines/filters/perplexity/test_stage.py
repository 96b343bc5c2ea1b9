"""Stages perplexity_model and perplexity_scores: folds, limits, keys and refusals."""

import json
import math

import numpy as np
import pyarrow as pa
import pytest

from pipelines.dataset import Dataset, Draft, Part, write_shard
from pipelines.engines.local import Engine
from pipelines.filters.perplexity.ngram_folds import fold_of
from pipelines.filters.perplexity.ngram_model import FILE_NAMES
from pipelines.filters.perplexity.params import PerplexityParams
from pipelines.filters.perplexity.stage import score_perplexity, train_perplexity
from pipelines.store import Store
from tests.pipelines.filters.corpus import documents, paragraphs, published, shuffled, together

SMALL = PerplexityParams(order=3, min_count=1, min_tokens=1)
TEXTS = [
    f"sentence number {n} speaks of cats and dogs and item{letter} alone"
    for n, letter in enumerate("abcdefghijklmnopqrst")
]


def model_of(store: Store, reference: Dataset, engine: Engine, config: PerplexityParams = SMALL) -> Dataset:
    return published(store, train_perplexity(reference, config, engine), "perplexity_model")


def test_folds_are_the_parity_of_the_first_digit() -> None:
    assert fold_of(pa.array(["0a", "1b", "ac", "fd"], pa.large_string())).tolist() == [0, 1, 0, 1]


def test_no_text_is_scored_by_a_model_that_saw_it(store: Store, engine: Engine) -> None:
    """Given words that stand in one document each, the model that scores it must not know them."""
    reference = documents(store, TEXTS)
    model = model_of(store, reference, engine)
    scores = published(store, score_perplexity(reference, model, SMALL, engine), "perplexity_scores")
    names = {shard.name: shard.object for shard in model.shards("perplexity_model")}
    own = fold_of(reference.table("documents")["doc_id"])
    used = scores.table("perplexity")["fold"].to_numpy()
    assert (used == 1 - own).all()
    vocabularies = [set(store.get(names[f"fold-{fold}-vocabulary.txt"]).decode().split("\n")) for fold in (0, 1)]
    for letter, fold in zip("abcdefghijklmnopqrst", used, strict=True):
        assert f"item{letter}" not in vocabularies[fold]
        assert f"item{letter}" in vocabularies[1 - fold]


def test_the_model_is_the_files_of_both_folds_and_a_description(store: Store, engine: Engine) -> None:
    draft = train_perplexity(documents(store, TEXTS, language="en"), SMALL, engine)
    part = draft.parts["perplexity_model"]
    assert part.kind == "files"
    assert [s.name for s in part.shards] == [*(f"fold-{f}-{n}" for f in (0, 1) for n in FILE_NAMES), "reference.json"]
    reference = json.loads(store.get(part.shards[-1].object))
    assert reference["documents"] == 20
    assert reference["languages"] == {"en": 20}
    assert reference["quantiles"] == sorted(reference["quantiles"])
    assert len(reference["quantiles"]) == 1001


def test_the_quantiles_are_those_of_the_scores_of_the_reference(store: Store, engine: Engine) -> None:
    reference = documents(store, TEXTS)
    model = model_of(store, reference, engine)
    scores = published(store, score_perplexity(reference, model, SMALL, engine), "perplexity_scores")
    (described,) = [s for s in model.shards("perplexity_model") if s.name == "reference.json"]
    quantiles = json.loads(store.get(described.object))["quantiles"]
    perplexities = scores.table("perplexity")["perplexity"].to_numpy()
    assert quantiles[500] == pytest.approx(np.median(perplexities))
    assert (quantiles[0], quantiles[1000]) == (perplexities.min(), perplexities.max())


def test_scoring_the_reference_again_is_free(store: Store, engine: Engine) -> None:
    reference = documents(store, TEXTS, shard_rows=7)
    model = model_of(store, reference, engine)
    later = engine.charged_to("later")
    score_perplexity(reference, model, SMALL, later)
    assert [result.reused for result in later.results] == [True, True, True]


def test_only_what_matters_is_in_the_keys(store: Store, engine: Engine) -> None:
    reference = documents(store, TEXTS)
    model = model_of(store, reference, engine)
    later = engine.charged_to("later")
    other = SMALL.model_copy(update={"max_scored_tokens": 5})
    train_perplexity(reference, other, later)
    assert [result.reused for result in later.results] == [True, True, False, False]  # models, scores, description
    later = engine.charged_to("later still")
    score_perplexity(reference, model, SMALL.model_copy(update={"order": 4, "max_megabytes": 1.0}), later)
    assert [result.reused for result in later.results] == [True]


def test_the_limit_takes_documents_by_id_and_cuts_the_last(store: Store, engine: Engine) -> None:
    reference = documents(store, TEXTS, shard_rows=6)
    table = reference.table("documents").sort_by("doc_id")
    limited = SMALL.model_copy(update={"max_megabytes": 100e-6})
    draft = train_perplexity(reference, limited, engine)
    for fold, facts in enumerate(draft.stats["folds"]):
        mine = table.filter(pa.array(fold_of(table["doc_id"]) == fold))["text"].to_pylist()
        assert facts["documents_in"] == len(mine)
        assert facts["documents"] + facts["beyond_max_megabytes"] + facts["without_words"] == len(mine)
        assert facts["documents"] == 2
        assert len(mine[0].split()) < facts["tokens"] < len(mine[0].split()) + len(mine[1].split())


def test_documents_without_words_get_null_and_are_counted(store: Store, engine: Engine) -> None:
    model = model_of(store, documents(store, TEXTS), engine)
    given = documents(store, ["", " \n", "cats and dogs", "!?"], source="other")
    draft = score_perplexity(given, model, SMALL, engine)
    table = published(store, draft, "perplexity_scores").table("perplexity")
    assert table["perplexity"].is_null().to_pylist() == [True, True, False, False]
    assert table["tokens"].to_pylist() == [0, 0, 3, 2]
    assert draft.stats["too_short"] == 2
    assert sum(draft.stats["histograms"]["perplexity"]["documents"]) == 2


def test_bits_per_byte_are_of_the_text_that_was_read(store: Store, engine: Engine) -> None:
    """Given a text and its beginning, three words long, a limit of three words gives both the same score."""
    model = model_of(store, documents(store, TEXTS), engine)
    given = documents(store, ["Cats, dogs and more and more", "Cats, dogs"], source="other")
    moved = given.table("documents").set_column(0, "doc_id", pa.array(["0a", "0b"], pa.large_string()))
    given = published(store, Draft({"documents": Part("table", (write_shard(store, "documents", moved),))}), "d", "o")
    limited = SMALL.model_copy(update={"max_scored_tokens": 3})
    rows = published(store, score_perplexity(given, model, limited, engine), "s").table("perplexity").to_pylist()
    assert rows[0]["bits_per_byte"] == pytest.approx(rows[1]["bits_per_byte"])
    bits = math.log2(rows[0]["perplexity"]) * 3
    assert rows[0]["bits_per_byte"] == pytest.approx(bits / len("Cats, dogs"))


@pytest.mark.parametrize("texts", [[], ["one document, so one half is empty"], ["", ""]])
def test_a_reference_that_is_too_small_is_refused_with_a_sentence(
    store: Store, engine: Engine, texts: list[str]
) -> None:
    with pytest.raises(ValueError, match=r"the reference \(book\) is too small.*name more reference sources"):
        train_perplexity(documents(store, texts), SMALL, engine)


def test_a_model_without_its_files_is_refused(store: Store, engine: Engine) -> None:
    reference = documents(store, TEXTS)
    broken = published(store, Draft({"perplexity_model": Part("files", ())}), "perplexity_model")
    with pytest.raises(ValueError, match=f"lacks the file fold-0-{FILE_NAMES[0]}; materialize perplexity_model again"):
        score_perplexity(reference, broken, SMALL, engine)


def test_no_shards_to_score(store: Store, engine: Engine) -> None:
    model = model_of(store, documents(store, TEXTS), engine)
    nothing = published(store, Draft({"documents": Part("table", ())}), "unique_documents", "none")
    draft = score_perplexity(nothing, model, SMALL, engine)
    assert draft.stats["documents_in"] == draft.parts["perplexity"].rows == 0


def test_bytes_do_not_depend_on_the_number_of_workers(store: Store, engine: Engine, tmp_path) -> None:  # type: ignore[no-untyped-def]
    elsewhere = Store(str(tmp_path / "elsewhere"))
    one = train_perplexity(documents(store, TEXTS, shard_rows=6), SMALL, engine)
    two = train_perplexity(documents(elsewhere, TEXTS, shard_rows=6), SMALL, Engine(elsewhere, 2, "test"))
    assert one == two


def test_good_prose_scores_below_its_words_shuffled(store: Store, engine: Engine) -> None:
    """The reference: one play and one novel; judged: another novel, as it is and shuffled."""
    play = documents(store, paragraphs("tinyshakespeare.txt")[:150], "play")
    novel = documents(store, paragraphs("alice_11.txt"), "novel")
    config = PerplexityParams()
    model = model_of(store, together(play, novel), engine, config)
    pieces = paragraphs("botchan_en.txt")[10:40]
    scores = {}
    for source, texts in {"prose": pieces, "salad": [shuffled(piece) for piece in pieces]}.items():
        given = documents(store, texts, source)
        draft = score_perplexity(given, model, config, engine)
        scores[source] = published(store, draft, "perplexity_scores", source).table("perplexity")["perplexity"]
    assert np.median(scores["prose"]) * 1.5 < np.median(scores["salad"])
    reference = score_perplexity(play, model, config, engine)
    own = published(store, reference, "perplexity_scores", "play").table("perplexity")["perplexity"]
    assert np.median(own) < np.median(scores["prose"])


def test_a_text_is_no_less_surprising_for_having_been_learnt_from(store: Store, engine: Engine) -> None:
    """Given a reference and a foreign text, adding the text to the reference must not make its own score better."""
    foreign = "zebras paint violins under water while clocks argue about marmalade and the moon files a complaint"
    without = documents(store, TEXTS)
    with_it = documents(store, [*TEXTS, foreign])
    scored = []
    for reference in (without, with_it):
        model = model_of(store, reference, engine)
        scores = published(store, score_perplexity(with_it, model, SMALL, engine), "perplexity_scores")
        scored.append(scores.table("perplexity")["perplexity"][-1].as_py())
    assert scored[1] == pytest.approx(scored[0], rel=0.01)
