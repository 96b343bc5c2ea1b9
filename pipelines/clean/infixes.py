"""How a word is cut in two at hyphens, commas, slashes and the like: the rules, compiled. What is peeled off its ends
before stands in `peeling.py`.
"""

import numpy as np

from pipelines.clean.addresses import is_address
from pipelines.clean.characters import DIGIT, ICON, INFIX, LOWER, QUOTE, UPPER
from pipelines.clean.compiled import helper
from pipelines.text.words import decode


@helper
def cut_inside(data, lo, hi, table, bounds, count):  # type: ignore[no-untyped-def]
    """Cut between letters and digits, unless the whole is an address; gives how many words there are by then."""
    standing = count
    bounds[count] = lo
    count += 1
    at = lo
    start = lo  # of the word that is open
    previous = np.int64(0)  # bits of the character before
    while at < hi:
        code_point = np.int64(data[np.uintp(at)])
        length = 1
        if code_point >= 0x80:
            code_point, length = decode(data, at, hi)
        bits = np.int64(table[np.uintp(code_point)])
        if bits & INFIX:
            size = _infix(data, at, hi, code_point, length, bits, previous, table)
            if size > 0 and at > lo:
                if count == standing + 1 and is_address(data, lo, hi, table):
                    return count
                if at > start:
                    bounds[count] = at
                    count += 1
                start = at + size
                if start < hi:
                    bounds[count] = start
                    count += 1
            if size > length:  # what follows looks behind at the last of several dashes or full stops, all the same
                length = size
        previous = bits
        at += length
    return count


@helper
def _infix(data, at, hi, code_point, length, bits, previous, table):  # type: ignore[no-untyped-def]
    """Bytes of the sign at `at` that cuts a word in two; previous: bits of the character before it."""
    after = at + length
    if code_point == 46:
        dots = dots_at(data, at, hi)
        if dots > 1:
            return dots
        following = _bits_at(data, after, hi, table)
        return 1 if previous & (LOWER | QUOTE) and following & (UPPER | QUOTE) else 0
    if bits & ICON:
        return length
    following = _bits_at(data, after, hi, table)
    if code_point == 43 or code_point == 45 or code_point == 42 or code_point == 94:  # + - * ^
        dash = after < hi and data[np.uintp(after)] == 45
        if previous & DIGIT and (following & DIGIT or dash):
            return 1
    letter_before = previous & (LOWER | UPPER)
    letter_after = following & (LOWER | UPPER)
    if code_point == 44:
        return 1 if letter_before and letter_after else 0
    if not (letter_before or previous & DIGIT):
        return 0
    if code_point == 58 or code_point == 60 or code_point == 62 or code_point == 61 or code_point == 47:  # : < > = /
        return 1 if letter_after else 0
    if code_point == 126 or code_point == 0x2013:
        return length if letter_after else 0
    if code_point == 45 or code_point == 0x2014:
        most = 3 if code_point == 45 else 2
        end = at
        for _ in range(most):
            if end >= hi or decode(data, end, hi)[0] != code_point:
                break
            end += length
            if _bits_at(data, end, hi, table) & (LOWER | UPPER):
                return end - at
    return 0


@helper
def _bits_at(data, at, hi, table):  # type: ignore[no-untyped-def]
    if at >= hi:
        return np.int64(0)
    code_point, _ = decode(data, at, hi)
    return np.int64(table[np.uintp(code_point)])


@helper
def dots_at(data, lo, hi):  # type: ignore[no-untyped-def]
    """Full stops in a row."""
    at = lo
    while at < hi and data[np.uintp(at)] == 46:
        at += 1
    return at - lo
