"""Hashes of shingles, runs of n consecutive words or characters, and the 128-bit hash of whole texts.

Words come from `words.py`. What is done with the hashes (MinHash, overlap with evaluation sets) stands in the stages.
"""

import itertools
from typing import Literal

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from pipelines.text.words import Words, decode

EMPTY_TEXT = bytes(16)
"""Stands for the hash of a text that is empty or white space only: never equal to the hash of a text with content."""

_RADIX = np.uint64(0x9E3779B97F4A7C15)
_WORDLESS_SEED = 1


def shingle_hashes(
    words: Words, length: int, of: Literal["words", "characters"] = "words"
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """64-bit hashes of all runs of `length` words, repeats included, and their int64[texts + 1] offsets.

    Of characters: all runs of `length` code points of the normalised text, the spaces between its words among them.
    Shingle k of a text starts at its word k or code point k. A shorter text has one shingle, of all that it has; a text
    without words has none. The hash is a polynomial in the hashes of the words or code points modulo 2^64 (Karp and
    Rabin, 1987), finished by the mixer of SplitMix64, so any 32 of its bits serve as a hash. Memory: 8 bytes a shingle,
    and 8 a code point. Raises `ValueError` when `length` < 1.
    """
    if length < 1:
        raise ValueError(f"the length of a shingle is at least 1, not {length}")
    tokens, bounds = (words.hashes, words.offsets) if of == "words" else _characters(words)
    counts = np.diff(bounds)
    offsets = np.zeros(len(words) + 1, np.int64)
    np.cumsum(np.where(counts == 0, 0, np.maximum(counts - length + 1, 1)), out=offsets[1:])
    hashes = np.empty(offsets[-1], np.uint64)
    _roll(tokens, bounds, length, offsets, hashes)
    return hashes, offsets


def text_hashes(texts: pa.Array, words: Words) -> pa.Array:
    """128-bit hashes (binary(16)) under which texts count as exact copies; `words` are those of `texts`.

    xxh3 of the normalised text (UTF-8, digest bytes big-endian), so case, spacing and punctuation do not matter; of the
    raw bytes, with another seed, where a text has no words; `EMPTY_TEXT` where it is empty or white space.
    """
    content = words.normalised.data
    bounds = words.normalised_offsets.tolist()
    digests = [xxhash.xxh3_128_digest(content[a:b]) for a, b in itertools.pairwise(bounds)]
    for index in np.flatnonzero(words.counts == 0).tolist():
        raw = texts[index].as_buffer().to_pybytes()
        digests[index] = EMPTY_TEXT if is_blank(raw) else xxhash.xxh3_128_digest(raw, seed=_WORDLESS_SEED)
    return pa.array(digests, pa.binary(16))


def is_blank(text: bytes) -> bool:
    """True for a text (UTF-8) that is empty or white space only: such texts are never copies of one another."""
    return not text.decode("utf-8", "replace").strip()


def _characters(words: Words) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Hashes of the code points of the normalised texts, and their offsets."""
    hashes = np.empty(len(words.normalised), np.uint64)
    offsets = np.zeros(len(words) + 1, np.int64)
    _hash_characters(words.normalised, words.normalised_offsets, hashes, offsets)
    return hashes[: offsets[-1]], offsets


@numba.njit(nogil=True, cache=True)
def mix(value: np.uint64) -> np.uint64:
    """The mixer of SplitMix64 (Steele, Lea and Flood, 2014): one to one, every input bit moves every output bit."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@numba.njit(nogil=True, cache=True)
def _hash_characters(data, bounds, hashes, offsets) -> None:  # type: ignore[no-untyped-def]
    out = np.int64(0)
    for text in range(len(bounds) - 1):
        i = bounds[text]
        stop = bounds[text + 1]
        while i < stop:
            code_point, length = decode(data, i, stop)
            hashes[np.uintp(out)] = mix(np.uint64(code_point))
            out += 1
            i += length
        offsets[text + 1] = out


@numba.njit(nogil=True, cache=True)
def _roll(tokens, bounds, length, offsets, hashes) -> None:  # type: ignore[no-untyped-def]
    leaving = np.uint64(1)
    for _ in range(length):
        leaving *= _RADIX
    for text in range(len(offsets) - 1):
        first = bounds[text]
        count = bounds[text + 1] - first
        if count == 0:
            continue
        value = np.uint64(0)
        for k in range(min(length, count)):
            value = value * _RADIX + tokens[first + k]
        out = offsets[text]
        hashes[out] = mix(value)
        for k in range(length, count):
            out += 1
            entering, left = tokens[np.uintp(first + k)], tokens[np.uintp(first + k - length)]
            value = value * _RADIX + entering - leaving * left
            hashes[np.uintp(out)] = mix(value)
