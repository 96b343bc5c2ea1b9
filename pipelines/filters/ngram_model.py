"""An n-gram language model with backoff: arrays that can be memory-mapped, and compiled scoring of text.

How a model is estimated stands in `ngram_training.py`, how it is exchanged with other programs in `arpa.py`; which
documents it reads is decided in `perplexity.py`.
"""

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.filters.words import folded_words, language_model_alphabet, next_word, text_buffers

UNKNOWN, BEGIN, END = 0, 1, 2
"""Ids of <unk>, <s> and </s>. Begin and end enclose a document: line breaks are spaces to the model."""
SPECIAL_WORDS = ("<unk>", "<s>", "</s>")

FILE_NAMES = ("ngrams.npy", "unigrams.npy", "words.npy", "vocabulary.txt", "model.json")
"""Files of a model, in the order in which `NgramModel.open` takes their paths."""


@dataclass(frozen=True)
class NgramModel:
    """A backoff model: p(w | c) = p of the longest stored n-gram c' w, times the backoffs of the longer contexts.

    An n-gram's index is its word's id for n = 1, and vocabulary size + row in `ngrams` for n ≥ 2.
    ngrams: uint64[slots, 2], an open-addressing hash table (slots a power of two, at most two thirds full). Column 0 is
    the key, index of the first n-1 words << 32 | id of the last, 0 where empty; column 1 holds two float32: natural
    logarithms of probability and backoff. unigrams: float32[V, 2], the same two figures. words: uint64[slots, 2], hash
    of a word and its id, a table of the same kind. vocabulary: the words by id. facts: order, counts, discounts.
    """

    ngrams: npt.NDArray[np.uint64]
    unigrams: npt.NDArray[np.float32]
    words: npt.NDArray[np.uint64]
    vocabulary: list[str]
    facts: dict[str, Any]

    @property
    def order(self) -> int:
        """Length of the longest n-grams, words."""
        return int(self.facts["order"])

    def files(self) -> list[tuple[str, bytes]]:
        """(name, bytes) of the files of `FILE_NAMES`; the same model gives the same bytes."""
        contents = [npy_bytes(array) for array in (self.ngrams, self.unigrams, self.words)]
        contents.append("\n".join(self.vocabulary).encode())
        contents.append(json.dumps(self.facts, sort_keys=True).encode())
        return list(zip(FILE_NAMES, contents, strict=True))

    @classmethod
    def open(cls, paths: Sequence[Path]) -> "NgramModel":
        """The model in five files, given in the order of `FILE_NAMES`; arrays stay on disk, mapped."""
        ngrams, unigrams, words = (np.asarray(np.load(path, mmap_mode="r")) for path in paths[:3])
        vocabulary = paths[3].read_text(encoding="utf-8").split("\n")
        return cls(ngrams, unigrams, words, vocabulary, json.loads(paths[4].read_text(encoding="utf-8")))

    def score(
        self, texts: pa.Array | pa.ChunkedArray, max_tokens: int
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """Sum of natural log probabilities of the words of each text, float64[n], and how many there were, int64[n].

        Of a text, max_tokens words are read. That the text ends where it ends is not scored: it says nothing about
        quality and would dominate short texts.
        """
        offsets, data = text_buffers(texts)
        log_probability = np.zeros(len(offsets) - 1, np.float64)
        tokens = np.zeros(len(offsets) - 1, np.int64)
        _score_texts(
            offsets,
            data,
            language_model_alphabet(),
            self.words,
            self.ngrams,
            self.ngrams.view(np.float32),
            self.unigrams,
            self.order,
            max_tokens,
            log_probability,
            tokens,
        )
        return log_probability, tokens

    def word_log_probabilities(self, text: str, *, end: bool = False) -> list[tuple[str, float]]:
        """(word, natural log probability given what precedes it) for people and tests; end: also that </s> follows."""
        context = Context(self)
        ids = {word: index for index, word in enumerate(self.vocabulary)}
        words = folded_words(text.encode(), language_model_alphabet()) + ([SPECIAL_WORDS[END]] if end else [])
        return [(word, context.append(ids.get(word, UNKNOWN))) for word in words]


class Context:
    """What the model has read so far, from the beginning of a document; `append` reads one more word."""

    def __init__(self, model: NgramModel) -> None:
        self._model = model
        self._nodes, self._backoffs, self._length = _begin(model.order, model.unigrams)

    def append(self, word: int) -> float:
        """Natural log probability of the word (an id) after what was read; the word becomes part of it."""
        log_probability, self._length = _append(
            word,
            self._model.ngrams,
            self._model.ngrams.view(np.float32),
            self._model.unigrams,
            self._model.order,
            self._nodes,
            self._backoffs,
            self._length,
        )
        return float(log_probability)

    def probabilities(self) -> npt.NDArray[np.float64]:
        """float64[V]: probability of every word as the next one; 0 for <s>. Sums to 1."""
        probabilities = np.zeros(len(self._model.unigrams), np.float64)
        for word in range(len(probabilities)):
            if word != BEGIN:
                after = Context(self._model)
                after._nodes, after._backoffs = self._nodes.copy(), self._backoffs.copy()
                after._length = self._length
                probabilities[word] = np.exp(after.append(word))
        return probabilities


def npy_bytes(array: npt.NDArray[Any]) -> bytes:
    """An array as the bytes of a .npy file."""
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


@numba.njit(nogil=True, cache=True)
def find(table, key):  # type: ignore[no-untyped-def]
    """Row of a key in an open-addressing table uint64[slots, 2] with linear probing; ~ the free row where it belongs
    (negative) if the key is not there."""
    mask = np.int64(len(table) - 1)
    hashed = key * np.uint64(0x9E3779B97F4A7C15)
    row = np.int64((hashed ^ (hashed >> np.uint64(32))) & np.uint64(mask))
    while True:
        standing = table[row, 0]
        if standing == key:
            return row
        if standing == 0:
            return ~row
        row = (row + 1) & mask


@numba.njit(nogil=True, cache=True)
def _begin(order, unigrams):  # type: ignore[no-untyped-def]
    nodes = np.zeros(order, np.int64)
    backoffs = np.zeros(order, np.float64)
    nodes[0] = BEGIN
    backoffs[0] = unigrams[BEGIN, 1]
    return nodes, backoffs, 1


@numba.njit(nogil=True, cache=True)
def _append(word, ngrams, values, unigrams, order, nodes, backoffs, length):  # type: ignore[no-untyped-def]
    """Read one word. nodes[k], backoffs[k]: index and log backoff of the last k + 1 words, for k < length, in place.

    Stored n-grams are closed under taking prefixes and suffixes, so the first length that is not found ends the search.
    """
    log_probability = np.float64(unigrams[word, 0])
    if word == UNKNOWN:  # no n-gram holds it
        for k in range(length):
            log_probability += backoffs[k]
        return log_probability, 0
    vocabulary_size = len(unigrams)
    matched = 1
    node = np.int64(word)
    backoff = np.float64(unigrams[word, 1])
    for k in range(length):
        row = find(ngrams, np.uint64(nodes[k]) << np.uint64(32) | np.uint64(word))
        if row < 0:
            for longer in range(k, length):
                log_probability += backoffs[longer]
            break
        nodes[k], node = node, np.int64(vocabulary_size + row)
        backoffs[k], backoff = backoff, np.float64(values[row, 3])
        log_probability = np.float64(values[row, 2])
        matched = k + 2
    if matched < order:
        nodes[matched - 1] = node
        backoffs[matched - 1] = backoff
        return log_probability, matched
    return log_probability, order - 1


@numba.njit(nogil=True, cache=True)
def _score_texts(  # type: ignore[no-untyped-def]
    offsets, data, alphabet, words, ngrams, values, unigrams, order, max_tokens, log_probability, tokens
):
    for document in range(len(offsets) - 1):
        at, end = offsets[document], offsets[document + 1]
        nodes, backoffs, length = _begin(order, unigrams)
        total = 0.0
        count = 0
        while count < max_tokens:
            _, at, hashed, characters = next_word(data, at, end, alphabet)
            if characters == 0:
                break
            row = find(words, hashed)
            word = np.int64(words[row, 1]) if row >= 0 else UNKNOWN
            added, length = _append(word, ngrams, values, unigrams, order, nodes, backoffs, length)
            total += added
            count += 1
        log_probability[document] = total
        tokens[document] = count


def word_table(hashes: npt.NDArray[np.uint64], ids: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """The table uint64[slots, 2] that finds each word's id by its hash."""
    table = empty_table(len(hashes))
    _fill(table, hashes, ids.astype(np.uint64))
    return table


def empty_table(entries: int) -> npt.NDArray[np.uint64]:
    """A table with room for so many entries, at most two thirds full."""
    return np.zeros((1 << max(3, (entries * 3 // 2).bit_length()), 2), np.uint64)


@numba.njit(nogil=True, cache=True)
def _fill(table, keys, values):  # type: ignore[no-untyped-def]
    for index in range(len(keys)):
        row = ~find(table, keys[index])
        table[row, 0] = keys[index]
        table[row, 1] = values[index]
