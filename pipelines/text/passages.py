"""Where two texts differ: passages of whole words of the original texts, with some words around each.

Words that stand once in both texts anchor the comparison (Cohen's patience diff); what lies between two anchors is
compared again by itself, and by `difflib` where no anchors are left. Time grows with the words, however they repeat:
stretches that would take `difflib` more than `MOST_STEPS` in all are told as one passage.
"""

import bisect
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache

import numpy as np

from pipelines.text.codepoints import CHARACTER, IGNORED, MARK, USUAL, folding_table

CONTEXT_WORDS = 4
"""Words told around a passage. Differences with fewer words between them are one passage."""

MOST_STEPS = 20_000_000
"""Steps that `difflib` may take at worst, all stretches together: left words × right words × the fewer of the two."""

MOST_LEVELS = 16
"""How often a stretch is divided at anchors."""

Span = tuple[int, int, int, int]
"""Words left[a:b] stand where the other text has right[c:d]."""


@dataclass(frozen=True)
class Passage:
    """A place where two texts differ, in the texts' own spelling. before, after: the words around it, which are the
    same in both. left, right: what stands between them in either text, '' where nothing does."""

    before: str
    left: str
    right: str
    after: str


@dataclass(frozen=True)
class Difference:
    """All passages in which two texts differ, in order. whole: some of them were too long to be compared word by word,
    so they may have words in common."""

    passages: tuple[Passage, ...]
    whole: bool


def differing_passages(left: str, right: str) -> Difference:
    """The passages of two texts that differ. White space between words is not compared.

    Memory: some 200 bytes per word. A second or two for texts of 1 MB.
    """
    left_words, right_words = list(_words(left)), list(_words(right))
    spans, whole = _spans([left[a:b] for a, b in left_words], [right[a:b] for a, b in right_words])
    passages = []
    for a, b, c, d in _joined(spans):
        passages.append(
            Passage(
                _slice(left, left_words[max(a - CONTEXT_WORDS, 0) : a]),
                _slice(left, left_words[a:b]),
                _slice(right, right_words[c:d]),
                _slice(left, left_words[b : b + CONTEXT_WORDS]),
            )
        )
    return Difference(tuple(passages), whole)


def _words(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each word: what stands between white space, single characters of scripts without spaces."""
    return (match.span() for match in _word_pattern().finditer(text))


@lru_cache(maxsize=1)
def _word_pattern() -> re.Pattern[str]:
    single, joined = _code_points(CHARACTER), _code_points(MARK, IGNORED)
    return re.compile(f"[{single}][{joined}]*|[^\\s{single}]+")


def _code_points(*parts: int) -> str:
    """The code points that play one of these parts, as ranges of a regular expression."""
    plays = np.isin(folding_table(USUAL).entries >> 29, parts)
    bounds = np.flatnonzero(np.diff(plays, prepend=False, append=False)).reshape(-1, 2)
    return "".join(f"\\U{start:08x}-\\U{stop - 1:08x}" for start, stop in bounds.tolist())


def _slice(text: str, words: Sequence[tuple[int, int]]) -> str:
    return text[words[0][0] : words[-1][1]] if words else ""


def _joined(spans: Sequence[Span]) -> list[Span]:
    """Differences with fewer than `CONTEXT_WORDS` between them as one."""
    joined: list[Span] = []
    for a, b, c, d in spans:
        if joined and a - joined[-1][1] < CONTEXT_WORDS:
            first, _, second, _ = joined.pop()
            a, c = first, second
        joined.append((a, b, c, d))
    return joined


def _spans(left: Sequence[str], right: Sequence[str]) -> tuple[list[Span], bool]:
    """Where the words differ, in order, and whether some stretch was left whole."""
    spans: list[Span] = []
    whole = False
    steps = MOST_STEPS
    waiting = [((0, len(left), 0, len(right)), MOST_LEVELS)]
    while waiting:
        stretch, levels = waiting.pop()
        a, b, c, d = _without_common_ends(left, right, stretch)
        if a == b or c == d:
            if a < b or c < d:
                spans.append((a, b, c, d))
            continue
        anchors = _anchors(left, right, (a, b, c, d)) if levels else []
        if anchors:
            starts = [(a, c), *((i + 1, j + 1) for i, j in anchors)]
            between = zip(starts, [*anchors, (b, d)], strict=True)
            waiting += reversed([((i, k, j, m), levels - 1) for (i, j), (k, m) in between if i < k or j < m])
            continue
        needed = (b - a) * (d - c) * min(b - a, d - c)
        if needed > steps:
            spans.append((a, b, c, d))
            whole = True
            continue
        steps -= needed
        for tag, i, k, j, m in SequenceMatcher(None, left[a:b], right[c:d], autojunk=False).get_opcodes():
            if tag != "equal":
                spans.append((a + i, a + k, c + j, c + m))
    return spans, whole


def _without_common_ends(left: Sequence[str], right: Sequence[str], stretch: Span) -> Span:
    a, b, c, d = stretch
    while a < b and c < d and left[a] == right[c]:
        a, c = a + 1, c + 1
    while a < b and c < d and left[b - 1] == right[d - 1]:
        b, d = b - 1, d - 1
    return a, b, c, d


def _anchors(left: Sequence[str], right: Sequence[str], stretch: Span) -> list[tuple[int, int]]:
    """Positions of words that stand once on either side of a stretch: the most that are in the same order."""
    a, b, c, d = stretch
    left_counts, right_counts = Counter(left[a:b]), Counter(right[c:d])
    position = {right[j]: j for j in range(c, d)}
    pairs = [(i, position[left[i]]) for i in range(a, b) if left_counts[left[i]] == right_counts[left[i]] == 1]
    tails: list[int] = []  # the last position of the best run of each length, and which pair that is
    ends: list[int] = []
    before = [-1] * len(pairs)
    for index, (_, j) in enumerate(pairs):
        length = bisect.bisect_left(tails, j)
        before[index] = ends[length - 1] if length else -1
        tails[length : length + 1], ends[length : length + 1] = [j], [index]
    anchors = []
    index = ends[-1] if ends else -1
    while index >= 0:
        anchors.append(pairs[index])
        index = before[index]
    return anchors[::-1]
