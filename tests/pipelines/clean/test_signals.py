"""Signals against their definitions in plain Python, on documents short enough to read, and on hostile ones."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines import schemas
from pipelines.clean.params import RULE_SETS, CleanParams
from pipelines.clean.pii.params import TYPES
from pipelines.clean.signals import ALWAYS, SIGNALS, column, measured, quality_table
from tests.pipelines.clean import reference

PARAMS = CleanParams()


def signals(*texts: str, sets: tuple[str, ...] = RULE_SETS) -> list[dict[str, float | None]]:
    """The signals of each text, None where undefined."""
    found, _ = measured(pa.array(texts, pa.large_string()), sets, PARAMS)
    return [
        {name: None if math.isnan(values[row]) else values[row] for name, values in found.items()}
        for row in range(len(texts))
    ]


def of_set(name: str, text: str) -> dict[str, float | None]:
    (found,) = signals(text, sets=(name,))
    return {signal: found[column(name, signal)] for signal in SIGNALS[name]}


PIECES = st.sampled_from(
    [
        *(
            "the ",
            "of ",
            "be",
            " a",
            "b ",
            "word ",
            "word.",
            "\n",
            "\n\n",
            "\n\n\n",
            " ",
            "\t",
            "- x",
            "• y",
            "…",
            "...",
        ),
        *(
            "#",
            "{",
            "!",
            "?",
            "。",
            "é",
            "北",
            "\u0301",
            "a b c d e f\n",
            "same line\n",
            "same line\n\n",
            "12 ",
            "don't ",
        ),
        ". . .",
    ]
)
TEXTS = st.lists(PIECES, max_size=40).map("".join)


@pytest.mark.parametrize("name", ["gopher_quality", "gopher_repetition", "fineweb", "code"])
@given(texts=st.lists(TEXTS, min_size=1, max_size=3))
def test_signals_are_what_plain_python_counts(name: str, texts: list[str]) -> None:
    found = signals(*texts, sets=(name,))
    for text, row in zip(texts, found, strict=True):
        expected = getattr(reference, name)(text)
        assert {signal: row[column(name, signal)] for signal in SIGNALS[name]} == pytest.approx(expected)
        assert row["characters"] == len(text)


@given(TEXTS)
def test_c4_counts_the_lines_and_sentences_that_plain_python_does(text: str) -> None:
    found = of_set("c4", text)
    kept = reference.c4_lines(text)
    assert found["removed_lines"] == len(reference.lines(text)) - len(kept)
    assert found["sentences"] == sum(map(reference.sentences, kept))


@pytest.mark.parametrize("text", ["", "\n", " ", "-"])
def test_a_share_of_nothing_is_undefined_and_a_count_of_nothing_is_zero(text: str) -> None:
    (row,) = signals(text)
    assert row["gopher_quality_words"] == 0
    assert row["gopher_quality_mean_word_characters"] is None
    assert row["alphanumeric_share"] == (None if text == "" else 0)
    assert row["gopher_repetition_duplicate_10gram_character_share"] == (None if text == "" else 0)
    assert row["fineweb_short_line_share"] == (1 if text == "-" else None)
    assert (row["c4_sentences"], row["code_longest_line_characters"]) == (0, len(text.strip("\n")))


SHORT = [
    ("gopher_quality", "words", "Three words , here !", 3),
    ("gopher_quality", "mean_word_characters", "abc de -", 2.5),
    ("gopher_quality", "hashes_per_word", "# one # two", 0.5),
    ("gopher_quality", "ellipses_per_word", "one ... two", 1 / 3),
    ("gopher_quality", "bullet_line_share", "• one\n  - two\nthree\n\n", 0.5),
    ("gopher_quality", "ellipsis_line_share", "one...\ntwo… \nthree.\nfour", 0.5),
    ("gopher_quality", "alphabetic_word_share", "a1 22 b 44", 0.5),
    ("gopher_quality", "stop_words", "The cat and the dog that sat and sat", 3),
    ("gopher_repetition", "duplicate_line_share", "a\nb\n\na\na\n", 0.5),
    ("gopher_repetition", "duplicate_line_character_share", "aaa\nb\naaa", 3 / 9),
    ("gopher_repetition", "duplicate_paragraph_share", "a\nb\n\na\nb\n\n\nb\na", 1 / 3),
    ("gopher_repetition", "duplicate_paragraph_character_share", "a\nb\n\na\nb", 3 / 8),
    ("gopher_repetition", "top_2gram_character_share", "a b c a b", 6 / 9),
    ("gopher_repetition", "top_3gram_character_share", "a b c d a b c", 10 / 13),
    ("gopher_repetition", "top_4gram_character_share", "a b c d e", 7 / 9),  # the first one where none repeats
    ("gopher_repetition", "duplicate_5gram_character_share", "a b c d e x a b c d e", 5 / 21),
    ("gopher_repetition", "duplicate_5gram_character_share", "a a a a a a a a a a a", 10 / 21),  # from the second on
    ("gopher_repetition", "duplicate_6gram_character_share", "a b c d e x a b c d e", 0),
    ("c4", "sentences", "One is here. Two is here!\nHere is the third?\nno end", 3),
    ("c4", "lorem_ipsum_lines", "Here is Lorem Ipsum dolor.", 1),
    ("c4", "curly_bracket_lines", "if (a) { b(); }\nThis line has a { in it.", 1),
    (
        "c4",
        "removed_lines",
        "A line that counts.\nA line without an end\nToo short.\nPlease enable JavaScript here.",
        3,
    ),
    ("fineweb", "punctuated_line_share", "One.\n\nTwo!\n三。\nfour", 0.75),
    ("fineweb", "short_line_share", "short\n" + "x" * 31, 0.5),
    ("fineweb", "duplicate_line_character_share", "ab\nc\nab", 0.4),
    ("fineweb", "newlines_per_word", "one\ntwo\nthree , four", 2 / 5),
    ("code", "longest_line_characters", "a\nébc\n", 3),
    ("code", "mean_line_characters", "a\nbcd\n", 2),
    ("code", "alphanumeric_share", "a1é-", 0.75),
]


@pytest.mark.parametrize(("name", "signal", "text", "expected"), SHORT, ids=[f"{s}.{n}" for s, n, _, _ in SHORT])
def test_a_signal_on_a_short_document(name: str, signal: str, text: str, expected: float) -> None:
    assert of_set(name, text)[signal] == pytest.approx(expected)


def test_every_signal_has_its_column_and_every_column_its_signal() -> None:
    made = [column(name, signal) for name in RULE_SETS for signal in SIGNALS[name]]
    personal = [f"pii_{kind}" for kind in TYPES]
    assert sorted([*ALWAYS, *made, *personal]) == sorted(schemas.QUALITY.names[2:])


def test_a_table_holds_nulls_for_what_was_not_asked_for_or_is_undefined() -> None:
    texts = pa.array(["", "one two"], pa.large_string())
    found, left = measured(texts, ("code",), PARAMS)
    table = quality_table(pa.chunked_array([pa.array(["a", "b"], pa.large_string())]), np.array([0.0, 0.9]), found)
    assert left is texts
    assert table.schema.equals(schemas.QUALITY)
    assert table["code_alphanumeric_share"].to_pylist() == [None, pytest.approx(6 / 7)]
    assert table["gopher_quality_words"].null_count == 2


def test_texts_in_one_batch_do_not_see_each_other() -> None:
    text = "the same line of words\nanother line of words\n"
    assert signals(text, text, "x", text)[3] == signals(text)[0]


HOSTILE = [
    ("one word", "a" * 1_000_000, "gopher_quality_mean_word_characters", 1_000_000),
    ("one word repeated", "word " * 100_000, "gopher_repetition_top_2gram_character_share", 9 * 99_999 / 500_000),
    ("line breaks", "\n" * 1_000_000, "code_mean_line_characters", 0),
    ("signs", "?!({" * 100_000, "gopher_quality_words", 0),
    ("stops", "." * 1_000_000, "gopher_quality_ellipses_per_word", 333_333),
    ("stops between letters", "a." * 300_000, "gopher_quality_words", 1),
    ("at signs", "a@b.c" * 100_000, "gopher_quality_words", 1),
    ("hyphens", "a-b--c---" * 100_000, "gopher_quality_words", 300_000),
    ("distinct words", " ".join(map(str, range(100_000))), "gopher_repetition_duplicate_5gram_character_share", 0),
    ("one line repeated", "ab\n" * 100_000, "gopher_repetition_duplicate_line_share", 0.99999),
]


@pytest.mark.parametrize(("text", "name", "expected"), [row[1:] for row in HOSTILE], ids=[row[0] for row in HOSTILE])
def test_hostile_text_is_measured_in_linear_time(text: str, name: str, expected: float) -> None:
    """In quadratic time these would take minutes."""
    (row,) = signals(text)
    assert row[name] == pytest.approx(expected)
