"""Personal numbers of several countries, by their form, and where they have check digits by what python-stdnum knows.

A number whose check lets one in ten of all digits pass is a finding only after a word that announces it.
"""

import functools
import importlib
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pipelines.clean.pii.finding import Finding, Window, words
from pipelines.clean.pii.triggers import COUNTRIES


class _Form(NamedTuple):
    country: str
    pattern: re.Pattern[str]
    module: str | None
    announced: bool


def _form(country: str, pattern: str, module: str | None, announced: bool) -> _Form:
    bounded = re.compile(
        rf"(?<![A-Za-z0-9_])(?<![0-9][./,-])(?<![A-Za-z0-9]-)(?:{pattern})(?![A-Za-z0-9_]|[./,-][0-9A-Za-z])"
    )
    return _Form(country, bounded, module, announced)


_US = r"(?!000|666|9)\d{3}{0}(?!00)\d\d{0}(?!0000)\d{4}"
_NUMBERS = (
    _form("US", _US.replace("{0}", "-"), None, False),
    _form("US", _US.replace("{0}", "[ -]?"), None, True),
    _form("BR", r"\d{3}\.\d{3}\.\d{3}-\d\d", "br.cpf", False),
    _form("BR", r"\d{11}", "br.cpf", True),
    _form("CN", r"[1-8]\d{5}(?:19|20)\d{10}", "cn.ric", False),
    _form("FR", r"[12] \d\d (?:0[1-9]|1[0-2]|[2-9]\d) \d\d \d{3} \d{3} \d\d", "fr.nir", False),
    _form("FR", r"[12]\d{14}", "fr.nir", True),
    _form("DE", r"\d{11}|\d\d ?\d{3} ?\d{3} ?\d{3}", "de.idnr", True),
    _form("IN", r"[2-9]\d{3}([ -]?)\d{4}\1\d{4}", "in_.aadhaar", True),
    _form("NL", r"\d{9}|\d{4}\.\d\d\.\d{3}", "nl.bsn", True),
    _form("PL", r"\d{11}", "pl.pesel", True),
    _form("SE", r"(?:19|20)?\d{6}[+-]?\d{4}", "se.personnummer", True),
)
_WORDS = (
    _form("GB", r"(?!BG|GB|KN|NK|NT|TN|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] \d\d \d\d \d\d [A-D]", None, False),
    _form("GB", r"(?!BG|GB|KN|NK|NT|TN|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z]\d{6}[A-D]", None, True),
    _form("ES", r"\d{8}-?[A-HJ-NP-TV-Z]", "es.dni", False),
    _form("ES", r"[XYZ]-?\d{7}-?[A-HJ-NP-TV-Z]", "es.nie", False),
    _form("IT", r"[A-Z]{6}\d\d[A-EHLMPR-T]\d\d[A-Z]\d{3}[A-Z]", "it.codicefiscale", False),
    _form("CN", r"[1-8]\d{5}(?:19|20)\d{9}[Xx]", "cn.ric", False),
)
_EXAMPLES = words("078051120 219099999 457555462 123456789 111111111 123121234 111223333 AB123456C 12345678Z 00000000T")
"""Numbers that were printed on sample cards, or stand for any number."""


def in_numbers(window: Window, countries: frozenset[str]) -> Iterator[Finding]:
    """Personal numbers of digits, in the countries' own grouping."""
    return _matching(_NUMBERS, window, countries)


def in_words(window: Window, countries: frozenset[str]) -> Iterator[Finding]:
    """Personal numbers that hold letters."""
    return _matching(_WORDS, window, countries)


def _matching(forms: Sequence[_Form], window: Window, countries: frozenset[str]) -> Iterator[Finding]:
    for form in forms:
        if form.country not in countries or (form.announced and not window.context & COUNTRIES[form.country]):
            continue
        match = form.pattern.search(window.text, window.start)
        if not match or match.start() >= window.stop:
            continue
        number = re.sub("[ .-]", "", match.group())
        if number not in _EXAMPLES and (form.module is None or _is_valid(form.module, number)):
            yield Finding("national_id", match.start(), match.end(), form.country)


def _is_valid(module: str, number: str) -> bool:
    return bool(_module(module).is_valid(number))


@functools.cache
def _module(name: str):  # type: ignore[no-untyped-def]
    return importlib.import_module(f"stdnum.{name}")
