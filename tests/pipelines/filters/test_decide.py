"""Stage filtered_documents: which rule drops what, by which threshold, and what a changed threshold costs."""

import pytest
from pydantic import ValidationError

from pipelines.dataset import Dataset, Draft, Part, write_shard
from pipelines.engines.local import Engine
from pipelines.filters.decide import filter_documents
from pipelines.filters.params import FilterParams
from pipelines.filters.perplexity.params import PerplexityParams
from pipelines.filters.perplexity.stage import score_perplexity, train_perplexity
from pipelines.filters.thresholds import kept_at
from pipelines.filters.toxicity.params import ToxicityParams
from pipelines.filters.toxicity.stage import score_toxicity
from pipelines.schemas import DOCUMENTS
from pipelines.store import Store
from tests.pipelines.filters.corpus import (
    documents,
    perplexity_model,
    perplexity_scores,
    published,
    toxicity_scores,
    unsearched,
)

QUANTILES = [float(100 + step) for step in range(1001)]
"""The reference's perplexities: 100 at 0 %, 1,000 at 90 %, 1,090 at 99 %."""


def scores(
    store: Store, given: Dataset, toxicity: list[float | None], perplexity: list[float | None], rows: int = 1000
) -> tuple[Dataset, Dataset, Dataset]:
    """Of toxicity and perplexity as they are given; nothing is looked for in the way of contamination."""
    return (
        toxicity_scores(store, given, toxicity, rows),
        perplexity_scores(store, given, perplexity, rows),
        unsearched(store),
    )


@pytest.fixture
def model(store: Store) -> Dataset:
    return perplexity_model(store, QUANTILES, {"en": 95, "fr": 4})


CONFIG = FilterParams(max_toxicity=0.8, max_perplexity_percentile=90, max_perplexity_factor=2, min_perplexity=20)


def test_the_first_rule_that_objects_decides(store: Store, engine: Engine, model: Dataset) -> None:
    given = documents(store, ["fine", "rude", "odd", "dull", "rude and odd", "on the edge"], shard_rows=4)
    toxicity, perplexity, contamination = scores(
        store, given, [0.1, 0.9, 0.1, 0.1, 0.9, 0.8], [500, 500, 2500, 10, 2500, 2000], rows=4
    )
    draft = filter_documents(given, toxicity, perplexity, contamination, model, CONFIG, engine)
    decided = published(store, draft, "filtered_documents", "book")
    rows = decided.table("decisions").select(["keep", "stage", "rule", "value", "threshold"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        (True, "filtering", "kept", None, None),
        (False, "filtering", "toxicity", 0.9, 0.8),
        (False, "filtering", "perplexity_high", 2500, 2000),
        (False, "filtering", "perplexity_low", 10, 20),
        (False, "filtering", "toxicity", 0.9, 0.8),
        (True, "filtering", "kept", None, None),
    ]
    assert decided.table("documents")["text"].to_pylist() == ["fine", "on the edge"]
    assert [shard.rows for shard in decided.shards("documents")] == [1, 1]
    assert {rule: count for rule, count in draft.stats["dropped"].items() if count} == {
        "toxicity": 2,
        "perplexity_high": 1,
        "perplexity_low": 1,
    }
    assert (draft.stats["documents_in"], draft.stats["documents_out"]) == (6, 2)
    assert draft.stats["bytes_out"] == len("fine") + len("on the edge")
    drawn = {
        name: {series: sum(counts) for series, counts in one.items() if series != "edges"}
        for name, one in draft.stats["histograms"].items()
    }
    assert drawn == {
        "text bytes": {"before": 6, "after": 2},
        "toxicity": {"kept": 2, "dropped": 4},
        "perplexity": {"kept": 2, "dropped": 4},
        "contamination": {"kept": 0, "dropped": 0},
    }


def test_another_threshold_keeps_what_the_table_of_thresholds_said(
    store: Store, engine: Engine, model: Dataset
) -> None:
    given = documents(store, ["fine", "rude", "odd", "dull", "rude and odd", "on the edge"], shard_rows=4)
    measured = scores(store, given, [0.1, 0.9, 0.1, 0.1, 0.9, None], [500, 500, 2500, 10, 2500, 2000], rows=4)

    def decided(**changed: float) -> dict:
        return filter_documents(given, *measured, model, CONFIG.model_copy(update=changed), engine).stats

    for rule, key in (("toxicity", "max_toxicity"), ("perplexity_high", "max_perplexity")):
        for edge, kept, kept_bytes in kept_at(rule, decided()["thresholds"][rule]):
            if rule == "toxicity" or 20 <= edge <= 2000:  # of two limits of perplexity the stricter holds
                then = decided(**{key: edge})
                assert (then["documents_out"], then["bytes_out"]) == (kept, kept_bytes)


def test_a_missing_score_objects_to_nothing_and_is_counted(store: Store, engine: Engine, model: Dataset) -> None:
    given = documents(store, ["日本語", "", "x"], language=["ja", "en", None])
    toxicity, perplexity, contamination = scores(store, given, [None, 0.1, None], [90_000, None, None])
    draft = filter_documents(given, toxicity, perplexity, contamination, model, CONFIG, engine)
    assert draft.stats["documents_out"] == 3
    assert draft.stats["unjudged"] == {"toxicity": {"ja": 1, "und": 1}, "perplexity": {"en": 1, "ja": 1, "und": 1}}


def test_perplexity_judges_only_languages_that_the_model_learned(store: Store, engine: Engine, model: Dataset) -> None:
    given = documents(store, ["a", "b", "c"], language=["en", "fr", "de"])
    toxicity, perplexity, contamination = scores(store, given, [0, 0, 0], [9000, 9000, 9000])
    draft = filter_documents(given, toxicity, perplexity, contamination, model, CONFIG, engine)
    rules = published(store, draft, "filtered_documents").table("decisions")["rule"].to_pylist()
    assert rules == ["perplexity_high", "perplexity_high", "kept"]


def test_rules_set_to_null_are_not_applied(store: Store, engine: Engine, model: Dataset) -> None:
    given = documents(store, ["rude", "odd", "dull"])
    toxicity, perplexity, contamination = scores(store, given, [1, 0, 0], [500, 1e9, 1])
    off = FilterParams(max_toxicity=None, max_perplexity_percentile=None, min_perplexity=None)
    assert filter_documents(given, toxicity, perplexity, contamination, model, off, engine).stats["documents_out"] == 3


@pytest.mark.parametrize(
    ("config", "limit"),
    [
        ({"max_perplexity_percentile": 90, "max_perplexity_factor": 1}, 1000),
        ({"max_perplexity_percentile": 99.95, "max_perplexity_factor": 2}, 2199),
        ({"max_perplexity_percentile": 90, "max_perplexity_factor": 2, "max_perplexity": 600}, 600),
        ({"max_perplexity_percentile": None, "max_perplexity": 1e6}, 1e6),
        ({"max_perplexity_percentile": None}, None),
    ],
)
def test_the_limit_is_the_stricter_of_percentile_and_absolute(
    store: Store, engine: Engine, model: Dataset, config: dict[str, float | None], limit: float | None
) -> None:
    given = documents(store, ["x"])
    draft = filter_documents(given, *scores(store, given, [0], [1]), model, FilterParams(**config), engine)
    assert draft.stats["limits"]["max_perplexity"] == pytest.approx(limit)


def test_a_changed_threshold_decides_again_and_only_that(store: Store, engine: Engine, model: Dataset) -> None:
    given = documents(store, ["x", "y"])
    toxicity, perplexity, contamination = scores(store, given, [0.5, 0.1], [500, 500])
    filter_documents(given, toxicity, perplexity, contamination, model, CONFIG, engine)
    later = engine.charged_to("later")
    filter_documents(given, toxicity, perplexity, contamination, model, CONFIG, later)
    stricter = CONFIG.model_copy(update={"max_toxicity": 0.3})
    assert (
        filter_documents(given, toxicity, perplexity, contamination, model, stricter, later).stats["documents_out"] == 1
    )
    assert [result.reused for result in later.results] == [True, False]


def test_scores_of_other_documents_are_refused(store: Store, engine: Engine, model: Dataset) -> None:
    given, others = documents(store, ["x", "y"]), documents(store, ["x", "y"], source="other")
    _, perplexity, contamination = scores(store, given, [0, 0], [50, 50])
    wrong, *_ = scores(store, others, [0, 0], [50, 50])
    with pytest.raises(ValueError, match="toxicity scores and documents of a shard do not describe the same documents"):
        filter_documents(given, wrong, perplexity, contamination, model, CONFIG, engine)
    in_two, *_ = scores(store, given, [0, 0], [50, 50], rows=1)
    with pytest.raises(ValueError, match="toxicity_scores has 2 shards and unique_documents 1"):
        filter_documents(given, in_two, perplexity, contamination, model, CONFIG, engine)


def test_limits_that_let_nothing_pass_are_refused(store: Store, engine: Engine, model: Dataset) -> None:
    given = documents(store, ["x"])
    contradictory = FilterParams(max_perplexity=10, min_perplexity=20)
    with pytest.raises(ValueError, match="min_perplexity 20 lies above the highest perplexity allowed, 10"):
        filter_documents(given, *scores(store, given, [0], [50]), model, contradictory, engine)


def test_empty_shards_pass_through_every_stage(store: Store, engine: Engine) -> None:
    """Given a source whose second shard holds no document, all three stages keep the shards aligned."""
    reference = documents(store, [f"a lovely day number {n} with {'very ' * n} nice weather" for n in range(9)])
    config = PerplexityParams(order=2, min_tokens=1)
    model = published(store, train_perplexity(reference, config, engine), "perplexity_model")
    full = documents(store, ["a lovely day", ""])
    empty = write_shard(store, "documents", DOCUMENTS.empty_table())
    shards = (*full.shards("documents"), empty)
    given = published(store, Draft({"documents": Part("table", shards)}), "unique_documents", "book")
    toxicity = published(store, score_toxicity(given, ToxicityParams(), engine), "toxicity_scores", "book")
    perplexity = published(store, score_perplexity(given, model, config, engine), "perplexity_scores", "book")
    contamination = unsearched(store)
    draft = filter_documents(
        given, toxicity, perplexity, contamination, model, FilterParams(min_perplexity=None), engine
    )
    assert [shard.rows for shard in draft.parts["documents"].shards] == [2, 0]
    assert [shard.rows for shard in draft.parts["decisions"].shards] == [2, 0]


def test_no_shards(store: Store, engine: Engine, model: Dataset) -> None:
    given = documents(store, [])
    draft = filter_documents(given, *scores(store, given, [], []), model, CONFIG, engine)
    assert draft.stats["documents_in"] == 0
    assert draft.parts["documents"].rows == draft.parts["decisions"].rows == 0


@pytest.mark.parametrize("bad", [{"max_toxicity": 1.5}, {"max_perplexity_percentile": 101}, {"min_perplexity": 0.5}])
def test_thresholds_out_of_range_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        FilterParams(**bad)
