"""Whether a run without white space is a web or mail address, compiled. Such a run is one word (`peeling.py`)."""

import numpy as np

from pipelines.clean.characters import ALPHANUMERIC, DIGIT, LOWER
from pipelines.clean.compiled import helper
from pipelines.text.words import decode


@helper
def is_address(data, lo, hi, table):  # type: ignore[no-untyped-def]
    """Whether data[lo:hi] is an address: a host with a top-level domain, perhaps with scheme, user, port and path.

    table: bits of all characters, see `characters.py`.
    """
    dotted = False
    for at in range(lo, hi):
        dotted = dotted or data[np.uintp(at)] == 46
    if not dotted:
        return False
    if _is_host(data, lo, hi, table):
        return True
    in_scheme = True
    for at in range(lo + 1, hi):
        byte = data[np.uintp(at)]
        if byte == 64 and _is_host(data, at + 1, hi, table):  # @
            return True
        if byte == 58 and in_scheme:
            in_scheme = False
            slashes = at + 2 < hi and data[np.uintp(at + 1)] == 47 and data[np.uintp(at + 2)] == 47
            if slashes and _is_scheme(data, lo, at, table) and _is_host(data, at + 3, hi, table):
                return True
    return False


@helper
def _is_scheme(data, lo, hi, table):  # type: ignore[no-untyped-def]
    for at in range(lo, hi):
        byte = np.int64(data[np.uintp(at)])
        if byte < 0x80 and not (table[np.uintp(byte)] & ALPHANUMERIC or byte in (43, 45, 46, 95)):
            return False
    return hi - lo >= 2


@helper
def _is_host(data, lo, hi, table):  # type: ignore[no-untyped-def]
    """Whether data[lo:hi] is a host name or number, perhaps with a port and a path."""
    at = lo
    labels = 0
    numbers = True
    label = lo
    small = True  # the open label is small letters only
    size = 0  # characters of it
    last = 0
    while at < hi:
        code_point, length = decode(data, at, hi)
        bits = np.int64(table[np.uintp(code_point)])
        if code_point == 46:
            if size == 0 or size > 64 or last == 45 or last == 95:
                return False
            labels += 1
            label = at + 1
            size = 0
            small = True
        elif bits & ALPHANUMERIC or code_point == 45 or code_point == 95 or (0xA1 <= code_point <= 0xFFFF):
            if size == 0 and (code_point == 45 or code_point == 95):
                return False
            small = small and bits & LOWER != 0
            numbers = numbers and bits & DIGIT != 0
            size += 1
            last = code_point
        else:
            break
        at += length
    named = labels >= 1 and small and 2 <= size <= 63
    numbered = labels == 3 and numbers and at > label
    if not (named or numbered):
        return False
    if at < hi and data[np.uintp(at)] == 58:
        digits = at + 1
        while digits < hi and 48 <= data[np.uintp(digits)] <= 57:
            digits += 1
        if not 2 <= digits - at - 1 <= 5:
            return False
        at = digits
    return at == hi or data[np.uintp(at)] == 47 or data[np.uintp(at)] == 63 or data[np.uintp(at)] == 35
