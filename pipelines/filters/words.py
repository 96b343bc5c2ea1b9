"""Words of a text, hashed straight out of UTF-8 bytes by compiled code: what the language model and the screen read.

Three alphabets exist: the language model's (`language_model_alphabet`), that of language models made elsewhere, whose
words are cut at white space (`white_space_alphabet`), and that of the toxicity screen (`screen_alphabet`). Shingles for
deduplication are cut elsewhere, by `pipelines/text/`.
"""

import sys
import unicodedata
from functools import lru_cache

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.text.codepoints import CHARACTER, IGNORED, SEPARATOR, part_of

Alphabet = npt.NDArray[np.int32]
"""int32[0x110000]: bits 0–20 the folded code point, above them the part it plays: 0 ends a word, `WORD` joins a word,
`ALONE` is a word of its own, `ABSENT` is passed over inside a word."""

PART_SHIFT = 21
WORD = 1 << PART_SHIFT
ALONE = 2 << PART_SHIFT
ABSENT = 3 << PART_SHIFT
_FOLDED = WORD - 1
_REPLACEMENT = 0xFFFD

_HASH_START = np.uint64(0xCBF29CE484222325)
_HASH_PRIME = np.uint64(0x00000100000001B3)


@lru_cache(maxsize=1)
def language_model_alphabet() -> Alphabet:
    """Lower-cased runs of letters, marks and digits (every digit reads as 0) are words; so is each punctuation mark or
    symbol, and each character of a script written without spaces. Space and control characters separate.

    Depends on Python's Unicode tables: their version belongs in the key of every task that uses it.
    """
    alphabet = np.zeros(0x110000, np.int32)
    for code_point in range(sys.maxunicode + 1):
        character = chr(code_point)
        category = unicodedata.category(character)
        if category == "Cn" or category[0] == "Z" or category in ("Cc", "Cs", "Co"):
            continue
        part = part_of(code_point)
        if part == IGNORED:
            alphabet[code_point] = ABSENT
        elif part == SEPARATOR:
            if category != "Cf":
                alphabet[code_point] = ALONE | code_point
        elif part == CHARACTER:
            alphabet[code_point] = ALONE | code_point
        else:
            alphabet[code_point] = WORD | ord("0" if category == "Nd" else character.lower()[0])
    alphabet.flags.writeable = False
    return alphabet


@lru_cache(maxsize=1)
def white_space_alphabet() -> Alphabet:
    """Everything between two of Python's `bytes.split()` is a word, as it stands: what kenlm's Python module reads."""
    alphabet = WORD | np.arange(0x110000, dtype=np.int32)
    alphabet[[ord(character) for character in " \t\n\r\v\f"]] = 0
    alphabet.flags.writeable = False
    return alphabet


@lru_cache(maxsize=1)
def screen_alphabet() -> Alphabet:
    r"""What `\w` matches in Python's `re`, lower-cased: letters, digits and the underscore; all else separates.

    The one letter whose lower case is two code points (U+0130) is read as a plain i.
    """
    alphabet = np.zeros(0x110000, np.int32)
    for code_point in range(sys.maxunicode + 1):
        character = chr(code_point)
        if character.isalnum() or character == "_":
            alphabet[code_point] = WORD | ord(character.lower()[0])
    alphabet.flags.writeable = False
    return alphabet


def text_buffers(texts: pa.Array | pa.ChunkedArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Offsets (int64[n + 1]) and UTF-8 bytes of a string column; a null counts as an empty text."""
    array = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    array = array.cast(pa.large_string())
    if array.null_count:
        array = array.fill_null("")
    _, offsets, data = array.buffers()
    if offsets is None or len(array) == 0:
        return np.zeros(len(array) + 1, np.int64), np.zeros(0, np.uint8)
    ends = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    return ends, np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)


def hashes_of(words: list[str]) -> npt.NDArray[np.uint64]:
    """The hash of each word: what `next_word` gives where it reads just these code points, folded or not."""
    offsets, data = text_buffers(pa.array(words, pa.large_string()))
    hashes = np.empty(len(words), np.uint64)
    _hash_whole(offsets, data, white_space_alphabet(), hashes)
    return hashes


def folded_words(text: bytes, alphabet: Alphabet) -> list[str]:
    """The words of one text, folded: for people, tests and ARPA files. The compiled readers see exactly these."""
    data = np.frombuffer(text, np.uint8)
    words: list[str] = []
    at = 0
    while True:
        start, at, _, length = next_word(data, at, len(data), alphabet)
        if not length:
            return words
        words.append(_folded(data[start:at], alphabet))


def _folded(word: npt.NDArray[np.uint8], alphabet: Alphabet) -> str:
    code_points = np.empty(len(word), np.uint32)
    return code_points[: spell(word, 0, len(word), alphabet, code_points, 0)].tobytes().decode("utf-32-le")


@numba.njit(nogil=True, cache=True)
def decode(data, at, end):  # type: ignore[no-untyped-def]
    """The code point at byte `at`, and where the next one begins. A byte that is not UTF-8 reads as U+FFFD."""
    lead = data[at]
    if lead < 0x80:
        return np.int64(lead), at + 1
    following = 1 if 0xC2 <= lead < 0xE0 else 2 if 0xE0 <= lead < 0xF0 else 3 if 0xF0 <= lead < 0xF5 else 0
    if following == 0 or at + following >= end:
        return np.int64(_REPLACEMENT), at + 1
    code_point = np.int64(lead & (0x3F >> following))
    for index in range(at + 1, at + 1 + following):
        byte = data[index]
        if byte & 0xC0 != 0x80:
            return np.int64(_REPLACEMENT), at + 1
        code_point = code_point << 6 | np.int64(byte & 0x3F)
    if code_point > 0x10FFFF:
        return np.int64(_REPLACEMENT), at + 1
    return code_point, at + 1 + following


@numba.njit(nogil=True, cache=True)
def spell(data, at, end, alphabet, code_points, place):  # type: ignore[no-untyped-def]
    """Write the folded code points of the word data[at:end] from `place` on; the place behind them."""
    while at < end:
        code_point, at = decode(data, at, end)
        entry = alphabet[code_point]
        if entry and entry != ABSENT:
            code_points[place] = entry & _FOLDED
            place += 1
    return place


@numba.njit(nogil=True, cache=True)
def next_word(data, at, end, alphabet):  # type: ignore[no-untyped-def]
    """The next word in data[at:end]: its first byte, the byte after it, its 64-bit hash and its length in code points.

    Length 0: there is none. The hash is FNV-1a over folded code points, then the finalizer of SplitMix64 (Steele,
    Lea and Flood 2014); among a million words two share one with a probability of 3e-8.
    """
    start = at
    hashed = _HASH_START
    length = 0
    while at < end:
        code_point, after = decode(data, at, end)
        entry = alphabet[code_point]
        part = entry & ~np.int32(_FOLDED)
        if part == WORD or (part == ALONE and length == 0):
            if length == 0:
                start = at
            hashed = (hashed ^ np.uint64(entry & _FOLDED)) * _HASH_PRIME
            length += 1
            if part == ALONE:
                at = after
                break
        elif length and part != ABSENT:
            break
        at = after
    hashed ^= hashed >> np.uint64(30)
    hashed *= np.uint64(0xBF58476D1CE4E5B9)
    hashed ^= hashed >> np.uint64(27)
    hashed *= np.uint64(0x94D049BB133111EB)
    hashed ^= hashed >> np.uint64(31)
    return start, at, hashed, length


@numba.njit(nogil=True, cache=True)
def _hash_whole(offsets, data, alphabet, hashes):  # type: ignore[no-untyped-def]
    for index in range(len(hashes)):
        hashes[index] = next_word(data, offsets[index], offsets[index + 1], alphabet)[2]
