"""C4's line rules: which lines count, and the text without the others."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.clean.c4 import read_lines
from pipelines.clean.params import CleanParams
from pipelines.clean.signals import measured
from pipelines.clean.thresholds import LINE_RULES
from pipelines.text.words import text_buffers
from tests.pipelines.clean import reference


def left(*texts: str, rules: tuple[str, ...] = LINE_RULES) -> list[str]:
    page = read_lines(*text_buffers(pa.array(texts, pa.large_string())), rules, 3, 1000)
    return page.texts.to_pylist()


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("A line that ends well.", True),
        ('He said: "It ends well"', True),
        ("A line without an end", False),
        ("A line that trails off...", False),
        ("Only two.", False),
        ("A word of " + "x" * 1001 + " characters.", False),
        ("A word of " + "é" * 1000 + " characters.", True),
        ("Please enable JavaScript to go on.", False),
        ("This site Uses Cookies, as sites do.", False),
        ("Read our privacy policy before you go on.", False),
        ("Wikipedia has many of these.[12]", True),
        ("A line with a bracket { that counts.", True),
    ],
)
def test_a_line_counts_or_not(line: str, counts: bool) -> None:
    assert left(line) == [line.replace("[12]", "") if counts else ""]


def test_each_rule_can_be_left_out() -> None:
    page = "Menu\nWe use cookies, and that is that.\nA text about tea."
    assert left(page, rules=("policy",)) == ["Menu\nA text about tea."]
    assert left(page, rules=("few_words",)) == ["We use cookies, and that is that.\nA text about tea."]
    assert left(page, rules=()) == [page]


def test_lines_are_removed_from_the_text_only_where_that_is_asked_for() -> None:
    texts = pa.array(
        ["Home | About\n  The text of the page.  \nMore", "nothing", "All of this stays."], pa.large_string()
    )
    found, same = measured(texts, ["c4"], CleanParams())
    assert same is texts
    assert found["characters"].tolist() == [43, 7, 18]

    found, kept = measured(texts, ["c4"], CleanParams(c4={"remove_lines": True}))
    assert kept.to_pylist() == ["The text of the page.", "", "All of this stays."]
    assert found["c4_removed_lines"].tolist() == [2, 1, 0]
    assert found["characters"].tolist() == [21, 0, 18]  # of what goes on


PIECES = st.sampled_from(
    [
        *("one two three", ".", "...", "!", '"', "\n", " ", "\u3000", "[1]", "[edit]", "[citation needed]", "[", "é"),
        *("javascript", "use cookies", "Terms of Use", "{"),
    ]
)


@given(st.lists(st.lists(PIECES, max_size=12).map("".join), min_size=1, max_size=3))
def test_lines_are_those_of_the_rules_in_plain_python(texts: list[str]) -> None:
    assert left(*texts) == ["\n".join(reference.c4_lines(text)) for text in texts]
