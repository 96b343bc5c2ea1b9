"""Whole runs whose perplexities are those of a model made elsewhere, and what a change of it or of a threshold does."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from jobs.build import full_range
from pipelines.filters.toxicity.neural_runtime import torch_threads
from resources.settings import Profile
from tests.jobs.corpus import make_profile
from tests.jobs.test_chain import Mill, reason
from tests.pipelines.filters.perplexity.causal_model import make_model

pytestmark = pytest.mark.slow

FILTERS = {"min_perplexity": None, "bucket_min_documents": 5}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """A model this small is done before a second thread has begun."""
    with torch_threads(1):
        yield


def causal(folder: Path, **filters: object) -> Profile:
    asked = {"path": "model", "window": 32, "stride": 16, "device": "cpu"}
    return make_profile(
        folder, perplexity={"model": "causal", "causal": asked}, filters={**FILTERS, **filters}, workers=2
    )


def test_a_causal_model_scores_a_corpus_and_other_buckets_score_nothing(tmp_path: Path) -> None:
    make_model(tmp_path / "model")
    with dg.DagsterInstance.ephemeral() as instance:
        mill = Mill(causal(tmp_path), instance)
        result = mill.run("*filtered_documents")
        assert result.success, reason(result)
        model = mill.dataset("perplexity_model", "").version
        assert model.stats["model"]["kind"] == "causal"
        assert [shard.name for shard in model.parts["perplexity_model"].shards] == ["reference.json"]
        assert "path" not in model.params["causal"]
        scores = mill.dataset("perplexity_scores", "web").version
        assert scores.stats["model"] == model.stats["model"]
        buckets = mill.dataset("filtered_documents", "web").version.stats["buckets"]["en"]
        assert sum(buckets.values()) == buckets["head"] + buckets["middle"] + buckets["tail"] > 0

        stricter = Mill(causal(tmp_path, buckets=["head", "middle"]), instance)
        result = stricter.run("*filtered_documents")
        assert result.success, reason(result)
        assert stricter.dataset("perplexity_scores", "web").version.id == scores.id
        dropped = stricter.dataset("filtered_documents", "web").version.stats["dropped"]
        assert 0 < dropped["perplexity_bucket"] <= buckets["tail"]


def test_scores_with_a_model_that_the_reference_was_not_scored_by_are_refused(tmp_path: Path) -> None:
    make_model(tmp_path / "model")
    with dg.DagsterInstance.ephemeral() as instance:
        profile = make_profile(tmp_path)
        assert Mill(profile, instance).run("*perplexity_model").success
        changed = Mill(causal(tmp_path), instance)
        result = changed.run("perplexity_scores", tags=full_range(profile))
        assert not result.success
        assert "the reference was scored by the model ngram" in reason(result)
        assert "ask for causal" in reason(result)
