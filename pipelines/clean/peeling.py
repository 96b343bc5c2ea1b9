"""How one run without white space is cut into words: the rules, compiled. Texts of many runs are cut in `words.py`.

At each end signs are peeled off, one at a time, until none is left or an exception is; what remains is one word if it
is an exception or an address, else it is cut at hyphens, commas, slashes and the like between letters. The order of
the rules is that of spaCy's tokenizer, since the words come out otherwise if it isn't.
"""

import numpy as np
import numpy.typing as npt

from pipelines.clean.characters import (
    AFFIX,
    ALPHANUMERIC,
    BEFORE_STOP,
    CURRENCY,
    DIGIT,
    INFIX,
    PREFIX,
    UPPER,
)
from pipelines.clean.compiled import helper
from pipelines.clean.infixes import cut_inside, dots_at
from pipelines.text.words import decode

START = np.uint64(0xCBF29CE484222325)
FACTOR = np.uint64(0x100000001B3)

_LENGTHS = "nm µm mm cm dm m km in ft yd"
_UNITS = " ".join(
    (
        _LENGTHS,
        *(f"{length}{power}" for length in ("mm", "cm", "dm", "m", "km") for power in "²³"),
        "ha µg mg g kg t oz lb m/s km/h kmh mph Pa hPa mbar K M G T kb KB mb MB gb GB tb TB %",
    )
)
"""Cut off after a digit."""
_LONGEST_UNIT = 5
LONGEST_EXCEPTION = 32
"""Bytes; longer runs are not looked up."""
_UNIT_CODES = np.array(sorted(int.from_bytes(unit.encode(), "big") for unit in _UNITS.split()), np.uint64)


def hash_table(entries: int) -> npt.NDArray[np.uint64]:
    """An empty set of 64-bit hashes, open addressing, at most a quarter full."""
    return np.zeros(1 << max(3, (4 * entries).bit_length()), np.uint64)


@helper
def find(keys, value):  # type: ignore[no-untyped-def]
    """Slot of a hash, -1 where it is not in the set."""
    mask = np.uint64(len(keys) - 1)
    slot = (value ^ value >> np.uint64(32)) & mask
    while keys[slot] != 0:
        if keys[slot] == value:
            return np.int64(slot)
        slot = (slot + np.uint64(1)) & mask
    return np.int64(-1)


@helper
def put(keys, value):  # type: ignore[no-untyped-def]
    """Slot of a hash, which is put into the set where it is not."""
    mask = np.uint64(len(keys) - 1)
    slot = (value ^ value >> np.uint64(32)) & mask
    while keys[slot] != 0 and keys[slot] != value:
        slot = (slot + np.uint64(1)) & mask
    keys[slot] = value
    return np.int64(slot)


@helper
def hash_word(data, lo, hi):  # type: ignore[no-untyped-def]
    """FNV-1a of data[lo:hi], 64 bits."""
    value = START
    for k in range(lo, hi):
        value = (value ^ np.uint64(data[np.uintp(k)])) * FACTOR
    return value


@helper
def cut_run(data, lo, hi, seen, table, marks, keys, pieces, bounds, stack):  # type: ignore[no-untyped-def]
    """Cut data[lo:hi], which has no white space. Gives the number of words; word k is data[bounds[k]:bounds[k + 1]].

    seen: bits that any of the characters has. table: bits of all characters. marks, keys, pieces: see
    `words.Exceptions`. stack: room for as many numbers as bounds.
    """
    count = 0
    depth = 0
    end = hi
    slot = np.int64(-1)
    while lo < hi:
        slot = exception(data, lo, hi, marks, keys)
        if slot >= 0:
            break
        before = _peeled_before(data, lo, hi, table)
        if before > 0:
            slot = exception(data, lo + before, hi, marks, keys)
            if slot >= 0:
                bounds[count] = lo
                count += 1
                lo += before
                break
        after = _peeled_after(data, lo + before, hi, seen, table)
        if after > 0:
            slot = exception(data, lo, hi - after, marks, keys)
            hi -= after
            stack[depth] = hi
            depth += 1
            if slot >= 0:
                break
        if before > 0:
            bounds[count] = lo
            count += 1
            lo += before
        elif after == 0:
            break
    if lo < hi:
        if slot >= 0:
            parts = pieces[slot]
            while parts != 0:
                bounds[count] = lo
                count += 1
                lo += np.int64(parts & np.uint64(255))
                parts >>= np.uint64(8)
        elif seen & INFIX:
            count = cut_inside(data, lo, hi, table, bounds, count)
        else:
            bounds[count] = lo
            count += 1
    while depth > 0:
        depth -= 1
        bounds[count] = stack[depth]
        count += 1
    bounds[count] = end
    return count


@helper
def mark_of(first, last, size):  # type: ignore[no-untyped-def]
    """Which of 65,536 marks runs of this length with this first and last byte share."""
    return (first * 41 + last * 257 + size * 4099) & 0xFFFF


@helper
def exception(data, lo, hi, marks, keys):  # type: ignore[no-untyped-def]
    """Slot of an exception, -1 where data[lo:hi] is none, which its mark tells of most."""
    size = hi - lo
    if size <= 0 or size > LONGEST_EXCEPTION:
        return np.int64(-1)
    mark = mark_of(np.int64(data[np.uintp(lo)]), np.int64(data[np.uintp(hi - 1)]), size)
    if not (marks[np.uintp(mark >> 6)] >> np.uint64(mark & 63)) & np.uint64(1):
        return np.int64(-1)
    return find(keys, hash_word(data, lo, hi))


@helper
def _start_of_last(data, lo, hi):  # type: ignore[no-untyped-def]
    at = hi - 1
    while at > lo and data[np.uintp(at)] >> 6 == 2:
        at -= 1
    return at


@helper
def _is_digit(data, at):  # type: ignore[no-untyped-def]
    return 48 <= data[np.uintp(at)] <= 57


@helper
def _peeled_before(data, lo, hi, table):  # type: ignore[no-untyped-def]
    """Bytes of the sign that is cut off the beginning."""
    byte = np.int64(data[np.uintp(lo)])
    if byte >= 0x80:
        code_point, length = decode(data, lo, hi)
        return length if table[np.uintp(code_point)] & (AFFIX | PREFIX) else 0
    if table[np.uintp(byte)] & (AFFIX | PREFIX):
        return 1
    if byte == 46:  # full stops, if there are two or more
        dots = dots_at(data, lo, hi)
        return dots if dots > 1 else 0
    if byte == 43:  # +, but not that of a number
        return 0 if lo + 1 < hi and _is_digit(data, lo + 1) else 1
    if byte == 85 and lo + 2 < hi and data[np.uintp(lo + 1)] == 83 and data[np.uintp(lo + 2)] == 36:  # US$
        return 3
    if (byte == 65 or byte == 67) and lo + 1 < hi and data[np.uintp(lo + 1)] == 36:  # A$, C$
        return 2
    return 0


@helper
def _peeled_after(data, lo, hi, seen, table):  # type: ignore[no-untyped-def]
    """Bytes of what is cut off the end: a sign, a full stop, 's, or a unit after a number."""
    if lo >= hi:
        return 0
    at = hi - 1
    byte = np.int64(data[np.uintp(at)])
    if byte >= 0x80:
        at = _start_of_last(data, lo, hi)
        bits = np.int64(table[np.uintp(decode(data, at, hi)[0])])
    else:
        bits = np.int64(table[np.uintp(byte)])
    if bits & AFFIX:
        return hi - at
    if at == lo:
        return 0
    if byte == 46:
        return _stops_after(data, lo, at, table)
    if byte == 115 or byte == 83:  # s, S
        quote = _start_of_last(data, lo, at)
        code_point = np.int64(data[np.uintp(quote)]) if quote == at - 1 else decode(data, quote, hi)[0]
        if code_point == 39 or code_point == 0x2019:
            return hi - quote
    if not seen & DIGIT or bits & DIGIT:
        return 0
    if byte == 43 or bits & CURRENCY:
        return hi - at if _is_digit(data, at - 1) else 0
    return _unit_after(data, lo, hi) if bits & ALPHANUMERIC or byte == 37 else 0


@helper
def _stops_after(data, lo, at, table):  # type: ignore[no-untyped-def]
    """Bytes of the full stops at the end, the last of which stands at `at`, if they are cut off."""
    if data[np.uintp(at - 1)] == 46:
        first = at - 1
        while first > lo and data[np.uintp(first - 1)] == 46:
            first -= 1
        return at + 1 - first
    before = _start_of_last(data, lo, at)
    bits = np.int64(table[np.uintp(decode(data, before, at)[0])])
    if bits & BEFORE_STOP:
        return 1
    if bits & UPPER and before > lo:
        second, _ = decode(data, _start_of_last(data, lo, before), at)
        return 1 if table[np.uintp(second)] & UPPER else 0
    return 0


@helper
def _unit_after(data, lo, hi):  # type: ignore[no-untyped-def]
    """Bytes of a unit of measure at the end, if it stands after a digit."""
    code = np.uint64(0)
    for k in range(hi - 1, max(hi - 2 - _LONGEST_UNIT, lo) - 1, -1):
        if _is_digit(data, k):
            found = np.searchsorted(_UNIT_CODES, code)
            return hi - 1 - k if found < len(_UNIT_CODES) and _UNIT_CODES[found] == code else 0
        code |= np.uint64(data[np.uintp(k)]) << np.uint64(8 * (hi - 1 - k))
    return 0
