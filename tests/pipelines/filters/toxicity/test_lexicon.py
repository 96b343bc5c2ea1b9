"""Lexicons: which entries stand in a text, and what a passage with so many of them scores."""

import itertools
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.filters.toxicity.lexicon import Lexicons, cut_passages, read_entries
from pipelines.filters.toxicity.screen import Screen


def scores(entries: list[str], texts: list[str], window_bytes: int = 500) -> list[float]:
    column = pa.array(texts, pa.large_string())
    return Lexicons({"xx": entries}, certainty=0.5).score_passages("xx", column, window_bytes)[0].tolist()


@pytest.mark.parametrize(
    ("entry", "text", "found"),
    [
        ("Idiot", "Du IDIOT!", True),
        ("Idiot", "idiotisch", False),  # another word
        ("blöde Kuh", "Blöde, blöde\nKuh.", True),  # punctuation and white space only part words
        ("blöde Kuh", "die blöde schwarze Kuh", False),
        ("crétin", "un cre\u0301tin", True),  # composed or not
        ("傻瓜", "你是傻瓜吗", True),  # no spaces: inside of what surrounds it
        ("傻瓜", "傻 的 瓜", False),
        ("ควาย", "ไอ้ควายโง่", True),
        ("바보", "너는 바보 야", True),
    ],
)
def test_an_entry_is_found_by_its_words(entry: str, text: str, found: bool) -> None:
    assert scores([entry], [text]) == [0.5 if found else 0.0]


def test_hits_of_a_passage_are_witnesses_and_the_worst_passage_counts() -> None:
    lexicons = Lexicons({"xx": ["moron", "utter moron"]}, certainty=0.5)
    one, two = "a moron. ", "an utter moron. "  # the second holds two entries
    long = "word " * 200
    texts = pa.array([one, one + one, two, "", long + one], pa.large_string())
    worst, mean = lexicons.score_passages("xx", texts, 500)
    assert worst.tolist() == [0.5, 0.75, 0.75, 0.0, 0.5]
    assert mean.tolist() == [0.5, 0.75, 0.75, 0.0, 0.25]  # the long text has two passages


@given(st.lists(st.text("ab \n。傻", max_size=300), max_size=5), st.integers(50, 120))
def test_passages_are_the_texts_in_pieces(texts: list[str], window_bytes: int) -> None:
    passages, first = cut_passages(pa.array(texts, pa.large_string()), window_bytes)
    pieces = passages.to_pylist()
    assert ["".join(pieces[a:b]) for a, b in itertools.pairwise(first)] == texts
    several = [pieces[a:b] for a, b in itertools.pairwise(first) if b - a > 1]
    assert all(len(piece.encode()) >= window_bytes // 2 for pieces in several for piece in pieces)


def test_passages_are_those_of_the_screen(screen: Screen) -> None:
    """Given a long text, the screen's worst passage is the worst of the passages as texts of their own."""
    text = "\n".join(f"line {number} of a quiet story " + "and so on " * (number % 7) for number in range(60))
    text += "you stupid fucking idiot\n" + text
    passages, _ = cut_passages(pa.array([text], pa.large_string()), 400)
    worst, mean = screen.score_passages(pa.array([text], pa.large_string()), 400)
    alone = screen.score(passages, 10**6)
    assert len(alone) > 5
    assert worst[0] == pytest.approx(alone.max(), abs=1e-12)
    assert mean[0] == pytest.approx(alone.mean(), abs=1e-12)


@given(st.lists(st.text(max_size=80), max_size=4))
def test_any_text_has_a_score(texts: list[str]) -> None:
    texts = [text.encode("utf-8", "replace").decode() for text in texts]  # what ingestion lets in
    worst, mean = Lexicons({"xx": ["a", "b c", "傻"]}, 0.5).score_passages("xx", pa.array(texts, pa.large_string()), 50)
    assert ((mean >= 0) & (mean <= worst + 1e-12) & (worst < 1)).all()
    assert len(worst) == len(texts)


def test_a_file_holds_an_entry_a_line(tmp_path: Path) -> None:
    content = "\ufeff# insults\nidiot\n\n  blöde Kuh \nidiot\n".encode()
    assert read_entries("de", content) == ["blöde Kuh", "idiot"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"# nothing\n\n", "the lexicon of de is empty"),
        (b"idiot\n!!!\n", "line 2 of the lexicon of de holds no word: '!!!'"),
        (b"\xff\xfe", "the lexicon of de is not UTF-8"),
    ],
)
def test_a_file_that_is_no_lexicon_is_refused(content: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read_entries("de", content)
