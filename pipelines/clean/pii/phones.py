"""Phone numbers: with + and a country code, or in a form that is usual in one of the countries.

The forms here find candidates; whether such a number can have been assigned says Google's numbering plan data
(phonenumbers). Forms that other numbers share count only after a word such as `phone`.
"""

import functools
import re
from collections.abc import Iterator

from pipelines.clean.pii.finding import Finding, Window
from pipelines.clean.pii.triggers import PHONE, REFERENCE, VERSION

_USUAL = {
    "US": r"\(\d{3}\) ?\d{3}[-. ]\d{4}|(?:1[-. ])?\d{3}-\d{3}-\d{4}|(?:1\.)?\d{3}\.\d{3}\.\d{4}",
    "FR": r"(?<![\[.])(?<!\d )0[1-9](?:(?: \d\d){4}(?! ?[0-9A-F]{2}\b)|(?:\.\d\d){4}|(?:-\d\d){4})",
    "GB": r"\(0\d{2,4}\) ?\d{3,4}[ -]?\d{3,4}|0[12378]\d{1,3} \d{3,4} \d{3,4}",
    "DE": r"\(0\d{2,4}\) ?\d{3,8}(?:[ -]\d{1,5})?|0\d{2,4}/\d{5,8}(?:-\d{1,4})?",
    "JP": r"0\d{1,4}-\d{1,4}-\d{4}|\(0\d{1,4}\) ?\d{1,4}-\d{4}",
    "BR": r"\(\d\d\) ?9?\d{4}[- ]\d{4}",
    "AU": r"\(0\d\) ?\d{4} \d{4}|04\d\d \d{3} \d{3}|0[2378] \d{4} \d{4}",
}
"""Forms that are a phone number's own."""
_ANNOUNCED = {
    "US": r"(?:\(\d{3}\)|\d{3})[ /-]?\d{3}[ -]?\d{4}",
    "FR": r"0[1-9]\d{8}",
    "GB": r"0\d{2,4}[ -]?\d{3,4}[ -]?\d{3,4}|0\d{4}[ -]\d{5,6}",
    "DE": r"0\d{2,4}(?: ?[/-] ?| )?\d{2,9}(?:[ -]\d{1,5}){0,4}",
    "IT": r"0\d{1,3}[ ./-]?\d{5,8}|3\d\d[ .-]?\d{3}[ .-]?\d{3,4}",
    "ES": r"[6-9]\d\d[ .-]?\d{3}[ .-]?\d{3}|[6-9]\d\d(?:[ .-]\d\d){3}",
    "IN": r"0?[6-9]\d{4}[ -]?\d{5}|0\d{2,4}[ -]\d{6,8}",
    "JP": r"0\d{9,10}",
    "BR": r"(?:\(\d\d\)|\d\d) ?9?\d{4}[ -]?\d{4}",
    "AU": r"0\d ?\d{4} ?\d{4}|04\d\d ?\d{3} ?\d{3}|1[38]00 ?\d{3} ?\d{3}",
}
"""Forms of other numbers too."""
_SAME_PLAN = {"CA": "US"}

_FICTION = re.compile(
    r"\+1\d{3}555"  # North America: the exchange 555
    r"|\+44(?:1\d\d4960|2079460|1632960|7700900|8081570|9098790|3069990)"  # Ofcom
    r"|\+49(?:3023125|6990009|4066969|2214710|8999998|17139200)"  # Bundesnetzagentur
    r"|\+33(?:19900|26191|35301|46571|53649|63998)"  # Arcep
    r"|\+61(?:[2378](?:5550|7010)|491570)"  # ACMA
)
"""Ranges that the regulators keep for films and examples."""
_FALLING_OR_RISING = re.compile("0102030405|1234567|2345678|3456789|7654321|8765432|9876543")
_FRACTION = re.compile(r"\+\d+\.\d+(?!\d*\.\d)")
_DIALLED = re.compile(r"00 ?[1-9]")
"""The prefix that is dialled for + in most of Europe (ITU-T E.123)."""
_MOST_TRIES = 3


@functools.cache
def _forms(countries: frozenset[str], announced: bool) -> tuple[tuple[str, re.Pattern[str]], ...]:
    chosen: dict[str, list[str]] = {}
    for forms in (_USUAL, _ANNOUNCED) if announced else (_USUAL,):
        for country, form in forms.items():
            if country in countries or any(other in countries for other, plan in _SAME_PLAN.items() if plan == country):
                chosen.setdefault(country, []).append(form)
    return tuple(
        (country, re.compile(rf"(?<![A-Za-z0-9_+])(?<!\d[./,-])(?:{form})(?![0-9A-Za-z_]|[./,-]\d)"))
        for country, listed in chosen.items()
        for form in listed
    )


@functools.cache
def _any_form(countries: frozenset[str], announced: bool) -> re.Pattern[str]:
    """Matches where one of the forms does."""
    return re.compile("|".join(pattern.pattern for _, pattern in _forms(countries, announced)) or "(?!)")


def numbers(window: Window, countries: frozenset[str]) -> Iterator[Finding]:
    """The phone numbers of a candidate."""
    before = window.before()
    announced = bool(window.context & PHONE)
    if not announced and (
        window.context & (REFERENCE | VERSION) or before in ("#", "$", "€", "£", "/", "_", "\\", "=")
    ):
        return
    if before == "+":
        yield from _international(window)
        return
    if announced and _DIALLED.match(window.found):
        yield from _with_code(window.text, window.start, window.start + 2, window.stop)
    text, start = window.text, window.start - (before == "(")
    if not _any_form(countries, announced).search(text, start, window.stop + 1):
        return
    for country, pattern in _forms(countries, announced):
        for match in pattern.finditer(text, start):
            if match.start() >= window.stop:
                break
            if _assigned(match.group(), country):
                yield Finding("phone", match.start(), match.end(), country)


def _international(window: Window) -> Iterator[Finding]:
    """The number that a + and a country code begin; groups that follow it may be none of its own."""
    text, plus = window.text, window.start - 1
    if text[plus - 1 : plus].isalnum() or ((plus and text[plus - 1] in ")]_=+") and not window.context & PHONE):
        return
    if _FRACTION.match(text, plus):
        return
    start = plus - (text[plus - 1 : plus] == "(" and ")" in window.found)
    yield from _with_code(text, start, window.start, window.stop)


def _with_code(text: str, start: int, code: int, stop: int) -> Iterator[Finding]:
    """The number from `start` on whose country code stands at `code`."""
    for _ in range(_MOST_TRIES):
        if sum(map(str.isdigit, text[code:stop])) < 8:
            return
        country = _assigned("+" + text[code:stop], None)
        if country:
            yield Finding("phone", start, stop, country)
            return
        shorter = re.search(r"[^\d]+\d+$", text[code:stop])
        if not shorter:
            return
        stop = code + shorter.start()


def _assigned(written: str, country: str | None) -> str:
    """The country of a number that its numbering plan allows, and that is no example; else ''."""
    import phonenumbers

    digits = re.sub(r"\D", "", written)
    if len(digits) > 15 or len(set(digits[-9:])) < 3 or _FALLING_OR_RISING.search(digits):
        return ""
    try:
        number = phonenumbers.parse(written, country)
    except phonenumbers.NumberParseException:
        return ""
    if not phonenumbers.is_valid_number(number):
        return ""
    if _FICTION.match(phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)):
        return ""
    return phonenumbers.region_code_for_number(number) or country or "international"
