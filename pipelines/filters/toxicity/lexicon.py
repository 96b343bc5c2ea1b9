"""Lexicons: words and phrases that are toxic in a language, and how many of them stand in each passage of a text.

A cheap scorer for languages that no model knows, and a second one beside the screen. What becomes of its scores stands
in `cascade.py`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.filters.known_file import KnownFile
from pipelines.filters.toxicity.screen import ends_passage
from pipelines.filters.words import next_word, screen_alphabet, text_buffers
from pipelines.text.shingles import shingle_hashes
from pipelines.text.words import split_words, text_batches

Floats = npt.NDArray[np.float64]


def lexicon_file(language: str, path: str) -> KnownFile:
    """The file of a lexicon."""
    return KnownFile(path, f"lexicon of {language}", f"toxicity.lexicons.{language}")


def read_entries(language: str, content: bytes) -> list[str]:
    """The entries of a lexicon's file (UTF-8), one per line; blank lines and lines that begin with # are passed over.

    Raises `ValueError`, naming the line, where one holds no word, and where there is no entry.
    """
    try:
        lines = content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"toxicity: the lexicon of {language} is not UTF-8 ({error}); save it as UTF-8") from None
    told = [(number, line.strip()) for number, line in enumerate(lines, 1) if line.strip() and line.strip()[0] != "#"]
    counts = split_words(pa.array([line for _, line in told], pa.large_string())).counts.tolist()
    for (number, line), words in zip(told, counts, strict=True):
        if not words:
            raise ValueError(f"toxicity: line {number} of the lexicon of {language} holds no word: {line!r}; remove it")
    if not told:
        raise ValueError(f"toxicity: the lexicon of {language} is empty; take it out of toxicity.lexicons")
    return sorted({line for _, line in told})


@dataclass(frozen=True)
class Lexicons:
    """Entries by language, and the chance that one hit of them is toxic.

    A text holds an entry where it has its words in a row, whatever their case and the punctuation between them. In
    scripts written without spaces each character is a word, so an entry is found inside of others too.
    """

    entries: Mapping[str, list[str]]
    certainty: float

    def to_bytes(self) -> bytes:
        """The lexicons as one file; the same entries give the same bytes."""
        said = {"certainty": self.certainty, "entries": dict(self.entries)}
        return json.dumps(said, sort_keys=True).encode()

    @classmethod
    def open(cls, path: Path) -> "Lexicons":
        """Read what `to_bytes` gave."""
        return cls(**json.loads(path.read_bytes()))

    def score_passages(self, language: str, texts: pa.Array, window_bytes: int) -> tuple[Floats, Floats]:
        """float64[n] each: the score of the worst passage of each text of a language, and the mean of all its passages.

        A passage with k hits scores 1 − (1 − certainty)^k: each hit is a witness of its own (noisy-or, Pearl 1988), and
        none is 0. Hits count where an entry begins, repeats too. Passages are those of the screen.
        """
        known = _hashes(self.entries[language])
        worst, mean = np.zeros(len(texts)), np.zeros(len(texts))
        begin = 0
        for batch in text_batches(texts):
            passages, first = cut_passages(batch, window_bytes)
            words = split_words(passages)
            hits = np.zeros(len(passages), np.int64)
            for length, hashes in known.items():
                found, offsets = shingle_hashes(words, length)
                places = np.flatnonzero(_is_in(found, hashes))
                hits += np.bincount(np.searchsorted(offsets, places, side="right") - 1, minlength=len(passages))
            scores = 1 - (1 - self.certainty) ** hits
            worst[begin : begin + len(batch)] = np.maximum.reduceat(scores, first[:-1])
            mean[begin : begin + len(batch)] = np.add.reduceat(scores, first[:-1]) / np.diff(first)
            begin += len(batch)
        return worst, mean


def cut_passages(texts: pa.Array, window_bytes: int) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """The passages by which the screen scores texts, as one string array, and int64[n + 1], where those of text i begin
    in it. Every text has one at least. Without copying."""
    offsets, data = text_buffers(texts)
    most = len(texts) + int(offsets[-1] - offsets[0]) // (window_bytes // 2)  # none but the last is under half a window
    bounds, first = np.empty(most + 1, np.int64), np.zeros(len(texts) + 1, np.int64)
    count = _cut(offsets, data, screen_alphabet(), window_bytes, bounds, first)
    buffers = [None, pa.py_buffer(bounds[: count + 1].copy()), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_string(), count, buffers), first


@numba.njit(nogil=True, cache=True)
def _cut(offsets, data, alphabet, window_bytes, bounds, first):  # type: ignore[no-untyped-def]
    count = 0
    for document in range(len(offsets) - 1):
        at, end = offsets[document], offsets[document + 1]
        passage = at
        bounds[count] = at
        count += 1
        while True:
            before = at
            start, at, _, characters = next_word(data, at, end, alphabet)
            if characters == 0:
                break
            if ends_passage(data, before, start, passage, end, window_bytes):
                passage = start
                bounds[count] = start
                count += 1
        first[document + 1] = count
    bounds[count] = offsets[-1]
    return count


def _hashes(entries: list[str]) -> dict[int, npt.NDArray[np.uint64]]:
    """The sorted hashes of entries by their number of words."""
    words = split_words(pa.array(entries, pa.large_string()))
    counts = words.counts
    found: dict[int, npt.NDArray[np.uint64]] = {}
    for length in np.unique(counts).tolist():
        hashes, offsets = shingle_hashes(words, length)
        found[length] = np.unique(hashes[offsets[:-1][counts == length]])
    return found


def _is_in(hashes: npt.NDArray[np.uint64], known: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    place = np.searchsorted(known, hashes)
    return known[np.minimum(place, len(known) - 1)] == hashes
