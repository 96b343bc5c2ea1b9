"""SimHash: fingerprints of 64 bits that differ in few bits where texts share most of their features.

Charikar (2002); tables over blocks of bits as in Manku, Jain and Das Sarma (2007). Features are shingles, each weighted
with the number of times it occurs. Who resembles whom is decided in `leaders.py`.
"""

import itertools

import numba
import numpy as np
import numpy.typing as npt

BITS = 64


def fingerprints(shingles: npt.NDArray[np.uint64], offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """The fingerprint of every document, uint64[documents]; 0 for documents without shingles.

    shingles: 64-bit hashes, repeats included; those of document i stand in shingles[offsets[i]:offsets[i + 1]]. Bit k
    is set where more of them have it set than not (a tie clears it).
    """
    prints = np.zeros(len(offsets) - 1, np.uint64)
    _fingerprints(shingles, offsets, prints)
    return prints


def table_masks(distance: int, blocks: int) -> npt.NDArray[np.uint64]:
    """The bits that each table's key consists of, uint64[tables].

    Two fingerprints that differ in at most `distance` bits differ in at most so many of the `blocks`, so all the other
    blocks agree, and the pair shares the key of the table that consists of those: no pair is missed. There are
    C(blocks, distance) tables. Raises `ValueError` unless distance < blocks <= 64.
    """
    if not 0 <= distance < blocks <= BITS:
        raise ValueError(f"distance = {distance} needs more blocks than that, and at most {BITS}; blocks = {blocks}")
    cuts = [BITS * block // blocks for block in range(blocks + 1)]
    of_block = [(1 << stop) - (1 << start) for start, stop in itertools.pairwise(cuts)]
    return np.array([sum(chosen) for chosen in itertools.combinations(of_block, blocks - distance)], np.uint64)


@numba.njit(nogil=True, cache=True)
def hamming(left: np.uint64, right: np.uint64) -> np.int64:
    """In how many bits two fingerprints differ."""
    bits = left ^ right
    bits -= (bits >> np.uint64(1)) & np.uint64(0x5555555555555555)
    bits = (bits & np.uint64(0x3333333333333333)) + ((bits >> np.uint64(2)) & np.uint64(0x3333333333333333))
    bits = (bits + (bits >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((bits * np.uint64(0x0101010101010101)) >> np.uint64(56))


@numba.njit(nogil=True, cache=True)
def _fingerprints(shingles, offsets, prints) -> None:  # type: ignore[no-untyped-def]
    ones = np.empty(BITS, np.int32)
    for document in range(len(offsets) - 1):
        start, stop = offsets[document], offsets[document + 1]
        ones[:] = 0
        for i in range(start, stop):
            value = shingles[np.uintp(i)]
            for bit in range(BITS):
                ones[bit] += np.int32((value >> np.uint64(bit)) & np.uint64(1))
        found = np.uint64(0)
        for bit in range(BITS):
            found |= np.uint64(2 * np.int64(ones[bit]) > stop - start) << np.uint64(bit)
        prints[document] = found
