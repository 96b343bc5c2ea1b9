"""Compiled scoring with the hash tables of an n-gram model; what they hold stands in `ngram_model.py`."""

from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from pipelines.filters.words import next_word

UNKNOWN, BEGIN, END = 0, 1, 2
"""Ids of <unk>, <s> and </s>. Begin and end enclose a document: line breaks are spaces to the model."""
SPECIAL_WORDS = ("<unk>", "<s>", "</s>")

BATCH = 256
"""Words that are scored together: what is kept of them fits into the processor's first cache."""
_STEP = np.uint64(0x9E3779B97F4A7C15)


class Tables(NamedTuple):
    """Of a model: slots (see `NgramModel`), values: the same memory as float32[slots, 4], layout, the order, and the
    hashes of the special words."""

    slots: npt.NDArray[np.uint64]
    values: npt.NDArray[np.float32]
    layout: npt.NDArray[np.int64]
    order: int
    special: npt.NDArray[np.uint64]


@numba.njit(nogil=True, cache=True, inline="always")
def longer_hash(hashed, word):  # type: ignore[no-untyped-def]
    """The hash of an n-gram with one more word before it, from those of the n-gram and of the word."""
    return hashed * _STEP + word


@numba.njit(nogil=True, cache=True, inline="always")
def key_of(hashed):  # type: ignore[no-untyped-def]
    """The key in the table, never 0, of what has this hash."""
    return hashed | np.uint64(1)


@numba.njit(nogil=True, cache=True, inline="always")
def home_of(key, homes):  # type: ignore[no-untyped-def]
    """The slot of its length where a key belongs if it is free, else one of the next; slots rise with keys."""
    return np.int64((key >> np.uint64(32)) * np.uint64(homes) >> np.uint64(32))


@numba.njit(nogil=True, cache=True, inline="always")
def _slot(tables, n, hashed):  # type: ignore[no-untyped-def]
    """Where the n-gram of this hash stands, or -1."""
    slot = tables.layout[n - 1, 0] + home_of(key_of(hashed), tables.layout[n - 1, 1])
    return _slot_from(tables, slot, tables.slots[slot, 0], key_of(hashed))


@numba.njit(nogil=True, cache=True, inline="always")
def _slot_from(tables, slot, standing, key):  # type: ignore[no-untyped-def]
    """The same from the key's home on, where `standing` stands."""
    while standing != key:
        if standing == 0:
            return -1
        slot += 1
        standing = tables.slots[slot, 0]
    return slot


@numba.njit(nogil=True, cache=True)
def look_up(tables, n, hashes, found):  # type: ignore[no-untyped-def]
    """Fill found, float32[m, 2]: log probability and backoff of n-grams of length n, which must be there."""
    for index in range(len(hashes)):
        slot = _slot(tables, n, hashes[index])
        found[index, 0], found[index, 1] = tables.values[slot, 2], tables.values[slot, 3]


@numba.njit(nogil=True, cache=True)
def _room(order):  # type: ignore[no-untyped-def]
    """What `_score_batch` works in: of each word its hash, that of the longest n-gram looked for, its score, the length
    of the longest n-gram found, its backoffs by length; a list of places, and what stands at their slots."""
    size = BATCH + order
    return (
        np.zeros(size, np.uint64), np.zeros(size, np.uint64), np.zeros(size, np.float64), np.zeros(size, np.int64),
        np.zeros((size, order), np.float32), np.zeros(size, np.int64), np.zeros(size, np.int64),
        np.zeros(size, np.uint64),
    )  # fmt: skip


@numba.njit(nogil=True, cache=True)
def _score_batch(count, room, tables):  # type: ignore[no-untyped-def]
    """Score the words whose hashes stand in the room from place `order` on; before them stand those of an earlier call.

    One length after the other is looked up for all words: lookups of one length don't wait for one another, so the
    slots, most of which are far from the processor, are fetched together. An n-gram is looked for where its first n-1
    and its last n-1 words were found, for the model holds all prefixes and suffixes of its n-grams.
    """
    hashes, whole, scores, matched, backoffs, places, slots, standing = room
    table, values, layout, order, special = tables
    for index in range(order, order + count):
        key = key_of(hashes[index])
        slots[index] = layout[0, 0] + home_of(key, layout[0, 1])
        standing[index] = table[slots[index], 0]
    for index in range(order, order + count):
        slot = _slot_from(tables, slots[index], standing[index], key_of(hashes[index]))
        if slot < 0:
            hashes[index] = special[UNKNOWN]
            slot = _slot(tables, 1, special[UNKNOWN])
        whole[index] = hashes[index]
        scores[index] = values[slot, 2]
        backoffs[index, 0] = values[slot, 3]
        matched[index] = 1
    for n in range(2, order + 1):
        found = 0
        start, homes = layout[n - 1, 0], layout[n - 1, 1]
        for index in range(order, order + count):
            longer = longer_hash(whole[index], hashes[index - n + 1])
            slot = start + home_of(key_of(longer), homes)
            places[found], slots[found] = index, slot
            wanted = matched[index] == n - 1 and matched[index - 1] >= n - 1 and hashes[index] != special[BEGIN]
            if wanted:
                whole[index] = longer
            found += wanted
        for number in range(found):
            standing[number] = table[slots[number], 0]
        for number in range(found):
            index = places[number]
            slot = _slot_from(tables, slots[number], standing[number], key_of(whole[index]))
            if slot >= 0:
                scores[index] = values[slot, 2]
                backoffs[index, n - 1] = values[slot, 3]
                matched[index] = n
    for index in range(order, order + count):
        for shorter in range(matched[index], min(matched[index - 1], order - 1) + 1):
            scores[index] += backoffs[index - 1, shorter - 1]


@numba.njit(nogil=True, cache=True)
def _keep_last(count, room, order):  # type: ignore[no-untyped-def]
    """Make the last words of a batch those that stand before the next one."""
    hashes, _, _, matched, backoffs, _, _, _ = room
    for index in range(order):
        hashes[index], matched[index] = hashes[count + index], matched[count + index]
        backoffs[index] = backoffs[count + index]


@numba.njit(nogil=True, cache=True)
def score_words(words, tables, scores):  # type: ignore[no-untyped-def]
    """Fill scores, float64[n], for words given by their hashes; nothing precedes the first one, not even <s>."""
    order = tables.order
    room = _room(order)
    for begin in range(0, len(words), BATCH):
        count = min(BATCH, len(words) - begin)
        room[0][order : order + count] = words[begin : begin + count]
        _score_batch(count, room, tables)
        scores[begin : begin + count] = room[2][order : order + count]
        _keep_last(count, room, order)


@numba.njit(nogil=True, cache=True)
def score_texts(  # type: ignore[no-untyped-def]
    offsets, data, alphabet, tables, max_tokens, score_end, log_probability, tokens
):
    """Add up the log probabilities of the words of each text. Batches go on from text to text: <s> stands between them,
    and is not scored (document -1)."""
    order, special = tables.order, tables.special
    room = _room(order)
    hashes, scores = room[0], room[2]
    of_document = np.zeros(BATCH, np.int64)
    document, at, words = 0, offsets[0], -1
    while document < len(offsets) - 1:
        count = 0
        while count < BATCH and document < len(offsets) - 1:
            of_document[count] = document
            if words < 0:
                hashes[order + count], of_document[count] = special[BEGIN], -1
                at, words = offsets[document], 0
            else:
                characters = 0
                if words < max_tokens:
                    _, at, hashes[order + count], characters = next_word(data, at, offsets[document + 1], alphabet)
                if characters:
                    words += 1
                else:
                    tokens[document] = words + score_end
                    document, words = document + 1, -1
                    if not score_end:
                        continue
                    hashes[order + count] = special[END]
            count += 1
        _score_batch(count, room, tables)
        for index in range(count):
            if of_document[index] >= 0:
                log_probability[of_document[index]] += scores[order + index]
        _keep_last(count, room, order)
