"""How single code points are compared."""

import sys
import unicodedata

import numpy as np
import pytest

from pipelines.text.codepoints import CHARACTER, GROWTH, IGNORED, LETTER, MARK, SEPARATOR, fold, folding_table, part_of


@pytest.mark.parametrize(
    ("character", "folded"),
    [("A", "a"), ("É", "e\u0301"), ("ß", "ss"), ("ς", "σ"), ("ﬁ", "fi"), ("Ｗ", "w"), ("ｶ", "カ"), ("Ж", "ж")],
)
def test_a_code_point_folds_to_what_it_is_compared_as(character: str, folded: str) -> None:
    assert fold(ord(character)) == folded


@pytest.mark.parametrize(
    ("characters", "part"),
    [
        ("aZ9éжعא한ªⅣ", LETTER),
        ("\u0301\u093f", MARK),
        ("漢々ひカーｶกກខမ〇", CHARACTER),
        (" \n\u3000.,-_'«、\u200b€+\ue000\ud800", SEPARATOR),
        ("\u00ad\u200d\ufeff\ufe0f", IGNORED),
    ],
)
def test_a_code_point_plays_one_part_in_a_word(characters: str, part: int) -> None:
    assert {character: part_of(ord(character)) for character in characters} == dict.fromkeys(characters, part)


def test_the_table_agrees_with_the_functions_for_every_code_point_of_python() -> None:
    table = folding_table()
    entries = table.entries
    checked = [*range(0x80, sys.maxunicode + 1, 37), *range(0xAC00, 0xAC40), *range(0xFB00, 0xFE00)]
    for code_point in checked:
        part = part_of(code_point)
        assert entries[code_point] >> 29 == part, hex(code_point)
        if part in (LETTER, MARK, CHARACTER):
            start, length = int(entries[code_point] & 0xFFFFFF), int(entries[code_point] >> 24 & 31)
            assert bytes(table.folded[start : start + length]).decode() == fold(code_point), hex(code_point)


def test_folding_never_grows_text_beyond_what_buffers_are_sized_for() -> None:
    entries = folding_table().entries
    assigned = np.flatnonzero(entries)
    original = np.select([assigned < 0x800, assigned < 0x10000], [2, 3], 4)
    assert ((entries[assigned] >> 24 & 31) + 1 <= GROWTH * original).all()


def test_composed_and_decomposed_letters_fold_alike() -> None:
    for code_point in [*range(0xC0, 0x250), *range(0x1E00, 0x2000), *range(0xAC00, 0xAD00)]:
        if part_of(code_point) == LETTER:
            decomposed = unicodedata.normalize("NFD", chr(code_point))
            parts = [fold(ord(c)) for c in decomposed if part_of(ord(c)) != SEPARATOR]
            assert "".join(parts) == fold(code_point), hex(code_point)
