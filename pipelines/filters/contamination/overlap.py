"""Where texts share runs of words with evaluation examples: an index of the examples' n-grams, and compiled look-up.

Words and their hashes are those of `pipelines/text/`: case, punctuation and line breaks do not matter. Which sets there
are and how their files are read stands in `evaluation.py`, what is told of the matches in `stage.py`.
"""

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.filters.contamination.evaluation import Example
from pipelines.filters.hash_table import find, word_table
from pipelines.filters.perplexity.ngram_model import npy_bytes
from pipelines.text.codepoints import CHARACTER, IGNORED, LETTER, SEPARATOR, SIGN, USUAL, folding_table
from pipelines.text.shingles import shingle_hashes
from pipelines.text.words import Words, decode, split_words, text_buffers

SHORTEST = 8
"""Words without which an example is too short to look for: the shortest n-gram of GPT-3 (Brown et al. 2020, app. C)."""

TELLING_SHARE = 3
"""An n-gram tells something if one word in so many, or more, stands in it for the first time and is no number and no
single letter of ASCII: "1 2 3 4 …", "0 0 0 0 …", "A B C D …" and rows of a table are in every corpus."""

_POSTINGS_BITS = np.uint64(8)
MOST_COMMON = 255
"""Examples that may share an n-gram at most: what fits into those bits."""

FILE_NAMES = ("ngrams.npy", "seen.npy", "postings.npy", "examples.npy", "examples.json")
"""Files of an index, in the order in which `OverlapIndex.open` takes their paths."""

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Matches:
    """n-grams of some texts that examples hold too, one row for each of an n-gram's examples.

    int64[matches], sorted by text, example and position. position: of its first word in the text. length: words. ngram:
    its row in the index.
    """

    text: Int64s
    example: Int64s
    position: Int64s
    length: Int64s
    ngram: Int64s

    def __len__(self) -> int:
        return len(self.text)


@dataclass(frozen=True)
class OverlapIndex:
    """The n-grams of evaluation examples. Memory: 26 to 51 bytes an n-gram and 4 a posting, mapped from the files and
    shared by all processes.

    ngrams: uint64[slots, 2], an open-addressing table (`hash_table.find`) from hash to first posting << 8 | number of
    postings; 1.5 to 3 slots an n-gram. seen: uint64[slots / 8], 8 bits for every slot: one is set for the top bits of
    every hash. A sixteenth of the table, so it fits into a cache; nine of ten n-grams of a text need no more. postings:
    int32, numbers of examples. examples: int64[examples, 3]: number of its set, words of its n-grams (0: too short),
    distinct n-grams that are looked for. sets, keys: names of the sets, and of the examples.
    """

    ngrams: npt.NDArray[np.uint64]
    seen: npt.NDArray[np.uint64]
    postings: npt.NDArray[np.int32]
    examples: Int64s
    sets: list[str]
    keys: list[str]

    @classmethod
    def open(cls, paths: Sequence[Path]) -> "OverlapIndex":
        """The index in five files, given in the order of `FILE_NAMES`; arrays stay on disk, mapped."""
        ngrams, seen, postings, examples = (np.asarray(np.load(path, mmap_mode="r")) for path in paths[:4])
        named = json.loads(paths[4].read_text(encoding="utf-8"))
        return cls(ngrams, seen, postings, examples, named["sets"], named["keys"])

    @cached_property
    def lengths(self) -> list[int]:
        """Words of the n-grams that are looked for, each length once."""
        return [length for length in np.unique(self.examples[:, 1]).tolist() if length]

    def name(self, example: int) -> tuple[str, str]:
        """Set and key of an example."""
        return self.sets[self.examples[example, 0]], self.keys[example]

    def matches(self, words: Words) -> Matches:
        """Every n-gram of these texts that an example holds too."""
        found = [self._of_length(words, length) for length in self.lengths]
        columns = [np.concatenate(column) for column in zip(*found, strict=True)] or [np.zeros(0, np.int64)] * 5
        order = np.lexsort((columns[2], columns[1], columns[0]))
        return Matches(*(column[order] for column in columns))

    def _of_length(self, words: Words, length: int) -> tuple[Int64s, ...]:
        hashes, offsets = shingle_hashes(words, length)
        where, rows = np.empty(len(hashes), np.int64), np.empty(len(hashes), np.int64)
        count = _look_up(hashes, self.ngrams, self.seen, _shift(self.seen), where, rows)
        where, rows = where[:count], rows[:count]
        text = np.searchsorted(offsets, where, side="right") - 1
        whole = words.counts[text] >= length  # a shorter text has one shingle, of all its words
        where, rows, text = where[whole], rows[whole], text[whole]
        value = self.ngrams[rows, 1]
        first, number = (value >> _POSTINGS_BITS).astype(np.int64), (value & np.uint64(MOST_COMMON)).astype(np.int64)
        within = np.arange(number.sum()) - np.repeat(np.cumsum(number) - number, number)
        example = self.postings[np.repeat(first, number) + within].astype(np.int64)
        position = np.repeat(where - offsets[text], number)
        text, ngram = np.repeat(text, number), np.repeat(rows, number)
        mine = self.examples[example, 1] == length
        columns = (text, example, position, np.full(len(text), length, np.int64), ngram)
        return tuple(column[mine] for column in columns)


def index_files(
    sets: Sequence[tuple[str, Sequence[Example]]], ngram: int, common_examples: int
) -> tuple[list[tuple[str, bytes]], dict[str, dict[str, int]]]:
    """The (name, bytes) of an index's files, and counts by set; the same sets give the same bytes.

    An example of fewer than `ngram` words is looked for whole, of fewer than `SHORTEST` not at all. n-grams that more
    than common_examples examples share are phrases, and not looked for; nor are those that tell nothing
    (`TELLING_SHARE`). Memory: some 200 bytes a word of the sets.
    """
    examples = [example for _, of_set in sets for example in of_set]
    of_set = np.repeat(np.arange(len(sets)), [len(found) for _, found in sets])
    words = split_words(pa.array([example.text for example in examples], pa.large_string()))
    length = np.where(words.counts >= SHORTEST, np.minimum(words.counts, ngram), 0)
    telling_words = _telling_words(words)
    pairs = [np.zeros((2, 0), np.uint64)]
    dropped = np.zeros((2, len(examples)), np.int64)
    for size in np.unique(length[length > 0]).tolist():
        hashes, offsets = shingle_hashes(words, size)
        example = np.repeat(np.arange(len(examples)), np.diff(offsets))
        start = words.offsets[example] + np.arange(len(hashes)) - offsets[example]
        mine = length[example] == size
        hashes, example, start = hashes[mine], example[mine], start[mine]
        telling = TELLING_SHARE * _distinct_words(words.hashes, telling_words, start, size) >= size
        telling &= hashes != 0  # which stands for an empty row of the table
        dropped[0] += np.bincount(example[~telling], minlength=len(examples))
        pairs.append(np.stack([hashes[telling], example[telling].astype(np.uint64)]))
    hashes, postings = _distinct(np.concatenate(pairs, axis=1))
    keys, number = np.unique(hashes, return_counts=True)
    rare = number <= common_examples
    dropped[1] += np.bincount(postings[np.repeat(~rare, number)], minlength=len(examples))
    postings = postings[np.repeat(rare, number)].astype(np.int32)
    keys, number = keys[rare], number[rare]
    first = np.cumsum(number) - number
    table = word_table(keys, first << np.int64(_POSTINGS_BITS) | number)
    looked_for = np.bincount(postings, minlength=len(examples))
    facts = np.stack([of_set, length, looked_for], axis=1).astype(np.int64).reshape(-1, 3)
    named = {"sets": [name for name, _ in sets], "keys": [example.key for example in examples]}
    seen = np.zeros(len(table) // 8, np.uint64)
    _mark_seen(table, seen, _shift(seen))
    contents = [*map(npy_bytes, (table, seen, postings, facts)), json.dumps(named, sort_keys=True).encode()]
    counts = {
        name: {
            "examples": int(mine.sum()),
            "too_short": int((length[mine] == 0).sum()),
            "nothing_telling": int(((length[mine] > 0) & (looked_for[mine] == 0)).sum()),
            "ngrams": int(looked_for[mine].sum()),
            "untelling_ngrams": int(dropped[0][mine].sum()),
            "common_ngrams": int(dropped[1][mine].sum()),
        }
        for name, mine in ((name, of_set == number) for number, (name, _) in enumerate(sets))
    }
    return list(zip(FILE_NAMES, contents, strict=True)), counts


def word_bounds(text: pa.Array, count: int) -> Int64s:
    """int64[count, 2]: first byte of every word of the one text in an array, and the byte after it.

    count: how many `split_words` finds in it. Raises `RuntimeError` when the two do not agree.
    """
    data, offsets = text_buffers(text)
    bounds = np.empty((count + 1, 2), np.int64)
    found = _word_bounds(data, offsets[0], offsets[1], folding_table(USUAL).entries, bounds)
    if found != count:
        raise RuntimeError(f"a text has {count} words, but {found} when their places are asked for")
    return bounds[:count]


def _distinct(pairs: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.uint64], Int64s]:
    """The distinct columns (hash, example) of uint64[2, n], sorted."""
    hashes, examples = pairs[:, np.lexsort((pairs[1], pairs[0]))]
    fresh = np.ones(len(hashes), np.bool_)
    fresh[1:] = (hashes[1:] != hashes[:-1]) | (examples[1:] != examples[:-1])
    return hashes[fresh], examples[fresh].astype(np.int64)


def _telling_words(words: Words) -> npt.NDArray[np.bool_]:
    """Whether each word is anything but a number or a single letter of ASCII."""
    content, ends = words.normalised.tobytes(), words.normalised_offsets
    texts = (content[start:end].split() for start, end in itertools.pairwise(ends.tolist()))
    found = np.array([len(word) > 1 and not word.isdigit() for text in texts for word in text], np.bool_)
    assert len(found) == len(words.hashes)
    return found


def _shift(seen: npt.NDArray[np.uint64]) -> np.uint64:
    """What leaves of a hash the top bits that number a bit of `OverlapIndex.seen`."""
    return np.uint64(65 - (64 * len(seen)).bit_length())


@numba.njit(nogil=True, cache=True)
def _distinct_words(hashes, counted, starts, length):  # type: ignore[no-untyped-def]
    """int64[starts]: distinct words that count among the `length` words from each start."""
    found = np.zeros(len(starts), np.int64)
    for i in range(len(starts)):
        for k in range(starts[i], starts[i] + length):
            if counted[k]:
                fresh = True
                for earlier in range(starts[i], k):
                    fresh = fresh and hashes[earlier] != hashes[k]
                found[i] += 1 if fresh else 0
    return found


@numba.njit(nogil=True, cache=True)
def _mark_seen(table, seen, shift):  # type: ignore[no-untyped-def]
    """Sets the bit of every hash in a table: the one that its top bits number."""
    for row in range(len(table)):
        if table[row, 1] != 0:
            bit = table[row, 0] >> shift
            seen[bit >> np.uint64(6)] |= np.uint64(1) << (bit & np.uint64(63))


@numba.njit(nogil=True, cache=True)
def _look_up(hashes, table, seen, shift, where, rows):  # type: ignore[no-untyped-def]
    """Writes which hashes the table holds, and in which rows; gives how many."""
    count = 0
    for i in range(len(hashes)):
        key = hashes[np.uintp(i)]
        bit = key >> shift
        if seen[np.uintp(bit >> np.uint64(6))] >> (bit & np.uint64(63)) & np.uint64(1):
            row = find(table, key)
            if row >= 0 and table[row, 1] != 0:  # the key 0 finds an empty row
                where[np.uintp(count)] = i
                rows[np.uintp(count)] = row
                count += 1
    return count


@numba.njit(nogil=True, cache=True)
def _word_bounds(data, start, stop, entries, bounds):  # type: ignore[no-untyped-def]
    """Where words begin and end, by the rules of `pipelines/text/words.py`; gives how many there are, in bytes from
    the start. No more are written than there is room for."""
    count = 0
    inside = 0  # 0: between words, LETTER or CHARACTER: in a word of that kind
    i = start
    while i < stop:
        code_point, length = decode(data, i, stop)
        part = entries[code_point] >> 29
        if part != IGNORED:
            alone = part in (CHARACTER, SIGN)
            if inside != 0 and (alone or part == SEPARATOR or (part == LETTER and inside == CHARACTER)):
                count += 1
                inside = 0
            if part != SEPARATOR:
                if inside == 0:
                    inside = CHARACTER if alone else LETTER
                    if count < len(bounds):
                        bounds[count, 0] = i - start
                if count < len(bounds):
                    bounds[count, 1] = i + length - start
        i += length
    return count + (1 if inside != 0 else 0)
