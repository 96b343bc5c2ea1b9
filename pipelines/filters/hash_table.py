"""An open-addressing hash table from 64-bit keys to 64-bit values, for compiled code: uint64[slots, 2], linear probing.

Slots are a power of two; a row of zeros is free, so 0 is no key.
"""

import numba
import numpy as np
import numpy.typing as npt


@numba.njit(nogil=True, cache=True)
def find(table, key):  # type: ignore[no-untyped-def]
    """Row of a key; ~ the free row where it belongs (negative) if the key is not there."""
    mask = np.int64(len(table) - 1)
    hashed = key * np.uint64(0x9E3779B97F4A7C15)
    row = np.int64((hashed ^ (hashed >> np.uint64(32))) & np.uint64(mask))
    while True:
        standing = table[row, 0]
        if standing == key:
            return row
        if standing == 0:
            return ~row
        row = (row + 1) & mask


def word_table(hashes: npt.NDArray[np.uint64], ids: npt.NDArray[np.int64], room: int = 0) -> npt.NDArray[np.uint64]:
    """The table uint64[slots, 2] that finds each word's id by its hash. room: for so many words, if more will come."""
    table = empty_table(max(room, len(hashes)))
    _fill(table, hashes, ids.astype(np.uint64))
    return table


def empty_table(entries: int) -> npt.NDArray[np.uint64]:
    """A table with room for so many entries, at most two thirds full."""
    return np.zeros((1 << max(3, (entries * 3 // 2).bit_length()), 2), np.uint64)


@numba.njit(nogil=True, cache=True)
def _fill(table, keys, values):  # type: ignore[no-untyped-def]
    for index in range(len(keys)):
        row = ~find(table, keys[index])
        table[row, 0] = keys[index]
        table[row, 1] = values[index]
