"""Makes the files of an n-gram model from its n-grams, without holding them in memory. What the files mean stands in
`ngram_model.py`."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numba
import numpy as np
import numpy.typing as npt

from pipelines.filters.perplexity.ngram_counts import word_bits
from pipelines.filters.perplexity.ngram_model import FILE_NAMES, description
from pipelines.filters.perplexity.ngram_scoring import home_of, key_of, longer_hash
from pipelines.filters.perplexity.sorted_rows import Rows, Sorter
from pipelines.filters.words import hashes_of

_KEY_ORDER_BITS = 32
"""Slots follow the first bits of keys."""


def write_model(
    folder: Path,
    ngrams: Iterable[Iterable[Rows]],
    facts: dict[str, Any],
    vocabulary: list[str],
    sorter: Sorter,
) -> list[Path]:
    """Write the files of a model into a folder; their paths, in the order of `FILE_NAMES`.

    ngrams: of each length, its n-grams as `ngram_estimates.py` describes them; the payload holds two float32, the
    natural logarithms of probability and backoff. facts: `NgramModel.facts`.
    """
    paths = [folder / name for name in FILE_NAMES]
    hashes, layout = hashes_of(vocabulary), []
    bits = word_bits(len(vocabulary))
    with _ArrayFile(paths[0]) as table, _ArrayFile(paths[1]) as listed:
        for n, (rows_of_length, count) in enumerate(zip(ngrams, facts["ngrams"], strict=True), start=1):
            homes = count * 3 // 2 + 1
            layout.append([table.rows, homes])
            hashed = _hashed(rows_of_length, n, bits, hashes, listed if n > 1 else None)
            for slots in _placed(sorter.sorted(hashed, _KEY_ORDER_BITS), homes):
                table.append(slots)
    for path, content in zip(paths[2:], description(vocabulary, facts, np.array(layout)), strict=True):
        path.write_bytes(content)
    return paths


class _ArrayFile:
    """An array uint64[n, 2] in a .npy file, written from beginning to end."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = path.open("wb")
        self.rows = 0
        self._write_header()

    def append(self, rows: npt.NDArray[np.uint64]) -> None:
        """Write rows at the end."""
        self._file.write(np.ascontiguousarray(rows).data)
        self.rows += len(rows)

    def __enter__(self) -> "_ArrayFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.seek(0)
        self._write_header()  # numpy leaves room in it, so that it keeps its length
        self._file.close()

    def _write_header(self) -> None:
        header = {"descr": "<u8", "fortran_order": False, "shape": (self.rows, 2)}
        np.lib.format.write_array_header_1_0(self._file, header)


def _hashed(
    ngrams: Iterable[Rows], n: int, bits: int, hashes: npt.NDArray[np.uint64], listed: _ArrayFile | None
) -> Iterator[Rows]:
    """Rows whose key is that of the model's table; the n-grams themselves are listed."""
    for rows in ngrams:
        if listed:
            listed.append(rows[:, :2])
        made = np.empty_like(rows)
        _hash_rows(rows, n, bits, hashes, made)
        yield made


def _placed(keys: Iterator[Rows], homes: int) -> Iterator[npt.NDArray[np.uint64]]:
    """The slots of one length, piece by piece, from its n-grams in the order of their keys. The last one is empty."""
    at = 0
    for rows in keys:
        slots = np.zeros((max(0, home_of(rows[-1, 0], homes) - at) + len(rows) + 1, 2), np.uint64)
        filled = _place(rows, homes, at, slots)
        yield slots[:filled]
        at += filled
    yield np.zeros((max(homes - at, 0) + 1, 2), np.uint64)


@numba.njit(nogil=True, cache=True)
def _hash_rows(rows, n, bits, hashes, made):  # type: ignore[no-untyped-def]
    up, top = np.uint64(bits), np.uint64(64 - bits)
    for index in range(len(rows)):
        first, second = rows[index, 0], rows[index, 1]
        hashed = hashes[first >> top]
        for _ in range(n - 1):
            first, second = first << up | second >> top, second << up
            hashed = longer_hash(hashed, hashes[first >> top])
        made[index, 0], made[index, 1], made[index, 2] = key_of(hashed), 0, rows[index, 2]


@numba.njit(nogil=True, cache=True)
def _place(rows, homes, start, slots):  # type: ignore[no-untyped-def]
    """Fill slots, of which the first is number `start`; how many are needed."""
    free = 0
    for index in range(len(rows)):
        slot = max(free, home_of(rows[index, 0], homes) - start)
        slots[slot, 0], slots[slot, 1] = rows[index, 0], rows[index, 2]
        free = slot + 1
    return free
