"""How each code point is compared: its folded form and its part in a word, as flat tables for compiled code.

The tables come from Python's own Unicode data, so `unicodedata.unidata_version` belongs in the key of every task that
uses them. How words are cut with them stands in `pipelines/text/words.py`.
"""

import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args, get_type_hints

import numpy as np
import numpy.typing as npt

SEPARATOR, LETTER, MARK, CHARACTER, IGNORED, SIGN = range(6)
"""Part that a code point plays: it ends a word; joins letters to a word; joins whatever precedes it; is a word of its
own (scripts written without spaces); is not there at all (soft hyphen, joiners, variation selectors); or is a word of
its own because punctuation is kept."""

GROWTH = 4
"""Folded bytes, with the space that may precede them, per byte of a non-ASCII original: never more than this. An ASCII
letter stays one byte, and a space precedes it only where a byte or a character of another kind stood, except where
punctuation is kept: then it may be two."""

LOOK_UP = 255
"""Stands in `FoldingTable.ascii` for bytes whose character is to be looked up in `entries`."""

_UNSPACED_SCRIPTS = (
    "CJK UNIFIED IDEOGRAPH",
    "CJK COMPATIBILITY IDEOGRAPH",
    "IDEOGRAPHIC",
    "HANGZHOU NUMERAL",
    "HIRAGANA",
    "KATAKANA",
    "HALFWIDTH KATAKANA",
    "BOPOMOFO",
    "YI SYLLABLE",
    "TANGUT",
    "NUSHU",
    "KHITAN",
    "THAI",
    "LAO",
    "KHMER",
    "MYANMAR",
    "TAI LE",
    "NEW TAI LUE",
    "TAI THAM",
    "TAI VIET",
    "JAVANESE",
    "BALINESE",
    "CHAM",
)
"""First words of the Unicode names of scripts that put no spaces between words (UAX #14, classes ID and SA, and the
South-East Asian scripts that break between syllables)."""

_ZERO_WIDTH_SPACE = 0x200B
_INVISIBLE_MARKS = ("VARIATION SELECTOR", "COMBINING GRAPHEME JOINER")
_ASSIGNED = (range(0x40000), range(0xE0000, 0xE1000))
_LENGTH_SHIFT, _PART_SHIFT = 24, 29


@dataclass(frozen=True)
class Normalisation:
    """What does not matter when texts are compared. White space never does, and compatibility forms (ﬁ, Ｗ) never do.

    case: "fold", upper and lower case are the same. marks: "drop", letters are the same with and without accents
    (`is_accent`). digits: "zero", every decimal digit is compared as 0. punctuation: "drop", it only separates words;
    "keep", every punctuation mark and symbol is a word of its own. Raises `ValueError` for any other value.
    """

    case: Literal["fold", "keep"] = "fold"
    marks: Literal["keep", "drop"] = "keep"
    digits: Literal["keep", "zero"] = "keep"
    punctuation: Literal["drop", "keep"] = "drop"

    def __post_init__(self) -> None:
        for name, choice in get_type_hints(type(self)).items():
            value, allowed = getattr(self, name), get_args(choice)
            if value not in allowed:
                raise ValueError(f"{name} of a normalisation is {' or '.join(map(repr, allowed))}, not {value!r}")


USUAL = Normalisation()
"""Case folded and punctuation dropped, marks and digits kept."""


@dataclass(frozen=True)
class FoldingTable:
    """Folding of every code point.

    ascii: uint8[256], the folded byte, 0 for separators, `LOOK_UP` for bytes beyond ASCII and for signs. entries:
    uint32[0x110000]; bits 29–31 the part, 24–28 the number of folded bytes, 0–23 where they start in `folded` (UTF-8).
    """

    ascii: npt.NDArray[np.uint8]
    entries: npt.NDArray[np.uint32]
    folded: npt.NDArray[np.uint8]


def fold(code_point: int, normalisation: Normalisation = USUAL) -> str:
    """The form in which a code point is compared: compatibility caseless matching, letters, digits and marks only.

    NFKD(casefold(NFKD(casefold(NFD(c))))), Unicode Standard 3.13, D146, applied to one code point at a time: composed
    and decomposed text come out alike. Without casefold where case is kept; without accents where marks are dropped;
    decimal digits become 0 where they are zeroed. A sign stays one sign: ， becomes a comma, … stays. A form that would
    grow beyond `GROWTH` (two Arabic ligatures) stays as it is.
    """
    original = chr(code_point)
    if normalisation.punctuation == "keep" and unicodedata.category(original)[0] in "PS":
        return _folded_sign(original, normalisation)
    if original.casefold() == original and unicodedata.is_normalized("NFKD", original):
        form = original
    else:
        form = _without_accents(unicodedata.normalize("NFD", original), normalisation)
        for _ in range(2):
            form = form.casefold() if normalisation.case == "fold" else form
            form = _without_accents(unicodedata.normalize("NFKD", form), normalisation)
        form = "".join(c for c in form if unicodedata.category(c)[0] in "LNM")
    if normalisation.digits == "zero":
        form = "".join("0" if unicodedata.category(c) == "Nd" else c for c in form)
    small_enough = len(form.encode()) + 1 <= GROWTH * len(original.encode())
    return form if form and small_enough else original


def part_of(code_point: int, normalisation: Normalisation = USUAL) -> int:
    """The part that a code point plays in words: one of SEPARATOR, LETTER, MARK, CHARACTER, IGNORED, SIGN."""
    character = chr(code_point)
    category = unicodedata.category(character)
    if category == "Cf" and code_point != _ZERO_WIDTH_SPACE:
        return IGNORED
    if category[0] in "PS" and normalisation.punctuation == "keep":
        return SIGN
    if category[0] not in "LNM":
        return SEPARATOR
    name = unicodedata.name(character, "")
    if category[0] == "M":
        dropped = normalisation.marks == "drop" and is_accent(character)
        return IGNORED if dropped or name.startswith(_INVISIBLE_MARKS) else MARK
    if category == "Nd" and normalisation.digits == "zero":
        return LETTER  # as 0 is
    return CHARACTER if name.startswith(_UNSPACED_SCRIPTS) else LETTER


def is_accent(character: str) -> bool:
    """Whether a character is a mark set above or below a letter, or a vowel point of Hebrew, Arabic or Syriac.

    By canonical combining class: 10–36 and 200–240. Vowel signs and viramas of Indic scripts, tones of Thai and the
    voicing marks of kana belong to other classes: without them words would be other words.
    """
    combining_class = unicodedata.combining(character)
    return 10 <= combining_class <= 36 or combining_class >= 200


@lru_cache(maxsize=16)
def folding_table(normalisation: Normalisation) -> FoldingTable:
    """The table of this Python's Unicode version; built at the first call (half a second), then kept (5 MB each)."""
    ascii_table = np.full(256, LOOK_UP, np.uint8)
    entries = np.zeros(0x110000, np.uint32)
    folded = bytearray()
    for code_points in _ASSIGNED:
        for code_point in code_points:
            part = part_of(code_point, normalisation)
            form = b"" if part in (SEPARATOR, IGNORED) else fold(code_point, normalisation).encode()
            if code_point < 128 and part != SIGN:
                ascii_table[code_point] = ord(form) if form else 0
            if part != SEPARATOR:
                entries[code_point] = part << _PART_SHIFT | len(form) << _LENGTH_SHIFT | len(folded)
                folded += form
    table = FoldingTable(ascii_table, entries, np.frombuffer(bytes(folded), np.uint8))
    for array in (table.ascii, table.entries):
        array.flags.writeable = False
    return table


def _folded_sign(original: str, normalisation: Normalisation) -> str:
    """The compatibility form, else the canonical one, that is a single sign with its marks; else the sign itself."""
    sign = original.casefold() if normalisation.case == "fold" else original
    for equivalence in ("NFKD", "NFD"):
        form = _without_accents(unicodedata.normalize(equivalence, sign), normalisation)
        categories = [unicodedata.category(c)[0] for c in form]
        if categories[0] in "PS" and set(categories[1:]) <= {"M"}:
            return form
    return sign


def _without_accents(form: str, normalisation: Normalisation) -> str:
    return form if normalisation.marks == "keep" else "".join(c for c in form if not is_accent(c))
