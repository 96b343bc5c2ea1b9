"""What repair changes in a text, and what it leaves alone."""

import json
import unicodedata
from pathlib import Path

import ftfy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.clean.repair import Repaired, repair

SHARED = Path(__file__).parents[3] / "../shared/data"


@pytest.mark.parametrize(
    ("raw", "clean", "repairs"),
    [
        ("plain text", "plain text", ()),
        ("", "", ()),
        (" \n\t ", "", ("white_space",)),
        ("one\r\ntwo\rthree\x0cfour", "one\ntwo\nthree\nfour", ("white_space",)),
        ("trailing \nspace\t\u3000", "trailing\nspace", ("white_space",)),
        ("a\n\n\n\n\n\nb", "a\n\n\nb", ("white_space",)),
        ("\n\n  indented\n", "  indented", ()),
        ("nul\0 bell\a", "nul bell", ("controls",)),
        ("\x1b[31mred\x1b[0m", "red", ("controls",)),
        ("\ufeffmark é", "mark é", ("controls",)),
        ("cafÃ© au lait", "café au lait", ("encoding",)),
        ("itâ€™s \x93quoted\x94", "it’s “quoted”", ("encoding",)),
        ("e\u0301t\u00e9", "\u00e9t\u00e9", ("normal_form",)),
        ("zero\u200bwidth, ‘curly’, ｆｕｌｌ &amp;", "zero\u200bwidth, ‘curly’, ｆｕｌｌ &amp;", ()),
    ],
)
def test_repairs(raw: str, clean: str, repairs: tuple[str, ...]) -> None:
    assert repair(raw) == Repaired(clean, repairs)


def test_only_the_lines_with_traces_are_decoded_anew() -> None:
    assert repair("schön\nschÃ¶n\n中文").text == "schön\nschön\n中文"


def test_a_million_blanks_take_no_quadratic_time() -> None:
    assert repair("x" + " " * 1_000_000 + "y" + "\n" * 1_000_000 + "z").text.endswith("y\n\n\nz")


@pytest.mark.parametrize("encoding", ["latin-1", "windows-1252", "windows-1251", "macroman"])
@pytest.mark.parametrize("text", ["L’été déjà — « voilà »", "Пётр пошёл домой", "naïve façade"])
def test_the_search_for_traces_misses_nothing_that_ftfy_finds(encoding: str, text: str) -> None:
    misread = text.encode().decode(encoding, "replace")
    assert repair(misread).text == unicodedata.normalize("NFC", ftfy.fix_encoding(misread)).strip("\n")


@given(st.text())
def test_repaired_text_is_tidy(text: str) -> None:
    done = repair(text).text
    assert unicodedata.is_normalized("NFC", done)
    assert all(line == line.rstrip() for line in done.split("\n"))
    assert "\n\n\n\n" not in done
    assert not any(unicodedata.category(character) == "Cc" for character in done if character not in "\n\t")


def test_naughty_strings() -> None:
    if not SHARED.exists():
        pytest.skip("the shared data folder is not beside this repository")
    for raw in json.loads((SHARED / "unicode/blns.json").read_text()):
        done = repair(raw).text
        done.encode()
        assert repair(done).text == done
