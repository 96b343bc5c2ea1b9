"""What users of other deduplication tools reported: one test for each kind."""

from pathlib import Path

import pytest

from pipelines.dedup.clusters import find_duplicates
from pipelines.dedup.params import DedupParams
from pipelines.dedup.signatures import signature_tasks
from pipelines.engines.local import Engine
from pipelines.store import Store
from tests.pipelines.dedup.corpus import Deduplicated, clean_documents, deduplicate, numbered, prose


def kept_texts(store: Store, texts: list[str], config: DedupParams | None = None) -> list[str]:
    made: Deduplicated = deduplicate(store, {"s": numbered(texts)}, config)
    return sorted(texts[int(name)] for name in made.kept)


@pytest.mark.parametrize(
    ("texts", "kept"),
    [
        (["a b", "c d"], ["a b", "c d"]),
        (["cat", "dog", "cat"], ["cat", "dog"]),
        (["one two three four", "one two three four"], ["one two three four"]),
        (["", "", " "], ["", "", " "]),
        (["!", "!", "?"], ["!", "?"]),
        (["", "word"], ["", "word"]),
    ],
)
@pytest.mark.parametrize("exact", [True, False])
def test_short_and_empty_texts(store: Store, texts: list[str], kept: list[str], exact: bool) -> None:
    if texts == ["!", "!", "?"] and not exact:
        kept = sorted(texts)  # without words nothing but the exact level can tell
    assert kept_texts(store, texts, DedupParams(exact=exact)) == kept


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。",
            "国境の長いトンネルを抜けると雪国であった。夜の底が白くなった。",
        ),
        (
            "人人生而自由在尊严和权利上一律平等他们赋有理性和良心",
            "任何人不得使为奴隶或奴役一切形式的奴隶制度和奴隶买卖均应予以禁止",
        ),
        ("มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกัน", "ทุกคนมีสิทธิในการดำรงชีวิตเสรีภาพและความมั่นคง"),
    ],
)
def test_text_without_spaces_is_compared_by_characters(store: Store, first: str, second: str) -> None:
    long, near = first * 3 + second, first * 3 + second + first[:3]
    made = deduplicate(store, {"s": numbered([first, second, long, near])})
    assert made.removed == {"2": ("3", "minhash")}
    assert made.clusters.version.stats["by_characters"] == 4


def test_a_chain_keeps_its_unlike_ends(store: Store) -> None:
    a, b, c = prose(100), prose(100, 12), prose(100, 24)  # a~b and b~c: .79, a~c: .61
    made = deduplicate(
        store, {"first": [{"a": a}], "second": [{"b": b}], "third": [{"c": c}]}, DedupParams(threshold=0.7)
    )
    assert made.removed == {"b": ("a", "minhash")}
    assert made.kept == {"a", "c"}


def test_two_pairs_stay_two_clusters(store: Store) -> None:
    texts = [prose(100), prose(103), prose(100, 500), prose(103, 500)]
    made = deduplicate(store, {"s": numbered(texts)})
    assert made.removed == {"0": ("1", "minhash"), "2": ("3", "minhash")}
    assert made.clusters.version.stats["clusters"] == 2


def test_a_shared_template_does_not_remove_what_differs(store: Store) -> None:
    texts = [f"{prose(60)} {prose(60, 1000 * number)}" for number in range(1, 20)]
    assert len(kept_texts(store, texts)) == 19


def test_one_template_around_distinct_bodies_costs_time_in_proportion(store: Store) -> None:
    # Most of every page is the template: many share a band, and no two are similar.
    def compared(pages: int) -> dict:
        texts = [f"{prose(120)} {prose(40, 1000 * number)}" for number in range(1, pages + 1)]
        made = deduplicate(store, {"s": numbered(texts)}, DedupParams(bucket_limit=3))
        assert made.removed == {}
        return made.clusters.version.stats

    some, many = compared(600), compared(2400)
    assert some["buckets_cut"] > 0
    assert many["pairs_compared"] < 4.2 * some["pairs_compared"]


@pytest.mark.parametrize("exact", [True, False])
def test_twenty_thousand_copies_are_compared_once_each(store: Store, exact: bool) -> None:
    made = deduplicate(store, {"s": numbered([prose(30)] * 20_000)}, DedupParams(exact=exact))
    stats = made.clusters.version.stats
    assert stats["documents_out"] == 1
    assert stats["pairs_compared"] == (0 if exact else 19_999)


def test_the_same_text_in_two_shards_stays_once(store: Store) -> None:
    made = deduplicate(store, {"s": [{"a": prose(20)}, {"b": prose(20)}]}, workers=2)
    assert len(made.kept) == 1


def test_a_document_listed_twice_in_one_bucket_is_not_its_own_duplicate(store: Store) -> None:
    assert deduplicate(store, {"s": [{"a": " ".join(["same"] * 1000)}]}).kept == {"a"}


def test_a_truncated_intermediate_file_is_made_again(store: Store) -> None:
    clean = clean_documents(store, {"s": [{"a": prose(20)}, {"b": prose(20)}]})
    expected = find_duplicates(clean, DedupParams(), Engine(store, 1))
    [signatures, _] = Engine(store, 1).map(signature_tasks(clean, DedupParams()))
    file = store.path(signatures.parts["index"].shards[0].object)
    file.write_bytes(file.read_bytes()[:100])
    clusters = store.path(expected.parts["clusters"].shards[0].object)
    clusters.write_bytes(clusters.read_bytes()[:100])
    assert find_duplicates(clean, DedupParams(), Engine(store, 1)).parts == expected.parts
    assert file.stat().st_size > 100


def test_after_a_kill_in_the_middle_the_same_bytes_come_out(tmp_path: Path) -> None:
    shards = {"s": [{"a": prose(20)}, {"b": prose(20)}, {"c": prose(40)}]}
    whole, broken = Store(str(tmp_path / "whole")), Store(str(tmp_path / "broken"))
    expected = deduplicate(whole, shards)
    Engine(broken, 1).map(signature_tasks(clean_documents(broken, shards), DedupParams())[:2])  # and no further
    found = deduplicate(broken, shards)
    assert found.clusters.version.id == expected.clusters.version.id
    assert found.unique == expected.unique


def test_a_second_run_does_nothing_and_gives_the_same(store: Store) -> None:
    shards = {"s": [{"a": prose(20), "b": prose(20)}]}
    first = deduplicate(store, shards)
    clean = clean_documents(store, shards)
    engine = Engine(store, 1, attempt="second")
    assert find_duplicates(clean, DedupParams(), engine).parts["clusters"].shards == tuple(
        first.clusters.shards("clusters")
    )
    assert all(result.reused for result in engine.results)


def test_removed_is_what_went_in_less_what_came_out(store: Store) -> None:
    made = deduplicate(store, {"s": numbered(["", "a", "a", "!", "!", prose(50), prose(51)])})
    stats = made.unique["s"].stats
    assert stats["documents_in"] - stats["documents_out"] == sum(stats["dropped"].values()) == len(made.removed) == 3
