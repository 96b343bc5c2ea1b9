"""Taking duplicates out: what stays, and a decision for every document."""

import pytest

from pipelines.dataset import Dataset, read_table, seal
from pipelines.dedup.clusters import find_duplicates
from pipelines.dedup.params import DedupParams
from pipelines.dedup.unique import drop_duplicates
from pipelines.engines.local import Engine
from pipelines.store import Store
from tests.pipelines.dedup.corpus import clean_documents, deduplicate, doc_id, prose


def clusters_for(store: Store, clean: Dataset, config: DedupParams) -> Dataset:
    draft = find_duplicates(clean, config, Engine(store, 1))
    return Dataset("duplicate_clusters", (seal(store, draft, asset="duplicate_clusters", inputs=[clean]),), store)


def test_every_document_gets_a_decision_in_its_place(store: Store) -> None:
    made = deduplicate(
        store, {"s": [{"long": prose(105), "short": prose(100)}, {"other": "alone"}], "t": [{"copy": "ALONE"}]}
    )
    draft = made.unique["s"]
    version = seal(store, draft, asset="unique_documents", partition="s")
    first, second = Dataset("unique_documents", (version,), store).tables("decisions")
    kept, dropped = first.to_pylist()
    assert kept == {
        "doc_id": doc_id("s", "long"),
        "keep": True,
        "stage": "deduplication",
        "rule": "kept",
        "value": None,
        "threshold": None,
        "detail": None,
    }
    assert dropped["doc_id"] == doc_id("s", "short")
    assert (dropped["keep"], dropped["rule"], dropped["threshold"]) == (False, "minhash", 0.75)
    assert 0.75 <= dropped["value"] < 1
    assert dropped["detail"] == doc_id("s", "long")
    assert second["keep"].to_pylist() == [True]


def test_an_exact_copy_is_told_as_such(store: Store) -> None:
    made = deduplicate(store, {"s": [{"other": "alone"}], "t": [{"copy": "ALONE"}]})
    version = seal(store, made.unique["t"], asset="unique_documents", partition="t")
    [row] = Dataset("unique_documents", (version,), store).table("decisions").to_pylist()
    assert (row["rule"], row["value"], row["threshold"], row["detail"]) == ("exact", 1.0, 1.0, doc_id("s", "other"))


def test_counts_balance(store: Store) -> None:
    made = deduplicate(store, {"s": [{"a": prose(9), "b": prose(9)}, {"c": "", "d": ""}]})
    stats = made.unique["s"].stats
    assert stats["documents_in"] == 4
    assert stats["documents_out"] == 3
    assert stats["dropped"] == {"exact": 1, "simhash": 0, "minhash": 0, "only_compared": 0}
    assert stats["bytes_in"] - stats["bytes_out"] == len(prose(9))
    lengths = stats["histograms"]["text bytes"]
    assert (sum(lengths["before"]), sum(lengths["after"])) == (4, 3)


def test_a_shard_that_loses_everything_stays_in_its_place(store: Store) -> None:
    made = deduplicate(store, {"a": [{"1": prose(9)}], "b": [{"2": prose(9)}, {"3": prose(9, 40)}]})
    parts = made.unique["b"].parts
    assert [shard.rows for shard in parts["documents"].shards] == [0, 1]
    assert [shard.rows for shard in parts["decisions"].shards] == [1, 1]


def test_a_source_without_shards_stays_without(store: Store) -> None:
    parts = deduplicate(store, {"none": []}).unique["none"].parts
    assert (parts["documents"].shards, parts["decisions"].shards) == ((), ())


def test_clusters_of_other_documents_are_refused(store: Store) -> None:
    clusters = clusters_for(store, clean_documents(store, {"s": [{"a": prose(9), "b": prose(9)}]}), DedupParams())
    other = clean_documents(store, {"s": [{"c": prose(9)}]})
    with pytest.raises(
        ValueError, match="names 1 documents to remove of source 's', but its clean documents hold 0 of them"
    ):
        drop_duplicates(other, clusters, Engine(store, 1))


def test_clusters_without_the_source_are_refused(store: Store) -> None:
    clusters = clusters_for(store, clean_documents(store, {"s": [{"a": prose(9)}]}), DedupParams())
    other = clean_documents(store, {"new": [{"c": prose(9)}]})
    with pytest.raises(ValueError, match="covers s, not 'new'"):
        drop_duplicates(other, clusters, Engine(store, 1))


def test_decisions_tell_the_threshold_that_the_clusters_were_made_with(store: Store) -> None:
    text = prose(40)
    clean = clean_documents(store, {"s": [{"a": text, "b": text.rsplit(" ", 1)[0]}]})
    clusters = clusters_for(store, clean, DedupParams(threshold=0.6))
    decisions = drop_duplicates(clean, clusters, Engine(store, 1)).parts["decisions"]
    (dropped,) = [row for row in read_table(store, decisions.shards[0].object).to_pylist() if not row["keep"]]
    assert (dropped["rule"], dropped["threshold"]) == ("minhash", 0.6)


def test_copies_that_would_both_stay_are_an_error(store: Store) -> None:
    same = {"s": [{"a": prose(9), "b": prose(9)}]}
    clean = clean_documents(store, same)
    loose = clusters_for(store, clean, DedupParams(exact=False, minhash=False))
    version = loose.version
    claimed = {**version.stats, "parameters": DedupParams().model_dump()}
    forged = Dataset(loose.asset, (type(version)(**{**vars(version), "stats": claimed}),), store)
    with pytest.raises(RuntimeError, match="1 texts are kept more than once"):
        drop_duplicates(clean, forged, Engine(store, 1))


def test_only_documents_of_a_changed_source_are_written_again(store: Store) -> None:
    before = deduplicate(store, {"a": [{"1": prose(9)}], "b": [{"2": prose(9)}]})
    engine = Engine(store, 1, attempt="later")
    clean = clean_documents(store, {"a": [{"1": prose(9)}], "b": [{"3": prose(9)}]})
    clusters = clusters_for(store, clean, DedupParams())
    draft = drop_duplicates(clean.of("a"), clusters, engine)
    assert [result.reused for result in engine.results] == [True]
    assert draft.parts == before.unique["a"].parts
