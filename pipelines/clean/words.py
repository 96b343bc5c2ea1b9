"""Words as spaCy's English tokenizer cuts them, compiled: runs without white space, signs peeled off both ends, the
rest cut at hyphens, commas and the like, contractions apart, addresses and abbreviations whole.

The published Gopher rules speak of words between white space, but the numbers that people compare are those of
datatrove, which has spaCy cut the words; of all cheaper ways to cut only this one comes to nearly the same decisions.
It is an approximation: letters are those of Unicode, not spaCy's list of scripts. How runs of words repeat stands in
`ngrams.py`.
"""

from dataclasses import dataclass
from functools import lru_cache

import numba
import numpy as np
import numpy.typing as npt

from pipelines.clean.characters import ALPHABETIC, CUTS, DIGIT, PUNCTUATION, SPACE, SYMBOL, TERMINAL, character_table
from pipelines.clean.compiled import helper
from pipelines.clean.contractions import exceptions
from pipelines.clean.peeling import (
    FACTOR,
    LONGEST_EXCEPTION,
    START,
    cut_run,
    exception,
    hash_table,
    hash_word,
    mark_of,
    put,
)
from pipelines.text.words import decode

STOP_WORDS = ("the", "be", "to", "of", "and", "that", "have", "with")
"""Of which a document must hold two (Rae et al. 2021, A1.1)."""
_LONGEST_STOP_WORD = max(map(len, STOP_WORDS))


@dataclass(frozen=True)
class Exceptions:
    """The exceptions of `contractions.py`, for compiled code.

    marks: uint64[1024], a bit for each `mark_of` an exception. keys, pieces: hash table from an exception's hash to
    where it is cut, bytes of the pieces, eight bits each.
    """

    marks: npt.NDArray[np.uint64]
    keys: npt.NDArray[np.uint64]
    pieces: npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Words:
    """What some texts are made of: tokens, that is words and signs.

    hashes: uint64[tokens]; lengths: int32[tokens], code points; both empty unless asked for. Those of text i stand in
    hashes[offsets[i]:offsets[i + 1]]. The others are counts, int64 per text. words: tokens that are not signs only.
    word_characters: code points in these. alphabetic: tokens with a letter. stop_words: how many of the eight stop
    words occur. sentences: runs of tokens up to a terminal mark and the signs after it.
    """

    hashes: npt.NDArray[np.uint64]
    lengths: npt.NDArray[np.int32]
    tokens: npt.NDArray[np.int64]
    words: npt.NDArray[np.int64]
    word_characters: npt.NDArray[np.int64]
    alphabetic: npt.NDArray[np.int64]
    stop_words: npt.NDArray[np.int64]
    sentences: npt.NDArray[np.int64]

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """int64[texts + 1]."""
        return np.concatenate([[0], np.cumsum(self.tokens)])


def cut_words(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], *, keep: bool) -> Words:
    """Cut the texts data[offsets[i]:offsets[i + 1]]. keep: hashes and lengths of the single words are wanted.

    Time is linear in the bytes. Memory: 12 bytes a word where they are kept, and 16 for every one of the longest run
    without white space.
    """
    tables = exception_tables()
    total, longest = int(offsets[-1] - offsets[0]), int(np.diff(offsets).max(initial=0))
    counts = np.zeros((6, len(offsets) - 1), np.int64)
    room = total if keep else 0
    hashes, lengths = np.empty(room, np.uint64), np.empty(room, np.int32)
    bounds, stack = np.empty(longest + 2, np.int64), np.empty(longest + 2, np.int64)
    found = _cut_texts(
        data, offsets, character_table(), tables.marks, tables.keys, tables.pieces,
        _stop_hashes(), bounds, stack, keep, counts, hashes, lengths,
    )  # fmt: skip
    return Words(hashes[:found], lengths[:found], *counts)


def cut(text: str) -> list[str]:
    """The words of one text, as text: for people and tests."""
    tables, characters = exception_tables(), character_table()
    data = np.frombuffer(text.encode() or b"\0", np.uint8)
    bounds, stack = np.empty(len(data) + 2, np.int64), np.empty(len(data) + 2, np.int64)
    words, at = [], 0
    for run in text.split():
        start = text.index(run, at)
        at = start + len(run)
        lo = len(text[:start].encode())
        hi = lo + len(run.encode())
        count = _cut_one(
            data, lo, hi, characters, tables.marks, tables.keys, tables.pieces,
            bounds, stack,
        )  # fmt: skip
        words += [bytes(data[bounds[k] : bounds[k + 1]]).decode() for k in range(count)]
    return words


@lru_cache(maxsize=1)
def exception_tables() -> Exceptions:
    """The exceptions, hashed. Their forms without apostrophe and all abbreviations are among them."""
    cuts = exceptions()
    marks, keys = np.zeros(1024, np.uint64), hash_table(len(cuts))
    pieces = np.zeros(len(keys), np.uint64)
    for text, parts in cuts.items():
        raw = text.encode()
        assert len(raw) <= LONGEST_EXCEPTION
        data = np.frombuffer(raw, np.uint8)
        mark = mark_of(raw[0], raw[-1], len(raw))
        marks[mark >> 6] |= np.uint64(1 << (mark & 63))
        slot = put(keys, np.uint64(hash_word(data, 0, len(raw))))
        pieces[slot] = sum(len(part.encode()) << 8 * place for place, part in enumerate(parts))
    return Exceptions(marks, keys, pieces)


@lru_cache(maxsize=1)
def _stop_hashes() -> npt.NDArray[np.uint64]:
    found = [hash_word(np.frombuffer(word.encode(), np.uint8), 0, len(word)) for word in STOP_WORDS]
    return np.array(found, np.uint64)


@numba.njit(nogil=True, cache=True)
def _cut_one(data, lo, hi, table, marks, keys, pieces, bounds, stack):  # type: ignore[no-untyped-def]
    seen = _read(data, lo, hi, table)[3]
    return cut_run(data, lo, hi, seen, table, marks, keys, pieces, bounds, stack)


@helper
def _is_space(data, at, table):  # type: ignore[no-untyped-def]
    """Whether a byte is ASCII white space."""
    byte = np.int64(data[np.uintp(at)])
    return byte < 0x80 and table[np.uintp(byte)] & SPACE != 0


@helper
def _read(data, lo, hi, table):  # type: ignore[no-untyped-def]
    """What stands from lo to the next white space, or to hi: its end, hash, code points, and the bits that any of its
    characters has, and that all have."""
    at = lo
    value = START
    any_bits = np.int64(0)
    all_bits = np.int64(-1)
    characters = 0
    while at < hi:
        byte = np.int64(data[np.uintp(at)])
        if byte < 0x80:
            bits = np.int64(table[np.uintp(byte)])
            if bits & SPACE:
                break
            value = (value ^ np.uint64(byte)) * FACTOR
            at += 1
        else:
            code_point, length = decode(data, at, hi)
            bits = np.int64(table[np.uintp(code_point)])
            if bits & SPACE:
                break
            for _ in range(length):
                value = (value ^ np.uint64(data[np.uintp(at)])) * FACTOR
                at += 1
        any_bits |= bits
        all_bits &= bits
        characters += 1
    return at, value, characters, any_bits, all_bits


@numba.njit(nogil=True, cache=True)
def _cut_texts(  # type: ignore[no-untyped-def]
    data, offsets, table, marks, keys, pieces, stop_words, bounds, stack, keep, counts, hashes, sizes
):
    """Runs without white space, one after the other. One that holds nothing to cut at is a word, hashed on the way."""
    out = 0
    for text in range(len(offsets) - 1):
        i = offsets[text]
        stop = offsets[text + 1]
        tokens = words = word_characters = alphabetic = sentences = 0
        stopped = False  # the sentence has had its terminal mark
        seen = 0  # bits of the stop words
        while i < stop:
            while i < stop and _is_space(data, i, table):
                i += 1
            lo = i
            i, value, characters, any_bits, all_bits = _read(data, lo, stop, table)
            if i == lo:
                i += decode(data, i, stop)[1] if i < stop else 0
                continue
            count = 1
            size = i - lo
            if any_bits & (CUTS | DIGIT) or exception(data, lo, i, marks, keys) >= 0:
                count = cut_run(data, lo, i, any_bits, table, marks, keys, pieces, bounds, stack)
            for k in range(count):
                if count > 1:
                    size = bounds[k + 1] - bounds[k]
                    _, value, characters, any_bits, all_bits = _read(data, bounds[k], bounds[k + 1], table)
                tokens += 1
                if not all_bits & SYMBOL:
                    words += 1
                    word_characters += characters
                if any_bits & ALPHABETIC:
                    alphabetic += 1
                    if size <= _LONGEST_STOP_WORD:
                        for n in range(len(stop_words)):
                            seen |= int(stop_words[n] == value) << n
                if characters == 1 and all_bits & TERMINAL:
                    sentences += int(tokens == 1)
                    stopped = True
                elif tokens == 1 or (stopped and not all_bits & PUNCTUATION):
                    sentences += 1
                    stopped = False
                if keep:
                    hashes[np.uintp(out)] = value
                    sizes[np.uintp(out)] = characters
                    out += 1
        counts[0, text] = tokens
        counts[1, text] = words
        counts[2, text] = word_characters
        counts[3, text] = alphabetic
        for n in range(len(stop_words)):
            counts[4, text] += (seen >> n) & 1
        counts[5, text] = sentences
    return out
