"""From candidates to findings: each is decoded with the text around it and handed to the checks of its kind."""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

import numpy as np
import numpy.typing as npt

from pipelines.clean.pii import addresses, assigned, credentials, mail, national, payment, phones, scan
from pipelines.clean.pii.finding import ASCII_FORMS, Finding, Window
from pipelines.clean.pii.params import ID_COUNTRIES, PHONE_COUNTRIES, PiiParams
from pipelines.clean.pii.scan import Candidate, candidates
from pipelines.clean.pii.triggers import ENCODED_SIGNS, IBAN_WORDS, LITERALS, OBFUSCATED_SIGNS, USER_OPTIONS

_AROUND = {
    scan.NUMBER: (8, 32),
    scan.IPV4: (4, 8),
    scan.IPV6: (2, 8),
    scan.MIXED: (4, 8),
    scan.MAIL: (72, 8),
    scan.CREDENTIALS: (0, 64),
    scan.ASSIGNMENT: (48, 224),
    scan.LITERAL: (128, 320),
}
"""Bytes before and after a candidate that its checks look at."""
_AROUND_LITERAL = {b"-----BEGIN ": (0, 16384), b"eyJ": (2, 5200)}
_PRECEDENCE = {
    kind: rank for rank, kind in enumerate(("credential", "email", "iban", "card", "national_id", "ip", "phone"))
}
Check = Callable[[Window], Iterable[Finding]]

_OF_LITERALS: dict[bytes, Check] = {
    literal.encode(): check
    for literals, check in (
        (OBFUSCATED_SIGNS, mail.obfuscated),
        (ENCODED_SIGNS, mail.encoded),
        (IBAN_WORDS, payment.announced_ibans),
        (USER_OPTIONS, assigned.in_options),
    )
    for literal in literals
}
"""The checks of literals that no token begins with."""


def find(text: str, params: PiiParams) -> list[Finding]:
    """The personal data in a text, in order, without overlaps; places count its characters."""
    data = text.encode("utf-8", "surrogatepass")
    bytes_ = np.frombuffer(data or b"\0", np.uint8)
    found = [finding for _, listed in findings(bytes_, np.array([0, len(data)]), [text], params) for finding in listed]
    at, characters, placed = 0, 0, []
    for finding in found:
        start = characters + len(data[at : finding.start].decode("utf-8", "surrogatepass"))
        at, characters = finding.start, start
        stop = start + len(data[at : finding.stop].decode("utf-8", "surrogatepass"))
        placed.append(finding._replace(start=start, stop=stop))
    return placed


def findings(
    data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], texts: Iterable[str] | None, params: PiiParams
) -> Iterator[tuple[int, list[Finding]]]:
    """The texts that hold personal data, by number, and what they hold: byte places in `data`, no two overlapping.

    texts: the same as strings, which only presidio reads.
    """
    checks = _checks(params)
    view = data.data
    extra = _presidio(texts, offsets) if params.presidio and texts is not None else {}
    for text, group in groupby(candidates(data, offsets), key=lambda candidate: candidate.text):
        found = [finding for candidate in group for finding in _checked(candidate, view, checks)]
        found += extra.pop(text, [])
        if found:
            yield text, _without_overlaps(found)
    for text, found in sorted(extra.items()):
        yield text, _without_overlaps(found)


def _checks(params: PiiParams) -> list[tuple[Check, ...]]:
    """The checks of every kind of candidate."""
    named = frozenset(params.countries)
    ids = frozenset(ID_COUNTRIES) & named if named else frozenset(ID_COUNTRIES)
    calling = frozenset(PHONE_COUNTRIES) & named if named else frozenset(PHONE_COUNTRIES)
    checks: list[tuple[Check, ...]] = [()] * 8
    checks[scan.NUMBER] = (
        payment.cards,
        lambda window: national.in_numbers(window, ids),
        lambda window: phones.numbers(window, calling),
    )
    checks[scan.IPV4] = (addresses.ipv4,)
    checks[scan.IPV6] = (addresses.ipv6,)
    checks[scan.MIXED] = (payment.ibans, lambda window: national.in_words(window, ids))
    checks[scan.MAIL] = (mail.addresses,)
    checks[scan.CREDENTIALS] = (assigned.in_urls,)
    checks[scan.ASSIGNMENT] = (assigned.assignments,)
    checks[scan.LITERAL] = (_literal,)
    return checks


def _literal(window: Window) -> Iterable[Finding]:
    return _OF_LITERALS.get(LITERALS[window.context], credentials.tokens)(window)


def _checked(candidate: Candidate, view: memoryview, checks: list[tuple[Check, ...]]) -> Iterator[Finding]:
    _, start, stop, kind, context, begins, ends = candidate
    before, after = _AROUND[kind]
    if kind == scan.LITERAL:
        before, after = _AROUND_LITERAL.get(LITERALS[context], (before, after))
    first = max(begins, start - before)
    piece = bytes(view[first : min(ends, stop + after)])
    if piece.isascii():
        window = Window(piece.decode(), start - first, stop - first, context)
        for check in checks[kind]:
            for found in check(window):
                yield found._replace(start=first + found.start, stop=first + found.stop)
        return
    # Bytes of a character that the window cuts come back as they went.
    read = piece.decode("utf-8", "surrogateescape")
    at = len(piece[: start - first].decode("utf-8", "surrogateescape"))
    length = len(piece[start - first : stop - first].decode("utf-8", "surrogateescape"))
    window = Window(read.translate(ASCII_FORMS), at, at + length, context)
    for check in checks[kind]:
        for found in check(window):
            begin = first + len(read[: found.start].encode("utf-8", "surrogateescape"))
            end = begin + len(read[found.start : found.stop].encode("utf-8", "surrogateescape"))
            yield found._replace(start=begin, stop=end)


def _without_overlaps(found: list[Finding]) -> list[Finding]:
    """Of findings that overlap, the longer one, or the one of the more certain type."""
    kept: list[Finding] = []
    for finding in sorted(
        found,
        key=lambda finding: (finding.start, -finding.stop, _PRECEDENCE[finding.type], finding.detail == "assigned"),
    ):
        if kept and finding.start < kept[-1].stop:
            if finding.stop - finding.start > kept[-1].stop - kept[-1].start:
                kept[-1] = finding
        else:
            kept.append(finding)
    return kept


def _presidio(texts: Iterable[str], offsets: npt.NDArray[np.int64]) -> dict[int, list[Finding]]:
    from pipelines.clean.pii.presidio import patterns

    found = {}
    for number, text in enumerate(texts):
        listed = patterns(text)
        if listed:
            base = int(offsets[number])
            found[number] = [
                finding._replace(
                    start=base + len(text[: finding.start].encode("utf-8", "surrogatepass")),
                    stop=base + len(text[: finding.stop].encode("utf-8", "surrogatepass")),
                )
                for finding in listed
            ]
    return found
