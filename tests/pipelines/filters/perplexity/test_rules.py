"""What filtering makes of perplexities: buckets by hand, limits that belong to a model, scores of another."""

from pathlib import Path

import pyarrow as pa
import pytest
import yaml

from pipelines.dataset import Dataset, Draft
from pipelines.engines.local import Engine
from pipelines.filters.decide import filter_documents
from pipelines.filters.params import FilterParams
from pipelines.profile import ProfileError
from pipelines.store import Store
from resources.settings import load_profile
from tests.pipelines.filters.corpus import (
    MODEL,
    documents,
    perplexity_model,
    perplexity_scores,
    published,
    toxicity_scores,
    unsearched,
)

ENGLISH = [float(100 + 10 * step) for step in range(11)]
"""Perplexities of the reference in English: 100, 110 … 200, so 130 at 30 % and 160 at 60 %."""
FRENCH = [1000.0, 2000.0]
"""In French: 1,300 at 30 % and 1,600 at 60 %."""


@pytest.fixture
def model(store: Store) -> Dataset:
    languages = {"de": 3, "en": 11, "fr": 2}
    return perplexity_model(store, [1.0, 1e6], languages, {"de": [1, 2, 3], "en": ENGLISH, "fr": FRENCH})


def filtered(
    store: Store, engine: Engine, model: Dataset, given: Dataset, perplexity: list[float | None], **config: object
) -> tuple[Draft, Dataset]:
    draft = filter_documents(
        given,
        toxicity_scores(store, given, [0.0] * len(perplexity)),
        perplexity_scores(store, given, perplexity),
        unsearched(store),
        model,
        FilterParams(**{"bucket_min_documents": 2, "min_perplexity": None} | config),
        engine,
    )
    return draft, published(store, draft, "filtered_documents", "book")


PERPLEXITIES: list[float | None] = [100, 130, 130.1, 160, 161, 5, 1299, 1601, 100, None]
LANGUAGES: list[str | None] = ["en", "en", "en", "en", "en", "en", "fr", "fr", None, "en"]
BUCKETS = ["head", "head", "middle", "middle", "tail", "head", "head", "tail", None, None]


def test_buckets_are_cut_at_percentiles_of_the_reference_in_the_same_language(
    store: Store, engine: Engine, model: Dataset
) -> None:
    given = documents(store, list("abcdefghij"), language=LANGUAGES)
    draft, made = filtered(store, engine, model, given, PERPLEXITIES)
    buckets = made.table("buckets")
    assert buckets["bucket"].to_pylist() == BUCKETS
    assert buckets["doc_id"].equals(given.table("documents")["doc_id"])
    assert draft.stats["documents_out"] == 10
    assert draft.stats["buckets"] == {
        "en": {"head": 3, "middle": 2, "tail": 1, "none": 1},
        "fr": {"head": 1, "middle": 0, "tail": 1, "none": 0},
        "und": {"head": 0, "middle": 0, "tail": 0, "none": 1},
    }
    assert draft.stats["limits"]["buckets"] == {
        "kept": None,
        "limits": {
            "de": {"head": pytest.approx(1.6), "middle": pytest.approx(2.2)},
            "en": {"head": pytest.approx(130), "middle": pytest.approx(160)},
            "fr": {"head": pytest.approx(1300), "middle": pytest.approx(1600)},
        },
        "too_few": {},
    }


def test_only_the_buckets_asked_for_are_kept(store: Store, engine: Engine, model: Dataset) -> None:
    given = documents(store, list("abcdefghij"), language=LANGUAGES)
    _, made = filtered(store, engine, model, given, PERPLEXITIES, buckets=["head", "middle"])
    rows = made.table("decisions").select(["rule", "value", "threshold", "detail"]).to_pylist()
    kept = ("kept", None, None, None)
    assert [tuple(row.values()) for row in rows] == [
        *[kept] * 4,
        ("perplexity_bucket", 161, pytest.approx(160), "tail"),
        *[kept] * 2,
        ("perplexity_bucket", 1601, pytest.approx(1600), "tail"),
        *[kept] * 2,
    ]
    _, tail = filtered(store, engine, model, given, PERPLEXITIES, buckets=["tail"])
    dropped = tail.table("decisions").filter(pa.compute.equal(tail.table("decisions")["rule"], "perplexity_bucket"))
    assert dropped["threshold"].to_pylist()[:3] == pytest.approx([130, 130, 130])
    assert dropped["detail"].to_pylist() == ["head", "head", "middle", "middle", "head", "head"]


def test_other_percentiles_cut_elsewhere(store: Store, engine: Engine, model: Dataset) -> None:
    given = documents(store, ["a", "b", "c"])
    _, made = filtered(store, engine, model, given, [101, 180, 199], head_percentile=0, middle_percentile=90)
    assert made.table("buckets")["bucket"].to_pylist() == ["middle", "middle", "tail"]


def test_a_language_of_too_few_documents_has_no_buckets_and_is_told_with_their_number(
    store: Store, engine: Engine, model: Dataset
) -> None:
    given = documents(store, ["a", "b", "c"], language=["en", "fr", "de"])
    draft, made = filtered(store, engine, model, given, [100, 1500, 2], bucket_min_documents=4, buckets=["head"])
    assert made.table("buckets")["bucket"].to_pylist() == ["head", None, None]
    assert draft.stats["limits"]["buckets"]["too_few"] == {"de": 3, "fr": 2}
    assert draft.stats["documents_out"] == 3  # who has no bucket is not judged by it


def test_a_source_without_documents_has_empty_buckets(store: Store, engine: Engine, model: Dataset) -> None:
    draft, _ = filtered(store, engine, model, documents(store, []), [], buckets=["head"])
    assert draft.parts["buckets"].rows == 0
    assert draft.stats["buckets"] == {}


# -- limits and the model ------------------------------------------------------------------------------------------

CAUSAL = {"kind": "causal", "sha256": "c4" * 32}


def judged_by_causal(store: Store, engine: Engine, **config: object) -> Draft:
    """One document of perplexity 50, scored by the causal model that scored the reference."""
    given = documents(store, ["x"])
    return filter_documents(
        given,
        toxicity_scores(store, given, [0.0]),
        perplexity_scores(store, given, [50.0], model=CAUSAL),
        unsearched(store),
        perplexity_model(store, [10.0, 20.0], {"en": 9}, model=CAUSAL),
        FilterParams(**config),
        engine,
    )


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (
            {},
            r"min_perplexity 5 belongs to the model ngram \(perplexity_of\), and causal c4c4c4c4c4c4 scores; set to",
        ),
        ({"max_perplexity": 900}, "max_perplexity 900 and min_perplexity 5 belong to the model ngram"),
        ({"max_perplexity": 900, "min_perplexity": None, "perplexity_of": "kenlm"}, "belongs to the model kenlm"),
        ({"perplexity_of": "c4c4c4c5"}, "or perplexity_of to causal where the limits were chosen for it"),
    ],
)
def test_absolute_limits_that_were_made_for_another_model_are_refused(
    store: Store, engine: Engine, config: dict[str, object], told: str
) -> None:
    with pytest.raises(ValueError, match=f"filtering: .*{told}"):
        judged_by_causal(store, engine, **config)


@pytest.mark.parametrize(
    ("config", "dropped"),
    [
        ({"min_perplexity": None}, 0),
        ({"min_perplexity": None, "max_perplexity_factor": 2}, 1),  # percentiles fit any model
        ({"perplexity_of": "causal", "max_perplexity": 40}, 1),
        ({"perplexity_of": "c4c4c4c4", "max_perplexity": 60}, 0),
    ],
)
def test_limits_of_this_model_apply(store: Store, engine: Engine, config: dict[str, object], dropped: int) -> None:
    assert judged_by_causal(store, engine, **config).stats["dropped"]["perplexity_high"] == dropped


@pytest.mark.parametrize("made_by", [CAUSAL, {**MODEL, "sha256": "b2" * 32}, None])
def test_scores_of_another_model_than_the_references_are_refused(
    store: Store, engine: Engine, model: Dataset, made_by: dict[str, str] | None
) -> None:
    given = documents(store, ["x"])
    with pytest.raises(ValueError, match=r"perplexity_scores\[book\] was made by .* reference was scored by ngram a1"):
        filter_documents(
            given,
            toxicity_scores(store, given, [0.0]),
            perplexity_scores(store, given, [50.0], model=made_by),
            unsearched(store),
            model,
            FilterParams(),
            engine,
        )


def test_a_profile_that_changes_the_model_and_keeps_its_limits_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "profile.yaml"
    said = {
        "name": "small",
        "sources": [{"name": "web", "path": "web.jsonl", "reader": "jsonl"}],
        "perplexity": {"model": "causal", "causal": {"path": "models/small"}},
    }
    path.write_text(yaml.safe_dump(said))
    with pytest.raises(ProfileError, match=r"filters: min_perplexity 5 belongs to the model ngram .* causal scores"):
        load_profile(path)
    for override in ("filters.min_perplexity=null", "filters.perplexity_of=causal", "filters.perplexity_of=0123456789"):
        profile = load_profile(path, [override])
        assert profile.perplexity.causal.path == str(tmp_path / "models/small")


def test_percentiles_out_of_order_are_refused() -> None:
    with pytest.raises(ValueError, match="middle_percentile 20 lies below head_percentile 30"):
        FilterParams(middle_percentile=20)
