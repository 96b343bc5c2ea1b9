"""Which group a document is in."""

import pickle

import pytest

from pipelines.dataset import Dataset, Draft, Part, seal
from pipelines.engines.task import Inputs
from pipelines.mixture import groups
from pipelines.mixture.groups import Grouping
from pipelines.store import Store
from tests.pipelines.mixture.corpus import documents


@pytest.fixture
def store(tmp_path):
    return Store(str(tmp_path / "store"))


def groups_of(store, rows, by):
    """The groups of documents that stand in one shard, in their order."""
    grouping = pickle.loads(pickle.dumps(Grouping(by)))  # as a worker process gets it
    [objects] = grouping.objects(documents(store, {"web": [rows]}).version)
    found = grouping.read(Inputs(store, ("another input", *objects), ()), 1)
    assert found["doc_id"].to_pylist() == [f"web0{number}" for number in range(len(rows))]
    return found["group"].to_pylist()


@pytest.mark.parametrize(
    ("by", "rows", "expected"),
    [
        ("language", [{"language": "de"}, {"language": None}, {"language": "en"}], ["de", "unknown", "en"]),
        ("license", [{"license": "MIT"}, {"license": ""}], ["MIT", "unknown"]),
        ("bucket", [{"bucket": "tail"}, {"bucket": None}, {"bucket": "head"}], ["tail", "unknown", "head"]),
        ("source", ["one", "two"], ["web", "web"]),
    ],
)
def test_documents_are_grouped_by_column_or_bucket(store, by, rows, expected):
    assert groups_of(store, rows, by) == expected


def test_and_by_any_field_of_their_metadata(store):
    values = ["law", None, 7, True, ["a", "b"], ""]
    rows = [*({"metadata": {"topic": value}} for value in values), {"metadata": {}}, "no metadata"]
    expected = ["law", "unknown", "7", "true", '["a", "b"]', "unknown", "unknown", "unknown"]
    assert groups_of(store, rows, "metadata.topic") == expected


def test_an_empty_shard_has_no_groups(store):
    for by in ("language", "bucket", "metadata.topic"):
        assert groups_of(store, [], by) == []


@pytest.mark.parametrize("by", ["text", "doc_id", "metadata", "metadata.", "quality"])
def test_what_documents_do_not_carry_or_tells_them_apart_is_refused_with_what_is_allowed(by):
    with pytest.raises(ValueError, match="allowed are source, language, license, bucket or metadata"):
        groups.refuse_unknown(by)


def test_more_groups_than_anybody_gives_shares_to_are_refused(store, monkeypatch):
    monkeypatch.setattr(groups, "MOST_GROUPS", 2)
    assert len(groups_of(store, [{"language": code} for code in ("de", "en", "de")], "language")) == 3
    with pytest.raises(ValueError, match=r"mixture\.by: documents have 3 different values of language; .* at most 2"):
        groups_of(store, [{"language": code} for code in ("de", "en", "fr")], "language")


def test_buckets_of_other_documents_are_refused(store):
    here, there = documents(store, {"web": [["a"]]}), documents(store, {"books": [["a"], ["b"]]})
    parts = {"documents": here.version.parts["documents"], "buckets": there.version.parts["buckets"]}
    mixed = seal(store, Draft(parts), asset="filtered_documents", partition="web")
    with pytest.raises(ValueError, match=r"web\] has 1 shards of documents and 2 of buckets"):
        Grouping("bucket").objects(mixed)
    parts["buckets"] = Part("table", parts["buckets"].shards[:1])
    mixed = seal(store, Draft(parts), asset="filtered_documents", partition="web")
    with pytest.raises(ValueError, match="1 documents have no row in the buckets of their shard"):
        Grouping("bucket").read(Inputs(store, Grouping("bucket").objects(mixed)[0], ()))


def test_only_buckets_are_read_beside_documents(store):
    data = documents(store, {"web": [["a"], ["b"]]})
    shards = [[shard.object for shard in data.version.parts[part].shards] for part in ("documents", "buckets")]
    assert Grouping("language").objects(data.version) == [(shard,) for shard in shards[0]]
    assert Grouping("bucket").objects(data.version) == list(zip(*shards, strict=True))
    empty = Dataset("filtered_documents", (seal(store, Draft({}), asset="filtered_documents"),), store)
    assert Grouping("bucket").objects(empty.version) == []
