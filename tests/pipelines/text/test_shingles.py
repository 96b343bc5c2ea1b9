"""Shingles and the hashes of whole texts."""

import itertools
from typing import Literal

import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from pipelines.text.shingles import EMPTY_TEXT, shingle_hashes, text_hashes
from pipelines.text.words import split_words


def shingles(*texts: str, length: int = 3, of: Literal["words", "characters"] = "words") -> list[list[int]]:
    hashes, offsets = shingle_hashes(split_words(pa.array(texts, pa.large_string())), length, of)
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
def test_shingles_are_equal_exactly_where_their_words_are(texts: list[list[str]], length: int) -> None:
    found = shingles(*(" ".join(words) for words in texts), length=length)
    by_words: dict[tuple[str, ...], int] = {}
    for words, hashes in zip(texts, found, strict=True):
        runs = [tuple(words[i : i + length]) for i in range(max(1, len(words) - length + 1)) if words]
        assert len(runs) == len(hashes)
        for run, value in zip(runs, hashes, strict=True):
            assert by_words.setdefault(run, value) == value
    assert len(set(by_words.values())) == len(by_words)


def test_a_shingle_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1, not 0"):
        shingles("a", length=0)


def test_a_text_has_a_shingle_for_every_run_of_characters_of_its_normalised_form() -> None:
    [spaced, decomposed, other] = shingles("Ab,  é!", "ab e\u0301", "ab e", length=4, of="characters")
    assert spaced == decomposed  # "ab e\u0301", 5 code points
    assert len(spaced) == 2
    assert other == spaced[:1]


def test_a_short_text_has_one_shingle_of_all_its_characters_and_one_without_words_none() -> None:
    [short, same, longer, empty, signs] = shingles("漢字", "漢、字", "漢字か", "", "?!", length=5, of="characters")
    assert short == same
    assert len(short) == len(longer) == 1
    assert short != longer
    assert empty == signs == []


@given(
    st.lists(st.one_of(st.text(st.sampled_from("ab é漢字ひहि𝒳🙂ก้.\n"), max_size=12), st.text(max_size=12)), max_size=6),
    st.integers(1, 6),
)
def test_shingles_are_equal_exactly_where_their_characters_are(texts: list[str], length: int) -> None:
    words = split_words(pa.array(texts, pa.large_string()))
    forms = [bytes(words.normalised[a:b]).decode() for a, b in itertools.pairwise(words.normalised_offsets)]
    by_characters: dict[str, int] = {}
    for form, hashes in zip(forms, shingles(*texts, length=length, of="characters"), strict=True):
        runs = [form[i : i + length] for i in range(max(1, len(form) - length + 1)) if form]
        assert len(runs) == len(hashes)
        for run, value in zip(runs, hashes, strict=True):
            assert by_characters.setdefault(run, value) == value
    assert len(set(by_characters.values())) == len(by_characters)


def test_the_hash_of_a_text_is_xxh3_of_its_words_joined_by_spaces() -> None:
    assert exact("  Hello,\n World!") == [xxhash.xxh3_128_digest(b"hello world")]


def test_texts_without_words_are_told_apart_by_their_bytes_and_blank_ones_by_nothing() -> None:
    [stars, dashes, stars_again, empty, blank] = exact("***", "---", "***", "", " \u3000\n")
    assert stars == stars_again
    assert stars != dashes
    assert empty == blank == EMPTY_TEXT
