"""A shuffle that needs no memory: where any place of it goes is worked out on the spot, from a key.

A Feistel network over the smallest power of two that holds the numbers, walked again while it leads outside them
(Black & Rogaway 2002, "Ciphers with arbitrary finite domains"). Integers only: the same on any machine.
"""

import numba
import numpy as np
import xxhash

ROUNDS = 8
"""Rounds of the network; four make a random-like permutation of random-like functions (Luby & Rackoff 1988)."""

LEAST_BITS = 8
"""Width of the network for few numbers: with halves of two bits some orders of four are twice as frequent as others."""


def key_of(*said: object) -> np.uint64:
    """A key from whatever tells permutations apart: a seed, a name, an epoch."""
    return np.uint64(xxhash.xxh3_64_intdigest("/".join(map(str, said)).encode()))


@numba.njit(cache=True, nogil=True)
def permuted(place: int, count: int, key: np.uint64) -> np.int64:
    """The number that stands at `place` of the numbers below `count` in the order of `key`; one for each place.

    place: 0 to count - 1, which is not checked. Takes less than two walks through the network on average, more below
    128 numbers.
    """
    bits = LEAST_BITS
    while (count - 1) >> bits:
        bits += 1
    low_bits = np.uint64(bits // 2)
    high_bits = np.uint64(bits) - low_bits
    value = np.uint64(place)
    while True:
        value = _network(value, low_bits, high_bits, key)
        if value < np.uint64(count):
            return np.int64(value)


@numba.njit(cache=True, nogil=True)
def _network(value: np.uint64, low_bits: np.uint64, high_bits: np.uint64, key: np.uint64) -> np.uint64:
    """One pass: in turn each part is mixed with a hash of the other, which can be undone, so nothing meets."""
    one = np.uint64(1)
    low_mask, high_mask = (one << low_bits) - one, (one << high_bits) - one
    low, high = value & low_mask, value >> low_bits
    for step in range(ROUNDS):
        tweak = key + np.uint64(step) * np.uint64(0x9E3779B97F4A7C15)
        if step % 2:
            high ^= mixed(low + tweak) & high_mask
        else:
            low ^= mixed(high + tweak) & low_mask
    return high << low_bits | low


@numba.njit(cache=True, nogil=True)
def mixed(bits: np.uint64) -> np.uint64:
    """SplitMix64's finalizer (Steele et al. 2014): every bit of the input moves about half of the output's."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
