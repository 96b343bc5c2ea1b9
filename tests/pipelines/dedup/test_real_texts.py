"""Real texts with known answers."""

import pyarrow as pa
import pytest

from pipelines.dedup.params import DedupParams
from pipelines.store import Store
from pipelines.text.shingles import shingle_hashes
from pipelines.text.words import split_words
from tests.pipelines.dedup.corpus import SHARED_DATA, deduplicate

pytestmark = pytest.mark.skipif(not SHARED_DATA.exists(), reason="the shared test data is not here")


def book(name: str) -> str:
    return (SHARED_DATA / f"books/{name}.txt").read_text(encoding="utf-8", errors="replace")


def jaccard(left: str, right: str) -> float:
    hashes, offsets = shingle_hashes(split_words(pa.array([left, right], pa.large_string())), 5)
    one, two = set(hashes[: offsets[1]].tolist()), set(hashes[offsets[1] :].tolist())
    return len(one & two) / len(one | two)


@pytest.mark.parametrize("shards", [1, 7])
def test_all_known_pairs_of_articles_are_found_and_no_others(store: Store, shards: int) -> None:
    lines = (SHARED_DATA / "neardup/articles_1000.train").read_text(encoding="utf-8").splitlines()
    articles = [line.split(" ", 1) for line in lines]
    truth = {frozenset(line.split()) for line in (SHARED_DATA / "neardup/articles_1000.truth").read_text().splitlines()}
    made = deduplicate(store, {"articles": [dict(articles[n::shards]) for n in range(shards)]})
    assert {frozenset((removed, kept)) for removed, (kept, _) in made.removed.items()} == truth


def test_two_editions_of_a_book_are_one_and_the_third_depends_on_the_threshold(store: Store) -> None:
    editions = {name: book(name) for name in ("alice_11", "alice_11-0", "alice30")}
    assert jaccard(editions["alice_11"], editions["alice_11-0"]) > 0.99
    assert jaccard(editions["alice_11"], editions["alice30"]) == pytest.approx(0.86, abs=0.02)
    assert len(deduplicate(store, {"books": [editions]}, DedupParams(threshold=0.75)).kept) == 1
    assert len(deduplicate(store, {"books": [editions]}, DedupParams(threshold=0.95)).kept) == 2


def test_translations_are_not_duplicates_but_a_copy_with_small_changes_is(store: Store) -> None:
    texts = {p.stem: p.read_text(encoding="utf-8") for p in sorted((SHARED_DATA / "multilingual").glob("udhr_*.xml"))}
    changed = {f"{name} changed": text[: len(text) * 19 // 20] for name, text in texts.items()}
    made = deduplicate(store, {"original": [texts], "changed": [changed]})
    assert made.kept == set(texts)
    assert {name: kept for name, (kept, _) in made.removed.items()} == {f"{name} changed": name for name in texts}
