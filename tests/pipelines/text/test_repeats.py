"""Which lines and paragraphs of a text go, and what stays byte for byte."""

import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.text.codepoints import USUAL, Normalisation
from pipelines.text.repeats import Repeats, drop_repeats
from pipelines.text.words import BATCH_BYTES, split_words

SIGNS = Normalisation(case="keep", punctuation="keep")


def drop(
    *texts: str,
    lines: bool = False,
    paragraphs: bool = False,
    min_characters: int = 1,
    normalisation: Normalisation = USUAL,
) -> Repeats:
    return drop_repeats(
        pa.array(texts, pa.large_string()),
        lines=lines,
        paragraphs=paragraphs,
        min_characters=min_characters,
        normalisation=normalisation,
    )


def without_lines(text: str, min_characters: int = 1, normalisation: Normalisation = USUAL) -> str:
    [left] = drop(text, lines=True, min_characters=min_characters, normalisation=normalisation).texts.to_pylist()
    return left


def without_paragraphs(text: str, min_characters: int = 1) -> str:
    [left] = drop(text, paragraphs=True, min_characters=min_characters).texts.to_pylist()
    return left


def slow_paragraphs(text: str) -> list[tuple[list[str], str]]:
    """The lines of each paragraph, and the blank lines after it; first the blank lines that the text starts with."""
    found: list[tuple[list[str], str]] = [([], "")]
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):
        lines, blank = found[-1]
        if not line.strip():
            found[-1] = (lines, blank + line)
        elif blank or not lines:
            found.append(([line], ""))
        else:
            lines.append(line)
    return found


def slowly_without(text: str, by_paragraph: bool, min_characters: int, normalisation: Normalisation) -> tuple[str, int]:
    """One pass of `drop_repeats` with Python's strings, and how much it cut."""
    seen: set[str] = set()
    pieces: list[tuple[str, bool]] = [("", True)]
    cut = 0
    for lines, blank in slow_paragraphs(text):
        any_kept = not lines
        for piece in ["".join(lines)] * bool(lines) if by_paragraph else lines:
            words = split_words(pa.array([piece], pa.large_string()), normalisation)
            form = bytes(words.normalised).decode()
            repeated = len(form) >= max(1, min_characters) and form in seen
            seen.add(form)
            pieces.append((piece, not repeated))
            any_kept |= not repeated
            cut += repeated
        if blank:
            pieces.append((blank, any_kept))
    left = "".join(piece for piece, kept in pieces if kept)
    if not pieces[-1][1] and not text.endswith("\n"):
        left = re.sub(r"(\r?\n)+\Z", "", left)
    return left, cut


def slowly(
    text: str, lines: bool, paragraphs: bool, min_characters: int, normalisation: Normalisation
) -> tuple[str, int, int]:
    """What `drop_repeats` leaves of a text, and how many lines and paragraphs it cuts."""
    counts = [0, 0]
    for by_paragraph in [True] * paragraphs + [False] * lines + [True] * (lines and paragraphs):
        text, cut = slowly_without(text, by_paragraph, min_characters, normalisation)
        counts[by_paragraph] += cut
    return text, *counts


TEXTS = st.one_of(
    st.lists(
        st.tuples(
            st.sampled_from(
                ["a", "A.", "a b", "b a", "c d e", "b", "", "", " ", "\u3000", "-----", "漢字", "ÄÖ", "\r"]
            ),
            st.sampled_from(["\n", "\n", "\n", "\r\n", " "]),
        ),
        max_size=14,
    ).map(lambda lines: "".join(line + end for line, end in lines)),
    st.text(st.sampled_from("ab \n\n\r-\u2029é漢"), max_size=30),
    st.text(max_size=20),
)
SETTINGS = {
    "lines": st.booleans(),
    "paragraphs": st.booleans(),
    "min_characters": st.integers(0, 4),
    "normalisation": st.sampled_from([USUAL, SIGNS, Normalisation(marks="drop", digits="zero")]),
}


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("", ""),
        ("one\ntwo\n", "one\ntwo\n"),
        ("one\ntwo\none\nthree\n", "one\ntwo\nthree\n"),
        ("one\ntwo\none", "one\ntwo"),
        ("one\none\none", "one"),
        ("one\none\n", "one\n"),
        ("one\r\ntwo\r\none\r\nthree", "one\r\ntwo\r\nthree"),
        ("one\r\ntwo\r\none", "one\r\ntwo"),
        ("one\none\r\ntwo", "one\ntwo"),
        ("One,  line!\n  one line\nlast", "One,  line!\nlast"),
        ("漢字\nかな\n漢字\nかな", "漢字\nかな"),
    ],
)
def test_a_line_that_stood_before_goes_with_its_break(text: str, left: str) -> None:
    assert without_lines(text) == left


@pytest.mark.parametrize("text", ["a\n\n\n\nb\n\n\n", "\n\n\n", "a\n \n \n\t\nb", "\u3000\n\u3000\na", "\r\n\r\n\r\na"])
def test_blank_lines_are_never_repeats(text: str) -> None:
    assert without_lines(text) == text
    assert without_paragraphs(text) == text


def test_blank_lines_do_not_pile_up_where_a_paragraph_went_line_by_line() -> None:
    assert without_lines("one\ntwo\n\none\ntwo\n\nthree\n") == "one\ntwo\n\nthree\n"
    assert without_lines("one\ntwo\n\none\nnew\n\nthree\n") == "one\ntwo\n\nnew\n\nthree\n"


def test_short_lines_stay_and_length_is_counted_in_code_points_of_the_normalised_form() -> None:
    code = "if a:\n    return None\n}\nif b:\n    return None\n}\n"
    assert without_lines(code, min_characters=12) == code
    assert without_lines(code, min_characters=11) == "if a:\n    return None\n}\nif b:\n}\n"
    assert without_lines("日本語\n日本語\n", min_characters=6) == "日本語\n日本語\n"
    assert without_lines("日本語\n日本語\n", min_characters=5) == "日本語\n"  # 日 本 語


def test_lines_without_words_stay_unless_punctuation_counts() -> None:
    assert without_lines("-----\na\n-----\nb") == "-----\na\n-----\nb"
    assert without_lines("-----\na\n-----\nb", normalisation=SIGNS) == "-----\na\nb"


def test_what_counts_as_the_same_line_is_a_matter_of_normalisation() -> None:
    assert without_lines("x = a + b\nX = a - b\n") == "x = a + b\n"
    assert without_lines("x = a + b\nX = a - b\n", normalisation=SIGNS) == "x = a + b\nX = a - b\n"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("one\n\ntwo\n\none\n\nthree", "one\n\ntwo\n\nthree"),
        ("one\n\n\n\none\n\n\ntwo\n", "one\n\n\n\ntwo\n"),
        ("one\n\none", "one"),
        ("one\n\none\n", "one\n\n"),
        ("a line\nand more\n\na line and\nmore\n\nend", "a line\nand more\n\nend"),
        ("one\ntwo\n\none\nthree\n\none", "one\ntwo\n\none\nthree\n\none"),
        ("\n\none\n\none\n", "\n\none\n\n"),
        ("one\r\n\r\none\r\n\r\ntwo", "one\r\n\r\ntwo"),
        ("one\n\u3000\none\n \t\ntwo", "one\n\u3000\ntwo"),
    ],
)
def test_a_paragraph_that_stood_before_goes_with_the_blank_lines_after_it(text: str, left: str) -> None:
    assert without_paragraphs(text) == left


def test_paragraphs_are_compared_again_when_lines_went() -> None:
    text = "a long line\n\nb\nc\n\na long line\nb\nc\n\nend"
    found = drop(text, lines=True, paragraphs=True, min_characters=3)
    assert found.texts.to_pylist() == ["a long line\n\nb\nc\n\nend"]
    assert (found.lines.tolist(), found.paragraphs.tolist()) == ([1], [1])


def test_a_text_does_not_see_its_neighbours() -> None:
    found = drop("one\ntwo\n", "two\none\n", "one\none\n", "", lines=True)
    assert found.texts.to_pylist() == ["one\ntwo\n", "two\none\n", "one\n", ""]
    assert found.lines.tolist() == [0, 0, 1, 0]
    assert found.bytes.tolist() == [0, 0, 4, 0]


@pytest.mark.parametrize("texts", [["one\ntwo"], [], ["", ""]])
def test_where_nothing_goes_the_array_comes_back_itself(texts: list[str]) -> None:
    array = pa.array(texts, pa.large_string())
    found = drop_repeats(array, lines=True, paragraphs=True, min_characters=1, normalisation=USUAL)
    assert found.texts is array
    assert found.lines.tolist() == found.paragraphs.tolist() == found.bytes.tolist() == [0] * len(texts)


@given(TEXTS, st.fixed_dictionaries(SETTINGS))
def test_the_kernels_do_what_a_loop_over_strings_does(text: str, settings: dict) -> None:
    found = drop(text, **settings)
    left, lines, paragraphs = slowly(text, **settings)
    assert found.texts.to_pylist() == [left]
    assert (found.lines.tolist(), found.paragraphs.tolist()) == ([lines], [paragraphs])
    assert found.bytes.tolist() == [len(text.encode()) - len(left.encode())]


@given(st.lists(TEXTS, max_size=5), st.fixed_dictionaries(SETTINGS))
def test_a_second_pass_finds_nothing(texts: list[str], settings: dict) -> None:
    once = drop(*texts, **settings)
    once.texts.validate(full=True)
    again = drop_repeats(once.texts, **settings)
    assert again.texts is once.texts
    assert not again.bytes.any()


@given(st.lists(TEXTS, max_size=6), st.fixed_dictionaries(SETTINGS), st.integers(0, 6))
def test_what_goes_does_not_depend_on_neighbours_or_slices(texts: list[str], settings: dict, start: int) -> None:
    array = pa.array(texts, pa.large_string()).slice(start)
    together = drop_repeats(array, **settings)
    alone = [drop(text, **settings) for text in texts[start:]]
    assert together.texts.to_pylist() == [one.texts[0].as_py() for one in alone]
    for name in ("lines", "paragraphs", "bytes"):
        assert getattr(together, name).tolist() == [getattr(one, name)[0] for one in alone]


def test_texts_longer_than_a_batch_and_many_lines_are_held_against_each_other() -> None:
    lines = [f"line {i}" for i in range(BATCH_BYTES // 8)]
    text = "\n".join([*lines, *lines])
    found = drop(text, "one\none", text, lines=True)
    assert found.lines.tolist() == [len(lines), 1, len(lines)]
    assert found.texts.to_pylist() == ["\n".join(lines), "one", "\n".join(lines)]


def test_null_texts_are_refused_with_a_sentence() -> None:
    with pytest.raises(ValueError, match="1 of 2 texts are null"):
        drop_repeats(pa.array(["a", None]), lines=True, paragraphs=True, min_characters=1, normalisation=USUAL)
