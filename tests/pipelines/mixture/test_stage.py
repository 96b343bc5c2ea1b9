"""The mixture stage: from documents in a store to a cached plan."""

import pytest
import yaml
from pydantic import ValidationError

from pipelines.dataset import Dataset, Draft, seal
from pipelines.engines.local import Engine
from pipelines.mixture import stage
from pipelines.mixture.params import MixtureParams
from pipelines.mixture.plan import replan
from pipelines.mixture.stage import plan_mixture
from pipelines.store import Store
from tests.pipelines.mixture.corpus import documents


@pytest.fixture
def store(tmp_path):
    return Store(str(tmp_path / "store"))


def table_of(store, draft):
    return Dataset("training_mixture", (seal(store, draft, asset="training_mixture"),), store).table("mixture")


def each_a_shard(**texts):
    return {source: [[text] for text in ones] for source, ones in texts.items()}


def test_tokens_are_estimated_from_a_sample_of_every_source(store):
    data = documents(store, each_a_shard(web=["one two " * 25, "2026" * 10], books=["", "été"]))
    draft = plan_mixture(data, MixtureParams(), Engine(store, 1))
    # Words, digits, and the letter é, which stands for itself; and the end of each document.
    assert draft.stats["estimated_tokens"] == {"web": 50 + 1 + 40 + 1, "books": 1 + 2 * 0.5 + 1}
    assert table_of(store, draft)["available_tokens"].to_pylist() == [92, 3]
    assert draft.stats["sources"] == {"web": {"documents": 2, "bytes": 240}, "books": {"documents": 1, "bytes": 5}}
    assert draft.stats["request"] == MixtureParams().model_dump()
    assert draft.stats["wanted_shares"] == draft.stats["planned_shares"]


def test_bytes_per_token_that_are_known_are_used_instead(store):
    data = documents(store, each_a_shard(web=["one two " * 25], books=["one two " * 25]))
    draft = plan_mixture(data, MixtureParams(bytes_per_token={"web": 2.5}), Engine(store, 1))
    assert draft.stats["estimated_tokens"] == {"web": 80, "books": 51}
    assert draft.stats["bytes_per_token"] == {"web": 2.5, "books": 200 / 51}


def test_a_sample_is_enough(store, monkeypatch):
    texts = [f"{word} " * 50 for word in ("one", "two", "six", "ten")] * 25
    data = documents(store, {"web": [texts]})
    whole = plan_mixture(data, MixtureParams(), Engine(store, 1)).stats["estimated_tokens"]["web"]
    monkeypatch.setattr(stage, "SAMPLE_BYTES", 500)
    monkeypatch.setattr(stage, "VERSION", 0)  # another key
    read = []
    monkeypatch.setattr(stage, "estimated_tokens", lambda text: read.append(len(text)) or len(text) / 4)
    sampled = plan_mixture(data, MixtureParams(), Engine(store, 1)).stats["estimated_tokens"]["web"]
    assert read == [200, 200, 100]
    assert sampled == pytest.approx(whole, rel=0.03)


@pytest.mark.parametrize(
    ("by", "shares", "groups"),
    [
        ("language", {"de": 1, "en": 3}, {"de": 2, "en": 1, "unknown": 1}),
        ("bucket", {"head": 1, "unknown": 1}, {"head": 2, "tail": 1, "unknown": 1}),
        ("metadata.topic", {"law": 1}, {"law": 1, "unknown": 3}),
    ],
)
def test_shares_are_of_any_attribute_over_all_sources(store, by, shares, groups):
    one = {"language": "en", "bucket": "head", "text": "one two six ten"}
    two = {"language": "de", "bucket": "tail", "text": "eins zwei"}
    data = documents(
        store, {"web": [[one, two]], "books": [[{**two, "bucket": "head"}], [{"metadata": {"topic": "law"}}]]}
    )
    draft = plan_mixture(data, MixtureParams(by=by, shares=shares), Engine(store, 1))
    table = table_of(store, draft)
    assert {name: found["documents"] for name, found in draft.stats["groups"].items()} == groups
    assert table["group"].to_pylist() == sorted(groups)
    whole = sum(shares.values())
    assert draft.stats["wanted_shares"] == {name: shares.get(name, 0) / whole for name in sorted(groups)}
    assert draft.stats["sources"]["books"]["documents"] == 2
    counts = [sum(found[key] for found in draft.stats["groups"].values()) for key in ("documents", "bytes")]
    assert counts == [draft.stats["documents_in"], draft.stats["bytes_in"]]


def test_a_changed_share_measures_nothing_again(store):
    data = documents(store, each_a_shard(web=["x" * 100], books=["y" * 100]))
    plan_mixture(data, MixtureParams(), Engine(store, 1, attempt="first"))
    engine = Engine(store, 1, attempt="second")
    plan_mixture(data, MixtureParams(shares={"web": 1, "books": 3}), engine)
    assert [result.reused for result in engine.results] == [True, True, False]


def test_sources_that_hold_the_same_documents_are_measured_once(store):
    data = documents(store, {"web": [["same text"]]})
    twin = seal(store, Draft(data.version.parts), asset="filtered_documents", partition="books")
    engine = Engine(store, 1)
    draft = plan_mixture(Dataset("filtered_documents", (*data.versions, twin), store), MixtureParams(), engine)
    assert draft.stats["sources"]["web"] == draft.stats["sources"]["books"]
    assert len({result.key for result in engine.results}) == 2


def test_a_source_without_shards_and_no_sources_at_all(store):
    draft = plan_mixture(documents(store, {"web": [["text"], []], "books": []}), MixtureParams(), Engine(store, 1))
    assert draft.stats["notes"]["books"] == "has no tokens"
    by_language = MixtureParams(by="language")
    draft = plan_mixture(documents(store, {"web": [["text"], []], "books": [[]]}), by_language, Engine(store, 1))
    assert draft.stats["groups"] == {"unknown": {"documents": 1, "bytes": 4}}
    assert plan_mixture(documents(store, {}), MixtureParams(), Engine(store, 1)).stats["planned_tokens"] == 0


def test_a_field_that_no_document_has_is_refused(store):
    data = documents(store, {"web": [[{"text": "one", "metadata": {"topic": "news"}}]]})
    with pytest.raises(ValueError, match=r"no document has metadata\.topics; see how the field is written"):
        plan_mixture(data, MixtureParams(by="metadata.topics"), Engine(store, 1))
    assert plan_mixture(data, MixtureParams(by="metadata.topic"), Engine(store, 1)).stats["groups"].keys() == {"news"}


def test_an_unknown_source_is_refused_before_anything_is_read(store):
    engine = Engine(store, 1)
    with pytest.raises(ValueError, match="'pages', which is not a source; there are: web"):
        plan_mixture(documents(store, {"web": [["text"]]}), MixtureParams(shares={"pages": 1}), engine)
    assert engine.results == []


def test_an_unknown_language_is_refused_with_those_that_there_are(store):
    data = documents(store, {"web": [[{"language": "en"}, {"language": "de"}]]})
    with pytest.raises(ValueError, match=r"mixture\.epochs names 'fr', which is not a language .*; there are: de, en"):
        plan_mixture(data, MixtureParams(by="language", epochs={"fr": 2}), Engine(store, 1))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"shares": {"web": -1}}, "share of 'web' is -1"),
        ({"shares": {"web": 0}}, "every share is 0"),
        ({"epochs": {"web": 0}}, "'web' has 0.0 epochs"),
        ({"bytes_per_token": {"web": 0}}, "'web' has 0.0 bytes per token"),
        ({"by": "text"}, "cannot be mixed by 'text'"),
    ],
)
def test_params_refuse_what_cannot_be(given, told):
    with pytest.raises(ValidationError, match=told):
        MixtureParams(**given)


@pytest.mark.parametrize(("name", "told"), [("no", "False"), ("012", "10"), ("1.10", "1.1"), ("2024-01-01", "date")])
def test_names_that_yaml_reads_otherwise_are_refused(name, told):
    with pytest.raises(ValidationError, match=rf"as .*{told}.*, which is no text; put it in quotes"):
        MixtureParams(**yaml.safe_load(f"{{by: metadata.stars, shares: {{{name}: 1, en: 1}}}}"))
    assert MixtureParams(**yaml.safe_load(f"{{by: metadata.stars, shares: {{'{name}': 1}}}}")).shares == {name: 1}


# -- the plan again, from counted tokens ------------------------------------------------------------------------------


def estimated(tokens, **asked):
    """Stats as the stage leaves them."""
    shares = {name: count / sum(tokens.values()) for name, count in tokens.items()}
    return {
        "request": MixtureParams(**asked).model_dump(mode="json"),
        "estimated_tokens": tokens,
        "planned_shares": shares,
    }


def test_counted_tokens_are_planned_anew_and_told_beside_the_estimate():
    table, told = replan({"books": 500, "web": 1500}, estimated({"web": 1800, "books": 600, "code": 7}))
    assert table["group"].to_pylist() == ["web", "books", "code"]
    assert table["planned_tokens"].to_pylist() == [1500, 500, 0]
    assert told["estimates"] == {
        "web": {"estimated_tokens": 1800, "counted_tokens": 1500, "estimate_off": pytest.approx(0.2)},
        "books": {"estimated_tokens": 600, "counted_tokens": 500, "estimate_off": pytest.approx(0.2)},
        "code": {"estimated_tokens": 7, "counted_tokens": 0, "estimate_off": None},
    }
    assert told["realised_shares"] == {"web": 0.75, "books": 0.25, "code": 0.0}
    assert told["planned_shares"]["books"] == 600 / 2407


@pytest.mark.parametrize(
    ("counted", "told"),
    [
        ({"web": 50_000, "books": 275}, "books can supply 11 % at 4 epochs; asked 20 %"),
        ({"web": 50_000, "books": 0}, "books can supply 0 % at 4 epochs; asked 20 %"),
        ({"web": 500, "books": 275}, "3,100 tokens can be had; mixture.token_budget is 10,000"),
    ],
)
def test_what_cannot_be_had_is_refused_once_it_is_counted_if_that_is_asked_for(counted, told):
    asked = {"shares": {"web": 0.8, "books": 0.2}, "token_budget": 10_000}
    with pytest.raises(ValueError, match=told):
        replan(counted, estimated({"web": 9, "books": 1}, **asked, if_short="refuse"))
    assert replan(counted, estimated({"web": 9, "books": 1}, **asked, if_short="others"))[1]["notes"]


def test_a_plan_of_an_earlier_version_is_not_guessed_at():
    with pytest.raises(ValueError, match="materialize it again"):
        replan({"web": 1}, {"request": {"shares": {}, "token_budget": 0, "max_epochs": 4}, "planned_shares": {}})


def test_what_can_be_had_is_not_refused_for_its_rounding():
    asked = {"shares": {"a": 1, "b": 1, "c": 1}, "token_budget": 100, "if_short": "refuse"}
    _, told = replan({"a": 1000, "b": 1000, "c": 1000}, estimated({"a": 1, "b": 1, "c": 1}, **asked))
    assert [row["planned_tokens"] for row in told["mixture"]] == [34, 33, 33]
