"""What each code point is to the quality signals: one flat table of bits, for compiled code.

The bits come from Python's own Unicode data, so `unicodedata.unidata_version` belongs in the key of every task that
uses them. How words and lines are cut with them stands in `words.py` and `lines.py`.
"""

import unicodedata
from functools import lru_cache

import numpy as np
import numpy.typing as npt

SPACE, LOWER, UPPER, DIGIT, AFFIX, PREFIX, CURRENCY, ICON, QUOTE = (1 << bit for bit in range(9))
"""White space (`str.isspace`). Small letters and letters without case. Capitals and letters without case. 0 to 9. Signs
that are cut from both ends of a word, and from its beginning only. Currency signs. Pictures and other symbols (category
So). Quotation marks."""
BEFORE_STOP, CUTS, INFIX, ALPHABETIC, ALPHANUMERIC, SYMBOL, PUNCTUATION, TERMINAL = (1 << bit for bit in range(9, 17))
"""What a full stop is cut off after. Whatever may end a word in a run without white space: all but letters, marks and
digits. Signs that may cut a word in two. `str.isalpha`, `str.isalnum`. Punctuation of any script and ASCII signs.
Categories P*. Marks that end a sentence."""

_PUNCTUATION_MARKS = "…,:;!?¿؟¡()[]{}<>_#*&。？！，、；：～·।،۔؛٪"
_QUOTATION_MARKS = "'\"”“`‘´’‚,„»«「」『』（）〔〕【】《》〈〉\u2329\u232a⟦⟧"
_DASHES = "—–"
_INFIXES = ".,+-*^:<>=/~…" + _DASHES
_CURRENCIES = "$£€¥฿₽﷼₴₠₡₢₣₤₥₦₧₨₩₪₫₭₮₯₰₱₲₳₵₶₷₸₹₺₻₼₾₿"
_PREFIXES = "§%=" + _CURRENCIES
_BEFORE_STOP = "0123456789%²-+|" + _PUNCTUATION_MARKS + _QUOTATION_MARKS

_SENTENCE_TERMINALS = (
    "21 2E 3F 589 61D-61F 6D4 700-702 7F9 837 839 83D-83E 964-965 104A-104B 1362 1367-1368 166E 1735-1736 17D4-17D5 "
    "1803 1809 1944-1945 1AA8-1AAB 1B4E-1B4F 1B5A-1B5B 1B5E-1B5F 1B7D-1B7F 1C3B-1C3C 1C7E-1C7F 203C-203D 2047-2049 "
    "2CF9-2CFB 2E2E 2E3C 2E53-2E54 3002 A4FF A60E-A60F A6F3 A6F7 A876-A877 A8CE-A8CF A92F A9C8-A9C9 AA5D-AA5F "
    "AAF0-AAF1 ABEB FE12 FE15-FE16 FE52 FE56-FE57 FF01 FF0E FF1F FF61 10A56-10A57 10F55-10F59 10F86-10F89 11047-11048 "
    "110BE-110C1 11141-11143 111C5-111C6 111CD 111DE-111DF 11238-11239 1123B-1123C 112A9 1144B-1144C 115C2-115C3 "
    "115C9-115D7 11641-11642 1173C-1173E 11944 11946 11A42-11A43 11A9B-11A9C 11C41-11C42 11EF7-11EF8 11F43-11F44 "
    "16A6E-16A6F 16AF5 16B37-16B38 16B44 16E98 1BC9F 1DA88"
)
"""Code points with the property Sentence_Terminal of the Unicode Character Database 15.0 (PropList.txt), in hex."""

_ASSIGNED = (range(0x40000), range(0xE0000, 0xE1000))


@lru_cache(maxsize=1)
def character_table() -> npt.NDArray[np.uint32]:
    """uint32[0x110000]: the bits of every code point. Built at the first call (half a second), 4 MB."""
    table = np.zeros(0x110000, np.uint32)
    for code_points in _ASSIGNED:
        for code_point in code_points:
            table[code_point] = _bits(chr(code_point))
    for signs, bit in (
        (_PUNCTUATION_MARKS + _QUOTATION_MARKS + _DASHES, AFFIX),
        (_PREFIXES, PREFIX),
        (_CURRENCIES, CURRENCY),
        (_QUOTATION_MARKS, QUOTE),
        (_BEFORE_STOP, BEFORE_STOP),
        (_INFIXES, INFIX),
        ("…", ICON),
    ):
        table[[ord(sign) for sign in signs]] |= bit
    for terminal in _SENTENCE_TERMINALS.split():
        first, _, last = terminal.partition("-")
        table[int(first, 16) : int(last or first, 16) + 1] |= TERMINAL | SYMBOL
    table.flags.writeable = False
    return table


def _bits(character: str) -> int:
    category = unicodedata.category(character)
    if category in ("Cn", "Cs", "Co"):
        return CUTS
    bits = 0
    if character.isspace():
        bits |= SPACE
    if category[0] in "LM":
        bits |= LOWER | BEFORE_STOP if category != "Lu" else 0
        bits |= UPPER if category != "Ll" else 0
    elif category != "Nd":
        bits |= CUTS
    if "0" <= character <= "9":
        bits |= DIGIT
    if character.isalpha():
        bits |= ALPHABETIC
    if character.isalnum():
        bits |= ALPHANUMERIC
    if category == "So":
        bits |= ICON | AFFIX | INFIX
    if category[0] == "P":
        bits |= PUNCTUATION | SYMBOL
    if category == "Cc" or (character.isascii() and category[0] == "S"):
        bits |= SYMBOL
    return bits
