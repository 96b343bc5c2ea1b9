"""Compiled: how far a number, a word of capitals and digits, or an IPv6 address reaches, and the words before it.

A number here is what a reader takes for one: groups of digits with at most three signs between them, such as
+44 (0)20 1234-5678. Plural scripts' digits count: ASCII, fullwidth, Arabic-Indic and Persian.
"""

import numba
import numpy as np

from pipelines.clean.pii.triggers import (
    DIGIT,
    HASH_FACTOR,
    HASH_START,
    HEX,
    IP,
    LOWER,
    REFERENCE,
    UPPER,
    VERSION,
    WORD_SLOTS,
)

_NUMBER, _IPV4, _MIXED = 0, 1, 3  # as in scan.py
FEWEST_DIGITS, MOST_DIGITS = 7, 64
"""A number with fewer digits is no candidate; one with more is a table or data."""
CONTEXT_BYTES = 56
NEAR_BYTES = 10
_ALPHANUMERIC = DIGIT | UPPER | LOWER
_SAYS_WHAT = ~np.int64(IP | VERSION | REFERENCE)
_SPACE, _PLUS, _DASH, _DOT, _SLASH, _COLON, _UNDERSCORE, _OPEN = 32, 43, 45, 46, 47, 58, 95, 40


@numba.njit(nogil=True, cache=True)
def digit_size(data, i, stop):  # type: ignore[no-untyped-def]
    """Bytes of the digit at i, 0 where there is none."""
    byte = data[i] if i < stop else 0
    if byte < 128:
        return 1 if 48 <= byte <= 57 else 0
    following = data[i + 1] if i + 1 < stop else 0
    if (byte == 0xD9 and 0xA0 <= following <= 0xA9) or (byte == 0xDB and 0xB0 <= following <= 0xB9):
        return 2
    if byte == 0xEF and following == 0xBC and i + 2 < stop and 0x90 <= data[i + 2] <= 0x99:
        return 3
    return 0


@numba.njit(nogil=True, cache=True)
def _joint_size(data, i, stop):  # type: ignore[no-untyped-def]
    """Bytes of the sign at i that may stand between two groups of digits, 0 where there is none."""
    byte = data[i] if i < stop else 0
    if byte < 128:
        return 1 if byte in (_SPACE, 40, 41, _DASH, _DOT, _SLASH) else 0
    following = data[i + 1] if i + 1 < stop else 0
    third = data[i + 2] if i + 2 < stop else 0
    if byte == 0xC2 and following == 0xA0:
        return 2  # no-break space
    if byte == 0xE2 and following == 0x80 and (0x90 <= third <= 0x95 or third == 0xAF or third == 0x89):
        return 3  # dashes, narrow spaces
    if byte == 0xEF and following == 0xBC and (third == 0x8D or third == 0x88 or third == 0x89):
        return 3  # fullwidth dash and parentheses
    return 3 if byte == 0xE3 and following == 0x80 and third == 0x80 else 0  # ideographic space


@numba.njit(nogil=True, cache=True)
def follow_number(data, i, begin, stop, classes, groups, words, meanings):  # type: ignore[no-untyped-def]
    """What starts with the digit that ends at byte i: (byte up to which digits need no other look, kind, start, end).

    kind is -1 where it is no candidate.
    """
    start = i if data[i] < 128 else i - 1 if data[i - 1] >= 0xD0 and data[i - 1] < 0xE0 else i - 2
    if start < begin or digit_size(data, start, stop) == 0:
        return i + 1, -1, 0, 0
    before = data[start - 1] if start > begin else np.uint8(10)
    if classes[before] & (UPPER | LOWER) or before == _UNDERSCORE:
        end = _mixed_end(data, start, begin, stop, classes)
        return i + 1, _MIXED if end > 0 else -1, _capitals_before(data, start, begin, classes), end
    if before in (_SPACE, _DASH) and start - 2 >= begin and classes[data[start - 2]] & UPPER:
        first = _capitals_before(data, start - 1, begin, classes)
        end = _spaced_end(data, start, stop, classes, start - 1 - first, before)
        if end > 0 and (first == begin or not classes[data[first - 1]] & _ALPHANUMERIC):
            return end, _MIXED, first, end
    end = _ipv4_end(data, start, stop, classes)
    if end > 0:
        return end, _IPV4, start, end
    end = start
    position = start
    digits = np.int64(0)
    count = 0
    only_dots = True
    dated = before != _PLUS
    while True:
        whole, whole_digits, before_group = end, digits, data[position - 1]
        length = 0
        size = digit_size(data, position, stop)
        while size:
            length += 1
            position += size
            size = digit_size(data, position, stop)
        groups[min(count, len(groups) - 1)] = length
        count += 1
        digits += length
        end = position
        joints = 0
        first_joint = data[position] if position < stop else np.uint8(0)
        while joints < 3:
            size = _joint_size(data, position, stop)
            if size == 0:
                break
            position += size
            joints += 1
        if joints == 0 or digit_size(data, position, stop) == 0:
            break
        if first_joint == _SPACE and dated and _is_date(groups, count):
            break
        only_dots = only_dots and first_joint == _DOT
        dated = dated and joints == 1 and first_joint in (_DASH, _DOT, _SLASH)
    reached = end
    if digits < FEWEST_DIGITS or digits > MOST_DIGITS or (dated and _is_date(groups, count)):
        return end, -1, 0, 0
    after = data[end] if end < stop else np.uint8(10)
    if classes[after] & (UPPER | LOWER) or after == _UNDERSCORE:
        closed = end + 1 >= stop or not (classes[data[end + 1]] & _ALPHANUMERIC or data[end + 1] == _UNDERSCORE)
        extension = after in (88, 120) and not closed and classes[data[end + 1]] & DIGIT
        if closed and count == 1 and digits in (8, 17) and (classes[after] & UPPER or after == 120):
            return end + 1, _MIXED, start, end + 1
        if not extension and (count == 1 or before_group != _SPACE or whole_digits < FEWEST_DIGITS):
            return reached, -1, 0, 0
        if not extension:  # the last group begins another word
            end, digits, count = whole, whole_digits, count - 1
    dashed = count == 1 and digits == 8 and after == _DASH and end + 1 < stop and classes[data[end + 1]] & UPPER
    if dashed and (end + 2 >= stop or not classes[data[end + 2]] & _ALPHANUMERIC):
        return end + 2, _MIXED, start, end + 2
    if before == _PLUS or (before == _OPEN and count > 1):
        return reached, _NUMBER, start, end
    if only_dots and count == 2:
        return reached, -1, 0, 0  # a fraction
    if count == 1 and 13 <= digits <= 19:
        return reached, _NUMBER, start, end
    if (count >= 3 and (digits >= 9 or data[start] == 48)) or (count == 2 and data[start] == 48 and digits >= 8):
        return reached, _NUMBER, start, end
    if _letter_near(data, start, begin, classes) and context_before(data, start, begin, words, meanings) & _SAYS_WHAT:
        return reached, _NUMBER, start, end
    return reached, -1, 0, 0


@numba.njit(nogil=True, cache=True)
def _letter_near(data, start, begin, classes):  # type: ignore[no-untyped-def]
    """Whether a word can end right before `start`: a cheap no for tables of numbers."""
    for i in range(max(begin, start - NEAR_BYTES), start):
        if classes[data[i]] & (UPPER | LOWER) or data[i] >= 128:
            return True
    return False


@numba.njit(nogil=True, cache=True)
def _is_date(groups, count):  # type: ignore[no-untyped-def]
    """Year, month, day, or the other way round, and nothing else."""
    if count != 3 or groups[1] > 2:
        return False
    return (groups[0] == 4 and groups[2] <= 2) or (groups[0] <= 2 and groups[2] == 4)


@numba.njit(nogil=True, cache=True)
def _ipv4_end(data, start, stop, classes):  # type: ignore[no-untyped-def]
    """Where four numbers up to 255 with dots between them end, and nothing follows that makes it more; else 0."""
    position = start
    for octet in range(4):
        value = 0
        first = position
        while position < stop and position - first < 4 and classes[data[position]] & DIGIT:
            value = value * 10 + (data[position] - 48)
            position += 1
        if position == first or value > 255 or (data[first] == 48 and position - first > 1):
            return 0
        if octet < 3:
            if position >= stop or data[position] != _DOT:
                return 0
            position += 1
    if position < stop:
        after = data[position]
        if classes[after] & _ALPHANUMERIC or after == _UNDERSCORE:
            return 0
        if after in (_DOT, _DASH) and position + 1 < stop and classes[data[position + 1]] & _ALPHANUMERIC:
            return 0
    return position


@numba.njit(nogil=True, cache=True)
def ipv6_end(data, i, begin, stop, classes):  # type: ignore[no-untyped-def]
    """(start, end) of what may be a global IPv6 address whose first colon is at i; (0, 0) where there is none.

    Global unicast addresses are 2000::/3 (RFC 4291, 2.4): four hexadecimal digits, the first 2 or 3.
    """
    start = i - 4
    if start < begin or not (data[start] == 50 or data[start] == 51):
        return 0, 0
    for k in range(start, i):
        if not classes[data[k]] & HEX:
            return 0, 0
    if start > begin and (classes[data[start - 1]] & _ALPHANUMERIC or data[start - 1] in (_COLON, _DOT, _UNDERSCORE)):
        return 0, 0
    end = i
    colons = 0
    double = False
    while end < stop and end - start < 48 and (classes[data[end]] & HEX or data[end] == _COLON or data[end] == _DOT):
        if data[end] == _COLON:
            colons += 1
            double = double or (end + 1 < stop and data[end + 1] == _COLON)
        end += 1
    if end < stop and (classes[data[end]] & _ALPHANUMERIC or data[end] in (_COLON, _UNDERSCORE)):
        return 0, 0
    while data[end - 1] == _DOT or (data[end - 1] == _COLON and data[end - 2] != _COLON):
        colons -= data[end - 1] == _COLON
        end -= 1
    return (start, end) if double or colons == 7 else (0, 0)


@numba.njit(nogil=True, cache=True)
def _capitals_before(data, i, begin, classes):  # type: ignore[no-untyped-def]
    """The first of the (at most six) capitals that end before byte i."""
    start = i
    while start > begin and i - start < 6 and classes[data[start - 1]] & UPPER:
        start -= 1
    return start


@numba.njit(nogil=True, cache=True)
def _mixed_end(data, i, begin, stop, classes):  # type: ignore[no-untyped-def]
    """Where a word of capitals and digits ends whose capitals end before i, if it is as long as an id or IBAN; else 0.

    Single spaces and dashes between its groups belong to it. One capital begins a Spanish NIE, two an IBAN or a British
    insurance number, six an Italian codice fiscale.
    """
    start = _capitals_before(data, i, begin, classes)
    capitals = i - start
    if capitals not in (1, 2, 6) or (capitals == 1 and not 88 <= data[start] <= 90):
        return 0
    if start > begin and (classes[data[start - 1]] & _ALPHANUMERIC or data[start - 1] in (_UNDERSCORE, 43, 47, 61)):
        return 0
    end = i
    position = i
    signs = 0
    while position < stop and signs + capitals < 34:
        if classes[data[position]] & (DIGIT | UPPER):
            signs += 1
            position += 1
            end = position
        elif (
            data[position] in (_SPACE, _DASH) and position + 1 < stop and classes[data[position + 1]] & (DIGIT | UPPER)
        ):
            position += 1
        else:
            break
    if end < stop and (classes[data[end]] & _ALPHANUMERIC or data[end] == _UNDERSCORE):
        # What follows may be a word of its own: the checks look at the beginning only.
        while end > i and data[end - 1] not in (_SPACE, _DASH):
            end -= 1
        if end > i:
            end -= 1
    fewest = 9 if capitals == 1 else 9 if capitals == 2 else 16
    return end if end - start >= fewest else 0


@numba.njit(nogil=True, cache=True)
def _spaced_end(data, i, stop, classes, capitals, joint):  # type: ignore[no-untyped-def]
    """Where an id ends of which only the digits from i on stand together with its capitals by a joint; else 0.

    Two capitals, a space, six digits in twos, a letter: a British insurance number. One, a dash, seven, a letter: NIE.
    """
    fits = (capitals == 2 and joint == _SPACE) or (capitals == 1 and joint == _DASH and 88 <= data[i - 2] <= 90)
    digits = 0
    while fits and i < stop:
        if classes[data[i]] & DIGIT:
            digits += 1
        elif data[i] != joint or digits == 0:
            break
        i += 1
    if not fits or digits != (6 if capitals == 2 else 7) or i >= stop or not classes[data[i]] & UPPER:
        return 0
    return i + 1 if i + 1 >= stop or not classes[data[i + 1]] & _ALPHANUMERIC else 0


@numba.njit(nogil=True, cache=True)
def context_before(data, start, begin, words, meanings):  # type: ignore[no-untyped-def]
    """What the words say that stand whole in the bytes before `start`, on the same line."""
    first = max(begin, start - CONTEXT_BYTES)
    position = start - 1
    while position >= first and data[position] != 10:
        position -= 1
    whole = position >= first or first == begin
    position = max(position + 1, first)
    meaning = np.int64(0)
    value = np.uint32(HASH_START)
    length = 0
    while position <= start:
        byte = data[position] if position < start else np.uint8(_SPACE)
        byte = byte | 32 if 65 <= byte <= 90 else byte
        # Kana and fullwidth signs stand between words that are written in Chinese characters.
        if (97 <= byte <= 122) or (byte >= 128 and byte != 0xE3 and byte != 0xEF):
            value = np.uint32((value ^ np.uint32(byte)) * np.uint32(HASH_FACTOR))
            length += 1
            position += 1
            continue
        if length and whole:
            slot = np.int64(value) % WORD_SLOTS
            while words[slot] != 0 and words[slot] != value:
                slot = (slot + 1) % WORD_SLOTS
            if words[slot] == value:
                meaning |= meanings[slot]
        whole = True
        length = 0
        value = np.uint32(HASH_START)
        position += 3 if byte in (0xE3, 0xEF) else 1
    return meaning
