"""Filters on one labelled sample: what is chosen on one half, what is measured on the other."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.dataset import Dataset, Draft
from pipelines.engines.local import Engine
from pipelines.filters.comparison import (
    _Measuring,
    best_threshold,
    compare_filters,
    contestants_of,
    halves,
)
from pipelines.filters.comparison_params import ComparisonParams
from pipelines.filters.perplexity.params import PerplexityParams
from pipelines.filters.statistics import Confusion
from pipelines.filters.toxicity.neural_params import NeuralParams
from pipelines.filters.toxicity.params import LabelledSample, ToxicityParams
from pipelines.prices.book import load_book
from pipelines.store import Store
from resources.settings import HOME
from resources.similarity import SIMHASH, simhash_similarity
from tests.pipelines.filters.corpus import documents, published, real, trained_model

SCORED = st.lists(st.tuples(st.booleans(), st.sampled_from([float("nan"), 0.0, 0.2, 0.5, 0.7, 1.0])), min_size=1)
RUDE = [f"You are a fucking idiot, number {n}, you stupid piece of shit." for n in range(40)]
KIND = [f"What a lovely garden you have by the river, neighbour number {n}." for n in range(40)]


def write_sample(folder: Path, rude: list[str] = RUDE, kind: list[str] = KIND) -> ComparisonParams:
    path = folder / "labelled.jsonl"
    lines = [{"text": text, "label": label} for texts, label in ((rude, 1), (kind, 0)) for text in texts]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return ComparisonParams(sample=LabelledSample(path=str(path)))


def measuring(config: ComparisonParams) -> _Measuring:
    return _Measuring(None, config.sample, config.sample.file.sha256(), config.documents)


@pytest.fixture
def corpus(store: Store) -> Dataset:
    given = documents(
        store, [f"The miller of number {n} counted {n} sacks of grain in the morning." for n in range(80)]
    )
    stats = {"documents_out": 80, "bytes_out": 4_000_000}
    return published(store, Draft(given.version.parts, stats), "unique_documents", "other")


@pytest.fixture
def model(store: Store, corpus: Dataset, engine: Engine) -> Dataset:
    return trained_model(store, corpus, PerplexityParams(min_tokens=10), engine)


@given(SCORED)
def test_the_threshold_is_the_one_with_the_highest_f1(pairs: list[tuple[bool, float]]) -> None:
    toxic, scores = map(np.array, zip(*pairs, strict=True))

    def f1(threshold: float) -> float:
        with np.errstate(invalid="ignore"):
            found = Confusion.of(toxic, scores > threshold).f1
        return found.value if found else 0.0

    assert f1(best_threshold(toxic, scores)) == max(f1(edge) for edge in (-1.0, 0.0, 0.2, 0.5, 0.7, 1.0))


def test_the_halves_share_no_text_and_are_always_the_same(tmp_path: Path) -> None:
    config = write_sample(tmp_path, RUDE + RUDE[:5])

    known, new = halves(measuring(config))

    assert not set(known.texts) & set(new.texts)
    assert len(known.texts) + len(new.texts) == 85
    assert (known, new) == halves(measuring(config))
    few = halves(measuring(config.model_copy(update={"documents": 30})))
    assert sum(len(half.texts) for half in few) == 30


def test_without_a_sample_nothing_is_measured(corpus: Dataset, store: Store) -> None:
    draft = compare_filters(
        corpus, corpus, ComparisonParams(), ToxicityParams(), PerplexityParams(), SIMHASH, Engine(store, 1)
    )

    assert draft.stats["measured"] == {} and "names no sample" in draft.stats["compared_on"]


def test_a_neural_model_brings_the_cascade_and_itself_alone(model: Dataset, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("pipelines.filters.comparison.neural_experts", lambda params: [])
    neural = NeuralParams(checkpoint=str(tmp_path / "x.ckpt"))
    toxicity = ToxicityParams(neural=[neural], band=[0.1, 0.9])

    found = {one.name: one.payload for one in contestants_of(toxicity, PerplexityParams(), model, SIMHASH)}

    assert list(found) == ["simhash", "screen", "cascade", "neural model", "perplexity"]
    assert found["screen"].neural == []
    assert found["cascade"].band == [0.1, 0.9]
    assert (found["neural model"].neural, found["neural model"].band) == ([neural], [0.0, 1.0])


def test_another_screen_or_code_that_scores_otherwise_is_measured_again(
    model: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def identities() -> dict[str, Any]:
        found = contestants_of(ToxicityParams(), PerplexityParams(), model, SIMHASH)
        return {one.name: one.identity for one in found}

    before = identities()
    assert identities() == before
    monkeypatch.setattr("pipelines.filters.comparison.package_version", lambda: "99")
    monkeypatch.setattr("pipelines.filters.comparison.likelihood.SCORING_VERSION", 99)
    assert {name for name, identity in identities().items() if identity != before[name]} == {"screen", "perplexity"}


def test_every_filter_is_measured_on_the_new_half(
    tmp_path: Path, store: Store, corpus: Dataset, model: Dataset
) -> None:
    config, engine = write_sample(tmp_path), Engine(store, 1)

    def compared() -> dict:
        arguments = (ToxicityParams(), PerplexityParams(min_tokens=10), SIMHASH, engine)
        return compare_filters(corpus, model, config, *arguments).stats

    stats = compared()

    _known, new = halves(measuring(config))
    assert list(stats["measured"]) == ["simhash", "screen", "perplexity"]
    for found in stats["measured"].values():
        assert (found["documents"], found["toxic"]) == (len(new.texts), sum(new.toxic))
        assert found["usage"]["cpu_seconds"] > 0
        assert found["peak_memory_bytes"] > 20_000_000
    assert stats["measured"]["screen"]["f1"]["value"] == 1
    assert stats["measured"]["simhash"]["f1"]["value"] > 0.9  # each resembles a known one
    assert stats["corpus"] == {"documents": 80, "bytes": 4_000_000}
    assert compared() == stats  # nothing is measured twice


def test_what_is_wrong_with_the_sample_is_said_in_words_of_this_section(
    tmp_path: Path, corpus: Dataset, store: Store
) -> None:
    def refused(config: ComparisonParams) -> str:
        arguments = (ToxicityParams(), PerplexityParams(), SIMHASH, Engine(store, 1))
        with pytest.raises(ValueError, match="filter_benchmark: ") as error:
            compare_filters(corpus, corpus, config, *arguments)
        return str(error.value)

    gone = ComparisonParams(sample=LabelledSample(path=str(tmp_path / "gone.csv")))
    assert "correct filter_benchmark.sample.path" in refused(gone)
    config = write_sample(tmp_path)
    other = config.model_copy(update={"sample": config.sample.model_copy(update={"label": "is_toxic"})})
    with pytest.raises(ValueError, match=r"record 1 of the labelled sample has no field 'is_toxic'.*filter_benchmark"):
        halves(measuring(other))
    with pytest.raises(ValueError, match="one half are all toxic, or none"):
        halves(measuring(write_sample(tmp_path, RUDE[:1])))


def test_similar_texts_share_bits(tmp_path: Path) -> None:
    texts = pa.array([RUDE[3], KIND[3], "", RUDE[0], RUDE[1].upper()], pa.large_string())

    found = simhash_similarity(texts, pa.array(RUDE[:2], pa.large_string()))

    assert found[0] > 0.75 > found[1]
    assert np.isnan(found[2])
    assert found[3] < 1 == found[4]  # who is among them is not compared with himself
    assert np.isnan(simhash_similarity(texts, pa.array([], pa.large_string()))).all()


def test_the_parameters_are_restored_with_the_path_of_here() -> None:
    here = ComparisonParams(sample=LabelledSample(path="here.csv", text="comment"))

    assert "path" not in here.recorded["sample"]
    assert ComparisonParams.model_validate(ComparisonParams.restored(here.recorded, here)) == here
    none = ComparisonParams()
    assert ComparisonParams.model_validate(ComparisonParams.restored(none.recorded, here)) == none


def test_real_comments_are_read_as_they_are(tmp_path: Path) -> None:
    path = real("toxicity/surge_toxicity_en.csv")
    sample = LabelledSample(path=str(path), label="is_toxic", toxic=["Toxic"])

    known, new = halves(measuring(ComparisonParams(sample=sample)))

    with path.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["text"].strip()]
    assert len(known.texts) + len(new.texts) == len(rows)
    assert sum(known.toxic) + sum(new.toxic) == sum(row["is_toxic"] == "Toxic" for row in rows)


def test_the_table_has_dollars_of_the_price_book() -> None:
    from assets.worth import row, usd_per_million, worth_metadata

    book = load_book(HOME / "config/prices/cloud-2026.yaml")
    estimate = {"value": 0.8, "low": 0.7, "high": 0.9}
    found = {
        "documents": 100,
        "bytes": 10_000,
        "unscored": 0,
        "threshold": 0.5,
        **dict.fromkeys(("f1", "precision", "recall", "auc"), estimate),
        "usage": {"cpu_seconds": 3600.0, "wall_seconds": 10.0},
        "peak_memory_bytes": 250_000_000,
    }

    told = row("screen", found, {"documents": 7, "bytes": 20_000}, book)
    useless = row("dice", {**found, "threshold": None}, {"documents": 7, "bytes": 20_000}, book)

    assert usd_per_million(found, book) == book.core_hour.usd * 10_000
    assert told["$ for 7 documents"] == "0.0892"  # twice the bytes of the sample
    assert (told["threshold"], useless["threshold"]) == ("0.5", "none: everything goes")
    assert (told["ms per document"], told["peak MB"], told["F1"]) == ("100", "250", "0.800 (0.700 to 0.900)")
    shown = worth_metadata({"measured": {"screen": found}, "corpus": {"documents": 7, "bytes": 20_000}}, book)
    assert "plot/F1 by dollars per million documents" in shown
    assert worth_metadata({"measured": {}}, book) == {} == worth_metadata({}, book)


@pytest.mark.slow
def test_the_cascade_and_its_model_are_measured_with_a_real_checkpoint(
    tmp_path: Path, store: Store, corpus: Dataset, model: Dataset
) -> None:
    from tests.pipelines.filters.toxicity.checkpoint import small_checkpoint

    trained = small_checkpoint()
    neural = NeuralParams(checkpoint=str(trained.path), huggingface_config_path=str(trained.config))
    toxicity = ToxicityParams(neural=[neural], band=[0.05, 0.5])
    arguments = (toxicity, PerplexityParams(min_tokens=10), SIMHASH, Engine(store, 1))

    measured = compare_filters(corpus, model, write_sample(tmp_path), *arguments).stats["measured"]

    assert list(measured) == ["simhash", "screen", "cascade", "neural model", "perplexity"]
    assert measured["neural model"]["f1"]["value"] > 0.9
    assert measured["neural model"]["peak_memory_bytes"] > measured["screen"]["peak_memory_bytes"]
