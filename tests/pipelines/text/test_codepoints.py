"""How single code points are compared."""

import dataclasses
import itertools
import json
import pickle
import sys
import unicodedata

import numpy as np
import pytest

from pipelines.text.codepoints import (
    CHARACTER,
    GROWTH,
    IGNORED,
    LETTER,
    LOOK_UP,
    MARK,
    SEPARATOR,
    SIGN,
    USUAL,
    Normalisation,
    fold,
    folding_table,
    is_accent,
    part_of,
)

CASE = Normalisation(case="keep")
MARKS = Normalisation(marks="drop")
DIGITS = Normalisation(digits="zero")
SIGNS = Normalisation(punctuation="keep")
ALL = [
    Normalisation(*values)
    for values in itertools.product(("fold", "keep"), ("keep", "drop"), ("keep", "zero"), ("drop", "keep"))
]


def test_a_normalisation_can_be_a_key_be_sent_and_be_written_down() -> None:
    one = Normalisation("keep", "drop", "zero", "keep")
    assert len({one, pickle.loads(pickle.dumps(one)), USUAL}) == 2
    assert Normalisation(**json.loads(json.dumps(dataclasses.asdict(one)))) == one
    assert folding_table(MARKS) is folding_table(Normalisation(marks="drop"))


def test_an_unknown_choice_is_refused_with_a_sentence() -> None:
    with pytest.raises(ValueError, match="case of a normalisation is 'fold' or 'keep', not 'lower'"):
        Normalisation(case="lower")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("character", "folded"),
    [("A", "a"), ("É", "e\u0301"), ("ß", "ss"), ("ς", "σ"), ("ﬁ", "fi"), ("Ｗ", "w"), ("ｶ", "カ"), ("Ж", "ж")],
)
def test_a_code_point_folds_to_what_it_is_compared_as(character: str, folded: str) -> None:
    assert fold(ord(character)) == folded


@pytest.mark.parametrize(
    ("normalisation", "folded"),
    [
        (CASE, {"A": "A", "ﬁ": "fi", "Ｗ": "W", "É": "E\u0301", "ß": "ß", "ς": "ς"}),
        (MARKS, {"É": "e", "ế": "e", "й": "и", "ᾳ": "α", "İ": "i", "が": "か\u3099", "ক": "ক", "ø": "ø"}),
        (DIGITS, {"7": "0", "٣": "0", "๕": "0", "𝟗": "0", "²": "0", "½": "00", "Ⅳ": "iv", "五": "五"}),
        (SIGNS, {".": ".", "，": ",", "…": "…", "€": "€", "≠": "=\u0338", "¨": "¨", "Ⓐ": "ⓐ", "™": "™", "½": "12"}),
    ],
)
def test_every_choice_changes_what_it_says(normalisation: Normalisation, folded: dict[str, str]) -> None:
    assert {character: fold(ord(character), normalisation) for character in folded} == folded


@pytest.mark.parametrize(
    ("characters", "part"),
    [
        ("aZ9éжعא한ªⅣ", LETTER),
        ("\u0301\u093f", MARK),
        ("漢々ひカーｶกກខမ〇๕", CHARACTER),
        (" \n\u3000.,-_'«、\u200b€+\ue000\ud800", SEPARATOR),
        ("\u00ad\u200d\ufeff\ufe0f", IGNORED),
    ],
)
def test_a_code_point_plays_one_part_in_a_word(characters: str, part: int) -> None:
    assert {character: part_of(ord(character)) for character in characters} == dict.fromkeys(characters, part)


@pytest.mark.parametrize(
    ("normalisation", "characters", "part"),
    [
        (SIGNS, ".,-_'«、€+🙂´", SIGN),
        (SIGNS, " \n\u3000\u200b\x00\ue000\ud800", SEPARATOR),
        (MARKS, "\u0301\u0323\u05b7\u064e", IGNORED),
        (MARKS, "\u093f\u094d\u093c\u3099\u0e48\u0338", MARK),
        (DIGITS, "5๕", LETTER),
    ],
)
def test_what_is_kept_or_dropped_plays_another_part(normalisation: Normalisation, characters: str, part: int) -> None:
    found = {character: part_of(ord(character), normalisation) for character in characters}
    assert found == dict.fromkeys(characters, part)


@pytest.mark.parametrize("normalisation", [USUAL, CASE, MARKS, DIGITS, SIGNS, ALL[-1]], ids=str)
def test_the_table_agrees_with_the_functions_for_every_code_point_of_python(normalisation: Normalisation) -> None:
    table = folding_table(normalisation)
    entries = table.entries
    checked = [*range(0x80), *range(0x80, sys.maxunicode + 1, 37), *range(0xAC00, 0xAC40), *range(0xFB00, 0xFE00)]
    for code_point in checked:
        part = part_of(code_point, normalisation)
        assert entries[code_point] >> 29 == part, hex(code_point)
        form = "" if part in (SEPARATOR, IGNORED) else fold(code_point, normalisation)
        start, length = int(entries[code_point] & 0xFFFFFF), int(entries[code_point] >> 24 & 31)
        assert bytes(table.folded[start : start + length]).decode() == form, hex(code_point)
        if code_point < 128:
            assert table.ascii[code_point] == (LOOK_UP if part == SIGN else ord(form or "\0")), hex(code_point)
    assert (table.ascii[128:] == LOOK_UP).all()


@pytest.mark.parametrize("normalisation", ALL, ids=str)
def test_folding_never_grows_text_beyond_what_buffers_are_sized_for(normalisation: Normalisation) -> None:
    entries = folding_table(normalisation).entries
    assigned = np.flatnonzero(entries)
    part, folded = entries[assigned] >> 29, entries[assigned] >> 24 & 31
    original = np.select([assigned < 0x80, assigned < 0x800, assigned < 0x10000], [1, 2, 3], 4)
    room = np.where(original == 1, 2, GROWTH * original)
    # The space before a word is paid by its first code point, or by the one before it, since ASCII letters can't.
    spaces = np.where(part == CHARACTER, 2, 1)
    assert (folded + spaces <= room).all()
    assert (original[part == CHARACTER] > 1).all()
    assert (folded[original == 1] <= 1).all()


def test_composed_and_decomposed_letters_fold_alike() -> None:
    for code_point in [*range(0xC0, 0x250), *range(0x1E00, 0x2000), *range(0xAC00, 0xAD00)]:
        if part_of(code_point) == LETTER:
            decomposed = unicodedata.normalize("NFD", chr(code_point))
            parts = [fold(ord(c)) for c in decomposed if part_of(ord(c)) != SEPARATOR]
            assert "".join(parts) == fold(code_point), hex(code_point)


def test_composed_and_decomposed_signs_and_dropped_accents_fold_alike() -> None:
    for normalisation in (SIGNS, MARKS, ALL[-1]):
        for code_point in [*range(0xC0, 0x250), *range(0x370, 0x3D0), *range(0x1E00, 0x2000), *range(0x2190, 0x2300)]:
            if part_of(code_point, normalisation) in (LETTER, SIGN):
                decomposed = unicodedata.normalize("NFD", chr(code_point))
                visible = [c for c in decomposed if part_of(ord(c), normalisation) != IGNORED]
                assert "".join(fold(ord(c), normalisation) for c in visible) == fold(code_point, normalisation), hex(
                    code_point
                )


def test_vowel_signs_tones_and_voicing_are_no_accents() -> None:
    decomposed = unicodedata.normalize("NFD", "Ḗ שָׁלוֹם مَرْحَبًا हिन्दी ข้าว が")
    assert "".join(c for c in decomposed if not is_accent(c)) == "E שלום مرحبا हिन्दी ข้าว か\u3099"
