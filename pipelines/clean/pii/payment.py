"""Payment card numbers and bank account numbers (IBAN), by issuer or country, length and check digits.

Of the long numbers in code one in fifty has an issuer's digits and a right check digit, so a card's digits count where
they stand in its groups or after a word such as `card`.
"""

import re
from collections.abc import Iterator
from string import ascii_lowercase, ascii_uppercase

from pipelines.clean.pii.finding import Finding, Window, words
from pipelines.clean.pii.triggers import CARD, PHONE, REFERENCE

_CARD = re.compile(
    r"(?<!\d)(?<!\d[.,/-])"
    r"(?:\d{4}([ -])\d{4}\1\d{4}\1(?:\d{4}(?:\1\d{3})?|\d)|\d{4}([ -])\d{6}\2\d{4,5}|\d{13,19})"
    r"(?!\d|[.,/-]\d)"
)
_ISSUERS = (
    ("visa", re.compile("4"), (13, 16, 19)),
    ("mastercard", re.compile("5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720"), (16,)),
    ("amex", re.compile("3[47]"), (15,)),
    ("discover", re.compile("6011|64[4-9]|65"), (16, 19)),
    ("diners", re.compile("30[0-5]|3095|3[689]"), (14,)),
    ("jcb", re.compile("352[89]|35[3-8]"), (16,)),
    ("unionpay", re.compile("62"), (16, 17, 18, 19)),
    ("maestro", re.compile("50|5[6-8]|6[37]"), (16, 18, 19)),
)
"""Issuer, first digits and lengths (ISO/IEC 7812; the ranges that the issuers publish)."""
_TEST_NUMBERS = words(
    "4012888888881881 4000056655665556 5555555555554444 5105105105105100 5200828282828210 2223003122003222 "
    "378282246310005 371449635398431 378734493671000 6011000990139424 6011111111111117 30569309025904 "
    "38520000023237 3530111333300000 3566002020360505 4000000000000002 5431111111111111 4444333322221111 "
    "4917610000000000 3056930009020004 36227206271667 4000002500003155 6011981111111113 5610591081018250 "
    "6331101999990016 4917484589897107 4001919257537193 4007702835532454 2222405343248877 5425233430109903 "
    "4263982640269299 374245455400126 6250941006528599"
)
"""Numbers that payment services publish for tests. They belong to nobody, so they are no findings."""
_FEWEST_DISTINCT = 4

_GROUP_BEFORE = re.compile(r"(?<![0-9A-Za-z])[0-9A-Fa-f]{3,5}\s$")
_GROUP = re.compile(r"[A-Za-z]|\s[0-9A-Fa-f]{3,5}(?![0-9A-Za-z])")

_IBAN = re.compile(r"[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]){11,30}")
_SMALL_IBAN = re.compile(r"iban[^\n0-9]{0,16}[^\n0-9A-Za-z]([a-z]{2}\d\d)", re.IGNORECASE)
_CAPITALS = str.maketrans(ascii_lowercase, ascii_uppercase)
IBAN_LENGTHS = {
    pair[:2]: int(pair[2:])
    for pair in words(
        "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 "
        "EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 "
        "KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 "
        "PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 "
        "UA29 VA22 VG24 XK20 YE30"
    )
}
"""Characters of an IBAN (SWIFT's IBAN registry)."""


def cards(window: Window) -> Iterator[Finding]:
    """Payment card numbers among the digits of a candidate."""
    from stdnum import luhn

    if window.before() in ("#", "/", "_", ".", "-", "=") and not window.context & CARD:
        return
    for match in _CARD.finditer(window.text, window.start):
        if match.start() >= window.stop:
            return
        number = re.sub("[ -]", "", match.group())
        issuer = next((name for name, first, lengths in _ISSUERS if len(number) in lengths and first.match(number)), "")
        if not issuer or len(set(number)) < _FEWEST_DISTINCT or number in _TEST_NUMBERS or not luhn.is_valid(number):
            continue
        delimited = len(number) < len(match.group())
        unlike = REFERENCE | PHONE
        alone = delimited and issuer != "maestro" and not window.context & unlike and _stands_alone(window.text, match)
        if window.context & CARD or alone:
            yield Finding("card", match.start(), match.end(), issuer)


def _stands_alone(text: str, match: re.Match[str]) -> bool:
    """Whether no group of four (hexadecimal) digits stands beside it, as in tables of code points."""
    return not (_GROUP_BEFORE.search(text, max(0, match.start() - 7), match.start()) or _GROUP.match(text, match.end()))


def ibans(window: Window) -> Iterator[Finding]:
    """The IBAN that a word of capitals and digits begins with."""
    return _iban(window.text, window.start)


def announced_ibans(window: Window) -> Iterator[Finding]:
    """The IBAN in small letters behind the word."""
    match = _SMALL_IBAN.match(window.text, window.start)
    if match:
        yield from _iban(window.text.translate(_CAPITALS), match.start(1))


def _iban(text: str, start: int) -> Iterator[Finding]:
    """The IBAN that begins at `start`. Which banks a country has is not asked: such lists age."""
    from stdnum import iban

    match = _IBAN.match(text, start)
    length = IBAN_LENGTHS.get(text[start : start + 2])
    if not match or not length:
        return
    stop = start
    for sign in match.group():
        length -= sign not in " -"
        stop += 1
        if not length:
            break
    number = re.sub("[ -]", "", text[start:stop])
    ends = not text[stop : stop + 1].isalnum() and text[stop : stop + 1] not in ("_", "/", "+", "=")
    if not length and ends and len(set(number[4:])) >= _FEWEST_DISTINCT and iban.is_valid(number, False):
        yield Finding("iban", start, stop, number[:2])
