"""MinHash signatures, bit for bit those of `datasketch.MinHash(scheme="affine32")` fed the same 32-bit hashes.

So datasketch's indexes work on our signatures, and datasketch is the test's oracle. What is hashed stands in
`pipelines/text/shingles.py`; who resembles whom in `lsh.py`.
"""

import numba
import numpy as np
import numpy.typing as npt

_SIDE_BY_SIDE = 4
_NO_SETS = np.zeros(0, np.uint32)


def permutation_factors(permutations: int, seed: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """Factors a (odd) and summands b of the permutations h → a·h + b mod 2^32, uint32[permutations] each.

    Drawn in datasketch's order from numpy's legacy generator, whose stream is frozen.
    """
    generator = np.random.RandomState(seed)
    halves = generator.randint(0, 1 << 31, permutations, dtype=np.uint32)
    return halves * np.uint32(2) + np.uint32(1), generator.randint(0, 1 << 32, permutations, dtype=np.uint32)


def minhash_signatures(
    shingles: npt.NDArray[np.uint64],
    offsets: npt.NDArray[np.int64],
    permutations: int,
    seed: int,
    sets: npt.NDArray[np.uint32] = _NO_SETS,
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """Signatures uint32[documents, permutations] and the number of distinct shingles, int64[documents].

    shingles: 64-bit hashes, of which the upper 32 bits count; those of document i stand in
    shingles[offsets[i]:offsets[i + 1]]. A document without shingles has 2^32 - 1 everywhere, like an empty MinHash.
    sets: where it has room for all shingles, it is filled with the distinct hashes (mixed, 32 bits) of each document,
    one document after the other. Broder (1997); permutations as in datasketch 2.0. Memory: 8 to 16 bytes per shingle of
    the longest document.
    """
    factors, summands = permutation_factors(permutations, seed)
    documents = len(offsets) - 1
    signatures = np.full((documents, permutations), np.uint32(0xFFFFFFFF))
    distinct = np.zeros(documents, np.int64)
    longest = int(np.diff(offsets).max(initial=0))
    slots = np.empty(slots_for(longest), np.uint32)
    unique = np.empty(longest + _SIDE_BY_SIDE, np.uint32)
    _minhash(shingles, offsets, factors, summands, slots, unique, signatures, distinct, sets)
    return signatures, distinct


@numba.njit(nogil=True, cache=True)
def slots_for(shingles: int) -> int:
    """Slots of an open hash table for so many values: a power of two, at most half of them taken."""
    slots = 16
    while slots < 2 * shingles:
        slots *= 2
    return slots


@numba.njit(nogil=True, cache=True)
def _murmur_finalizer(value: np.uint32) -> np.uint32:
    value = np.uint32(np.uint32(value ^ (value >> np.uint32(16))) * np.uint32(0x85EBCA6B))
    value = np.uint32(np.uint32(value ^ (value >> np.uint32(13))) * np.uint32(0xC2B2AE35))
    return np.uint32(value ^ (value >> np.uint32(16)))


@numba.njit(nogil=True, cache=True)
def _distinct_hashes(shingles, start, stop, slots, unique) -> int:  # type: ignore[no-untyped-def]
    """Fill `unique` with the mixed hashes of shingles[start:stop], each once; returns how many.

    The finalizer is a bijection that maps 0 to 0, so distinct hashes stay distinct and 0 can mark a free slot.
    """
    mask = np.uintp(slots_for(stop - start) - 1)
    slots[: mask + np.uintp(1)] = 0
    count = 0
    has_zero = False
    for i in range(start, stop):
        value = _murmur_finalizer(np.uint32(shingles[np.uintp(i)] >> np.uint64(32)))
        if value == 0:
            has_zero = True
            continue
        slot = np.uintp(value) & mask
        while slots[slot] != 0 and slots[slot] != value:
            slot = (slot + np.uintp(1)) & mask
        unique[np.uintp(count)] = value
        count += slots[slot] == 0
        slots[slot] = value
    if has_zero:
        unique[count] = 0
        count += 1
    return count


@numba.njit(nogil=True, cache=True)
def _minhash(  # type: ignore[no-untyped-def]
    shingles, offsets, factors, summands, slots, unique, signatures, distinct, sets
) -> None:
    permutations = len(factors)
    held = 0
    for document in range(len(offsets) - 1):
        start, stop = offsets[document], offsets[document + 1]
        if start == stop:
            continue
        count = _distinct_hashes(shingles, start, stop, slots, unique)
        distinct[document] = count
        if len(sets):
            sets[held : held + count] = unique[:count]
            held += count
        while count % _SIDE_BY_SIDE:  # a repeated hash changes no minimum
            unique[count] = unique[count - 1]
            count += 1
        signature = signatures[document]
        for i in range(0, count, _SIDE_BY_SIDE):
            h0, h1, h2, h3 = unique[i], unique[i + 1], unique[i + 2], unique[i + 3]
            for k in range(permutations):
                factor, summand = factors[k], summands[k]
                # numba multiplies and adds uint32 as 64 bits: each cast brings the lane back to 32.
                v0 = np.uint32(np.uint32(factor * h0) + summand)
                v1 = np.uint32(np.uint32(factor * h1) + summand)
                v2 = np.uint32(np.uint32(factor * h2) + summand)
                v3 = np.uint32(np.uint32(factor * h3) + summand)
                signature[k] = min(min(min(v0, v1), min(v2, v3)), signature[k])
