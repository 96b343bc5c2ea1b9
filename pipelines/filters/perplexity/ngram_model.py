"""An n-gram language model with backoff: arrays that can be memory-mapped, and compiled scoring of text.

How a model is estimated stands in `ngram_training.py`, how its files are made in `ngram_table.py`, how it is exchanged
with other programs in `arpa.py`; the kernels, in `ngram_scoring.py`.
"""

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.filters.perplexity.ngram_scoring import (
    BEGIN,
    END,
    SPECIAL_WORDS,
    Tables,
    look_up,
    score_texts,
    score_words,
)
from pipelines.filters.words import (
    Alphabet,
    folded_words,
    hashes_of,
    language_model_alphabet,
    text_buffers,
    white_space_alphabet,
)

FILE_NAMES = ("table.npy", "ngrams.npy", "vocabulary.txt", "model.json")
"""Files of a model, in the order in which `NgramModel.open` takes their paths."""


@dataclass(frozen=True)
class NgramModel:
    """A backoff model: p(w | c) = p of the longest n-gram c' w there is, times the backoffs of the longer contexts.

    table: uint64[slots, 2], of each length a hash table with linear probing, one after the other. Column 0 is the key
    (`key_of`), 0 where the slot is empty; column 1 holds two float32: natural logarithms of probability and backoff.
    A key of 63 bits stands for the n-gram: that any two of ten million share one has a probability of 5e-6.
    ngrams: uint64[n, 2], all n-grams of two and more words, as `ngram_estimates.py` writes them, length by length.
    layout: int64[order, 2], of each length, where its slots begin in the table and how many of them are homes.
    vocabulary: the words by id. facts: order, counts, discounts; "words": how a text is cut, "folded" or at "white
    space".
    """

    table: npt.NDArray[np.uint64]
    layout: npt.NDArray[np.int64]
    ngrams: npt.NDArray[np.uint64]
    vocabulary: list[str]
    facts: dict[str, Any]

    @property
    def order(self) -> int:
        """Length of the longest n-grams, words."""
        return int(self.facts["order"])

    @cached_property
    def tables(self) -> Tables:
        """What compiled code takes."""
        values = self.table.view(np.float32)
        return Tables(self.table, values, self.layout, self.order, hashes_of(list(SPECIAL_WORDS)))

    @property
    def alphabet(self) -> Alphabet:
        """How texts are cut into words."""
        return language_model_alphabet() if self.facts["words"] == "folded" else white_space_alphabet()

    def files(self) -> list[tuple[str, bytes]]:
        """(name, bytes) of the files of `FILE_NAMES`; the same model gives the same bytes."""
        described = description(self.vocabulary, self.facts, self.layout)
        contents = [npy_bytes(self.table), npy_bytes(self.ngrams), *described]
        return list(zip(FILE_NAMES, contents, strict=True))

    @classmethod
    def open(cls, paths: Sequence[Path]) -> "NgramModel":
        """The model in four files, given in the order of `FILE_NAMES`; arrays stay on disk, mapped."""
        table, ngrams = (np.asarray(np.load(path, mmap_mode="r")) for path in paths[:2])
        vocabulary = paths[2].read_text(encoding="utf-8").split("\n")
        described = json.loads(paths[3].read_text(encoding="utf-8"))
        return cls(table, np.array(described["layout"], np.int64), ngrams, vocabulary, described["facts"])

    def score(
        self, texts: pa.Array | pa.ChunkedArray, max_tokens: int, *, end: bool = False
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """Sum of natural log probabilities of the words of each text, float64[n], and how many there were, int64[n].

        Of a text, max_tokens words are read. end: also that the text ends where it ends is scored, as one more word;
        kenlm calls that eos. It says nothing about quality and would dominate short texts.
        """
        offsets, data = text_buffers(texts)
        log_probability = np.zeros(len(offsets) - 1, np.float64)
        tokens = np.zeros(len(offsets) - 1, np.int64)
        score_texts(offsets, data, self.alphabet, self.tables, max_tokens, end, log_probability, tokens)
        return log_probability, tokens

    def values_of(self, length: int, hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.float32]:
        """float32[n, 2]: natural logarithms of probability and backoff of n-grams of this length, which must be there,
        by their hashes (of `hashes_of` and `longer_hash`)."""
        found = np.empty((len(hashes), 2), np.float32)
        look_up(self.tables, length, hashes, found)
        return found

    def word_log_probabilities(self, text: str | list[str], *, end: bool = False) -> list[tuple[str, float]]:
        """(word, natural log probability given what precedes it, from <s> on) for people and tests.

        text: it is cut; or the words of one sentence as they stand in the vocabulary. end: also that </s> follows.
        """
        words = folded_words(text.encode(), self.alphabet) if isinstance(text, str) else list(text)
        words += [SPECIAL_WORDS[END]] if end else []
        hashes = hashes_of([SPECIAL_WORDS[BEGIN], *words])
        scores = np.empty(len(hashes), np.float64)
        score_words(hashes, self.tables, scores)
        return list(zip(words, scores[1:].tolist(), strict=True))


def description(vocabulary: list[str], facts: dict[str, Any], layout: npt.NDArray[np.int64]) -> tuple[bytes, bytes]:
    """What stands in the last two files of a model."""
    described = {"facts": facts, "layout": layout.tolist()}
    return "\n".join(vocabulary).encode(), json.dumps(described, sort_keys=True).encode()


def npy_bytes(array: npt.NDArray[Any]) -> bytes:
    """An array as the bytes of a .npy file."""
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()
