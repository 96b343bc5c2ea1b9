"""One compiled pass over the bytes of many texts that finds the few places where personal data can stand.

Most bytes cost one look at a table of byte pairs. Where numbers, words with digits and addresses end is found out in
`spans.py`; what a candidate is, and whether it is personal data, by the checks (`find.py` calls them).
"""

from collections.abc import Iterator
from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from pipelines.clean.pii.borrowed import borrowed
from pipelines.clean.pii.spans import FEWEST_DIGITS, context_before, follow_number, ipv6_end
from pipelines.clean.pii.triggers import (
    ASSIGN_PAIR,
    AT_PAIR,
    DOMAIN,
    HEX,
    LITERAL_PAIR,
    LOCAL,
    LOWER,
    NUMBER_PAIR,
    NUMERIC,
    UPPER,
    tables,
)

NUMBER, IPV4, IPV6, MIXED, MAIL, CREDENTIALS, ASSIGNMENT, LITERAL = range(8)
"""Kinds of candidates. MIXED: capitals and digits, as in an IBAN. CREDENTIALS: what stands between :// and @."""

BATCH = 1 << 14
"""Candidates found at a time."""
LONGEST_LOCAL, LONGEST_DOMAIN, LONGEST_CREDENTIALS = 64, 255, 128
"""Bytes before and after an @ (RFC 5321, 4.5.3.1), and between :// and @."""
SHORTEST_SECRET = 8
MOST_SPACES = 24
"""Between a name and its sign, as in aligned assignments."""
_ASS = (ord("a") & 31) << 10 | (ord("s") & 31) << 5 | ord("s") & 31
_STRING_PREFIXES = tuple(b"bfruBFRU")
_NEWLINE, _SPACE, _DASH, _DOT, _SLASH, _COLON, _EQUALS, _AT = 10, 32, 45, 46, 47, 58, 61, 64


class Candidate(NamedTuple):
    """Bytes `start` to `stop` of the data, in text `text`, whose bytes are `first` to `last`.

    context: what the words before say; for LITERAL, which.
    """

    text: int
    start: int
    stop: int
    kind: int
    context: int
    first: int
    last: int


def candidates(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> Iterator[Candidate]:
    """The candidates of the texts data[offsets[i]:offsets[i + 1]], in order of their first byte, nearly."""
    state = np.array([0, offsets[0], 0], np.int64)
    found = np.empty((BATCH, len(Candidate._fields)), np.int64)
    arrays = tables().arrays()
    while True:
        count = _scan(data, offsets, *arrays, state, found)  # type: ignore[call-arg]
        for row in found[:count].tolist():
            yield Candidate(*row)
        if state[0] >= len(offsets) - 1:
            return


@numba.njit(nogil=True, cache=True)
def _scan(  # type: ignore[no-untyped-def]
    data,
    offsets,
    classes,
    pairs,
    literals,
    starts,
    places,
    chosen,
    first,
    order,
    words,
    meanings,
    endings,
    state,
    found,
):
    """Fills `found` and returns how many; `state` (text, byte, byte that numbers were followed to) says where it is."""
    groups = np.zeros(24, np.int64)
    return _follow(
        borrowed(data), borrowed(offsets), borrowed(classes), borrowed(pairs), borrowed(literals), borrowed(starts),
        borrowed(places), borrowed(chosen), borrowed(first), borrowed(order), borrowed(words), borrowed(meanings),
        borrowed(endings), borrowed(state), borrowed(found), borrowed(groups),
    )  # fmt: skip


@numba.njit(nogil=True, cache=True)
def _follow(  # type: ignore[no-untyped-def]
    data, offsets, classes, pairs, literals, starts, places, chosen, first, order, words, meanings, endings, state,
    found, groups,
):  # fmt: skip
    room = len(found) - 4
    count = 0
    text = state[0]
    i = state[1]
    done = state[2]
    while text < len(offsets) - 1:
        begin = offsets[text]
        stop = offsets[text + 1]
        before = np.int64(data[i - 1]) if i > begin else _NEWLINE
        while i < stop:
            current = np.int64(data[np.uintp(i)])
            what = pairs[np.uintp(before << 8 | current)]
            if what != 0:
                if count >= room:
                    state[0], state[1], state[2] = text, i, done
                    return count
                if what & NUMBER_PAIR and i >= done:
                    digits, dots, wide = np.int64(0), np.int64(0), current >= 128
                    end = i
                    while end < stop and digits < FEWEST_DIGITS and classes[data[np.uintp(end)]] & NUMERIC:
                        byte = data[np.uintp(end)]
                        digits += np.int64(48 <= byte <= 57)
                        dots += np.int64(byte == _DOT)
                        wide |= byte >= 128
                        end += 1
                    # Capitals before it may begin an IBAN or an id.
                    capital = classes[before] & UPPER or (digits == 6 and before in (_SPACE, _DASH))
                    if digits >= FEWEST_DIGITS or dots >= 3 or wide or (capital and digits >= 2):
                        done, kind, start, end = follow_number(data, i, begin, stop, classes, groups, words, meanings)
                        if kind >= 0:
                            context = context_before(data, start, begin, words, meanings)
                            count = _add(found, count, text, begin, stop, start, end, kind, context)
                    elif not classes[before] & (UPPER | LOWER):
                        done = end
                if what & AT_PAIR:
                    count = _at(data, i, begin, stop, classes, text, found, count)
                if what & ASSIGN_PAIR:
                    if current == _COLON and i + 1 < stop and classes[before] & HEX:
                        start, end = ipv6_end(data, i, begin, stop, classes)
                        if end > start:
                            count = _add(found, count, text, begin, stop, start, end, IPV6, 0)
                    j = _name_end(data, i, begin)
                    if j - 2 >= begin and classes[data[j]] & (UPPER | LOWER):
                        letters = (
                            np.int64(data[j - 2] & 31) << 10 | np.int64(data[j - 1] & 31) << 5 | np.int64(data[j] & 31)
                        )
                        # Of names that end in "ass" only those in "pass": HTML is full of `class=`.
                        if (
                            endings[letters]
                            and (letters != _ASS or (j - 3 >= begin and data[j - 3] & 95 == 80))
                            and _has_value(data, i + 1, stop)
                        ):
                            count = _add(found, count, text, begin, stop, i, i + 1, ASSIGNMENT, 0)
                if what & LITERAL_PAIR:
                    rank = np.int64(first[before << 8 | current])
                    while rank < len(order) and chosen[rank] == before << 8 | current:
                        which = order[rank]
                        start = i - 1 - places[which]
                        length = starts[which + 1] - starts[which]
                        if start >= begin and start + length <= stop:
                            k = 0
                            while k < length and data[start + k] == literals[starts[which] + k]:
                                k += 1
                            if k == length and count < len(found):
                                count = _add(found, count, text, begin, stop, start, start + length, LITERAL, which)
                        rank += 1
            before = current
            i += 1
        text += 1
        i = stop
    state[0], state[1] = text, i
    return count


@numba.njit(nogil=True, cache=True)
def _add(found, count, text, begin, stop, start, end, kind, context):  # type: ignore[no-untyped-def]
    found[count, 0], found[count, 1], found[count, 2] = text, start, end
    found[count, 3], found[count, 4], found[count, 5], found[count, 6] = kind, context, begin, stop
    return count + 1


@numba.njit(nogil=True, cache=True)
def _at(data, i, begin, stop, classes, text, found, count):  # type: ignore[no-untyped-def]
    """An @ with letters on both sides and a dot after it, or with :// and a colon before it."""
    sign = i if data[i] == _AT else i - 2  # the fullwidth form has three bytes
    start = sign
    while start > begin and sign - start < LONGEST_LOCAL and classes[data[start - 1]] & LOCAL:
        start -= 1
    wide = sign != i
    while wide and start > begin and sign - start < 3 * LONGEST_LOCAL and data[start - 1] > _SPACE:
        start -= 1
    end = i + 1
    dots = 0
    while end < stop and end - i < LONGEST_DOMAIN:
        if data[end] == _DOT:
            if end + 1 >= stop or not classes[data[end + 1]] & DOMAIN:
                break
            dots += 1
        elif not classes[data[end]] & DOMAIN:
            break
        end += 1
    if (start < sign or wide) and end > i + 1 and (dots or wide):
        count = _add(found, count, text, begin, stop, start, end, MAIL, 0)
    back = sign - 1
    colon = False
    while back > begin and sign - back < LONGEST_CREDENTIALS:
        byte = data[back]
        if byte <= _SPACE or byte == _AT or byte == 34 or byte == 39 or byte == 60 or byte == 62 or byte == 96:
            return count
        if byte == _SLASH:
            if colon and back >= begin + 2 and data[back - 1] == _SLASH and data[back - 2] == _COLON:
                count = _add(found, count, text, begin, stop, back + 1, sign, CREDENTIALS, 0)
            return count
        colon = colon or byte == _COLON
        back -= 1
    return count


@numba.njit(nogil=True, cache=True)
def _name_end(data, i, begin):  # type: ignore[no-untyped-def]
    """The last byte of the name before the sign at i, behind spaces and a quote or bracket."""
    j = i - 1
    while j > begin and data[j] == _SPACE and i - j < MOST_SPACES:
        j -= 1
    j -= np.int64(j > begin and (data[j] == 34 or data[j] == 39 or data[j] == 93))
    return j - np.int64(j > begin and (data[j] == 34 or data[j] == 39))


@numba.njit(nogil=True, cache=True)
def _has_value(data, i, stop):  # type: ignore[no-untyped-def]
    """Whether as many signs as the shortest secret has follow, behind spaces and a quote.

    Behind a quote (perhaps with a letter before it, as in b"") any signs, else those that no code has at that place.
    """
    first = i
    quoted = False
    while i < stop and i - first < 7:
        byte = data[i]
        if byte in (34, 39, 96):
            quoted = True
            i += 1
            break
        prefix = byte in _STRING_PREFIXES and i + 1 < stop and data[i + 1] in (34, 39)
        if not (prefix or byte in (_SPACE, _EQUALS, 62)):
            break
        i += 1
    if i + SHORTEST_SECRET > stop:
        return False
    for k in range(i, i + SHORTEST_SECRET):
        if data[k] <= _SPACE or data[k] in (34, 39, 96):
            return False
        if not quoted and data[k] in (40, 44, 59, 60, 62, 91, 93):
            return False
    return True
