"""Words of many texts at once: where they are cut, their hashes, and the normalised text, straight from Arrow buffers.

A word is a maximal run of letters, digits and marks; scripts written without spaces yield one word per character, so
does punctuation where it is kept. How a code point is folded stands in `codepoints.py`; runs of words and of characters
in `shingles.py`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.text.codepoints import (
    CHARACTER,
    GROWTH,
    IGNORED,
    LETTER,
    LOOK_UP,
    SEPARATOR,
    SIGN,
    USUAL,
    Normalisation,
    folding_table,
)

BATCH_BYTES = 1 << 20
"""Text handled at a time: small enough that what is made from it stays in the cache."""

_HASH_START = np.uint64(0xCBF29CE484222325)
_HASH_FACTOR = np.uint64(0x100000001B3)


@dataclass(frozen=True)
class Words:
    """The words of some texts, in order.

    hashes: uint64[words], FNV-1a of each word's folded UTF-8. offsets: int64[texts + 1], the words of text i stand in
    hashes[offsets[i]:offsets[i + 1]]. characters: int64[texts], how many of them are single characters of a script
    without spaces. normalised: uint8, all texts as folded words joined by single spaces; text i stands in
    normalised[normalised_offsets[i]:normalised_offsets[i + 1]].
    """

    hashes: npt.NDArray[np.uint64]
    offsets: npt.NDArray[np.int64]
    characters: npt.NDArray[np.int64]
    normalised: npt.NDArray[np.uint8]
    normalised_offsets: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Words of each text."""
        return np.diff(self.offsets)


def text_buffers(texts: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """The bytes and the int64[texts + 1] offsets of a string array, without copying where it is `large_string`.

    Raises `ValueError` when a text is null.
    """
    if texts.null_count:
        raise ValueError(f"{texts.null_count} of {len(texts)} texts are null; the text column must not hold nulls")
    if texts.type != pa.large_string():
        texts = texts.cast(pa.large_string())
    _, offsets, data = texts.buffers()
    if len(texts) == 0 or offsets is None:
        return np.zeros(1, np.uint8), np.zeros(1, np.int64)
    starts = np.frombuffer(offsets, np.int64, count=len(texts) + 1, offset=8 * texts.offset)
    content = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    return content, starts


def split_words(texts: pa.Array, normalisation: Normalisation = USUAL) -> Words:
    """The words of every text of a string array. Bytes that are not UTF-8 end a word, like white space.

    Memory: a few times the text (8 bytes a word, and the normalised text); `word_batches` bounds it for long arrays.
    Raises `ValueError` when a text is null.
    """
    return split_pieces(*text_buffers(texts), normalisation)


def split_pieces(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], normalisation: Normalisation) -> Words:
    """The same for the pieces data[offsets[i]:offsets[i + 1]] of some bytes, each taken for a text."""
    table = folding_table(normalisation)
    total = int(offsets[-1] - offsets[0])
    beyond_ascii = int(np.count_nonzero(data[offsets[0] : offsets[-1]] >= 128))
    signs_count = normalisation.punctuation == "keep"
    most_words = total if signs_count else total // 2
    most_bytes = (2 if signs_count else 1) * (total - beyond_ascii) + GROWTH * beyond_ascii
    hashes = np.empty(most_words + len(offsets) + 1, np.uint64)
    normalised = np.empty(most_bytes + len(offsets) + 1, np.uint8)
    word_offsets = np.zeros(len(offsets), np.int64)
    normalised_offsets = np.zeros(len(offsets), np.int64)
    characters = np.zeros(len(offsets) - 1, np.int64)
    _scan(
        data, offsets, table.ascii, table.entries, table.folded,
        hashes, word_offsets, characters, normalised, normalised_offsets,
    )  # fmt: skip
    return Words(
        hashes[: word_offsets[-1]], word_offsets, characters, normalised[: normalised_offsets[-1]], normalised_offsets
    )


def word_batches(
    texts: pa.ChunkedArray, normalisation: Normalisation = USUAL, batch_bytes: int = BATCH_BYTES
) -> Iterator[tuple[pa.Array, Words]]:
    """Slices of the texts (`text_batches`) and their words.

    Memory: bounded by `batch_bytes` or the longest text, whichever is more. Raises `ValueError` when a text is null.
    """
    for chunk in texts.chunks:
        for piece in text_batches(chunk, batch_bytes):
            yield piece, split_words(piece, normalisation)


def text_batches(texts: pa.Array, batch_bytes: int = BATCH_BYTES) -> Iterator[pa.Array]:
    """Slices of about `batch_bytes` of text, in order; a longer text makes a slice of its own.

    Raises `ValueError` when a text is null.
    """
    _, offsets = text_buffers(texts)
    start = 0
    while start < len(texts):
        stop = int(np.searchsorted(offsets, offsets[start] + batch_bytes, side="right")) - 1
        stop = min(max(stop, start + 1), len(texts))
        yield texts.slice(start, stop - start)
        start = stop


@numba.njit(nogil=True, cache=True)
def decode(data, i, stop):  # type: ignore[no-untyped-def]
    """Code point and length of the UTF-8 sequence at i; (0, 1), a separator, where it is broken."""
    # Signed 64-bit values throughout, and unsigned indices: six times as fast as with numba's mixed types.
    lead = np.int64(data[np.uintp(i)])
    if lead < 0xC2:
        return lead if lead < 0x80 else 0, 1
    second = np.int64(data[np.uintp(i + 1)]) if i + 1 < stop else 0
    if second >> 6 != 2:
        return 0, 1
    if lead < 0xE0:
        return (lead & 0x1F) << 6 | (second & 0x3F), 2
    third = np.int64(data[np.uintp(i + 2)]) if i + 2 < stop else 0
    if third >> 6 != 2:
        return 0, 1
    if lead < 0xF0:
        return (lead & 0x0F) << 12 | (second & 0x3F) << 6 | (third & 0x3F), 3
    fourth = np.int64(data[np.uintp(i + 3)]) if i + 3 < stop else 0
    code_point = (lead & 0x07) << 18 | (second & 0x3F) << 12 | (third & 0x3F) << 6 | (fourth & 0x3F)
    if fourth >> 6 != 2 or lead >= 0xF5 or code_point >= 0x110000:
        return 0, 1
    return code_point, 4


@numba.njit(nogil=True, cache=True)
def _scan(  # type: ignore[no-untyped-def]
    data, offsets, ascii_table, entries, folded, hashes, word_offsets, characters, normalised, normalised_offsets
) -> None:
    word = np.int64(0)
    out = np.int64(0)
    for text in range(len(offsets) - 1):
        i = offsets[text]
        stop = offsets[text + 1]
        text_start = out
        value = _HASH_START
        open_word = 0  # 0: between words, LETTER or CHARACTER: inside a word of that kind (signs too)
        single = 0
        while i < stop:
            letter = ascii_table[data[i]]
            if letter != LOOK_UP:
                if open_word == CHARACTER and letter != 0:
                    hashes[word] = value
                    word += 1
                    normalised[out] = 32
                    out += 1
                    value = _HASH_START
                    open_word = 0
                inside = np.int64(open_word != 0)
                # The common case has no branch that depends on the text: store always, advance where it counts.
                # Unsigned indices spare numba's handling of negative ones.
                while letter != LOOK_UP:
                    is_letter = np.int64(letter != 0)
                    hashes[np.uintp(word)] = value
                    word += inside & (1 - is_letter)
                    normalised[np.uintp(out)] = letter if letter != 0 else np.uint8(32)
                    out += inside | is_letter
                    value = (value ^ np.uint64(letter)) * _HASH_FACTOR if letter != 0 else _HASH_START
                    inside = is_letter
                    i += 1
                    if i >= stop:
                        break
                    letter = ascii_table[np.uintp(data[np.uintp(i)])]
                open_word = LETTER if inside else 0
                continue
            code_point, length = decode(data, i, stop)
            i += length
            entry = entries[code_point]
            part = entry >> 29
            if part == IGNORED:
                continue
            if open_word != 0 and (part in (SEPARATOR, CHARACTER, SIGN) or (part == LETTER and open_word == CHARACTER)):
                hashes[word] = value
                word += 1
                normalised[out] = 32
                out += 1
                value = _HASH_START
                open_word = 0
            if part == SEPARATOR:
                continue
            if part in (CHARACTER, SIGN):
                open_word = CHARACTER
                single += 1 if part == CHARACTER else 0
            elif open_word == 0:
                open_word = LETTER
            start = entry & 0xFFFFFF
            for k in range(start, start + ((entry >> 24) & 31)):
                normalised[np.uintp(out)] = folded[np.uintp(k)]
                out += 1
                value = (value ^ np.uint64(folded[np.uintp(k)])) * _HASH_FACTOR
        if open_word != 0:
            hashes[word] = value
            word += 1
        elif out > text_start:
            out -= 1  # the space after the last word
        word_offsets[text + 1] = word
        normalised_offsets[text + 1] = out
        characters[text] = single
