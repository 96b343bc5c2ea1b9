"""Shingles and the hashes of whole texts."""

import itertools

import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from pipelines.text.shingles import EMPTY_TEXT, shingle_hashes, text_hashes
from pipelines.text.words import split_words


def shingles(*texts: str, shingle_words: int = 3) -> list[list[int]]:
    hashes, offsets = shingle_hashes(split_words(pa.array(texts, pa.large_string())), shingle_words)
    return [hashes[a:b].tolist() for a, b in itertools.pairwise(offsets)]


def exact(*texts: str) -> list[bytes]:
    array = pa.array(texts, pa.large_string())
    return text_hashes(array, split_words(array)).to_pylist()


def test_a_text_has_a_shingle_for_every_run_of_words() -> None:
    [long, same_middle] = shingles("a b c d e", "x b c d y")
    assert len(long) == 3
    assert long[1] == same_middle[1]
    assert len({*long, *same_middle}) == 5


def test_a_text_shorter_than_a_shingle_has_one_of_all_its_words() -> None:
    [first, same, other, longer] = shingles("a b", "A, b!", "a c", "a b c")
    assert first == same
    assert len(first) == len(other) == 1
    assert first != other
    assert first != longer


def test_a_text_without_words_has_no_shingles() -> None:
    assert shingles("", " ", "?!") == [[], [], []]


def test_the_order_of_words_within_a_shingle_matters() -> None:
    [forward, backward] = shingles("a b c", "c b a")
    assert forward != backward


@given(st.lists(st.lists(st.sampled_from("abc"), max_size=9), max_size=6), st.integers(1, 4))
def test_shingles_are_equal_exactly_where_their_words_are(texts: list[list[str]], shingle_words: int) -> None:
    found = shingles(*(" ".join(words) for words in texts), shingle_words=shingle_words)
    by_words: dict[tuple[str, ...], int] = {}
    for words, hashes in zip(texts, found, strict=True):
        runs = [tuple(words[i : i + shingle_words]) for i in range(max(1, len(words) - shingle_words + 1)) if words]
        assert len(runs) == len(hashes)
        for run, value in zip(runs, hashes, strict=True):
            assert by_words.setdefault(run, value) == value
    assert len(set(by_words.values())) == len(by_words)


def test_a_shingle_of_no_words_is_refused() -> None:
    with pytest.raises(ValueError, match="shingle_words is 0"):
        shingles("a", shingle_words=0)


def test_the_hash_of_a_text_is_xxh3_of_its_words_joined_by_spaces() -> None:
    assert exact("  Hello,\n World!") == [xxhash.xxh3_128_digest(b"hello world")]


def test_texts_without_words_are_told_apart_by_their_bytes_and_blank_ones_by_nothing() -> None:
    [stars, dashes, stars_again, empty, blank] = exact("***", "---", "***", "", " \u3000\n")
    assert stars == stars_again
    assert stars != dashes
    assert empty == blank == EMPTY_TEXT
