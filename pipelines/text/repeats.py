"""Lines and paragraphs that a text repeats: found by hashes of their normalised form, cut out of the text itself.

How text is normalised stands in `codepoints.py` and `words.py`. Repeats between texts are the business of the stages.
"""

from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.text.codepoints import Normalisation
from pipelines.text.shingles import mix
from pipelines.text.words import decode, split_pieces, text_batches, text_buffers

_NONE = np.zeros(0, np.int64)
_NEWLINE, _RETURN, _SPACE = 10, 13, 32
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Repeats:
    """Texts without what they repeated, and what was cut: int64 per text.

    texts: large_string, the very same array where nothing was cut. lines and paragraphs: how many were cut. bytes: by
    how much the text is shorter.
    """

    texts: pa.Array
    lines: npt.NDArray[np.int64]
    paragraphs: npt.NDArray[np.int64]
    bytes: npt.NDArray[np.int64]


def drop_repeats(
    texts: pa.Array, *, lines: bool, paragraphs: bool, min_characters: int, normalisation: Normalisation
) -> Repeats:
    """Cuts lines and paragraphs that stood in the same text before; the first occurrence stays.

    A line ends with \\n, which goes with it. A paragraph is a run of lines that are not blank (white space only); the
    blank lines after it go with it, also where it goes line by line. A text that ended without a line break does so
    afterwards. Nothing else changes, and nothing changes a second time. Two are equal where 128 bits of hashes of their
    normalised form are (not made to withstand an attacker, who could only shorten his own text). One whose normalised
    form has fewer than `min_characters` code points stays, and so does one without words: blank lines, and "-----"
    where punctuation is dropped. Paragraphs are compared first, then lines, then the paragraphs that are left, since
    some may be equal only now.

    Memory: the texts again, and for the longest text some 150 bytes a line and 8 a word. Raises `ValueError` when a
    text is null.
    """
    if texts.type != pa.large_string():
        texts = texts.cast(pa.large_string())
    pieces, cut_lines, cut_paragraphs = [texts[:0]], [_NONE], [_NONE]
    for batch in text_batches(texts):
        kept, in_lines, in_paragraphs = batch, np.zeros(len(batch), np.int64), np.zeros(len(batch), np.int64)
        if paragraphs:
            kept, in_paragraphs = _without_repeats(kept, True, min_characters, normalisation)
        if lines:
            kept, in_lines = _without_repeats(kept, False, min_characters, normalisation)
        changed = np.flatnonzero(in_lines)
        if paragraphs and len(changed):
            again, cut = _without_repeats(kept.take(changed), True, min_characters, normalisation)
            in_paragraphs[changed] += cut
            places = np.arange(len(kept))
            places[changed] = len(kept) + np.arange(len(changed))
            kept = pa.concat_arrays([kept, again]).take(places)
        pieces.append(kept)
        cut_lines.append(in_lines)
        cut_paragraphs.append(in_paragraphs)
    counts = np.concatenate(cut_lines), np.concatenate(cut_paragraphs)
    found = pa.concat_arrays(pieces) if any(count.any() for count in counts) else texts
    lengths = [np.diff(text_buffers(array)[1]) for array in (texts, found)]
    return Repeats(found, *counts, lengths[0] - lengths[1])


def _without_repeats(
    texts: pa.Array, by_paragraph: bool, min_characters: int, normalisation: Normalisation
) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """One pass over the paragraphs, or the lines, of large_string texts; how many it cut from each."""
    cut = np.zeros(len(texts), np.int64)
    data, offsets = text_buffers(texts)
    newlines = int(np.count_nonzero(data[offsets[0] : offsets[-1]] == _NEWLINE))
    bounds = np.empty(newlines + len(texts) + 1, np.int64)
    firsts = np.zeros(len(texts) + 1, np.int64)
    blank = np.zeros(len(bounds), np.bool_)
    count = _cut(data, offsets, by_paragraph, bounds, firsts, blank)
    pieces = split_pieces(data, bounds[: count + 1], normalisation)
    repeated = np.zeros(count, np.bool_)
    slots = 4 * int(np.diff(firsts).max(initial=1))
    table = np.empty((slots, 2), np.uint64)
    holders = np.zeros(slots, np.int64)
    found = _mark(
        pieces.normalised, pieces.normalised_offsets, firsts, max(min_characters, 1), table, holders, repeated
    )
    if not found:
        return texts, cut
    kept = np.empty(offsets[-1] - offsets[0], np.uint8)
    kept_offsets = np.zeros(len(texts) + 1, np.int64)
    _copy(data, bounds, firsts, blank, repeated, kept, kept_offsets, cut)
    buffers = [None, pa.py_buffer(kept_offsets), pa.py_buffer(kept[: kept_offsets[-1]])]
    return pa.Array.from_buffers(pa.large_string(), len(texts), buffers), cut


@numba.njit(nogil=True, cache=True)
def _is_blank(data, start: int, stop: int) -> bool:  # type: ignore[no-untyped-def]
    """Whether a line is white space only, as `str.isspace` has it."""
    i = start
    while i < stop:
        byte = data[np.uintp(i)]
        if byte == _SPACE or 9 <= byte <= 13 or 28 <= byte <= 31:
            i += 1
            continue
        if byte < 0x80:
            return False
        c, length = decode(data, i, stop)
        if not (c in (0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000) or (0x2000 <= c <= 0x200A)):
            return False
        i += length
    return True


@numba.njit(nogil=True, cache=True)
def _cut(data, offsets, by_paragraph, bounds, firsts, blank) -> int:  # type: ignore[no-untyped-def]
    """Where lines start, with their breaks, or paragraphs with the blank lines after them; gives how many there are.

    bounds[k]:bounds[k + 1] is piece k, firsts[t] the first piece of text t; blank[k]: the piece is a blank line, or the
    blank lines before a text's first paragraph.
    """
    count = 0
    for text in range(len(offsets) - 1):
        i = offsets[text]
        stop = offsets[text + 1]
        after_blank = True
        while i < stop:
            start = i
            while i < stop and data[np.uintp(i)] != _NEWLINE:
                i += 1
            is_blank = _is_blank(data, start, i)
            i = min(i + 1, stop)
            if not by_paragraph or start == offsets[text] or (after_blank and not is_blank):
                bounds[count] = start
                blank[count] = is_blank
                count += 1
            after_blank = is_blank
        firsts[text + 1] = count
    bounds[count] = offsets[-1]
    return count


@numba.njit(nogil=True, cache=True)
def _hash(data, start: int, stop: int):  # type: ignore[no-untyped-def]
    """Two 64-bit hashes that collide independently, and the number of code points."""
    first = np.uint64(stop - start)
    second = ~first
    characters = 0
    i = start
    while i < stop:
        block = np.uint64(0)
        for k in range(i, min(i + 8, stop)):
            byte = data[np.uintp(k)]
            block = block << np.uint64(8) | np.uint64(byte)
            characters += 1 if byte >> 6 != 2 else 0
        first = mix(first ^ block)
        second = mix(second + block * _FACTOR)
        i += 8
    return first, second, characters


@numba.njit(nogil=True, cache=True)
def _mark(normalised, bounds, firsts, min_characters, table, holders, repeated) -> int:  # type: ignore[no-untyped-def]
    """Marks the pieces whose normalised form an earlier piece of their text has; gives how many there are.

    table: the hashes seen, open addressing with linear probing. holders: text + 1 that a slot belongs to, so that no
    text finds what another left.
    """
    found = 0
    for text in range(len(firsts) - 1):
        first, last = firsts[text], firsts[text + 1]
        slots = np.uint64(2)
        while np.int64(slots) < 2 * (last - first):
            slots *= np.uint64(2)
        for piece in range(first, last):
            a, b, characters = _hash(normalised, bounds[piece], bounds[piece + 1])
            if characters < min_characters:
                continue
            slot = a & (slots - np.uint64(1))
            while holders[slot] == text + 1 and not (table[slot, 0] == a and table[slot, 1] == b):
                slot = (slot + np.uint64(1)) & (slots - np.uint64(1))
            if holders[slot] == text + 1:
                repeated[piece] = True
                found += 1
            holders[slot] = text + 1
            table[slot, 0] = a
            table[slot, 1] = b
    return found


@numba.njit(nogil=True, cache=True)
def _copy(data, bounds, firsts, blank, repeated, kept, kept_offsets, cut) -> None:  # type: ignore[no-untyped-def]
    """Copies what is not repeated."""
    out = 0
    for text in range(len(firsts) - 1):
        first, last = firsts[text], firsts[text + 1]
        text_start = out
        in_kept_paragraph = True  # blank lines go where every line of the paragraph before them went
        after_blank = True
        keeps = True
        for piece in range(first, last):
            if blank[piece]:
                keeps = in_kept_paragraph
            else:
                keeps = not repeated[piece]
                in_kept_paragraph = keeps or (in_kept_paragraph and not after_blank)
                cut[text] += np.int64(not keeps)
            after_blank = blank[piece]
            if keeps:
                for i in range(bounds[piece], bounds[piece + 1]):
                    kept[np.uintp(out)] = data[np.uintp(i)]
                    out += 1
        if last > first and not keeps and data[bounds[last] - 1] != _NEWLINE:
            while out > text_start and kept[out - 1] == _NEWLINE:
                out -= 1
                if out > text_start and kept[out - 1] == _RETURN:
                    out -= 1
        kept_offsets[text + 1] = out
