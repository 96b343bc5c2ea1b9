"""N-gram models in the ARPA format, which kenlm, SRILM and others read and write: logarithms to base 10, plain text."""

import gzip
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, NoReturn, cast

import numba
import numpy as np
import numpy.typing as npt

from pipelines.filters.perplexity.ngram_counts import word_bits
from pipelines.filters.perplexity.ngram_model import NgramModel
from pipelines.filters.perplexity.ngram_scoring import BEGIN, END, SPECIAL_WORDS, UNKNOWN, longer_hash
from pipelines.filters.perplexity.ngram_table import write_model
from pipelines.filters.perplexity.sorted_rows import KEY_BITS, Rows, Sorter
from pipelines.filters.words import hashes_of

_LOG_ZERO = -99.0
"""What ARPA files put for the probability of <s>, which never follows anything."""
_MISSING_UNKNOWN = -100.0
"""What kenlm takes for <unk> where a file has none."""
_ROWS_AT_ONCE = 1 << 16
_SORTING_BYTES = 200_000_000


# -- writing -----------------------------------------------------------------------------------------------------


def write_arpa(model: NgramModel, path: Path) -> None:
    """Write the model to a file, gzipped where the name ends in .gz. Words are those of the vocabulary: folded ones for
    a model that was trained here, so that a program that scores with the file must cut and fold words the same way."""
    counts = model.facts["ngrams"]
    bits = word_bits(len(model.vocabulary))
    hashes = hashes_of(model.vocabulary)
    with gzip.open(path, "wb") if path.suffix == ".gz" else path.open("wb") as file:
        file.write(b"\\data\\\n")
        file.write("".join(f"ngram {n}={count}\n" for n, count in enumerate(counts, start=1)).encode())
        begin = 0
        for n, count in enumerate(counts, start=1):
            file.write(f"\n\\{n}-grams:\n".encode())
            for at in range(0, count, _ROWS_AT_ONCE):
                if n == 1:
                    ids = np.arange(at, min(at + _ROWS_AT_ONCE, count))[:, None]
                else:
                    ids = _unpacked(model.ngrams[begin + at : begin + min(at + _ROWS_AT_ONCE, count)], n, bits)
                values = model.values_of(n, _hashes(ids, hashes)) / np.log(10)
                file.write("".join(_lines(model, ids, values, n < model.order)).encode())
            begin += count if n > 1 else 0
        file.write(b"\n\\end\\\n")


def _lines(model: NgramModel, ids: npt.NDArray[np.int64], values: npt.NDArray[np.float64], backed: bool) -> list[str]:
    """A line per n-gram. backed: with the backoff, which the longest n-grams have not."""
    words = [" ".join(model.vocabulary[word] for word in ngram) for ngram in ids.tolist()]
    pairs = values.tolist()
    if ids.shape[1] == 1 and ids[0, 0] <= BEGIN < ids[0, 0] + len(ids):
        pairs[BEGIN][0] = max(pairs[BEGIN][0], _LOG_ZERO)
    if backed:
        return [f"{p:.7g}\t{text}\t{backoff:.7g}\n" for (p, backoff), text in zip(pairs, words, strict=True)]
    return [f"{p:.7g}\t{text}\n" for (p, _), text in zip(pairs, words, strict=True)]


# -- reading -----------------------------------------------------------------------------------------------------


def read_arpa(path: Path, words: Literal["white space", "folded"] = "white space") -> NgramModel:
    """The model in an ARPA file, plain or gzipped; it scores as kenlm does with the file.

    words: how the model cuts the texts that it scores. The file doesn't say what its words are; a text that was cut
    for it beforehand is read at white space, "folded" is for files that `write_arpa` made. A word that is not in the
    file is <unk>; where the file lacks that, its probability is 10^-100. Of the n-grams that a pruned file lacks though
    longer ones end in them, the probabilities that follow from the shorter ones are added.
    Raises `ValueError`, with the number of the line, for a file that is not whole or not ARPA. Memory: some 100 bytes
    per n-gram and 300 per word.
    """
    with _opened(path) as file:
        reader = _Reader(path, file)
        levels = reader.levels()
    vocabulary = reader.vocabulary
    bits = word_bits(len(vocabulary))
    if bits * len(levels) > KEY_BITS:
        raise ValueError(f"{path}: {len(levels)}-grams of {len(vocabulary):,} words are more than a model can hold")
    _complete(levels, hashes_of(vocabulary), path)
    facts = {"order": len(levels), "ngrams": [len(level.ids) for level in levels], "words": words}
    with tempfile.TemporaryDirectory(prefix="ngrams-") as folder:
        sorter = Sorter(Path(folder), _SORTING_BYTES)
        ngrams = (sorter.sorted(_rows(level, bits), KEY_BITS) for level in levels)
        return NgramModel.open(write_model(Path(folder), ngrams, facts, vocabulary, sorter))


@dataclass
class _Level:
    """The n-grams of one length. ids: int64[m, n]; values: float32[m, 2], natural logarithms; line: of the first."""

    ids: npt.NDArray[np.int64]
    values: npt.NDArray[np.float32]
    line: int


class _Reader:
    """Reads a file line by line. vocabulary: the words by id, once `levels` was called."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path, self._file, self._number = path, file, 0
        self._ids: dict[bytes, int] = {word.encode(): index for index, word in enumerate(SPECIAL_WORDS)}
        self.vocabulary: list[str] = []

    def levels(self) -> list[_Level]:
        """The n-grams of every length, as they stand in the file."""
        while self._next("\\data\\, so it is no ARPA file") != b"\\data\\":
            pass
        counts: list[int] = []
        while (line := self._next()).startswith(b"ngram"):
            left, _, right = line.removeprefix(b"ngram").partition(b"=")
            if left.strip() != b"%d" % (len(counts) + 1) or not right.strip().isdigit():
                self._refuse(f"'ngram {len(counts) + 1}=' and a number should stand here")
            counts.append(int(right))
        if len(counts) < 2:
            self._refuse("an n-gram model has at least 1-grams and 2-grams")
        levels = [self._level(line, n, count, len(counts)) for n, count in enumerate(counts, start=1)]
        if self._next_filled() != b"\\end\\":
            self._refuse("\\end\\ should stand here")
        return levels

    def _level(self, line: bytes, n: int, count: int, order: int) -> _Level:
        """The section of one length; line: the last one read."""
        line = line if line and n == 1 else self._next_filled()
        if line != b"\\%d-grams:" % n:
            self._refuse(f"\\{n}-grams: should stand here")
        first = self._number + 1
        words: list[bytes] = []
        numbers: list[tuple[float, float]] = []
        for _ in range(count):
            fields = self._next().split()
            if not (len(fields) == n + 1 or (len(fields) == n + 2 and n < order)):
                kind = "a logarithm and so many words" + (", and at most a backoff" if n < order else "")
                self._refuse(f"{count} lines of {n}-grams were promised, each with {kind}")
            words += fields[1 : n + 1]
            numbers.append((self._logarithm(fields[0], 0.0), self._logarithm(fields[n + 1]) if fields[n + 1 :] else 0))
        values = np.array(numbers, np.float64).reshape(count, 2) * np.log(10)
        ids = self._unigrams(words, first) if n == 1 else self._known(words, n, first)
        if n == 1:
            ids, values = self._with_unknown(ids, values)
        return _Level(ids, values.astype(np.float32), first)

    def _unigrams(self, words: list[bytes], first: int) -> npt.NDArray[np.int64]:
        ids: dict[int, None] = {}
        for line, word in enumerate(words, start=first):
            index = self._ids.setdefault(b"<unk>" if word == b"<UNK>" else word, len(self._ids))
            if index in ids:
                self._refuse("this word came before", line)
            ids[index] = None
        for missing in {BEGIN, END} - ids.keys():
            self._refuse(f"the 1-grams lack {SPECIAL_WORDS[missing]}", first)
        for word, index in self._ids.items():
            try:
                self.vocabulary.append(word.decode())
            except UnicodeDecodeError:
                self._refuse("this word is not UTF-8", first + list(ids).index(index))
        return np.array(list(ids), np.int64)[:, None]

    def _known(self, words: list[bytes], n: int, first: int) -> npt.NDArray[np.int64]:
        self._ids.setdefault(b"<UNK>", UNKNOWN)
        ids = np.fromiter((self._ids.get(word, -1) for word in words), np.int64, len(words)).reshape(-1, n)
        if (ids < 0).any():
            row, column = np.argwhere(ids < 0)[0]
            word = words[row * n + column].decode(errors="replace")
            self._refuse(f"the word {word!r} is not among the 1-grams", first + int(row))
        return ids

    def _with_unknown(
        self, ids: npt.NDArray[np.int64], values: npt.NDArray[np.float64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        if UNKNOWN in ids:
            return ids, values
        unknown = np.array([[_MISSING_UNKNOWN * np.log(10), 0.0]])
        return np.concatenate([[[UNKNOWN]], ids]), np.concatenate([unknown, values])

    def _logarithm(self, field: bytes, most: float = np.inf) -> float:
        try:
            value = float(field)
        except ValueError:
            self._refuse(f"{field.decode(errors='replace')!r} is no number")
        if not value <= most or value == np.inf:
            self._refuse(f"{value} is no logarithm of a {'probability' if most == 0 else 'backoff'}")
        return value

    def _next(self, awaited: str = "\\end\\") -> bytes:
        try:
            line = self._file.readline()
        except (EOFError, OSError) as error:
            self._refuse(f"the file is damaged from here on ({error})")
        self._number += 1
        if not line:
            self._refuse(f"the file ends here, before {awaited}")
        return line.strip()

    def _next_filled(self) -> bytes:
        while not (line := self._next()):
            pass
        return line

    def _refuse(self, reason: str, line: int | None = None) -> NoReturn:
        raise ValueError(f"{self._path}, line {line or self._number}: {reason}")


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        if not packed:
            yield file
            return
        with gzip.open(file) as unpacked:
            yield cast(BinaryIO, unpacked)


def _complete(levels: list[_Level], hashes: npt.NDArray[np.uint64], path: Path) -> None:
    """Refuse n-grams that stand twice or whose first words are no n-gram, as kenlm does; add those that are missing
    though longer ones end in them, so that the model holds all prefixes and suffixes of its n-grams."""
    given = [len(level.ids) for level in levels]
    keys = [_hashes(level.ids, hashes) for level in levels]
    for n in range(len(levels), 1, -1):
        level, shorter = levels[n - 1], levels[n - 2]
        _, first = np.unique(keys[n - 1][: given[n - 1]], return_index=True)
        if len(first) < given[n - 1]:
            twice = np.setdiff1d(np.arange(given[n - 1]), first)[0]
            raise ValueError(f"{path}, line {level.line + twice}: this {n}-gram came before")
        alone = ~np.isin(_hashes(level.ids[: given[n - 1], :-1], hashes), keys[n - 2])
        if alone.any():
            line = level.line + int(np.argmax(alone))
            raise ValueError(f"{path}, line {line}: the first words of this {n}-gram are no {n - 1}-gram of the file")
        suffixes = level.ids[:, 1:]
        wanted, first = np.unique(_hashes(suffixes, hashes), return_index=True)
        missing = first[~np.isin(wanted, keys[n - 2])]
        shorter.ids = np.concatenate([shorter.ids, suffixes[missing]])
        shorter.values = np.concatenate([shorter.values, np.zeros((len(missing), 2), np.float32)])
        keys[n - 2] = np.concatenate([keys[n - 2], _hashes(suffixes[missing], hashes)])
    for n in range(2, len(levels)):
        level, shorter, added = levels[n - 1], levels[n - 2], slice(given[n - 1], None)
        order = np.argsort(keys[n - 2])
        prefix, suffix = (
            order[np.searchsorted(keys[n - 2], _hashes(ids, hashes), sorter=order)]
            for ids in (level.ids[added, :-1], level.ids[added, 1:])
        )
        level.values[added, 0] = shorter.values[prefix, 1] + shorter.values[suffix, 0]


def _hashes(ids: npt.NDArray[np.int64], hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """uint64[m]: the hash of each n-gram, int64[m, n]."""
    found = hashes[ids[:, -1]]
    for column in range(ids.shape[1] - 2, -1, -1):
        found = longer_hash(found, hashes[ids[:, column]])
    return found


def _rows(level: _Level, bits: int) -> Iterator[Rows]:
    """The n-grams as `ngram_estimates.py` describes them, in the order of the file."""
    for at in range(0, len(level.ids), _ROWS_AT_ONCE):
        ids, values = level.ids[at : at + _ROWS_AT_ONCE], level.values[at : at + _ROWS_AT_ONCE]
        rows = np.zeros((len(ids), 3), np.uint64)
        _pack(ids, bits, rows)
        rows.view(np.float32)[:, 4:] = values
        yield rows


def _unpacked(keys: npt.NDArray[np.uint64], n: int, bits: int) -> npt.NDArray[np.int64]:
    """Word ids, int64[m, n], of the keys of n-grams, uint64[m, 2]."""
    ids = np.empty((len(keys), n), np.int64)
    _unpack(keys, bits, ids)
    return ids


@numba.njit(nogil=True, cache=True)
def _pack(ids, bits, rows):  # type: ignore[no-untyped-def]
    up, top = np.uint64(bits), np.uint64(64 - bits)
    for index in range(len(ids)):
        first, second = np.uint64(0), np.uint64(0)
        for word in ids[index]:
            first, second = np.uint64(word) << top | first >> up, second >> up | first << top
        rows[index, 0], rows[index, 1] = first, second


@numba.njit(nogil=True, cache=True)
def _unpack(keys, bits, ids):  # type: ignore[no-untyped-def]
    up, top = np.uint64(bits), np.uint64(64 - bits)
    for index in range(len(ids)):
        first, second = keys[index, 0], keys[index, 1]
        for column in range(ids.shape[1] - 1, -1, -1):
            ids[index, column] = np.int64(first >> top)
            first, second = first << up | second >> top, second << up
