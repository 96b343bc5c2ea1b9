"""Trains an n-gram model on text: reads words, numbers them, and writes the files of the model.

Text comes in one table of documents at a time and is kept on disk as one 32-bit number per word. The estimates
themselves stand in `ngram_estimates.py`; what the result looks like and how it scores, in `ngram_model.py`.
"""

import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.filters.hash_table import empty_table, find, word_table
from pipelines.filters.perplexity.ngram_estimates import estimate, with_logarithms
from pipelines.filters.perplexity.ngram_model import NgramModel
from pipelines.filters.perplexity.ngram_scoring import BEGIN, END, SPECIAL_WORDS, UNKNOWN
from pipelines.filters.perplexity.ngram_table import write_model
from pipelines.filters.perplexity.sorted_rows import Sorter
from pipelines.filters.words import language_model_alphabet, next_word, spell, text_buffers

MEMORY_MEGABYTES = 400
_TOKENS_AT_ONCE = 1 << 16


class NgramTrainer:
    """Collects text, then estimates a model. Does its work in files.

    Memory: memory_megabytes (10^6 bytes) for sorting, besides one table of documents and about 150 bytes per different
    word of the text; more text needs more disk (up to 300 bytes per token at order 5, a token being about 5 bytes of
    English), and no more memory. max_vocabulary: the most frequent words are kept, ties by hash. min_count: n-grams of
    three and more words seen less often are left out of the model after they counted for the estimates; what they
    weighed goes to the backoff, so that probabilities sum to 1. folder: where working files and the model's files
    are made; the latter stay there. None: a temporary folder, deleted with the trainer; the model stays readable.
    Neither memory nor folder changes a byte of the model.
    """

    def __init__(
        self,
        order: int,
        max_vocabulary: int,
        min_count: int,
        memory_megabytes: float = MEMORY_MEGABYTES,
        folder: Path | None = None,
    ) -> None:
        self._order = order
        self._max_vocabulary = max_vocabulary
        self._min_count = min_count
        self._memory_bytes = int(memory_megabytes * 1e6)
        self._work = Path(tempfile.mkdtemp(prefix="ngrams-", dir=folder))
        self._folder = folder or self._work
        self._remove = weakref.finalize(self, shutil.rmtree, self._work, ignore_errors=True)
        self._words = _Words()
        self._text = self._work / "text"
        self._enclosed_tokens = 0
        self.documents = 0

    @property
    def tokens(self) -> int:
        """How many words were read."""
        return self._enclosed_tokens - 2 * self.documents

    def add(self, texts: pa.Array | pa.ChunkedArray) -> None:
        """Read the documents of a string column; texts without a word are passed over."""
        offsets, data = text_buffers(texts)
        with self._text.open("ab") as file:
            for ids, documents in self._words.numbered(offsets, data):
                file.write(ids.data.cast("B"))
                self._enclosed_tokens += len(ids)
                self.documents += documents

    def estimate(self) -> NgramModel:
        """The model of all text added; to be called once. Raises `ValueError` when there was no word in it."""
        if not self.tokens:
            raise ValueError("a language model cannot be trained on text without a single word; add text")
        chosen = self._words.most_frequent(self._max_vocabulary)
        vocabulary = [*SPECIAL_WORDS, *self._words.spelled(chosen)]
        unknown_tokens = self.tokens - int(self._words.counts[chosen].sum())
        number = np.full(len(self._words.counts), UNKNOWN, np.int32)
        number[[BEGIN, END]] = BEGIN, END
        number[chosen] = np.arange(len(SPECIAL_WORDS), len(vocabulary))
        del self._words
        sorter = Sorter(self._work, self._memory_bytes)
        ids = _renumbered(self._text, number, sorter.rows_at_once)
        found = estimate(ids, self._order, len(vocabulary), self._min_count, sorter)
        facts = {
            "order": self._order,
            "tokens": self.tokens,
            "documents": self.documents,
            "unknown_tokens": unknown_tokens,
            "ngrams": [spool.rows for spool in found.ngrams],
            "discounts": [list(discounts) for discounts in found.discounts],
            "words": "folded",
        }
        ngrams = (map(with_logarithms, spool.read(sorter.rows_at_once)) for spool in found.ngrams)
        paths = write_model(self._folder, ngrams, facts, vocabulary, sorter)
        model = NgramModel.open(paths)
        self._remove()
        return model


def _renumbered(path: Path, number: npt.NDArray[np.int32], at_once: int) -> Iterator[npt.NDArray[np.int32]]:
    """The ids in a file, so many at once, each replaced by its number."""
    with path.open("rb") as file:
        while len(ids := np.fromfile(file, np.int32, at_once)):
            yield number[ids]


class _Words:
    """Different words of a text, numbered in the order in which they came first, after the special ones.

    hashes, counts: by number. Their spellings are kept as code points, one after the other.
    """

    def __init__(self) -> None:
        self.hashes, self.counts = np.zeros(1 << 12, np.uint64), np.zeros(1 << 12, np.int64)
        self._table = empty_table(len(self.hashes))
        self._spellings, self._spelling_ends = np.zeros(1 << 15, np.uint32), np.zeros(1 << 12, np.int64)
        self._size = len(SPECIAL_WORDS)

    def numbered(
        self, offsets: npt.NDArray[np.int64], data: npt.NDArray[np.uint8]
    ) -> Iterator[tuple[npt.NDArray[np.int32], int]]:
        """Numbers of the words of some texts, documents enclosed in BEGIN and END, piece by piece; and how many
        documents ended in each piece."""
        ids = np.empty(_TOKENS_AT_ONCE, np.int32)
        state = np.array([0, offsets[0], 0, self._size], np.int64)
        while state[0] < len(offsets) - 1:
            length, documents, missing = _number_words(
                offsets, data, language_model_alphabet(), self._table, self.hashes, self.counts,
                self._spellings, self._spelling_ends, state, ids,
            )  # fmt: skip
            self._size = int(state[3])
            yield ids[:length], documents
            if self._size == len(self.hashes):
                self._double()
            if missing:
                self._spellings = _longer(self._spellings, len(self._spellings) + missing)

    def most_frequent(self, count: int) -> npt.NDArray[np.int64]:
        """Numbers of so many words by falling count, ties by hash."""
        first = len(SPECIAL_WORDS)
        counts, hashes = self.counts[first : self._size], self.hashes[first : self._size]
        return first + np.lexsort((hashes, -counts))[:count]

    def spelled(self, numbers: npt.NDArray[np.int64]) -> list[str]:
        """The words with these numbers, folded."""
        begins, ends = self._spelling_ends[numbers - 1].tolist(), self._spelling_ends[numbers].tolist()
        return [self._spellings[a:b].tobytes().decode("utf-32-le") for a, b in zip(begins, ends, strict=True)]

    def _double(self) -> None:
        self.hashes, self.counts = _longer(self.hashes, self._size), _longer(self.counts, self._size)
        self._spelling_ends = _longer(self._spelling_ends, self._size)
        numbers = np.arange(len(SPECIAL_WORDS), self._size)
        self._table = word_table(self.hashes[numbers], numbers, room=len(self.hashes))


def _longer(array: npt.NDArray[Any], more: int) -> npt.NDArray[Any]:
    """The array with at least so many zeros behind it, and at least twice as long."""
    return np.concatenate([array, np.zeros(max(more, len(array)), array.dtype)])


@numba.njit(nogil=True, cache=True)
def _number_words(  # type: ignore[no-untyped-def]
    offsets, data, alphabet, table, hashes, counts, spellings, spelling_ends, state, ids
):
    """Fill ids until they, the words or their spellings are full. state: document, place in it, words read of it, and
    how many different words there are. Returns how many ids there are, how many documents ended, and how many code
    points the spellings are too short by."""
    document, at, words, size = state[0], state[1], state[2], state[3]
    length = 0
    ended = 0
    missing = 0
    while document < len(offsets) - 1 and length + 2 <= len(ids):
        start, after, hashed, characters = next_word(data, at, offsets[document + 1], alphabet)
        if characters == 0:
            if words:
                ids[length] = END
                length += 1
                ended += 1
            document += 1
            at, words = offsets[document], 0
            continue
        row = find(table, hashed)
        if row >= 0:
            number = np.int64(table[row, 1])
        else:
            spelled = spelling_ends[size - 1]
            missing = max(0, spelled + characters - len(spellings))
            if size == len(hashes) or missing:
                break
            number = size
            row = ~row
            table[row, 0], table[row, 1] = hashed, number
            hashes[number], spelling_ends[number] = hashed, spelled + characters
            spell(data, start, after, alphabet, spellings, spelled)
            size += 1
        if words == 0:
            ids[length] = BEGIN
            length += 1
        ids[length] = number
        length += 1
        counts[number] += 1
        words += 1
        at = after
    state[0], state[1], state[2], state[3] = document, at, words, size
    return length, ended, missing
