"""The words of a sample and how often each occurs, as byte-level tokenizers cut them, by a compiled scanner.

The patterns are those of `PATTERNS`; `tokenizers` reads them as regular expressions, which is most of what training
costs. What kind of character is what is asked of `tokenizers`, for the characters of the sample, so that both go by the
same tables. What is learnt from words stands in `tokenizer_merges.py`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numba
import numpy as np
import numpy.typing as npt
from tokenizers import Regex, normalizers, pre_tokenizers

from pipelines.text.words import decode

LONGEST_WORD = 200
"""Bytes. Learning takes time that grows with the square of a word's length, so a longer word is learnt in pieces."""

_OTHER, _LETTER, _NUMBER, _SPACE, _NEWLINE = range(5)
_SINGLE, _THREE, _WHOLE = range(3)
DIGITS = {"single": _SINGLE, "three": _THREE, "whole": _WHOLE}

_GROWTH = 1 << 16
_HASH_START = np.uint64(0xCBF29CE484222325)
_HASH_FACTOR = np.uint64(0x100000001B3)


class UnlikeTables(ValueError):
    """Two parts of `tokenizers` do not agree on which characters are numbers."""


@dataclass(frozen=True)
class WordCounts:
    """Distinct words: word i is data[starts[i]:starts[i + 1]] (uint8, int64[words + 1]) and occurs counts[i] times."""

    data: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]

    def words(self) -> list[bytes]:
        """The words, in order of their first occurrence."""
        content = self.data.tobytes()
        return [content[a:b] for a, b in zip(self.starts[:-1].tolist(), self.starts[1:].tolist(), strict=True)]


@dataclass
class _Table:
    """Words seen so far, found by a hash table with linear probing that is kept at most half full."""

    slots: npt.NDArray[np.int64] = field(default_factory=lambda: np.full(4 * _GROWTH, -1, np.int64))
    hashes: npt.NDArray[np.uint64] = field(default_factory=lambda: np.empty(_GROWTH, np.uint64))
    starts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(_GROWTH + 1, np.int64))
    counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(_GROWTH, np.int64))
    data: npt.NDArray[np.uint8] = field(default_factory=lambda: np.empty(16 * _GROWTH, np.uint8))
    words: int = 0

    def grow(self) -> None:
        """Room for twice as many words, and twice their bytes."""
        self.hashes, self.counts, self.data = (
            np.concatenate([column, np.zeros_like(column)]) for column in (self.hashes, self.counts, self.data)
        )
        self.starts = np.concatenate([self.starts, np.zeros(len(self.starts) - 1, np.int64)])
        self.slots = np.full(2 * len(self.slots), -1, np.int64)
        _refill(self.slots, self.hashes, self.words)


def count_words(texts: Iterable[str], pattern: str, digits: str) -> WordCounts:
    """Distinct words of the texts, each text cut by itself. pattern, digits: as in `TokenizerParams`.

    Memory: the distinct words, and one text. Raises `UnlikeTables`.
    """
    table = _Table()
    kinds = np.zeros(0x110000, np.uint8)
    known = np.zeros(0x110000, np.bool_)
    for text in texts:
        content = np.frombuffer(text.encode(), np.uint8)
        if unknown := _unknown(content, known):
            _learn_kinds("".join(map(chr, unknown)), kinds)
        at = 0
        while at < len(content):
            at, table.words = _count(
                content, at, kinds, pattern == "gpt4", DIGITS[digits],
                table.slots, table.hashes, table.starts, table.counts, table.data, table.words,
            )  # fmt: skip
            if at < len(content):
                table.grow()
    stop = int(table.starts[table.words])
    return WordCounts(table.data[:stop], table.starts[: table.words + 1], table.counts[: table.words])


def _learn_kinds(characters: str, kinds: npt.NDArray[np.uint8]) -> None:
    """Enter what `tokenizers` takes some characters for."""
    for expression, kind in ((r"\p{L}", _LETTER), (r"\p{N}", _NUMBER), (r"\s", _SPACE)):
        others = set(normalizers.Replace(Regex(expression), "").normalize_str(characters))
        kinds[[ord(one) for one in characters if one not in others]] = kind
    kinds[[ord("\r"), ord("\n")]] = _NEWLINE
    alone = pre_tokenizers.Digits(individual_digits=True)
    for one in characters:
        if (len(alone.pre_tokenize_str("a" + one)) == 2) != (kinds[ord(one)] == _NUMBER):
            raise UnlikeTables(
                f"the character {one!r} is a number to a part of the tokenizers library, and not to another"
            )


@numba.njit(nogil=True, cache=True)
def _unknown(data, known):  # type: ignore[no-untyped-def]
    """Code points that are met for the first time, and marked as known."""
    found = [np.int64(0) for _ in range(0)]
    i, stop = 0, len(data)
    while i < stop:
        if data[np.uintp(i)] < 128 and known[np.uintp(data[np.uintp(i)])]:
            i += 1
            continue
        code_point, length = decode(data, i, stop)
        if not known[code_point]:
            known[code_point] = True
            found.append(code_point)
        i += length
    return found


@numba.njit(nogil=True, cache=True)
def _kind(data, i, stop, kinds):  # type: ignore[no-untyped-def]
    """Kind and length of the character at i."""
    byte = data[np.uintp(i)]
    if byte < 128:
        return np.int64(kinds[np.uintp(byte)]), 1
    code_point, length = decode(data, i, stop)
    return np.int64(kinds[np.uintp(code_point)]), length


@numba.njit(nogil=True, cache=True)
def _run(data, i, stop, kinds, wanted, most):  # type: ignore[no-untyped-def]
    """Where up to `most` characters of one kind end that begin at i."""
    while i < stop and most > 0:
        byte = data[np.uintp(i)]
        if byte < 128:
            if kinds[np.uintp(byte)] != wanted:
                break
            i += 1
        else:
            code_point, length = decode(data, i, stop)
            if kinds[np.uintp(code_point)] != wanted:
                break
            i += length
        most -= 1
    return i


@numba.njit(nogil=True, cache=True)
def _contraction(data, i, stop, any_case):  # type: ignore[no-untyped-def]
    """Bytes of 's, 't, 'm, 'd, 're, 've or 'll at an apostrophe, else 0."""
    if i + 1 >= stop:
        return 0
    fold = 32 if any_case else 0
    first = data[i + 1] | fold if 65 <= data[i + 1] <= 90 else data[i + 1]
    if first == 115 or first == 116 or first == 109 or first == 100:
        return 2
    if i + 2 >= stop:
        return 0
    if any_case and data[i + 1] == 0xC5 and data[i + 2] == 0xBF:  # a long s, which is an s to whoever ignores case
        return 3
    second = data[i + 2] | fold if 65 <= data[i + 2] <= 90 else data[i + 2]
    if (second == 101 and (first == 114 or first == 118)) or (second == 108 and first == 108):
        return 3
    return 0


@numba.njit(nogil=True, cache=True)
def _word_end(data, i, stop, kinds, gpt4, digits):  # type: ignore[no-untyped-def]
    """Where the word ends that begins at i. The order of the cases is that of the expression's alternatives."""
    first = data[np.uintp(i)]
    if first == 39:
        length = _contraction(data, i, stop, gpt4)
        if length:
            return i + length
    kind, length = _kind(data, i, stop, kinds)
    if kind == _LETTER:
        return _run(data, i, stop, kinds, kind, stop)
    if kind == _NUMBER:
        return _run(data, i, stop, kinds, kind, 1 if digits == _SINGLE else 3 if digits == _THREE else stop)
    after = i + length
    next_kind = _kind(data, after, stop, kinds)[0] if after < stop else _SPACE
    if gpt4:
        if kind != _NEWLINE and next_kind == _LETTER:
            return _run(data, after, stop, kinds, next_kind, stop)
        if kind == _OTHER or (first == 32 and next_kind == _OTHER):
            end = _run(data, after, stop, kinds, _OTHER, stop)
            return _run(data, end, stop, kinds, _NEWLINE, stop)
    elif kind == _OTHER:
        return _run(data, i, stop, kinds, kind, stop)
    elif first == 32 and next_kind < _SPACE and not (next_kind == _NUMBER and digits == _SINGLE):
        return _run(data, after, stop, kinds, next_kind, stop)
    last, end, lines = i, i, i
    while end < stop:
        kind, length = _kind(data, end, stop, kinds)
        if kind < _SPACE:
            break
        last = end
        end += length
        if kind == _NEWLINE:
            lines = end
    if gpt4 and lines > i:
        return lines
    # A digit that stands alone is cut off before anything else, so that white space before it ends a stretch of text.
    whole = end == stop or last == i or (not gpt4 and kind == _NUMBER and digits == _SINGLE)
    return end if whole else last


@numba.njit(nogil=True, cache=True)
def _count(  # type: ignore[no-untyped-def]
    data, i, kinds, gpt4, digits, slots, hashes, starts, counts, words_data, words
):
    """Count the words from i on. Returns (where it stopped for want of room, else the end; words in the table)."""
    stop = len(data)
    mask = len(slots) - 1
    while i < stop:
        end = _word_end(data, i, stop, kinds, gpt4, digits)
        while i < end:
            piece = min(end, i + LONGEST_WORD)
            room = words < len(counts) and starts[words] + LONGEST_WORD <= len(words_data)
            if not room:
                return i, words
            value = _HASH_START
            for k in range(i, piece):
                value = (value ^ np.uint64(data[np.uintp(k)])) * _HASH_FACTOR
            slot = np.int64(value >> np.uint64(20)) & mask
            while True:
                word = slots[np.uintp(slot)]
                if word < 0:
                    slots[slot] = words
                    hashes[words] = value
                    words_data[starts[words] : starts[words] + piece - i] = data[i:piece]
                    starts[words + 1] = starts[words] + piece - i
                    counts[words] = 1
                    words += 1
                    break
                if hashes[word] == value and starts[word + 1] - starts[word] == piece - i:
                    same = True
                    for k in range(piece - i):
                        if words_data[np.uintp(starts[word] + k)] != data[np.uintp(i + k)]:
                            same = False
                            break
                    if same:
                        counts[word] += 1
                        break
                slot = (slot + 1) & mask
            i = piece
    return i, words


@numba.njit(nogil=True, cache=True)
def _refill(slots, hashes, words):  # type: ignore[no-untyped-def]
    mask = len(slots) - 1
    for word in range(words):
        slot = np.int64(hashes[word] >> np.uint64(20)) & mask
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = word
