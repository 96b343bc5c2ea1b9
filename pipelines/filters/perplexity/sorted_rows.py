"""Sorts more rows than fit into memory, and reads sorted rows of several origins side by side.

A row is uint64[3]: a key of 128 bits, the more significant half first, and a payload. What rows mean stands where they
are made, in `ngram_counts.py` and `ngram_estimates.py`.
"""

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numba
import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.uint64]
"""uint64[n, 3]."""

ROW_BYTES = 24
KEY_BITS = 128
_DIGIT_BITS = 11
_LEAST_ROWS = 64
"""However small the memory: a block, and what is read of a file at once."""


def leading_bits(count: int) -> npt.NDArray[np.uint64]:
    """uint64[2]: the mask of so many leading bits of a key."""
    mask = ((1 << count) - 1) << (KEY_BITS - count)
    return np.array([mask >> 64, mask & (2**64 - 1)], np.uint64)


class Spool:
    """Rows in a file: written once from beginning to end, then read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("wb+", buffering=0)
        self.rows = 0

    def append(self, rows: Rows) -> None:
        """Write rows at the end."""
        content = np.ascontiguousarray(rows).data.cast("B") if len(rows) else memoryview(b"")
        while content:
            content = content[self._file.write(content) :]
        self.rows += len(rows)

    def read(self, at_once: int, start: int = 0, stop: int | None = None) -> Iterator[Rows]:
        """The rows from start to stop in order, so many at once. Several readers may be at work."""
        stop = self.rows if stop is None else stop
        for at in range(start, stop, at_once):
            rows = np.empty((min(at_once, stop - at), 3), np.uint64)
            content, place = rows.data.cast("B"), at * ROW_BYTES
            while content:
                taken = os.preadv(self._file.fileno(), [content], place)
                if not taken:
                    raise OSError(f"{self._path} has become shorter while it was read")
                content, place = content[taken:], place + taken
            yield rows

    def close(self) -> None:
        """Delete the file."""
        self._file.close()
        self._path.unlink()


class Sorter:
    """Sorts streams of rows within a memory budget, block by block, through a file.

    memory_bytes: for two copies of a block, or for what is read of all blocks while they are merged.
    """

    def __init__(self, folder: Path, memory_bytes: int) -> None:
        self._folder = folder
        self.block_rows = max(_LEAST_ROWS, memory_bytes // (2 * ROW_BYTES))
        self.rows_at_once = max(_LEAST_ROWS, min(self.block_rows // 16, 1 << 16))
        """How many rows the steps of a pipeline hand on at once."""
        self._number = 0

    def spool(self) -> Spool:
        """An empty file of rows."""
        self._number += 1
        return Spool(self._folder / f"rows-{self._number}")

    def sorted(
        self, stream: Iterable[Rows], bits: int, tie_bits: int = 0, combine: Callable[[Rows], Rows] = lambda rows: rows
    ) -> Iterator[Rows]:
        """The rows of a stream in the order of the leading bits of their keys; rows equal in them keep their order.

        tie_bits: rows equal in the leading bits arrive in the order of so many further ones, which is cheaper than to
        sort by these too. combine: joins neighbours with equal keys in rows that are sorted; all rows with one key pass
        it together in the end. The same rows come in the same order whatever the memory.
        """
        runs, ends = self.spool(), [0]
        block, spare = (np.empty((self.block_rows, 3), np.uint64) for _ in range(2))
        filled = 0
        for rows in stream:
            at = 0
            while at < len(rows):
                taken = min(len(rows) - at, self.block_rows - filled)
                block[filled : filled + taken] = rows[at : at + taken]
                filled, at = filled + taken, at + taken
                if filled == self.block_rows:
                    runs.append(combine(_sorted(block, spare, bits)))
                    ends.append(runs.rows)
                    filled = 0
        last = combine(_sorted(block[:filled], spare[:filled], bits))
        if runs.rows:
            runs.append(last)
            ends.append(runs.rows)
            del block, spare, last
            yield from self._merged(runs, ends, bits, tie_bits, combine)
        else:
            del block, spare
            for at in range(0, len(last), self.rows_at_once):
                yield last[at : at + self.rows_at_once]
        runs.close()

    def _merged(
        self, runs: Spool, ends: list[int], bits: int, tie_bits: int, combine: Callable[[Rows], Rows]
    ) -> Iterator[Rows]:
        at_once = max(_LEAST_ROWS, self.block_rows // (3 * len(ends)))
        streams = [runs.read(at_once, start, stop) for start, stop in itertools.pairwise(ends)]
        for parts in in_step(streams, bits + tie_bits):
            rows = np.concatenate(parts)
            merged = combine(_sorted(rows, np.empty_like(rows), bits))
            for at in range(0, len(merged), self.rows_at_once):
                yield merged[at : at + self.rows_at_once]


def in_step(streams: Sequence[Iterator[Rows]], bits: int) -> Iterator[list[Rows]]:
    """Read sorted streams side by side: each round gives the next rows of every stream, up to a common key.

    Keys are compared by so many leading bits; rows that are equal in them come in the same round, of whichever stream.
    Memory: of each stream two chunks, or the longest series of rows with one key.
    """
    mask = leading_bits(bits)
    held: list[Rows] = [np.empty((0, 3), np.uint64)] * len(streams)
    ended, got = [False] * len(streams), [0] * len(streams)
    while True:
        for index, stream in enumerate(streams):
            while not ended[index] and (2 * len(held[index]) <= got[index] or _same(held[index], mask)):
                more = next(stream, None)
                if more is None:
                    ended[index] = True
                else:
                    held[index] = np.concatenate([held[index], more]) if len(held[index]) else more
                    got[index] = len(more)
        lasts = [tuple((rows[-1, :2] & mask).tolist()) for rows, over in zip(held, ended, strict=True) if not over]
        if not lasts:
            if any(map(len, held)):
                yield held
            return
        boundary = np.array(min(lasts), np.uint64)
        places = [_place(rows, boundary, mask) for rows in held]
        yield [rows[:place] for rows, place in zip(held, places, strict=True)]
        held = [rows[place:] for rows, place in zip(held, places, strict=True)]


def _sorted(rows: Rows, spare: Rows, bits: int) -> Rows:
    """The rows in order, in one of the two arrays; both are overwritten."""
    return spare if _radix_sort(rows, spare, KEY_BITS - bits) else rows


@numba.njit(nogil=True, cache=True)
def _same(rows, mask):  # type: ignore[no-untyped-def]
    """Whether rows that are sorted all have one key."""
    last = len(rows) - 1
    return (rows[0, 0] ^ rows[last, 0]) & mask[0] == 0 and (rows[0, 1] ^ rows[last, 1]) & mask[1] == 0


@numba.njit(nogil=True, cache=True)
def _place(rows, boundary, mask):  # type: ignore[no-untyped-def]
    """How many of the sorted rows have a key below the boundary."""
    low, high = 0, len(rows)
    while low < high:
        middle = (low + high) >> 1
        first, second = rows[middle, 0] & mask[0], rows[middle, 1] & mask[1]
        if first < boundary[0] or (first == boundary[0] and second < boundary[1]):
            low = middle + 1
        else:
            high = middle
    return low


@numba.njit(nogil=True, cache=True)
def _radix_sort(rows, spare, lowest):  # type: ignore[no-untyped-def]
    """Sort by the bits of the key from `lowest` (0: least significant) up, least significant digit first, stably.
    Whether the result stands in spare; otherwise in rows."""
    moved = False
    source, target = rows, spare
    for low in range(lowest, KEY_BITS, _DIGIT_BITS):
        width = min(_DIGIT_BITS, KEY_BITS - low)
        mask = np.uint64((1 << width) - 1)
        starts = np.zeros(1 << width, np.int64)
        for index in range(len(source)):
            starts[_digit(source[index, 0], source[index, 1], low) & mask] += 1
        if starts.max() == len(source):
            continue
        place = 0
        for digit in range(len(starts)):
            count = starts[digit]
            starts[digit] = place
            place += count
        for index in range(len(source)):
            digit = _digit(source[index, 0], source[index, 1], low) & mask
            row = starts[digit]
            starts[digit] = row + 1
            target[row, 0] = source[index, 0]
            target[row, 1] = source[index, 1]
            target[row, 2] = source[index, 2]
        source, target = target, source
        moved = not moved
    return moved


@numba.njit(nogil=True, cache=True, inline="always")
def _digit(first, second, low):  # type: ignore[no-untyped-def]
    """The bits of a key from `low` up, as a number."""
    if low >= 64:
        return first >> np.uint64(low - 64)
    if low == 0:
        return second
    return second >> np.uint64(low) | first << np.uint64(64 - low)
