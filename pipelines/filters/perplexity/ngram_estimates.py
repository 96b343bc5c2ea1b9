"""Interpolated modified Kneser-Ney (Chen and Goodman 1999, section 3) over streams of sorted n-grams on disk.

The plan is that of Heafield, Pouzyrevsky, Clark and Koehn 2013 (Scalable Modified Kneser-Ney Language Model
Estimation): only the longest n-grams are counted; everything else follows from reading them in the right order. What
keys of n-grams are stands in `ngram_counts.py`; how text becomes word ids, in `ngram_training.py`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numba
import numpy as np
import numpy.typing as npt

from pipelines.filters.perplexity.ngram_counts import Counts, added, windows, word_bits, word_of
from pipelines.filters.perplexity.ngram_scoring import BEGIN, UNKNOWN
from pipelines.filters.perplexity.sorted_rows import KEY_BITS, Rows, Sorter, Spool, in_step, leading_bits

Discounts = tuple[float, float, float]

FALLBACK_DISCOUNTS = (0.5, 1.0, 1.5)
"""Used for an order whose counts of counts give no discount between 0 and the count itself (too little text)."""


def discounts_of(numbers: list[int]) -> Discounts:
    """D1, D2, D3+ from the numbers n1 … n4 of n-grams with (adjusted) count 1 … 4: Chen and Goodman 1999, eq. 26, with
    Y = n1 / (n1 + 2 n2). `FALLBACK_DISCOUNTS` where one of them would not lie between 0 and the count."""
    n1, n2, n3, n4 = numbers
    if not n1 or not n2 or not n3:
        return FALLBACK_DISCOUNTS
    y = n1 / (n1 + 2 * n2)
    found = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
    return found if all(0 < d <= count for count, d in enumerate(found, start=1)) else FALLBACK_DISCOUNTS


@dataclass
class Estimates:
    """What `estimate` found. ngrams: of each length, all n-grams of the model in suffix order; the payload holds two
    float32, the probability of the last word after the others, and the weight of shorter contexts after all of them."""

    ngrams: list[Spool] = field(default_factory=list)
    discounts: list[Discounts] = field(default_factory=list)


def estimate(
    ids: Iterable[npt.NDArray[np.int32]], order: int, vocabulary_size: int, min_count: int, sorter: Sorter
) -> Estimates:
    """Probabilities and backoffs of all n-grams up to the order.

    ids: the text, piece by piece; documents are enclosed in BEGIN and END. An n-gram with an unknown word is none: an
    unknown word is never learned as though it were one word, so that text of unknown words stays improbable. min_count:
    n-grams of three and more words seen less often are dropped once they counted; what they weighed goes to the
    backoff. Memory: what the sorter was given, and some 100 bytes per word of the vocabulary.
    """
    bits = word_bits(vocabulary_size)
    if bits * order > KEY_BITS:
        raise ValueError(
            f"{order}-grams of {vocabulary_size:,} different words are too many to be told apart: lower the order or "
            "max_vocabulary"
        )
    longest = sorter.sorted(windows(ids, order, bits), order * bits, combine=added)
    counted = Counts(order, bits, vocabulary_size, min_count, sorter)
    for rows in longest:
        counted.read(rows)
    counted.finish()
    discounts = [discounts_of(numbers[1:].tolist()) for numbers in counted.counts_of_counts[1:]]
    words = sorter.spool()
    words.append(_unigrams(counted.unigrams, discounts[0], bits))
    kept, backoffs = [words], []
    for n in range(2, order + 1):
        own, of_contexts = _weighed(counted.ngrams[n], n, bits, discounts[n - 1], sorter)
        kept.append(own)
        backoffs.append(of_contexts)
    made = Estimates(discounts=discounts)
    for n in range(1, order + 1):
        lower = made.ngrams[-1].read(sorter.rows_at_once) if made.ngrams else iter(())
        of_own = backoffs[n - 1].read(sorter.rows_at_once) if n < order else iter(())
        # they come by context, itself in suffix order: ordered by their last word, they are in suffix order
        own_rows = sorter.sorted(kept[n - 1].read(sorter.rows_at_once), bits, tie_bits=(n - 1) * bits)
        made.ngrams.append(_interpolated(own_rows, lower, of_own, n, bits, sorter))
        kept[n - 1].close()
        if n < order:
            backoffs[n - 1].close()
    return made


def with_logarithms(rows: Rows) -> Rows:
    """The rows with the natural logarithms of their two payloads, in place."""
    payload = rows.view(np.float32)[:, 4:]
    with np.errstate(divide="ignore"):  # <s> never follows anything: its logarithm is minus infinity
        payload[:] = np.log(payload.astype(np.float64))  # float32: its last bits depend on the processor
    return rows


def _unigrams(adjusted: npt.NDArray[np.int64], discounts: Discounts, bits: int) -> Rows:
    """Rows like those that `_weighed` gives, of every word: its probability without context, interpolated with the
    uniform distribution over all words but <s>; that share is all that the unknown word gets."""
    counts = adjusted.copy()
    counts[[UNKNOWN, BEGIN]] = 0
    taken = np.array([0.0, *discounts])[np.minimum(counts, 3)]
    probabilities = (counts - taken + taken.sum() / (len(counts) - 1)) / counts.sum()
    probabilities[BEGIN] = 0.0
    rows = np.zeros((len(counts), 3), np.uint64)
    rows[:, 0] = np.arange(len(counts), dtype=np.uint64) << np.uint64(64 - bits)
    rows.view(np.float32)[:, 4] = probabilities
    return rows


def _weighed(counted: Spool, n: int, bits: int, discounts: Discounts, sorter: Sorter) -> tuple[Spool, Spool]:
    """Of the n-grams of one length: those that stay in the model, with two float32 as payload, the discounted share in
    their context's count and their context's backoff; and the backoffs of contexts, in suffix order of these.

    Chen and Goodman 1999, section 3, interpolated: p(w|c) = (a(c w) - D) / Σ a(c ·) + γ(c) p(w|c'). γ(c) is what was
    taken from the numerators: the discounts of the n-grams kept and all of those dropped. A context without an n-gram
    that stays has the backoff 1, and no row.
    """
    kept, backoffs = sorter.spool(), sorter.spool()
    context_bits = (n - 1) * bits
    turned = (_turned(rows, n, bits) for rows in counted.read(sorter.rows_at_once))
    for (rows,) in in_step([sorter.sorted(turned, context_bits)], context_bits):
        own, of_contexts = np.empty_like(rows), np.empty_like(rows)
        found, contexts = _weigh(
            rows, n, bits, leading_bits(context_bits), np.array(discounts),
            own, own.view(np.float32), of_contexts, of_contexts.view(np.float32),
        )  # fmt: skip
        kept.append(own[:found])
        backoffs.append(of_contexts[:contexts])
    counted.close()
    return kept, backoffs


def _turned(rows: Rows, n: int, bits: int) -> Rows:
    """The rows with the last word moved behind the context, which stays in suffix order; in place."""
    _turn(rows, n, bits, leading_bits((n - 1) * bits))
    return rows


def _interpolated(
    own: Iterator[Rows], lower: Iterator[Rows], backoffs: Iterator[Rows], n: int, bits: int, sorter: Sorter
) -> Spool:
    """Probabilities and backoffs of the n-grams of one length, from their own rows of `_weighed`, the n-grams one word
    shorter, and the backoffs of contexts of this length; all in suffix order."""
    made = sorter.spool()
    suffix_bits = (n - 1) * bits
    for rows, shorter, contexts in in_step([own, lower, backoffs], suffix_bits or bits):
        _interpolate(
            rows, rows.view(np.float32), shorter, shorter.view(np.float32), contexts, contexts.view(np.float32),
            leading_bits(suffix_bits),
        )  # fmt: skip
        made.append(rows)
    return made


@numba.njit(nogil=True, cache=True)
def _turn(rows, n, bits, mask):  # type: ignore[no-untyped-def]
    low = 128 - n * bits
    up, top = np.uint64(bits), np.uint64(64 - bits)
    for index in range(len(rows)):
        first, second = rows[index, 0], rows[index, 1]
        word = first >> top
        turned_first = (first << up | second >> top) & mask[0]
        turned_second = second << up & mask[1]
        if low >= 64:
            turned_first |= word << np.uint64(low - 64)
        else:
            turned_second |= word << np.uint64(low)
            if low > 64 - bits:
                turned_first |= word >> np.uint64(64 - low)
        rows[index, 0], rows[index, 1] = turned_first, turned_second


@numba.njit(nogil=True, cache=True)
def _weigh(  # type: ignore[no-untyped-def]
    rows, n, bits, mask, discounts, own, own_values, contexts, context_values
):
    """Rows are turned, and all n-grams of one context stand in one call. Fill own and contexts; how many of each."""
    found = 0
    contexts_found = 0
    up, top = np.uint64(bits), np.uint64(64 - bits)
    begin = 0
    while begin < len(rows):
        first, second = rows[begin, 0] & mask[0], rows[begin, 1] & mask[1]
        total, dropped = np.int64(0), np.int64(0)
        ones, twos, more = 0, 0, 0
        end = begin
        while end < len(rows) and rows[end, 0] & mask[0] == first and rows[end, 1] & mask[1] == second:
            count = np.int64(rows[end, 2] >> np.uint64(1))
            total += count
            if not rows[end, 2] & np.uint64(1):
                dropped += count
            elif count == 1:
                ones += 1
            elif count == 2:
                twos += 1
            else:
                more += 1
            end += 1
        if dropped < total:
            backoff = (ones * discounts[0] + twos * discounts[1] + more * discounts[2] + dropped) / total
            contexts[contexts_found, 0], contexts[contexts_found, 1] = first, second
            context_values[contexts_found, 4] = backoff
            contexts_found += 1
            for index in range(begin, end):
                if rows[index, 2] & np.uint64(1):
                    count = np.int64(rows[index, 2] >> np.uint64(1))
                    word = word_of(rows[index, 0], rows[index, 1], n, bits)
                    own[found, 0], own[found, 1] = word << top | first >> up, second >> up | first << top
                    own_values[found, 4] = (count - discounts[min(int(count), 3) - 1]) / total
                    own_values[found, 5] = backoff
                    found += 1
        begin = end
    return found, contexts_found


@numba.njit(nogil=True, cache=True)
def _interpolate(  # type: ignore[no-untyped-def]
    rows, values, shorter, shorter_values, contexts, context_values, suffix_mask
):
    """Replace the payload of every row by its probability and backoff. Every row's suffix stands in shorter."""
    suffix = 0
    context = 0
    for index in range(len(rows)):
        first, second = rows[index, 0], rows[index, 1]
        if len(shorter):
            while shorter[suffix, 0] != first & suffix_mask[0] or shorter[suffix, 1] != second & suffix_mask[1]:
                suffix += 1
            values[index, 4] += values[index, 5] * shorter_values[suffix, 4]
        while context < len(contexts) and (
            contexts[context, 0] < first or (contexts[context, 0] == first and contexts[context, 1] < second)
        ):
            context += 1
        known = context < len(contexts) and contexts[context, 0] == first and contexts[context, 1] == second
        values[index, 5] = context_values[context, 4] if known else np.float32(1.0)
