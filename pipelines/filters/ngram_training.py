"""Estimates an n-gram model from text: interpolated modified Kneser-Ney (Chen and Goodman 1999, section 3).

Text comes in one table of documents at a time and is kept as one 64-bit number per word. What the result looks like
and how it scores stands in `ngram_model.py`.
"""

import itertools
from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.filters.ngram_model import BEGIN, SPECIAL_WORDS, UNKNOWN, NgramModel, empty_table, find, word_table
from pipelines.filters.words import folded_words, language_model_alphabet, next_word, text_buffers

_BEGIN_HASH, _END_HASH = np.uint64(1), np.uint64(2)
"""Stand for <s> and </s> in the stream of word hashes."""

FALLBACK_DISCOUNTS = (0.5, 1.0, 1.5)
"""Used for an order whose counts of counts give no discount between 0 and the count itself (too little text)."""


class NgramTrainer:
    """Collects text, then estimates a model.

    Memory: 8 bytes per token while text is added; at the peak of `estimate`, at order 5, 110 bytes per token of prose
    and 240 where hardly an n-gram repeats (a token is about 5 bytes of English text). max_vocabulary: the most frequent
    words are kept, ties by hash. min_count: n-grams of three and more words seen less often are left out of the model
    after they counted for the estimates; what they weighed goes to the backoff, so that probabilities sum to 1.
    """

    def __init__(self, order: int, max_vocabulary: int, min_count: int) -> None:
        self._order = order
        self._max_vocabulary = max_vocabulary
        self._min_count = min_count
        self._streams: list[npt.NDArray[np.uint64]] = []
        self._known: npt.NDArray[np.uint64] = np.zeros(0, np.uint64)
        self._spellings: dict[int, str] = {}
        self.tokens = 0
        self.documents = 0

    def add(self, texts: pa.Array | pa.ChunkedArray) -> None:
        """Read the documents of a string column; texts without a word are passed over."""
        offsets, data = text_buffers(texts)
        alphabet = language_model_alphabet()
        room = _count_words(offsets, data, alphabet) + 2 * len(offsets)
        stream, starts, ends = np.empty(room, np.uint64), np.empty(room, np.int64), np.empty(room, np.int64)
        length, documents = _hash_words(offsets, data, alphabet, stream, starts, ends)
        self._streams.append(stream[:length])
        self.tokens += length - 2 * documents
        self.documents += documents
        distinct, first = np.unique(stream[:length], return_index=True)
        new = ~np.isin(distinct, self._known)
        for hashed, position in zip(distinct[new], first[new], strict=True):
            if hashed not in (_BEGIN_HASH, _END_HASH):
                self._spellings[int(hashed)] = folded_words(bytes(data[starts[position] : ends[position]]), alphabet)[0]
        self._known = np.union1d(self._known, distinct)

    def estimate(self) -> NgramModel:
        """The model of all text added. Raises `ValueError` when there was no word in it."""
        if not self.tokens:
            raise ValueError("a language model cannot be trained on text without a single word; add text")
        hashes, stream = self._chosen_words(), np.concatenate(self._streams)
        self._streams.clear()
        words = word_table(hashes, np.arange(BEGIN, BEGIN + len(hashes)))
        ids = _ids(stream, words)
        del stream
        vocabulary = [*SPECIAL_WORDS, *(self._spellings[int(hashed)] for hashed in hashes[2:])]
        levels = _count(ids, self._order, len(vocabulary))
        unigrams, unigram_discounts = _unigrams(levels[0])
        estimates: list[_Estimate] = []
        for n, (shorter, level) in enumerate(itertools.pairwise(levels), start=2):
            kept = level.counts >= (self._min_count if n >= 3 else 1)
            lower = estimates[-1].probabilities if estimates else unigrams
            estimates.append(_interpolate(level, len(shorter.counts), lower, kept))
        table = _store(levels, estimates, len(vocabulary))
        with np.errstate(divide="ignore"):  # <s> never follows anything: its logarithm is minus infinity
            pairs = np.log(np.stack([unigrams, estimates[0].context_backoff], axis=1)).astype(np.float32)
        facts = {
            "order": self._order,
            "tokens": self.tokens,
            "documents": self.documents,
            "unknown_tokens": int(np.count_nonzero(ids == UNKNOWN)),
            "ngrams": [len(vocabulary), *(int(e.kept.sum()) for e in estimates)],
            "discounts": [list(unigram_discounts), *(list(e.discounts) for e in estimates)],
        }
        return NgramModel(table, pairs, words, vocabulary, facts)

    def _chosen_words(self) -> npt.NDArray[np.uint64]:
        """Hashes in the order of ids 1, 2, 3 …: <s>, </s>, then words by falling count."""
        counts = np.zeros(len(self._known), np.int64)
        numbers = word_table(self._known, np.arange(len(self._known)))
        for stream in self._streams:
            counts += np.bincount(_ids(stream, numbers), minlength=len(counts))
        word = (self._known != _BEGIN_HASH) & (self._known != _END_HASH)
        hashes, counts = self._known[word], counts[word]
        by_count = np.lexsort((hashes, -counts))[: self._max_vocabulary]
        return np.concatenate([np.array([_BEGIN_HASH, _END_HASH], np.uint64), hashes[by_count]])


@dataclass
class _Level:
    """All n-grams of one length, in the order of their first occurrence (for n = 1: all words, by id).

    context: number of the first n-1 words among the n-grams one shorter; suffix: of the last n-1 words. counts:
    occurrences. adjusted: what is estimated from: the number of different words to the left (the unknown word being
    one), or the count where no word can stand to the left: at the longest length and after <s>.
    """

    context: npt.NDArray[np.int32]
    word: npt.NDArray[np.int32]
    suffix: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int32]
    adjusted: npt.NDArray[np.int32]
    at_begin: npt.NDArray[np.bool_]


@dataclass
class _Estimate:
    """probabilities: p(last word | the rest) of every n-gram. context_backoff: weight of shorter contexts, for every
    n-gram one word shorter. kept: whether the n-gram goes into the model."""

    probabilities: npt.NDArray[np.float64]
    context_backoff: npt.NDArray[np.float64]
    kept: npt.NDArray[np.bool_]
    discounts: tuple[float, float, float]


def _count(ids: npt.NDArray[np.int32], order: int, vocabulary_size: int) -> list[_Level]:
    """Count the n-grams of every length up to `order`. An n-gram with an unknown word is none: an unknown word is never
    learned as though it were one word, so that text of unknown words stays improbable."""
    word_counts = np.bincount(ids, minlength=vocabulary_size).astype(np.int32)
    every = np.arange(vocabulary_size, dtype=np.int32)
    after_unknown = np.zeros(vocabulary_size, np.bool_)
    after_unknown[ids[1:][ids[:-1] == UNKNOWN]] = True
    nodes = np.where(ids == UNKNOWN, -1, ids).astype(np.int32)
    levels = [_Level(every * 0, every, every * 0, word_counts, word_counts, every == BEGIN)]
    for n in range(2, order + 1):
        table = empty_table(len(ids))
        size = len(ids)
        context, word, suffix = np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.int32)
        counts, unknown_before = np.zeros(size, np.int32), np.zeros(size, np.bool_)
        following = np.full(size, -1, np.int32)
        found = _count_level(ids, n, nodes, following, table, context, word, suffix, counts, unknown_before)
        context, word, suffix, counts = (array[:found].copy() for array in (context, word, suffix, counts))
        below = levels[-1]
        adjusted = np.bincount(suffix, minlength=len(below.counts)) + after_unknown
        below.adjusted = np.where(below.at_begin, below.counts, adjusted).astype(np.int32)
        levels.append(_Level(context, word, suffix, counts, counts, below.at_begin[context]))
        nodes, after_unknown = following, unknown_before[:found].copy()
    return levels


def discounts_of(adjusted: npt.NDArray[np.integer]) -> tuple[float, float, float]:
    """D1, D2, D3+ from the numbers n1 … n4 of n-grams with (adjusted) count 1 … 4: Chen and Goodman 1999, eq. 26, with
    Y = n1 / (n1 + 2 n2). `FALLBACK_DISCOUNTS` where one of them would not lie between 0 and the count."""
    n1, n2, n3, n4 = (int(np.count_nonzero(adjusted == count)) for count in range(1, 5))
    if not n1 or not n2 or not n3:
        return FALLBACK_DISCOUNTS
    y = n1 / (n1 + 2 * n2)
    found = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
    return found if all(0 < d <= count for count, d in enumerate(found, start=1)) else FALLBACK_DISCOUNTS


def _discounted(
    adjusted: npt.NDArray[np.integer], discounts: tuple[float, float, float]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """What is taken from each adjusted count, and what is left of it."""
    taken = np.array([0.0, *discounts])[np.minimum(adjusted, 3)]
    return taken, adjusted - taken


def _unigrams(level: _Level) -> tuple[npt.NDArray[np.float64], tuple[float, float, float]]:
    """Probability of every word without context, interpolated with the uniform distribution over all words but <s>;
    that share is all that the unknown word gets."""
    adjusted = level.adjusted.copy()
    adjusted[[UNKNOWN, BEGIN]] = 0
    discounts = discounts_of(adjusted)
    taken, left = _discounted(adjusted, discounts)
    probabilities = (left + taken.sum() / (len(adjusted) - 1)) / adjusted.sum()
    probabilities[BEGIN] = 0.0
    return probabilities, discounts


def _interpolate(
    level: _Level, contexts: int, lower: npt.NDArray[np.float64], kept: npt.NDArray[np.bool_]
) -> _Estimate:
    """Chen and Goodman 1999, section 3, interpolated: p(w|c) = (a(c w) - D) / Σ a(c ·) + γ(c) p(w|c').

    γ(c) is what was taken from the numerators: the discounts of the n-grams kept and all of those dropped. lower:
    p(w|c') of the n-grams one word shorter.
    """
    discounts = discounts_of(level.adjusted)
    taken, left = _discounted(level.adjusted, discounts)
    total = np.bincount(level.context, weights=level.adjusted, minlength=contexts)
    freed = np.bincount(level.context, weights=np.where(kept, taken, level.adjusted), minlength=contexts)
    backoff = np.divide(freed, total, out=np.ones(contexts), where=total > 0)
    probabilities = left / total[level.context] + backoff[level.context] * lower[level.suffix]
    return _Estimate(probabilities, backoff, kept, discounts)


def _store(levels: list[_Level], estimates: list[_Estimate], vocabulary_size: int) -> npt.NDArray[np.uint64]:
    """The hash table of `NgramModel.ngrams`, filled length by length in order of first occurrence."""
    table = empty_table(sum(int(estimate.kept.sum()) for estimate in estimates))
    values = table.view(np.float32)
    index_of = np.arange(vocabulary_size)
    backoffs = [*(estimate.context_backoff for estimate in estimates[1:]), np.ones(len(levels[-1].counts))]
    for level, estimate, backoff in zip(levels[1:], estimates, backoffs, strict=True):
        log_probability = np.log(estimate.probabilities).astype(np.float32)
        log_backoff = np.log(backoff).astype(np.float32)
        next_index = np.full(len(level.counts), -1, np.int64)
        _insert(
            table, values, index_of, level.context, level.word, estimate.kept,
            log_probability, log_backoff, vocabulary_size, next_index,
        )  # fmt: skip
        index_of = next_index
    return table


@numba.njit(nogil=True, cache=True)
def _count_words(offsets, data, alphabet):  # type: ignore[no-untyped-def]
    words = 0
    for document in range(len(offsets) - 1):
        at, end = offsets[document], offsets[document + 1]
        while True:
            _, at, _, characters = next_word(data, at, end, alphabet)
            if characters == 0:
                break
            words += 1
    return words


@numba.njit(nogil=True, cache=True)
def _hash_words(offsets, data, alphabet, stream, starts, ends):  # type: ignore[no-untyped-def]
    """Fill stream with word hashes, every document enclosed in begin and end; (length, documents)."""
    length = 0
    documents = 0
    for document in range(len(offsets) - 1):
        at, end = offsets[document], offsets[document + 1]
        before = length
        stream[length] = _BEGIN_HASH
        length += 1
        while True:
            start, at, hashed, characters = next_word(data, at, end, alphabet)
            if characters == 0:
                break
            stream[length], starts[length], ends[length] = hashed, start, at
            length += 1
        if length == before + 1:
            length = before
            continue
        stream[length] = _END_HASH
        length += 1
        documents += 1
    return length, documents


@numba.njit(nogil=True, cache=True)
def _ids(stream, words):  # type: ignore[no-untyped-def]
    ids = np.empty(len(stream), np.int32)
    for position in range(len(stream)):
        row = find(words, stream[position])
        ids[position] = np.int32(words[row, 1]) if row >= 0 else UNKNOWN
    return ids


@numba.njit(nogil=True, cache=True)
def _count_level(  # type: ignore[no-untyped-def]
    ids, n, nodes, following, table, context, word, suffix, counts, unknown_before
):
    """Number the n-grams of length n in order of first occurrence. nodes: number of the (n-1)-gram that ends at each
    position, -1 where there is none; following: the same for n, filled here. Returns how many there are."""
    found = 0
    for position in range(1, len(ids)):
        before = nodes[position - 1]
        if before < 0 or nodes[position] < 0 or ids[position] == BEGIN:
            continue
        key = (np.uint64(before) << np.uint64(32) | np.uint64(ids[position])) + np.uint64(1)
        row = find(table, key)
        if row < 0:
            row = ~row
            table[row, 0] = key
            table[row, 1] = found
            context[found], word[found], suffix[found] = before, ids[position], nodes[position]
            found += 1
        number = np.int64(table[row, 1])
        counts[number] += 1
        following[position] = number
        if position >= n and ids[position - n] == UNKNOWN:
            unknown_before[number] = True
    return found


@numba.njit(nogil=True, cache=True)
def _insert(  # type: ignore[no-untyped-def]
    table, values, index_of, context, word, kept, log_probability, log_backoff, vocabulary_size, next_index
):
    for number in range(len(context)):
        if kept[number]:
            key = np.uint64(index_of[context[number]]) << np.uint64(32) | np.uint64(word[number])
            row = ~find(table, key)
            table[row, 0] = key
            values[row, 2] = log_probability[number]
            values[row, 3] = log_backoff[number]
            next_index[number] = vocabulary_size + row
