"""Who stays, over all sources at once."""

import itertools
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.dataset import Dataset, Draft, seal
from pipelines.dedup.clusters import find_duplicates
from pipelines.dedup.leaders import LEVELS
from pipelines.dedup.params import DedupParams
from pipelines.engines.local import Engine
from pipelines.store import Store
from tests.pipelines.dedup.corpus import Deduplicated, clean_documents, deduplicate, doc_id, numbered, prose


def test_the_first_source_of_the_profile_wins(store: Store) -> None:
    made = deduplicate(store, {"trusted": [{"a": prose(20)}], "web": [{"b": prose(20), "c": prose(20, 50)}]})
    assert made.removed == {"b": ("a", "exact")}
    made = deduplicate(store, {"web": [{"b": prose(20), "c": prose(20, 50)}], "trusted": [{"a": prose(20)}]})
    assert made.removed == {"a": ("b", "exact")}


def test_within_a_source_the_longer_text_wins_then_the_smaller_id(store: Store) -> None:
    made = deduplicate(store, {"s": [{"short": prose(100), "long": prose(105)}]})
    assert made.removed == {"short": ("long", "minhash")}
    made = deduplicate(store, {"s": [{"x": prose(20), "y": prose(20)}]})
    first, second = sorted("xy", key=lambda name: doc_id("s", name))
    assert made.removed == {second: (first, "exact")}


def test_a_copy_of_a_removed_document_names_the_one_that_stays(store: Store) -> None:
    made = deduplicate(store, {"a": [{"kept": prose(105)}], "b": [{"near": prose(100)}], "c": [{"copy": prose(100)}]})
    assert made.removed == {"near": ("kept", "minhash"), "copy": ("kept", "minhash")}
    rows = made.clusters.table("clusters").to_pylist()
    assert rows[0]["similarity"] == rows[1]["similarity"] < 1


def test_levels_can_be_switched_off(store: Store) -> None:
    texts = {"s": [{"a": prose(100), "b": prose(100), "c": prose(105)}]}
    assert len(deduplicate(store, texts, DedupParams(minhash=False)).removed) == 1
    assert {level for _, level in deduplicate(store, texts, DedupParams(exact=False)).removed.values()} == {"minhash"}
    assert deduplicate(store, texts, DedupParams(exact=False, minhash=False)).removed == {}


def test_every_shard_of_documents_has_its_own_even_where_nothing_is_removed(store: Store) -> None:
    made = deduplicate(store, {"a": [{"1": prose(20)}], "none": [], "empty": [{}], "b": [{"x": "y"}, {"2": prose(20)}]})
    assert [shard.rows for shard in made.clusters.shards("clusters")] == [0, 0, 0, 1]
    assert made.clusters.version.stats["shards"] == {"a": 1, "none": 0, "empty": 1, "b": 2}
    assert [(s.name, s.rows) for s in made.clusters.shards("index")] == [
        ("a-00000.arrow", 1),
        ("empty-00000.arrow", 0),
        ("b-00000.arrow", 1),
        ("b-00001.arrow", 1),
    ]
    assert made.kept == {"1", "x"}


def test_a_change_in_one_shard_leaves_the_others_and_what_is_made_from_them(store: Store) -> None:
    same = [{"0": prose(20), "1": prose(20)}, {"2": prose(30, 99)}]
    before = deduplicate(store, {"a": [*same, {"x": prose(9), "y": prose(9)}]})
    after = deduplicate(store, {"a": [*same, {"x": prose(9), "z": prose(8)}]})
    for old, new in ((before.clusters, after.clusters), (before.unique["a"], after.unique["a"])):
        parts = ("clusters", "index") if old is before.clusters else ("documents", "decisions")
        for part in parts:
            one, other = (x.shards(part) if isinstance(x, Dataset) else x.parts[part].shards for x in (old, new))
            assert one[:2] == other[:2]
            assert one[2] != other[2]


def test_statistics_add_up_and_tell_where_copies_come_from(store: Store) -> None:
    made = deduplicate(
        store,
        {
            "a": [{"1": prose(105), "2": "", "3": "***"}],
            "b": [{"4": prose(105), "5": prose(100), "6": "吾輩は猫である"}],
        },
    )
    stats = made.clusters.version.stats
    assert (stats["documents_in"], stats["documents_out"]) == (6, 4)
    assert stats["dropped"] == {"exact": 1, "simhash": 0, "minhash": 1}
    none = dict.fromkeys(LEVELS, 0)
    assert stats["dropped_by_source"] == {"a": none, "b": none | {"exact": 1, "minhash": 1}}
    assert stats["bytes_dropped_by_source"] == {"a": 0, "b": len(prose(105)) + len(prose(100))}
    assert stats["kept_instead"] == {"a": {"a": 0, "b": 0}, "b": {"a": 2, "b": 0}}
    assert stats["documents_in_by_source"] == {"a": 3, "b": 3}
    assert (stats["empty"], stats["wordless"], stats["short"], stats["by_characters"]) == (1, 1, 0, 1)
    assert stats["largest_clusters"] == [{"kept_id": doc_id("a", "1"), "kept_source": "a", "removed": 2}]
    assert (stats["bands"], stats["rows"]) == (16, 7)
    assert [n for n in stats["histograms"]["cluster size"]["clusters"] if n] == [1]


def test_rows_stand_in_the_order_of_the_documents(store: Store) -> None:
    made = deduplicate(store, {"s": numbered([prose(20)] * 30)})
    rows = made.clusters.table("clusters")["doc_id"].to_pylist()
    documents = made.clean.table("documents")["doc_id"].to_pylist()
    assert rows == [doc_id for doc_id in documents if doc_id in set(rows)]
    assert len(rows) == 29


def test_changing_the_threshold_computes_no_signature_again(store: Store) -> None:
    clean = clean_documents(store, {"s": [{"a": prose(20)}, {"b": prose(20)}]})
    find_duplicates(clean, DedupParams(threshold=0.7), Engine(store, 1, attempt="first"))
    engine = Engine(store, 1, attempt="second")
    find_duplicates(clean, DedupParams(threshold=0.8), engine)
    assert [result.reused for result in engine.results] == [True, True, False]


def test_a_threshold_of_one_removes_equal_sets_of_shingles_only(store: Store) -> None:
    texts = {"s": [{"a": prose(200), "b": prose(201), "c": f"{prose(200)} {prose(200)}"}]}
    made = deduplicate(store, texts, DedupParams(threshold=1.0))
    assert made.removed == {}


def test_no_documents_at_all_make_empty_clusters(store: Store) -> None:
    made = deduplicate(store, {"a": [], "b": [{}]})
    assert made.clusters.rows("clusters") == 0
    assert made.clusters.version.stats["documents_in"] == 0
    nothing = find_duplicates(Dataset("clean_documents", (), store), DedupParams(), Engine(store, 1))
    assert nothing.parts["clusters"].shards == ()


def test_a_repeated_id_is_refused_with_a_sentence(store: Store) -> None:
    clean = clean_documents(store, {"s": [{"a": prose(20)}, {"a": prose(30)}]})
    with pytest.raises(ValueError, match=f"doc_id {doc_id('s', 'a')} occurs more than once"):
        find_duplicates(clean, DedupParams(), Engine(store, 1))


words = st.lists(st.sampled_from(["red", "green", "blue", "漢", "…"]), max_size=8).map(" ".join)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(words, max_size=8), st.randoms(use_true_random=False))
def test_the_result_does_not_depend_on_shards_or_the_order_of_files(tmp_path: Path, texts: list[str], random) -> None:
    store = Store(str(tmp_path / "store"))
    named = [(str(number), text) for number, text in enumerate(texts)]
    expected = deduplicate(store, {"s": [dict(named)], "t": [{"copy": texts[0] if texts else ""}]})
    random.shuffle(named)
    cut = random.randint(0, len(named))
    shards = [dict(named[:cut]), dict(named[cut:])]
    found = deduplicate(store, {"s": shards, "t": [{}, {"copy": texts[0] if texts else ""}]})
    assert found.removed == expected.removed
    assert similarities(found) == similarities(expected)


def similarities(made: Deduplicated) -> dict[str, float]:
    rows = made.clusters.table("clusters").to_pylist()
    return {row["doc_id"]: row["similarity"] for row in rows}


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(words, max_size=8))
def test_what_is_kept_holds_no_duplicates_any_more(tmp_path: Path, texts: list[str]) -> None:
    store = Store(str(tmp_path / "store"))
    once = deduplicate(store, {"s": numbered(texts)})
    kept = {name: texts[int(name)] for name in once.kept}
    assert deduplicate(store, {"s": [kept]}).removed == {}


def test_workers_make_no_difference(tmp_path: Path) -> None:
    shards = [{f"{shard}.{i}": prose(30 + i % 3, 7 * i) for i in range(20)} for shard in range(3)]
    made = [deduplicate(Store(str(tmp_path / str(w))), {"s": shards}, workers=w) for w in (1, 2)]
    assert made[0].clusters.shards("clusters") == made[1].clusters.shards("clusters")
    assert made[0].unique["s"].parts == made[1].unique["s"].parts
    assert len(made[0].removed) >= 40


def test_the_draft_can_be_sealed_to_the_same_version_again(store: Store) -> None:
    clean = clean_documents(store, {"s": [{"a": prose(20), "b": prose(20)}]})
    drafts: list[Draft] = [find_duplicates(clean, DedupParams(), Engine(store, 1)) for _ in range(2)]
    ids = {seal(store, draft, asset="duplicate_clusters", inputs=[clean]).id for draft in drafts}
    assert len(ids) == 1
    assert all(a == b for a, b in itertools.pairwise(draft.stats for draft in drafts))
