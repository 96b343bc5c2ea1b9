"""What the lines and paragraphs of many texts are like, compiled: one pass over Arrow buffers counts what Gopher's,
FineWeb's and the code rules ask. Which shares are made of these counts stands in `signals.py`.
"""

from dataclasses import dataclass, fields

import numba
import numpy as np
import numpy.typing as npt

from pipelines.clean.characters import ALPHANUMERIC, SPACE, TERMINAL, character_table
from pipelines.clean.compiled import helper
from pipelines.clean.peeling import FACTOR, START
from pipelines.text.shingles import mix
from pipelines.text.words import decode

_NEWLINE, _DOT, _HASH, _DASH, _BULLET, _ELLIPSIS = 10, 46, 35, 45, 0x2022, 0x2026


@dataclass(frozen=True)
class Lines:
    """Counts of some texts, int64 per text. A line ends with \\n; the last one need not. Characters are code points.

    characters, alphanumeric: of the text, line breaks included. newlines: of them. hashes: signs #. ellipses: … and ...
    lines: all of them, blank ones too. longest: characters of the longest. bullets: lines that begin with • or -, after
    white space. trailing_off: lines that end in … or ..., before white space. filled: lines with a character. repeated,
    repeated_characters: filled lines that stood in the text before, and their characters. paragraphs: runs of filled
    lines; repeated_paragraphs, repeated_paragraph_characters: as of lines. worded: lines with more than white space.
    repeated_worded_characters: as of filled ones. punctuated: worded lines whose last character ends a sentence. short:
    worded lines of at most so many characters as the caller said.
    """

    characters: npt.NDArray[np.int64]
    alphanumeric: npt.NDArray[np.int64]
    newlines: npt.NDArray[np.int64]
    hashes: npt.NDArray[np.int64]
    ellipses: npt.NDArray[np.int64]
    lines: npt.NDArray[np.int64]
    longest: npt.NDArray[np.int64]
    bullets: npt.NDArray[np.int64]
    trailing_off: npt.NDArray[np.int64]
    filled: npt.NDArray[np.int64]
    repeated: npt.NDArray[np.int64]
    repeated_characters: npt.NDArray[np.int64]
    paragraphs: npt.NDArray[np.int64]
    repeated_paragraphs: npt.NDArray[np.int64]
    repeated_paragraph_characters: npt.NDArray[np.int64]
    worded: npt.NDArray[np.int64]
    repeated_worded_characters: npt.NDArray[np.int64]
    punctuated: npt.NDArray[np.int64]
    short: npt.NDArray[np.int64]


def measure_lines(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], short_characters: int) -> Lines:
    """Count what `Lines` holds in the texts data[offsets[i]:offsets[i + 1]].

    Lines are equal where 64 bits of hashes are. Time is linear in the bytes; memory some 100 bytes for each filled
    line of the text that has the most.
    """
    counts = np.zeros((len(fields(Lines)), len(offsets) - 1), np.int64)
    slots = _slots(_most_lines(data, offsets))
    lines, paragraphs = np.zeros((slots, 2), np.uint64), np.zeros((slots, 2), np.uint64)
    _measure(data, offsets, character_table(), short_characters, lines, paragraphs, counts)
    return Lines(*counts)


@numba.njit(nogil=True, cache=True)
def _most_lines(data, offsets):  # type: ignore[no-untyped-def]
    """Filled lines of the text that has the most."""
    most = 0
    for text in range(len(offsets) - 1):
        lines = 0
        before = np.int64(_NEWLINE)
        for i in range(offsets[text], offsets[text + 1]):
            byte = np.int64(data[np.uintp(i)])
            lines += int(before == _NEWLINE and byte != _NEWLINE)
            before = byte
        most = max(most, lines)
    return most


@numba.njit(nogil=True, cache=True)
def _slots(entries):  # type: ignore[no-untyped-def]
    slots = 16
    while slots < 2 * entries:
        slots *= 2
    return slots


@helper
def _seen_before(table, mask, stamp, value):  # type: ignore[no-untyped-def]
    """Whether the text with this stamp has had the value; from now on it has."""
    slot = value & mask
    while table[slot, 1] == stamp:
        if table[slot, 0] == value:
            return True
        slot = (slot + np.uint64(1)) & mask
    table[slot, 0] = value
    table[slot, 1] = stamp
    return False


@numba.njit(nogil=True, cache=True)
def _measure(data, offsets, table, short_characters, seen_lines, seen_paragraphs, counts):  # type: ignore[no-untyped-def]
    for text in range(len(offsets) - 1):
        begin = offsets[text]
        i = begin
        stop = offsets[text + 1]
        stamp = np.uint64(text + 1)
        # A small text stays in the front of the table, and so in the cache.
        mask = np.uint64(min(_slots(stop - begin + 1), len(seen_lines)) - 1)
        all_characters = alphanumeric = newlines = hashes = ellipses = lines = longest = bullets = trailing_off = 0
        filled = repeated = repeated_characters = worded = repeated_worded = punctuated = short = 0
        paragraphs = repeated_paragraphs = repeated_in_paragraphs = 0
        paragraph = START  # hash of the paragraph's lines
        paragraph_characters = 0  # 0: none is open
        while i < stop:
            value = START
            characters = 0
            first = np.int64(0)  # the first character that is not white space
            bits = np.int64(0)  # of the last one
            last = np.int64(0)  # the last character that is not white space
            dots = 0  # full stops in a row
            dots_at_end = 0
            while i < stop:
                code_point = np.int64(data[np.uintp(i)])
                if code_point == _NEWLINE:
                    break
                if code_point < 0x80:
                    value = (value ^ np.uint64(code_point)) * FACTOR
                    i += 1
                else:
                    code_point, length = decode(data, i, stop)
                    value = (value ^ np.uint64(code_point)) * FACTOR
                    i += length
                bits = np.int64(table[np.uintp(code_point)])
                characters += 1
                alphanumeric += int(bits & ALPHANUMERIC != 0)
                if code_point == _DOT:
                    dots += 1
                    dots_at_end = 0
                    if dots % 3 == 0:
                        ellipses += 1
                else:
                    hashes += int(code_point == _HASH)
                    ellipses += int(code_point == _ELLIPSIS)
                    if not bits & SPACE:
                        dots_at_end = 0
                    elif dots:
                        dots_at_end = dots
                    dots = 0
                if not bits & SPACE:
                    last = code_point
                    if first == 0:
                        first = code_point
            broken = i < stop
            i += int(broken)
            newlines += int(broken)
            all_characters += characters + int(broken)
            lines += 1
            longest = max(longest, characters)
            bullets += int(first in (_DASH, _BULLET))
            trailing_off += int(last == _ELLIPSIS or (last == _DOT and max(dots, dots_at_end) >= 3))
            if characters:
                filled += 1
                value = mix(value)
                again = _seen_before(seen_lines, mask, stamp, value)
                repeated += int(again)
                repeated_characters += characters * int(again)
                if first:
                    worded += 1
                    repeated_worded += characters * int(again)
                    punctuated += int(bits & TERMINAL != 0)
                    short += int(characters <= short_characters)
                paragraph = mix(paragraph + value)
                paragraph_characters += characters + int(paragraph_characters > 0)
            if paragraph_characters and (i >= stop or not characters):
                paragraphs += 1
                if _seen_before(seen_paragraphs, mask, stamp, paragraph):
                    repeated_paragraphs += 1
                    repeated_in_paragraphs += paragraph_characters
                paragraph = START
                paragraph_characters = 0
        row = (
            all_characters, alphanumeric, newlines, hashes, ellipses, lines, longest, bullets, trailing_off, filled,
            repeated, repeated_characters, paragraphs, repeated_paragraphs, repeated_in_paragraphs, worded,
            repeated_worded, punctuated, short,
        )  # fmt: skip
        for k in range(len(row)):
            counts[k, text] = row[k]
