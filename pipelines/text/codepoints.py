"""How each code point is compared: its folded form and its part in a word, as flat tables for compiled code.

The tables come from Python's own Unicode data, so `unicodedata.unidata_version` belongs in the key of every task that
uses them. How words are cut with them stands in `pipelines/text/words.py`.
"""

import unicodedata
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

SEPARATOR, LETTER, MARK, CHARACTER, IGNORED = range(5)
"""Part that a code point plays: it ends a word; joins letters to a word; joins whatever precedes it; is a word of its
own (scripts written without spaces); or is not there at all (soft hyphen, joiners, variation selectors)."""

GROWTH = 4
"""Folded bytes, with the space that may precede them, per byte of a non-ASCII original: never more than this."""

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
_ASSIGNED = (range(0x80, 0x40000), range(0xE0000, 0xE1000))
_LENGTH_SHIFT, _PART_SHIFT = 24, 29


@dataclass(frozen=True)
class FoldingTable:
    """Folding of every code point.

    ascii: uint8[128], the folded byte, 0 for separators. entries: uint32[0x110000]; bits 29–31 the part, 24–28 the
    number of folded bytes, 0–23 where they start in `folded` (UTF-8).
    """

    ascii: npt.NDArray[np.uint8]
    entries: npt.NDArray[np.uint32]
    folded: npt.NDArray[np.uint8]


def fold(code_point: int) -> str:
    """The form in which a code point is compared: compatibility caseless matching, letters, digits and marks only.

    NFKD(casefold(NFKD(casefold(NFD(c))))), Unicode Standard 3.13, D146, applied to one code point at a time: composed
    and decomposed text come out alike. A form that would grow beyond `GROWTH` (two Arabic ligatures) stays as it is.
    """
    original = chr(code_point)
    if original.casefold() == original and unicodedata.is_normalized("NFKD", original):
        return original
    form = unicodedata.normalize("NFD", original)
    for _ in range(2):
        form = unicodedata.normalize("NFKD", form.casefold())
    form = "".join(c for c in form if unicodedata.category(c)[0] in "LNM")
    small_enough = len(form.encode()) + 1 <= GROWTH * len(original.encode())
    return form if form and small_enough else original


def part_of(code_point: int) -> int:
    """The part that a code point plays in words: one of SEPARATOR, LETTER, MARK, CHARACTER, IGNORED."""
    character = chr(code_point)
    category = unicodedata.category(character)
    if category == "Cf" and code_point != _ZERO_WIDTH_SPACE:
        return IGNORED
    if category[0] not in "LNM":
        return SEPARATOR
    name = unicodedata.name(character, "")
    if category[0] == "M":
        return IGNORED if name.startswith(("VARIATION SELECTOR", "COMBINING GRAPHEME JOINER")) else MARK
    return CHARACTER if name.startswith(_UNSPACED_SCRIPTS) else LETTER


@lru_cache(maxsize=1)
def folding_table() -> FoldingTable:
    """The table of this Python's Unicode version; built at the first call (a fifth of a second), then kept."""
    ascii_table = np.zeros(128, np.uint8)
    for code_point in range(128):
        if part_of(code_point) == LETTER:
            ascii_table[code_point] = ord(fold(code_point))
    entries = np.zeros(0x110000, np.uint32)
    folded = bytearray()
    for code_points in _ASSIGNED:
        for code_point in code_points:
            part = part_of(code_point)
            if part == SEPARATOR:
                continue
            form = b"" if part == IGNORED else fold(code_point).encode()
            entries[code_point] = part << _PART_SHIFT | len(form) << _LENGTH_SHIFT | len(folded)
            folded += form
    table = FoldingTable(ascii_table, entries, np.frombuffer(bytes(folded), np.uint8))
    for array in (table.ascii, table.entries):
        array.flags.writeable = False
    return table
