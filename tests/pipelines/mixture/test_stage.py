"""The mixture stage: from documents in a store to a cached plan."""

import pyarrow as pa
import pytest
from pydantic import ValidationError

from pipelines.dataset import Dataset, Draft, Part, seal, write_shard
from pipelines.engines.local import Engine
from pipelines.mixture.params import MixtureParams
from pipelines.mixture.stage import plan_mixture
from pipelines.schemas import DOCUMENTS
from pipelines.store import Store


@pytest.fixture
def store(tmp_path):
    return Store(str(tmp_path / "store"))


def documents(store, texts_by_source):
    """Every text a shard of its own, so that shards are exercised."""
    versions = []
    for source, texts in texts_by_source.items():
        shards = [
            write_shard(
                store,
                "documents",
                pa.Table.from_pylist(
                    [{"doc_id": f"{source}{i}", "source": source, "uri": f"f#{i}", "text": text}], schema=DOCUMENTS
                ),
            )
            for i, text in enumerate(texts)
        ]
        draft = Draft({"documents": Part("table", tuple(shards))} if shards else {})
        versions.append(seal(store, draft, asset="filtered_documents", partition=source))
    return Dataset("filtered_documents", tuple(versions), store)


def test_tokens_are_estimated_from_utf8_bytes(store):
    data = documents(store, {"web": ["x" * 100, "é" * 50], "books": ["", "y" * 40]})
    draft = plan_mixture(data, MixtureParams(bytes_per_token=4), Engine(store, 1))
    table = Dataset("training_mixture", (seal(store, draft, asset="training_mixture"),), store).table("mixture")
    assert table["available_tokens"].to_pylist() == [50, 10]
    assert draft.stats["sources"] == {"web": {"documents": 2, "bytes": 200}, "books": {"documents": 1, "bytes": 40}}
    assert draft.stats["request"] == {"shares": {}, "token_budget": 0, "max_epochs": 4.0}
    assert draft.stats["wanted_shares"] == draft.stats["planned_shares"]


def test_a_changed_share_measures_nothing_again(store):
    data = documents(store, {"web": ["x" * 100], "books": ["y" * 100]})
    plan_mixture(data, MixtureParams(), Engine(store, 1, attempt="first"))
    engine = Engine(store, 1, attempt="second")
    plan_mixture(data, MixtureParams(shares={"web": 1, "books": 3}), engine)
    assert [result.reused for result in engine.results] == [True, True, False]


def test_a_source_without_shards_and_no_sources_at_all(store):
    draft = plan_mixture(documents(store, {"web": ["text"], "books": []}), MixtureParams(), Engine(store, 1))
    assert draft.stats["notes"]["books"] == "has no tokens"
    assert plan_mixture(documents(store, {}), MixtureParams(), Engine(store, 1)).stats["planned_tokens"] == 0


def test_an_unknown_source_is_refused_before_anything_is_read(store):
    engine = Engine(store, 1)
    with pytest.raises(ValueError, match="'pages', which is not a source; the sources are: web"):
        plan_mixture(documents(store, {"web": ["text"]}), MixtureParams(shares={"pages": 1}), engine)
    assert engine.results == []


@pytest.mark.parametrize("shares", [{"web": -1}, {"web": 0}])
def test_params_refuse_shares_that_cannot_be(shares):
    with pytest.raises(ValidationError, match="share"):
        MixtureParams(shares=shares)
