"""The levels: each by itself, together, and what normalisation and repeated lines do to all of them."""

import random
from typing import Any

import pytest

from pipelines.dedup.params import DedupParams
from pipelines.store import Store
from tests.pipelines.dedup.corpus import deduplicate, numbered, prose

SIMHASH = {"minhash": False, "simhash": {"enabled": True}}


def removed(store: Store, texts: dict[str, str], **config: Any) -> dict[str, tuple[str, str]]:
    return deduplicate(store, {"s": [texts]}, DedupParams.model_validate(config)).removed


def test_simhash_alone_finds_near_copies_and_tells_how_near(store: Store) -> None:
    texts = {"long": prose(1001), "short": prose(1000), "other": prose(1000, 5000)}
    made = deduplicate(store, {"s": [texts]}, DedupParams.model_validate(SIMHASH))
    assert made.removed == {"short": ("long", "simhash")}
    [row] = made.clusters.table("clusters").to_pylist()
    assert row["similarity"] in [1 - bits / 64 for bits in range(4)]
    assert made.unique["s"].stats["dropped"] == {"exact": 0, "simhash": 1, "minhash": 0, "only_compared": 0}


def test_a_pair_that_both_levels_find_counts_for_the_surer_one(store: Store) -> None:
    texts = {"long": prose(1001), "short": prose(1000)}
    assert removed(store, texts, simhash={"enabled": True}) == {"short": ("long", "minhash")}
    assert removed(store, texts, simhash={"enabled": True}, threshold=1.0) == {"short": ("long", "simhash")}


@pytest.mark.parametrize("blocks", [None, 6])
def test_simhash_leaves_no_pair_within_the_distance(store: Store, blocks: int | None) -> None:
    made = random.Random(7)
    texts = []
    for start in range(0, 40_000, 1000):
        words = prose(200, start).split()
        texts.append(" ".join(words))
        for _ in range(3):
            words[made.randrange(200)] = "changed"
            texts.append(" ".join(words))
    config = DedupParams.model_validate(SIMHASH | {"simhash": {"enabled": True, "distance": 5, "blocks": blocks or 6}})
    once = deduplicate(store, {"s": numbered(texts)}, config)
    assert 0 < len(once.removed) < 120
    kept = {name: texts[int(name)] for name in once.kept}
    assert deduplicate(store, {"s": [kept]}, config).removed == {}


def test_true_similarity_decides(store: Store) -> None:
    # 96 shingles of five words, and 8 more: 96 / 104 = 0.923.
    texts = {"long": prose(108), "short": prose(100)}
    for threshold, found in ((0.92, True), (0.924, False)):
        made = deduplicate(store, {"s": [texts]}, DedupParams(threshold=threshold, bands=56, rows=2))
        assert bool(made.removed) == found
        similarities = made.clusters.table("clusters")["similarity"].to_pylist()
        assert similarities == ([pytest.approx(96 / 104)] if found else [])


def test_the_sets_serve_another_threshold_too(store: Store) -> None:
    texts = {"s": [{"long": prose(108), "short": prose(100)}]}
    deduplicate(store, texts, DedupParams(threshold=0.9))
    made = deduplicate(store, texts, DedupParams(threshold=0.95))
    assert made.removed == {}


def test_shingles_can_be_characters(store: Store) -> None:
    glued = "pneumonoultramicroscopicsilicovolcanoconiosis" * 3
    texts = {"a": glued, "b": glued[:-2]}
    assert removed(store, texts) == {}  # one word each
    found = removed(store, texts, shingle_of="characters", shingle_length=5)
    assert found == {"b": ("a", "minhash")}


@pytest.mark.parametrize(
    ("normalisation", "texts", "same"),
    [
        ({}, ("Straße nach Rom", "STRASSE, nach Rom!"), True),
        ({"case": "keep"}, ("Rome is old", "ROME is old"), False),
        ({}, ("résumé of work", "resume of work"), False),
        ({"marks": "drop"}, ("résumé of work", "resume of work"), True),
        ({}, ("page 12 of 30", "page 13 of 31"), False),
        ({"digits": "zero"}, ("page 12 of 30", "page 13 of 31"), True),
        ({"punctuation": "keep"}, ("if (a) { b; }", "if a b"), False),
        ({"punctuation": "keep"}, ("if (a) { b; }", "if ( a )\n{ b ; }"), True),
    ],
)
def test_normalisation_says_what_is_the_same(
    store: Store, normalisation: dict[str, str], texts: tuple[str, str], same: bool
) -> None:
    found = removed(store, dict(zip("ab", texts, strict=True)), normalisation=normalisation, minhash=False)
    assert bool(found) == same


def test_verbatim_copies_only(store: Store) -> None:
    texts = {"a": "One text.", "b": "One text.", "c": "One text!"}
    assert len(removed(store, texts, exact_text="verbatim", minhash=False)) == 1
    assert len(removed(store, texts, minhash=False)) == 2


def test_repeated_lines_are_cut_before_anything_is_compared(store: Store) -> None:
    menu = "Home | Products | About us | Contact\n"
    body = "\n".join(prose(12, 100 * n) for n in range(6))
    texts = {"plain": menu + body, "menu twice": menu + body + "\n" + menu.strip()}
    assert removed(store, texts, minhash=False) == {}
    config = DedupParams.model_validate({"minhash": False, "repeats": {"lines": True}})
    made = deduplicate(store, {"s": [texts]}, config)
    assert len(made.removed) == 1
    stats = made.clusters.version.stats
    assert (stats["repeated_lines"], stats["repeated_paragraphs"]) == (1, 0)
    assert stats["repeated_bytes"] > 0
    kept = made.unique["s"]
    assert kept.stats["bytes_in"] - kept.stats["bytes_out"] > 0
    assert made.clusters.version.stats["copies_left"] == 0


def test_repeated_paragraphs_are_cut_and_the_text_that_stays_is_written(store: Store) -> None:
    paragraph = prose(12)
    text = f"{paragraph}\n\n{prose(12, 100)}\n\n{paragraph}\n"
    config = DedupParams.model_validate({"repeats": {"paragraphs": True}})
    made = deduplicate(store, {"s": [{"a": text}]}, config)
    assert made.clusters.version.stats["repeated_paragraphs"] == 1
    [written] = made.texts
    assert written.count(paragraph) == 1
    assert text.startswith(written.rstrip())
