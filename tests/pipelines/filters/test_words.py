"""How texts are cut into words for the language model and for the screen."""

import re
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.filters.words import folded_words, language_model_alphabet, screen_alphabet, text_buffers


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello, World!", ["hello", ",", "world", "!"]),
        ("In 1984 or ٣", ["in", "0000", "or", "0"]),
        ("na\u00efve re\u0301sume\u0301", ["na\u00efve", "re\u0301sume\u0301"]),
        ("吾輩は猫", ["吾", "輩", "は", "猫"]),
        ("soft\u00adhyphen", ["softhyphen"]),
        ("tab\tand\u00a0space\nline", ["tab", "and", "space", "line"]),
        ("", []),
        (" \n\t\u3000", []),
    ],
)
def test_the_language_model_reads_words_marks_and_digits(text: str, words: list[str]) -> None:
    assert folded_words(text.encode(), language_model_alphabet()) == words


def test_bytes_that_are_no_utf8_never_crash_and_read_as_symbols() -> None:
    surrogate, truncated = b"a\xed\xa0\xb5b", b"ab\xc3"
    assert folded_words(surrogate, language_model_alphabet()) == ["a", "b"]
    assert folded_words(truncated, language_model_alphabet()) == ["ab", "\ufffd"]


@given(st.binary(max_size=40))
def test_any_bytes_are_cut_into_words_that_are_stable(data: bytes) -> None:
    words = folded_words(data, language_model_alphabet())
    assert all(words)
    again = folded_words(" ".join(words).encode(), language_model_alphabet())
    assert again == words


@given(st.text(st.characters(exclude_characters="\u0130", exclude_categories=["Cs"]), max_size=30))
def test_the_screen_cuts_words_like_re_does(text: str) -> None:
    """U+0130 is the one letter that lower-cases to two code points. A Σ at a word's end lower-cases to ς in Python."""
    ours = folded_words(text.encode(), screen_alphabet())
    theirs = re.findall(r"\w+", text.lower())
    assert [word.replace("ς", "σ") for word in ours] == [word.replace("ς", "σ") for word in theirs]


def test_columns_with_slices_nulls_chunks_or_nothing_have_buffers() -> None:
    column = pa.chunked_array([["x", None], ["yz"]]).slice(1)
    offsets, data = text_buffers(column)
    assert [bytes(data[a:b]) for a, b in pairwise(offsets)] == [b"", b"yz"]
    assert len(text_buffers(pa.chunked_array([], pa.large_string()))[0]) == 1
