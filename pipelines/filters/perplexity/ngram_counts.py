"""Counts the n-grams of a text of word ids, in files: the longest ones first, all others while those are read.

What is estimated from counts stands in `ngram_estimates.py`, sorting in `sorted_rows.py`.

The key of an n-gram holds its word ids from the last word to the first, in equal fields from the most significant bit
down, and zeros after them: 0, the unknown word, is part of no n-gram. In the order of such keys ("suffix order") the
n-grams that end in the same words stand together.
"""

from collections.abc import Iterable, Iterator

import numba
import numpy as np
import numpy.typing as npt

from pipelines.filters.perplexity.ngram_scoring import BEGIN
from pipelines.filters.perplexity.sorted_rows import Rows, Sorter, leading_bits

_BEGIN = np.uint64(BEGIN)


def word_bits(vocabulary_size: int) -> int:
    """Length of a word's field in a key."""
    return (vocabulary_size - 1).bit_length()


def windows(ids: Iterable[npt.NDArray[np.int32]], order: int, bits: int) -> Iterator[Rows]:
    """A row per known word but BEGIN: the word and those before it, up to the order, the beginning or an unknown one;
    payload 1."""
    state, mask = np.zeros(2, np.uint64), leading_bits(order * bits)
    for piece in ids:
        rows = np.empty((len(piece), 3), np.uint64)
        yield rows[: _window_rows(piece, bits, mask, state, rows)]


def added(rows: Rows) -> Rows:
    """Sorted rows with the payloads of equal keys added up, in place."""
    return rows[: _add(rows)]


class Counts:
    """Reads the longest n-grams in suffix order, each with how often it was seen, and counts those of every length.

    ngrams: by length from 2, all n-grams in suffix order; payload: adjusted count << 1 | whether it stays in the model.
    The adjusted count is what is estimated from: the number of different words to the left (unknown words being one),
    or how often it was seen where no word can stand to the left, at the longest length and after <s>. unigrams:
    adjusted counts by word id. counts_of_counts: by length, how many have an adjusted count of 1 … 4.
    """

    def __init__(self, order: int, bits: int, vocabulary_size: int, min_count: int, sorter: Sorter) -> None:
        self.ngrams = {n: sorter.spool() for n in range(2, order + 1)}
        self.unigrams = np.zeros(vocabulary_size, np.int64)
        self.counts_of_counts = np.zeros((order + 1, 5), np.int64)
        self._bits, self._min_count = bits, min_count
        self._masks = np.stack([leading_bits(n * bits) for n in range(order + 1)])
        self._state = np.zeros(2, np.uint64)
        self._seen, self._adjusted = np.zeros(order + 1, np.int64), np.zeros(order + 1, np.int64)
        self._made = np.empty((order + 1, 0, 3), np.uint64)

    def read(self, rows: Rows) -> None:
        """The next rows of the stream, with distinct keys."""
        if self._made.shape[1] < len(rows):
            self._made = np.empty((len(self._masks), len(rows), 3), np.uint64)
        lengths = np.zeros(len(self._masks), np.int64)
        _count_rows(
            rows, self._masks, self._bits, self._min_count, self._state, self._seen, self._adjusted,
            self.unigrams, self.counts_of_counts, self._made, lengths,
        )  # fmt: skip
        for n, spool in self.ngrams.items():
            spool.append(self._made[n, : lengths[n]])

    def finish(self) -> None:
        """The stream is over: what stands open is counted. A key of zeros shares nothing with the one before."""
        self.read(np.zeros((1, 3), np.uint64))


@numba.njit(nogil=True, cache=True)
def _window_rows(ids, bits, mask, state, rows):  # type: ignore[no-untyped-def]
    """Fill rows; how many there are. state: the key that ends at the last word read."""
    found = 0
    first, second = state[0], state[1]
    top, up = np.uint64(64 - bits), np.uint64(bits)
    for position in range(len(ids)):
        word = np.uint64(ids[position])
        if word <= _BEGIN:  # or it is unknown
            first, second = word << top, np.uint64(0)
            continue
        second = (second >> up | first << top) & mask[1]
        first = (word << top | first >> up) & mask[0]
        rows[found, 0], rows[found, 1], rows[found, 2] = first, second, np.uint64(1)
        found += 1
    state[0], state[1] = first, second
    return found


@numba.njit(nogil=True, cache=True)
def _add(rows):  # type: ignore[no-untyped-def]
    found = 0
    for index in range(len(rows)):
        if found and rows[index, 0] == rows[found - 1, 0] and rows[index, 1] == rows[found - 1, 1]:
            rows[found - 1, 2] += rows[index, 2]
        else:
            rows[found, 0], rows[found, 1], rows[found, 2] = rows[index, 0], rows[index, 1], rows[index, 2]
            found += 1
    return found


@numba.njit(nogil=True, cache=True)
def _count_rows(  # type: ignore[no-untyped-def]
    rows, masks, bits, min_count, state, seen, adjusted, unigrams, counts_of_counts, made, lengths
):
    """state: the key before, uint64[2]. seen[n], adjusted[n]: counts so far of its last n words. made[n], lengths[n]:
    rows of the n-grams that are over, and how many."""
    order = len(masks) - 1
    for index in range(len(rows)):
        first, second = rows[index, 0], rows[index, 1]
        common = 0  # words that the key shares with the one before
        while common < order:
            mask = masks[common + 1]
            if (first ^ state[0]) & mask[0] or (second ^ state[1]) & mask[1]:
                break
            common += 1
        for n in range(common + 1, order + 1):
            word_first, word_second = masks[n, 0] & ~masks[n - 1, 0], masks[n, 1] & ~masks[n - 1, 1]
            if not (state[0] & word_first or state[1] & word_second):
                break
            at_begin = word_of(state[0], state[1], n, bits) == _BEGIN
            count = seen[n] if n == order or at_begin else adjusted[n]
            if count <= 4:
                counts_of_counts[n, count] += 1
            if n == 1:
                unigrams[state[0] >> np.uint64(64 - bits)] = count
            else:
                row = made[n, lengths[n]]
                row[0], row[1] = state[0] & masks[n, 0], state[1] & masks[n, 1]
                row[2] = np.uint64(count) << np.uint64(1) | np.uint64(n < 3 or seen[n] >= min_count)
                lengths[n] += 1
        for n in range(1, order + 1):
            if n > common:
                seen[n] = 0
                adjusted[n] = 0
            seen[n] += np.int64(rows[index, 2])
            if n >= common:
                adjusted[n] += 1
        state[0], state[1] = first, second


@numba.njit(nogil=True, cache=True, inline="always")
def word_of(first, second, n, bits):  # type: ignore[no-untyped-def]
    """The n-th word of a key, from 1."""
    low = 128 - n * bits
    if low >= 64:
        value = first >> np.uint64(low - 64)
    elif low == 0:
        value = second
    else:
        value = second >> np.uint64(low) | first << np.uint64(64 - low)
    return value & np.uint64((1 << bits) - 1)
