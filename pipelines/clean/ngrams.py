"""How much of a text its repeated word n-grams are: Gopher's measures of repetition (Rae et al. 2021, table A1).

Only n-grams that begin with a repeated shorter one can be repeated, so most places of an ordinary text are looked at
once. The words come from `words.py`.
"""

import numba
import numpy as np
import numpy.typing as npt

from pipelines.clean.compiled import helper
from pipelines.clean.words import Words
from pipelines.text.shingles import mix

TOP = (2, 3, 4)
DUPLICATE = (5, 6, 7, 8, 9, 10)

_BASE = np.uint64(0x9E3779B97F4A7C15)
_FIRST_DUPLICATE, _LAST_DUPLICATE = DUPLICATE[0], DUPLICATE[-1]
_STAMP_SHIFT = np.uint64(32)
_COUNT = np.uint64(0xFFFFFFFF)


def repeated_characters(words: Words) -> npt.NDArray[np.int64]:
    """int64[9, texts]: characters of the most frequent 2-, 3- and 4-gram, all its occurrences together, then of the
    repeated 5- to 10-grams. 0 where a text has fewer words than n.

    The most frequent n-gram counts with a space between its words, once for every occurrence; of several equally
    frequent ones it is the one that comes first. A repeated n-gram counts from its second occurrence on, without
    spaces, and the search goes on behind it, so no character counts twice. (Of a text without repeats the most frequent
    n-gram is its first one. All this is as in datatrove, which everybody's thresholds are tried with.)

    Two n-grams are equal where 64 bits of hashes are. Time is linear in the words; memory some 100 bytes for each of
    the longest text.
    """
    offsets = words.offsets
    most = int(words.tokens.max(initial=0))
    found = np.zeros((len(TOP) + len(DUPLICATE), len(words.tokens)), np.int64)
    table = np.zeros((_slots(most), 2), np.uint64)
    sums, places = np.empty(most + 1, np.uint64), np.empty(most + 1, np.int32)
    slots = np.empty(most + 1, np.int64)
    _measure(words.hashes, words.lengths, offsets, table, sums, places, slots, found)
    return found


@numba.njit(nogil=True, cache=True)
def _slots(words):  # type: ignore[no-untyped-def]
    """Slots of a table for so many n-grams: a power of two, at most two thirds full."""
    slots = 16
    while slots < words + words // 2:
        slots *= 2
    return slots


@numba.njit(nogil=True, cache=True)
def _measure(hashes, lengths, offsets, table, sums, places, slots, found):  # type: ignore[no-untyped-def]
    """table: n-gram and, in one number, stamp of who put it there and how often it was seen; a slot with an old stamp
    is free. sums: polynomial hashes of the words up to each place, so that the hash of any n-gram is a difference."""
    stamp = np.uint64(0)
    for text in range(len(offsets) - 1):
        first = offsets[text]
        count = offsets[text + 1] - first
        if count < 2:
            continue
        sums[0] = 0
        for i in range(count):
            sums[np.uintp(i + 1)] = sums[np.uintp(i)] * _BASE + hashes[np.uintp(first + i)]
            places[np.uintp(i)] = i
        mask = np.uint64(_slots(count) - 1)
        power = _BASE
        alive = count  # places where an n-gram may be a repeated one
        for n in range(2, _FIRST_DUPLICATE):
            power *= _BASE
            if count < n:
                break
            stamp += np.uint64(1)
            best, at, alive = _count(sums, power, n, count, places, alive, slots, table, mask, stamp)
            size = n - 1
            for k in range(first + at, first + at + n):
                size += lengths[np.uintp(k)]
            found[n - 2, text] = size * best
        for n in range(_FIRST_DUPLICATE, _LAST_DUPLICATE + 1):
            power *= _BASE
            if alive == 0 or count < n:
                break
            stamp += np.uint64(1)
            found[n - 2, text], alive = _repeats(
                sums, power, n, count, places, alive, table, mask, stamp, lengths, first
            )


@helper
def _slot(table, mask, stamp, value):  # type: ignore[no-untyped-def]
    """Where an n-gram stands, or may be put."""
    slot = mix(value) & mask
    while table[slot, 1] >> _STAMP_SHIFT == stamp and table[slot, 0] != value:
        slot = (slot + np.uint64(1)) & mask
    return slot


@helper
def _count(sums, power, n, count, places, alive, slots, table, mask, stamp):  # type: ignore[no-untyped-def]
    """How often the most frequent n-gram occurs, where it stands first, and how many places are left for longer ones:
    those whose n-gram occurs twice or more stand in `places` then."""
    best = np.int64(1)
    at = np.int64(0)
    taken = 0
    for k in range(alive):
        i = np.int64(places[np.uintp(k)])
        if i + n > count:
            break
        value = sums[np.uintp(i + n)] - sums[np.uintp(i)] * power
        slot = _slot(table, mask, stamp, value)
        seen = np.int64(1)
        if table[slot, 1] >> _STAMP_SHIFT == stamp:
            seen += np.int64(table[slot, 1] & _COUNT)
        table[slot, 0] = value
        table[slot, 1] = stamp << _STAMP_SHIFT | np.uint64(seen)
        slots[np.uintp(k)] = np.int64(slot)
        taken += 1
        if seen > best:
            best = seen
    left = 0
    searching = bool(best > 1)
    for k in range(taken):
        seen = np.int64(table[np.uintp(slots[np.uintp(k)]), 1] & _COUNT)
        if seen > 1:
            places[np.uintp(left)] = places[np.uintp(k)]
            left += 1
        if searching and seen == best:
            at = np.int64(places[np.uintp(k)])
            searching = False
    return best, at, left


@helper
def _repeats(  # type: ignore[no-untyped-def]
    sums, power, n, count, places, alive, table, mask, stamp, lengths, first
):
    """Characters of the n-grams that were seen before, none of them twice, and how many places are left for longer
    ones: none where there was no repeated one."""
    characters = np.int64(0)
    free = np.int64(0)  # the search goes on here
    for k in range(alive):
        i = np.int64(places[np.uintp(k)])
        if i + n > count:
            break
        if i < free:
            continue
        value = sums[np.uintp(i + n)] - sums[np.uintp(i)] * power
        slot = _slot(table, mask, stamp, value)
        if table[slot, 1] >> _STAMP_SHIFT == stamp:
            for word in range(first + i, first + i + n):
                characters += lengths[np.uintp(word)]
            free = i + n
        else:
            table[slot, 0] = value
            table[slot, 1] = stamp << _STAMP_SHIFT
    return characters, alive if characters else 0
