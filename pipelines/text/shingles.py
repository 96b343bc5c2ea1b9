"""Hashes of shingles, runs of n consecutive words, and the 128-bit hash of whole texts.

Words come from `words.py`. What is done with the hashes (MinHash, overlap with evaluation sets) stands in the stages.
"""

import itertools

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from pipelines.text.words import Words

EMPTY_TEXT = bytes(16)
"""Stands for the hash of a text that is empty or white space only: never equal to the hash of a text with content."""

_RADIX = np.uint64(0x9E3779B97F4A7C15)
_WORDLESS_SEED = 1


def shingle_hashes(words: Words, shingle_words: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """64-bit hashes of all runs of `shingle_words` words, repeats included, and their int64[texts + 1] offsets.

    Shingle k of a text starts at its word k. A text with fewer words has one shingle, of all its words; a text without
    words has none. The hash is a polynomial in the word hashes modulo 2^64 (Karp and Rabin, 1987), finished by the
    mixer of SplitMix64, so any 32 of its bits serve as a hash. Raises `ValueError` when `shingle_words` < 1.
    """
    if shingle_words < 1:
        raise ValueError(f"a shingle has at least one word; shingle_words is {shingle_words}")
    counts = words.counts
    offsets = np.zeros(len(words) + 1, np.int64)
    np.cumsum(np.where(counts == 0, 0, np.maximum(counts - shingle_words + 1, 1)), out=offsets[1:])
    hashes = np.empty(offsets[-1], np.uint64)
    _roll(words.hashes, words.offsets, shingle_words, offsets, hashes)
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


@numba.njit(nogil=True, cache=True)
def _mix(value: np.uint64) -> np.uint64:
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@numba.njit(nogil=True, cache=True)
def _roll(words, word_offsets, shingle_words, offsets, hashes) -> None:  # type: ignore[no-untyped-def]
    leaving = np.uint64(1)
    for _ in range(shingle_words):
        leaving *= _RADIX
    for text in range(len(offsets) - 1):
        first = word_offsets[text]
        count = word_offsets[text + 1] - first
        if count == 0:
            continue
        value = np.uint64(0)
        for k in range(min(shingle_words, count)):
            value = value * _RADIX + words[first + k]
        out = offsets[text]
        hashes[out] = _mix(value)
        for k in range(shingle_words, count):
            out += 1
            entering, left = words[np.uintp(first + k)], words[np.uintp(first + k - shingle_words)]
            value = value * _RADIX + entering - leaving * left
            hashes[np.uintp(out)] = _mix(value)
