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


@pytest.mark.parametrize(("articles_of", "shards"), [(100, 1), (1000, 1), (1000, 7)])
def test_all_known_pairs_of_articles_are_found_and_no_others(store: Store, articles_of: int, shards: int) -> None:
    files = [SHARED_DATA / f"neardup/articles_{articles_of}.{kind}" for kind in ("train", "truth")]
    lines, pairs = (file.read_text(encoding="utf-8").splitlines() for file in files)
    articles = [line.split(" ", 1) for line in lines]
    truth = {frozenset(pair.split()) for pair in pairs}
    made = deduplicate(store, {"articles": [dict(articles[n::shards]) for n in range(shards)]})
    assert {frozenset((removed, kept)) for removed, (kept, _) in made.removed.items()} == truth


@pytest.mark.parametrize("verify", ["signature", "shingles"])
def test_editions_of_a_book_are_one_or_two_depending_on_the_threshold(store: Store, verify: str) -> None:
    editions = {name: book(name) for name in ("alice_11", "alice_11-0", "alice30")}
    assert jaccard(editions["alice_11"], editions["alice_11-0"]) == pytest.approx(0.999, abs=0.001)
    assert jaccard(editions["alice_11"], editions["alice30"]) == pytest.approx(0.860, abs=0.003)
    for threshold, kept in ((0.8, 1), (0.95, 2)):
        config = DedupParams.model_validate({"threshold": threshold, "verify": verify})
        made = deduplicate(store, {"books": [editions]}, config)
        assert len(made.kept) == kept
        assert "alice30" in made.kept | set(made.removed)


def test_translations_are_not_duplicates_but_a_copy_with_small_changes_is(store: Store) -> None:
    texts = {p.stem: p.read_text(encoding="utf-8") for p in sorted((SHARED_DATA / "multilingual").glob("udhr_*.xml"))}
    changed = {f"{name} changed": text[: len(text) * 19 // 20] for name, text in texts.items()}
    made = deduplicate(store, {"original": [texts], "changed": [changed]})
    assert made.kept == set(texts)
    assert {name: kept for name, (kept, _) in made.removed.items()} == {f"{name} changed": name for name in texts}
