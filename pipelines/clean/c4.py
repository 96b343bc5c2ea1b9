"""C4's rules about lines (Raffel et al. 2020, 2.2, and the code that made the data set, tensorflow_datasets' c4_utils):
which lines of a page count, what is wrong with those, and the text without the others.

Lines that tell of cookies, policies and JavaScript are boilerplate of web pages; with `line_rules` of only these two,
C4's line removal removes boilerplate and nothing else. What is decided of a page stands in `rules.py`.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.clean.characters import SPACE, character_table
from pipelines.clean.compiled import helper
from pipelines.clean.thresholds import LINE_RULES
from pipelines.text.words import decode

_PHRASES = (
    "lorem ipsum",
    "javascript",
    "terms of use",
    "privacy policy",
    "cookie policy",
    "uses cookies",
    "use of cookies",
    "use cookies",
)
"""In the order of their numbers: 0 is a filler text, 1 JavaScript, from 2 on policies."""
_LOREM, _SCRIPT, _FIRST_POLICY = 0, 1, 2
_CITATIONS = ("[edit]", "[citation needed]")

_PHRASE_BYTES = np.frombuffer("".join(_PHRASES).encode(), np.uint8)
_PHRASE_BOUNDS = np.cumsum([0, *map(len, _PHRASES)])
_PHRASE_STARTS = np.isin(np.arange(256), [ord(phrase[0]) for phrase in _PHRASES])
_CITATION_BYTES = np.frombuffer("".join(_CITATIONS).encode(), np.uint8)
_CITATION_BOUNDS = np.cumsum([0, *map(len, _CITATIONS)])

_NEWLINE, _OPENING, _CLOSING, _CURLY = 10, 91, 93, 123


@dataclass(frozen=True)
class Page:
    """The lines that count, of some texts. Counts are int64 per text.

    kept: uint8, these lines without white space at their ends and without citations like [1], each with a line break;
    bounds: int64[lines + 1], where they begin in it; firsts: int64[texts + 1], the first line of each text. removed:
    lines that do not count. lorem_ipsum, curly_brackets: lines with a filler text, with a {.
    """

    kept: npt.NDArray[np.uint8]
    bounds: npt.NDArray[np.int64]
    firsts: npt.NDArray[np.int64]
    removed: npt.NDArray[np.int64]
    lorem_ipsum: npt.NDArray[np.int64]
    curly_brackets: npt.NDArray[np.int64]

    @property
    def texts(self) -> pa.Array:
        """large_string: the lines of every text, joined by line breaks."""
        starts = self.bounds[self.firsts]
        lengths = np.maximum(np.diff(starts) - 1, 0)  # without the last line break
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        inside = np.ones(starts[-1], np.bool_)
        inside[starts[1:][np.diff(starts) > 0] - 1] = False
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self.kept[: starts[-1]][inside])]
        return pa.Array.from_buffers(pa.large_string(), len(lengths), buffers)


def read_lines(
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    rules: Collection[str],
    words_per_line: int,
    word_characters: int,
) -> Page:
    """Look at every line of the texts data[offsets[i]:offsets[i + 1]]. rules: those of `LINE_RULES` that are applied.

    words_per_line: fewer words are too few; word_characters: a word of more is too long; words stand between white
    space. As in C4's code, citations are taken out before the end of a line is looked at, and what a line that does not
    count holds is not held against the page. Time is linear in the bytes; memory: the texts again, 8 bytes a line.
    """
    texts = len(offsets) - 1
    total = int(offsets[-1] - offsets[0])
    newlines = int(np.count_nonzero(data[offsets[0] : offsets[-1]] == _NEWLINE))
    kept = np.empty(total + texts + 1, np.uint8)
    bounds, firsts = np.zeros(newlines + texts + 1, np.int64), np.zeros(texts + 1, np.int64)
    counts = np.zeros((3, texts), np.int64)
    applied = tuple(rule in rules for rule in LINE_RULES)
    lines = _read(
        data, offsets, character_table(), applied, words_per_line, word_characters, kept, bounds, firsts, counts
    )
    return Page(kept, bounds[: lines + 1], firsts, *counts)


@numba.njit(nogil=True, cache=True)
def _read(  # type: ignore[no-untyped-def]
    data, offsets, table, applied, words_per_line, word_characters, kept, bounds, firsts, counts
):
    ends_well, few_words, long_word, javascript, policy = applied
    line = 0
    out = 0
    for text in range(len(offsets) - 1):
        i = offsets[text]
        while i < offsets[text + 1]:
            start = i
            while i < offsets[text + 1] and data[np.uintp(i)] != _NEWLINE:
                i += 1
            start, stop, words, longest = _words(data, start, i, table)
            i += 1
            counts[0, text] += 1
            if long_word and longest > word_characters:
                continue
            # What is left of the line is written where it will stand if it counts.
            end = out
            at = start
            while at < stop:
                if data[np.uintp(at)] == _OPENING:
                    size = _citation(data, at, stop)
                    if size > 0:
                        at += size
                        continue
                kept[np.uintp(end)] = data[np.uintp(at)]
                end += 1
                at += 1
            if (ends_well and not _ends_well(kept, out, end)) or (few_words and words < words_per_line):
                continue
            lorem, script, telling, curly = _phrases(kept, out, end)
            counts[1, text] += int(lorem)
            if javascript and script:
                continue
            counts[2, text] += int(curly)
            if policy and telling:
                continue
            counts[0, text] -= 1
            kept[np.uintp(end)] = _NEWLINE
            out = end + 1
            line += 1
            bounds[line] = out
        firsts[text + 1] = line
    return line


@helper
def _words(data, lo, hi, table):  # type: ignore[no-untyped-def]
    """Where a line begins and ends without white space, how many words it has, and characters of the longest."""
    first = hi
    last = hi
    words = longest = size = 0
    at = lo
    while at < hi:
        code_point, length = decode(data, at, hi)
        if table[np.uintp(code_point)] & SPACE:
            size = 0
        else:
            words += int(size == 0)
            size += 1
            longest = max(longest, size)
            first = min(first, at)
            last = at + length
        at += length
    return first, last, words, longest


@helper
def _citation(data, at, stop):  # type: ignore[no-untyped-def]
    """Bytes of a mark like [1], [edit] or [citation needed] at a bracket; 0: there is none."""
    end = at + 1
    while end < stop and 48 <= data[np.uintp(end)] <= 57:
        end += 1
    if end < stop and data[np.uintp(end)] == _CLOSING:
        return end + 1 - at
    for k in range(len(_CITATION_BOUNDS) - 1):
        size = _CITATION_BOUNDS[k + 1] - _CITATION_BOUNDS[k]
        same = at + size <= stop
        place = 0
        while same and place < size:
            same = data[np.uintp(at + place)] == _CITATION_BYTES[_CITATION_BOUNDS[k] + place]
            place += 1
        if same:
            return size
    return 0


@helper
def _ends_well(data, lo, hi):  # type: ignore[no-untyped-def]
    if hi == lo:
        return False
    last = data[np.uintp(hi - 1)]
    if last == 46:
        return not (hi - lo >= 3 and data[np.uintp(hi - 2)] == 46 and data[np.uintp(hi - 3)] == 46)
    return last == 63 or last == 33 or last == 34 or last == 39


@helper
def _phrases(data, lo, hi):  # type: ignore[no-untyped-def]
    """Whether a line holds the filler text, the word JavaScript, one of the policies, a curly bracket; in any case of
    letters."""
    lorem = script = telling = curly = False
    for at in range(lo, hi):
        byte = data[np.uintp(at)]
        curly = curly or byte == _CURLY
        if not _PHRASE_STARTS[byte | 32]:
            continue
        for k in range(len(_PHRASE_BOUNDS) - 1):
            begin = _PHRASE_BOUNDS[k]
            size = _PHRASE_BOUNDS[k + 1] - begin
            place = 0
            while place < size and at + place < hi:
                byte = data[np.uintp(at + place)]
                if (byte | 32 if 65 <= byte <= 90 else byte) != _PHRASE_BYTES[begin + place]:
                    break
                place += 1
            if place == size:
                lorem = lorem or k == _LOREM
                script = script or k == _SCRIPT
                telling = telling or k >= _FIRST_POLICY
    return lorem, script, telling, curly
