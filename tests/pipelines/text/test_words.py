"""Where words are cut, on texts short enough to see."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.text.codepoints import CHARACTER, IGNORED, LETTER, SEPARATOR, SIGN, USUAL, Normalisation, fold, part_of
from pipelines.text.words import Words, split_words, text_buffers, word_batches

SIGNS = Normalisation(punctuation="keep")
CHOICES = st.sampled_from(
    [USUAL, SIGNS, Normalisation("keep", "drop", "zero", "drop"), Normalisation("keep", "drop", "zero", "keep")]
)


def normalised(words: Words, text: int = 0) -> str:
    bounds = words.normalised_offsets
    return bytes(words.normalised[bounds[text] : bounds[text + 1]]).decode()


def cut(text: str, normalisation: Normalisation = USUAL) -> list[str]:
    """What `split_words` makes of one text."""
    words = split_words(pa.array([text], pa.large_string()), normalisation)
    found = normalised(words).split(" ") if words.counts[0] else []
    assert len(found) == words.counts[0]
    return found


def slowly_cut(text: str, normalisation: Normalisation = USUAL) -> list[str]:
    """The same, one character at a time."""
    words: list[str] = []
    open_part = SEPARATOR
    for character in text:
        part = part_of(ord(character), normalisation)
        if part == IGNORED:
            continue
        if part == SEPARATOR:
            open_part = SEPARATOR
            continue
        alone = part in (CHARACTER, SIGN)
        starts = alone or open_part == SEPARATOR or (part == LETTER and open_part == CHARACTER)
        if starts:
            words.append("")
            open_part = CHARACTER if alone else LETTER
        words[-1] += fold(ord(character), normalisation)
    return words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" \t\n", []),
        ("!!! — …", []),
        ("The cat, the CAT.", ["the", "cat", "the", "cat"]),
        ("don't 3.14 x_y", ["don", "t", "3", "14", "x", "y"]),
        ("Straße STRASSE", ["strasse", "strasse"]),
        ("co\u00adoperate", ["cooperate"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("私は猫である", ["私", "は", "猫", "て\u3099", "あ", "る"]),
        ("Tokyo東京2020", ["tokyo", "東", "京", "2020"]),
        ("กินข้าว", ["ก\u0e34", "น", "ข\u0e49", "า", "ว"]),
        ("ດີ", ["ດ\u0eb5"]),
    ],
)
def test_words_are_runs_of_letters_digits_and_marks(text: str, words: list[str]) -> None:
    assert cut(text) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a.b", ["a", ".", "b"]),
        ("a b", ["a", "b"]),
        ("A,  b", ["a", ",", "b"]),
        ("if(x!=1){", ["if", "(", "x", "!", "=", "1", ")", "{"]),
        ("a=-b\na=+b", ["a", "=", "-", "b", "a", "=", "+", "b"]),
        ("漢、字。b", ["漢", "、", "字", "。", "b"]),
        ("=\u0338≠x", ["=\u0338", "=\u0338", "x"]),
        ("👍\ufe0f\u200d!", ["👍", "!"]),
    ],
)
def test_kept_punctuation_is_a_word_for_each_sign(text: str, words: list[str]) -> None:
    assert cut(text, SIGNS) == words


def test_kept_punctuation_is_not_counted_as_a_script_without_spaces() -> None:
    assert split_words(pa.array(["a, 漢。"], pa.large_string()), SIGNS).characters.tolist() == [1]


def test_accents_case_and_digits_can_be_made_not_to_matter_or_to_matter() -> None:
    assert cut("Éa 19.5 ๑๒", Normalisation(marks="drop", digits="zero")) == ["ea", "00", "0", "00"]
    assert cut("Éa ﬁ", Normalisation(case="keep")) == ["E\u0301a", "fi"]


@given(st.text(max_size=40), CHOICES)
def test_the_kernel_cuts_like_a_loop_over_characters(text: str, normalisation: Normalisation) -> None:
    assert cut(text, normalisation) == slowly_cut(text, normalisation)


@given(st.text(st.characters(codec="utf-8", categories=["L", "M", "Zs", "Nd", "Cf", "P", "S"]), max_size=40), CHOICES)
def test_the_kernel_cuts_text_of_all_scripts_like_a_loop_over_characters(
    text: str, normalisation: Normalisation
) -> None:
    assert cut(text, normalisation) == slowly_cut(text, normalisation)


@given(st.lists(st.text(max_size=12), max_size=12), st.integers(1, 30))
def test_words_do_not_depend_on_neighbours_chunks_or_batches(texts: list[str], batch_bytes: int) -> None:
    alone = [split_words(pa.array([text], pa.large_string())) for text in texts]
    chunks = pa.chunked_array([texts[:3], texts[3:]], pa.large_string())
    together = [
        (normalised(words, i), words.hashes[words.offsets[i] : words.offsets[i + 1]].tolist())
        for _, words in word_batches(chunks, batch_bytes=batch_bytes)
        for i in range(len(words))
    ]
    assert together == [(normalised(words), words.hashes.tolist()) for words in alone]


def test_a_word_has_the_same_hash_wherever_it_stands_and_another_than_other_words() -> None:
    words = split_words(pa.array(["red, green", "GREEN Red blue"], pa.large_string()))
    red, green, green_again, red_again, blue = words.hashes.tolist()
    assert (red, green) == (red_again, green_again)
    assert len({red, green, blue}) == 3


def test_the_hash_of_a_word_is_fnv_1a_of_its_folded_bytes() -> None:
    [value] = split_words(pa.array(["FooBar"], pa.large_string())).hashes.tolist()
    assert value == 0x85944171F73967E8  # FNV-1a 64 of "foobar", from the authors' test vectors


def test_characters_of_scripts_without_spaces_are_counted() -> None:
    words = split_words(pa.array(["abc 漢字", "abc", "ひらがな"], pa.large_string()))
    assert words.characters.tolist() == [2, 0, 4]
    assert words.counts.tolist() == [3, 1, 4]


@pytest.mark.parametrize(
    "broken", [b"\xed\xa0\xb5", b"\xff", b"\xc3", b"\xe2\x82", b"\xf5\x80\x80\x80", b"\xc0\xaf", b"\x80"]
)
def test_bytes_that_are_not_utf8_end_a_word(broken: bytes) -> None:
    data = b"one" + broken + b"two" + broken
    offsets = pa.py_buffer(np.array([0, len(data)], np.int64).tobytes())
    texts = pa.Array.from_buffers(pa.large_string(), 1, [None, offsets, pa.py_buffer(data)])
    assert normalised(split_words(texts)) == "one two"


def test_a_slice_sees_its_own_texts_only() -> None:
    texts = pa.array(["one", "two", "three"], pa.large_string()).slice(1, 1)
    assert normalised(split_words(texts)) == "two"


@pytest.mark.parametrize("texts", [pa.array([], pa.large_string()), pa.array(["", ""], pa.large_string())])
def test_no_texts_and_empty_texts_have_no_words(texts: pa.Array) -> None:
    words = split_words(texts)
    assert words.counts.tolist() == [0] * len(texts)
    assert len(words.normalised) == 0


def test_offsets_beyond_two_gibibytes_are_read_whole() -> None:
    beyond = 2**31 + 5
    data = np.zeros(beyond + 7, np.uint8)  # pages that nobody touches take no memory
    data[beyond:] = np.frombuffer(b"far out", np.uint8)
    offsets = pa.py_buffer(np.array([0, beyond, beyond + 3, beyond + 7], np.int64).tobytes())
    texts = pa.Array.from_buffers(pa.large_string(), 3, [None, offsets, pa.py_buffer(data)])
    assert normalised(split_words(texts.slice(1)), 0) == "far"
    assert normalised(split_words(texts.slice(1)), 1) == "out"


def test_null_texts_are_refused_with_a_sentence() -> None:
    with pytest.raises(ValueError, match="1 of 2 texts are null"):
        text_buffers(pa.array(["a", None], pa.large_string()))
