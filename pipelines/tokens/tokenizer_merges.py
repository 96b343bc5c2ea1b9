"""Merges of byte-pair encoding, learnt from counted words: the very ones of the trainer in `tokenizers`.

Its algorithm is followed step by step, for ties are decided by it: the pair with the highest count, among equals the
one with the lowest ids; a pair's count is brought up to date when it comes to the top; a new pair waits with the words
in which this merge made it; a token that is spelt like one that exists is that one.
"""

import heapq

import numba
import numpy as np
import numpy.typing as npt
from numba.typed import Dict

from pipelines.tokens.tokenizer_words import WordCounts

_HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def learn_merges(
    words: WordCounts, byte_ids: npt.NDArray[np.int64], tokens: list[bytes], size: int, min_frequency: int
) -> list[tuple[int, int, int]]:
    """(left, right, id of the two together) of each merge, in order.

    byte_ids: id of each of the 256 bytes. tokens: what tokens mean that exist, by id. size: tokens when to stop.
    """
    spellings = Dict.empty(numba.types.uint64, numba.types.int64)
    hashes = np.zeros(size + 1, np.uint64)
    factors = np.ones(size + 1, np.uint64)
    for token, spelling in enumerate(tokens):
        for byte in spelling:
            hashes[token], factors[token] = _joined(hashes[token], factors[token], np.uint64(byte + 1), _HASH_FACTOR)
        spellings[hashes[token]] = token
    symbols = byte_ids[words.data]
    found = _merges(symbols, words.starts, words.counts, spellings, hashes, factors, len(tokens), size, min_frequency)
    return list(found)


@numba.njit(nogil=True, cache=True)
def _joined(left, left_factor, right, right_factor):  # type: ignore[no-untyped-def]
    """Polynomial hash of two spellings joined, and the factor by which it is shifted: 64 bits, so that no two of a
    million tokens share one (the odds are below 1 to 10^7)."""
    return left * right_factor + right, left_factor * right_factor


@numba.njit(nogil=True, cache=True)
def _integers():  # type: ignore[no-untyped-def]
    return [np.int64(0) for _ in range(0)]


@numba.njit(nogil=True, cache=True)
def _merges(symbols, starts, counts, spellings, hashes, factors, tokens, size, min_frequency):  # type: ignore[no-untyped-def]
    numbers = Dict.empty(numba.types.int64, numba.types.int64)  # of pairs, in the order in which they appeared
    frequency = _integers()
    latest = _integers()  # where the list of words begins that waits for a pair to be queued
    link_word = _integers()
    link_next = _integers()
    made = _integers()
    made_keys = _integers()
    lengths = np.diff(starts)
    for word in range(len(counts)):
        for at in range(starts[word], starts[word + 1] - 1):
            key = symbols[at] << 32 | symbols[at + 1]
            _add(key, counts[word], word, numbers, frequency, latest, link_word, link_next, made, made_keys)
    queue = [(np.int64(0), np.int64(0), np.int64(0), np.int64(0))]
    queue.clear()
    _enqueue(queue, frequency, latest, made, made_keys)
    merges = [(np.int64(0), np.int64(0), np.int64(0))]
    merges.clear()
    while tokens < size and len(queue) > 0:
        negative, key, pair, link = heapq.heappop(queue)
        if -negative != frequency[pair]:
            heapq.heappush(queue, (-frequency[pair], key, pair, link))
            continue
        if -negative < 1 or -negative < min_frequency:
            break
        left, right = key >> 32, key & 0xFFFFFFFF
        hash_both, factor_both = _joined(hashes[left], factors[left], hashes[right], factors[right])
        if hash_both in spellings:
            both = spellings[hash_both]
        else:
            both = np.int64(tokens)
            hashes[both], factors[both] = hash_both, factor_both
            spellings[hash_both] = both
            tokens += 1
        merges.append((left, right, both))
        while link >= 0:
            word = link_word[link]
            link = link_next[link]
            count = counts[word]
            begin, length = starts[word], lengths[word]
            read, write = 0, 0
            while read < length:
                symbol = symbols[begin + read]
                if symbol != left or read + 1 >= length or symbols[begin + read + 1] != right:
                    symbols[begin + write] = symbol
                    read += 1
                    write += 1
                    continue
                if write > 0:
                    before = symbols[begin + write - 1]
                    frequency[numbers[before << 32 | left]] -= count
                    key = before << 32 | both
                    _add(key, count, word, numbers, frequency, latest, link_word, link_next, made, made_keys)
                if read + 2 < length:
                    after = symbols[begin + read + 2]
                    frequency[numbers[right << 32 | after]] -= count
                    key = both << 32 | after
                    _add(key, count, word, numbers, frequency, latest, link_word, link_next, made, made_keys)
                symbols[begin + write] = both
                read += 2
                write += 1
            lengths[word] = write
        _enqueue(queue, frequency, latest, made, made_keys)
    return merges


@numba.njit(nogil=True, cache=True)
def _add(key, count, word, numbers, frequency, latest, link_word, link_next, made, made_keys):  # type: ignore[no-untyped-def]
    """Count a pair, and note that it stands in a word."""
    if key in numbers:
        pair = numbers[key]
    else:
        pair = np.int64(len(frequency))
        numbers[key] = pair
        frequency.append(np.int64(0))
        latest.append(np.int64(-1))
    frequency[pair] += count
    if latest[pair] < 0:
        made.append(pair)
        made_keys.append(key)
    elif link_word[latest[pair]] == word:
        return
    link_word.append(np.int64(word))
    link_next.append(latest[pair])
    latest[pair] = np.int64(len(link_word) - 1)


@numba.njit(nogil=True, cache=True)
def _enqueue(queue, frequency, latest, made, made_keys):  # type: ignore[no-untyped-def]
    """Queue the pairs that were noted since, with the words in which they were."""
    for at in range(len(made)):
        pair = made[at]
        if frequency[pair] > 0:
            heapq.heappush(queue, (-frequency[pair], made_keys[at], pair, latest[pair]))
        latest[pair] = np.int64(-1)
    made.clear()
    made_keys.clear()
