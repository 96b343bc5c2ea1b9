"""Buckets: documents that share a key. Whoever shares none is kept without being compared to anybody.

A key is the hash of one band of a MinHash signature, or the bits of one SimHash table. Most documents share none, so
the buckets of the others are all that has to be held in memory.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from pipelines.dedup.lsh import Banding

Keys = Callable[[int, int], npt.NDArray[np.uint64]]
"""Some of the keys of every document, from one number up to another: uint64[keys, documents]."""

NONE = -1
AT_ONCE = 2
"""Keys that are made and grouped together: 8 bytes each per document. Two bands of eight values fill a cache line, so
that reading signatures more often reads no more of them."""

MOST_BUCKETS = 2**31 - 1


@dataclass(frozen=True)
class Buckets:
    """Who shares a key with whom.

    members: int64[members], the documents that share a key, ascending. of: int32[members, keys], the number of the
    bucket that each key leads to, `NONE` where nobody else has the key. count: how many buckets there are.
    """

    members: npt.NDArray[np.int64]
    of: npt.NDArray[np.int32]
    count: int


def shared_buckets(keys: Keys, number: int, documents: int) -> Buckets:
    """Group documents by each of `number` keys, and drop those that share none.

    Memory: 4 bytes a key and 32 bytes for each document while it works; what stays is 4 bytes a key and 8 bytes
    for each member. Raises `ValueError` where there are more buckets than 2^31.
    """
    of = np.full((number, documents), np.int32(NONE))
    count = 0
    for start in range(0, number, AT_ONCE):
        stop = min(start + AT_ONCE, number)
        for key, values in zip(range(start, stop), keys(start, stop), strict=True):
            count = _number_equal(values, np.argsort(values), of[key], count)
            if count > MOST_BUCKETS - documents:
                raise ValueError(
                    f"{documents:,} documents share too many buckets for one machine; set engine.kind to spark"
                )
    shares = np.zeros(documents, np.bool_)
    for numbers in of:
        shares |= numbers != NONE
    members = np.flatnonzero(shares)
    return Buckets(members, np.ascontiguousarray(of[:, members].T if len(members) < documents else of.T), count)


def band_keys(
    signatures: npt.NDArray[np.uint32], banding: Banding, first: int, places: npt.NDArray[np.int32], keys: Any
) -> None:
    """Write the hashes of some bands of every signature, from the first on: keys is uint64[bands, documents].

    signatures: uint32[signatures, permutations]. places: int32[signatures], which document each belongs to; negative
    for those that are left out.
    """
    _band_keys(signatures, banding.rows, first, places, keys)


@numba.njit(nogil=True, cache=True)
def _band_keys(signatures, rows, first, places, keys) -> None:  # type: ignore[no-untyped-def]
    for i in range(len(signatures)):
        if places[i] < 0:
            continue
        for band in range(len(keys)):
            value = np.uint64(0xCBF29CE484222325)
            for k in range((first + band) * rows, (first + band + 1) * rows):
                value = (value ^ np.uint64(signatures[i, k])) * np.uint64(0x9E3779B97F4A7C15)
                value ^= value >> np.uint64(32)
            keys[band, places[i]] = value


@numba.njit(nogil=True, cache=True)
def _number_equal(values, order, numbers, count) -> int:  # type: ignore[no-untyped-def]
    for i in range(1, len(order)):
        if values[order[i]] == values[order[i - 1]]:
            if numbers[order[i - 1]] < 0:
                numbers[order[i - 1]] = count
                count += 1
            numbers[order[i]] = numbers[order[i - 1]]
    return count
