"""Signals of quality: small functions from a batch of texts to a float64 column each, NaN where a share is of nothing.

Which of them a rule set asks for stands here, sources and all; thresholds stand in `thresholds.py`, decisions in
`rules.py`. What several signals need (words, lines, n-grams) is found once per batch.
"""

from collections.abc import Callable, Sequence
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines import schemas
from pipelines.clean import ngrams
from pipelines.clean.c4 import Page, read_lines
from pipelines.clean.lines import Lines, measure_lines
from pipelines.clean.params import CleanParams
from pipelines.clean.words import Words, cut_words
from pipelines.text.words import text_batches, text_buffers

Column = npt.NDArray[np.float64]


class Batch:
    """Some texts with what is found in them, each at its first use. sets: the rule sets that will ask."""

    def __init__(self, texts: pa.Array, sets: Sequence[str], params: CleanParams) -> None:
        self.data, self.offsets = text_buffers(texts)
        self.sets = sets
        self.params = params

    @cached_property
    def lines(self) -> Lines:
        """Counts of lines and paragraphs."""
        return measure_lines(self.data, self.offsets, self.params.fineweb.short_line_characters)

    @cached_property
    def words(self) -> Words:
        """Counts of words, and the words themselves where n-grams are asked for."""
        return cut_words(self.data, self.offsets, keep="gopher_repetition" in self.sets)

    @cached_property
    def repeated_ngrams(self) -> dict[int, npt.NDArray[np.int64]]:
        """Characters of the repeated n-grams, by n."""
        return dict(zip(ngrams.TOP + ngrams.DUPLICATE, ngrams.repeated_characters(self.words), strict=True))

    @cached_property
    def page(self) -> Page:
        """The lines that C4 counts."""
        c4 = self.params.c4
        return read_lines(self.data, self.offsets, c4.line_rules, c4.words_per_line, c4.word_characters)


Signal = Callable[[Batch], Column]


def share(part: npt.NDArray[np.int64], whole: npt.NDArray[np.int64]) -> Column:
    """part / whole, NaN where the whole is 0."""
    return np.divide(part, whole, out=np.full(len(part), np.nan), where=whole != 0)


def characters(batch: Batch) -> Column:
    """Length of the text in code points."""
    return batch.lines.characters.astype(np.float64)


def alphanumeric_share(batch: Batch) -> Column:
    """Letters and digits of any script per character, 0 to 1.

    The StarCoder corpus dropped files below 0.25 (Li et al. 2023, "StarCoder: may the source be with you!", 3.2).
    """
    return share(batch.lines.alphanumeric, batch.lines.characters)


def words(batch: Batch) -> Column:
    """Words, without those that consist of signs (Rae et al. 2021, A1.1)."""
    return batch.words.words.astype(np.float64)


def mean_word_characters(batch: Batch) -> Column:
    """Mean length of these words, code points (Rae et al. 2021, A1.1)."""
    return share(batch.words.word_characters, batch.words.words)


def hashes_per_word(batch: Batch) -> Column:
    """Signs # per word, signs counted as words (Rae et al. 2021, A1.1: symbol-to-word ratio)."""
    return share(batch.lines.hashes, batch.words.tokens)


def ellipses_per_word(batch: Batch) -> Column:
    """Ellipses, … or three full stops, per word, signs counted as words (Rae et al. 2021, A1.1)."""
    return share(batch.lines.ellipses, batch.words.tokens)


def bullet_line_share(batch: Batch) -> Column:
    """Share of lines that begin with a bullet point, • or - (Rae et al. 2021, A1.1)."""
    return share(batch.lines.bullets, batch.lines.lines)


def ellipsis_line_share(batch: Batch) -> Column:
    """Share of lines that end in an ellipsis (Rae et al. 2021, A1.1)."""
    return share(batch.lines.trailing_off, batch.lines.lines)


def alphabetic_word_share(batch: Batch) -> Column:
    """Share of words with a letter, signs counted as words (Rae et al. 2021, A1.1)."""
    return share(batch.words.alphabetic, batch.words.tokens)


def stop_words(batch: Batch) -> Column:
    """How many of the, be, to, of, and, that, have, with occur, in small letters (Rae et al. 2021, A1.1)."""
    return batch.words.stop_words.astype(np.float64)


def duplicate_line_share(batch: Batch) -> Column:
    """Share of lines that stood in the text before, empty lines left out (Rae et al. 2021, A1.1)."""
    return share(batch.lines.repeated, batch.lines.filled)


def duplicate_line_character_share(batch: Batch) -> Column:
    """Characters in such lines per character of the text (Rae et al. 2021, A1.1)."""
    return share(batch.lines.repeated_characters, batch.lines.characters)


def duplicate_paragraph_share(batch: Batch) -> Column:
    """Share of paragraphs, between empty lines, that stood in the text before (Rae et al. 2021, A1.1)."""
    return share(batch.lines.repeated_paragraphs, batch.lines.paragraphs)


def duplicate_paragraph_character_share(batch: Batch) -> Column:
    """Characters in such paragraphs per character of the text (Rae et al. 2021, A1.1)."""
    return share(batch.lines.repeated_paragraph_characters, batch.lines.characters)


def ngram_character_share(batch: Batch, n: int) -> Column:
    """Characters in the most frequent n-gram of words, or for n from 5 on in n-grams that stood in the text before, per
    character of the text (Rae et al. 2021, A1.1; how they are counted stands in `ngrams.py`)."""
    return share(batch.repeated_ngrams[n], batch.lines.characters)


def lorem_ipsum_lines(batch: Batch) -> Column:
    """Lines that C4 counts and that hold the filler text "lorem ipsum" (Raffel et al. 2020, 2.2)."""
    return batch.page.lorem_ipsum.astype(np.float64)


def curly_bracket_lines(batch: Batch) -> Column:
    """Lines that C4 counts and that hold a {, as code does (Raffel et al. 2020, 2.2)."""
    return batch.page.curly_brackets.astype(np.float64)


def sentences(batch: Batch) -> Column:
    """Sentences in the lines that C4 counts; a line ends a sentence (Raffel et al. 2020, 2.2)."""
    found = cut_words(batch.page.kept, batch.page.bounds, keep=False).sentences
    totals = np.concatenate([[0], np.cumsum(found)])
    return np.diff(totals[batch.page.firsts]).astype(np.float64)


def removed_lines(batch: Batch) -> Column:
    """Lines that C4 does not count (Raffel et al. 2020, 2.2)."""
    return batch.page.removed.astype(np.float64)


def punctuated_line_share(batch: Batch) -> Column:
    """Share of lines, blank ones left out, whose last character ends a sentence in some script (Penedo et al. 2024)."""
    return share(batch.lines.punctuated, batch.lines.worded)


def short_line_share(batch: Batch) -> Column:
    """Share of lines, blank ones left out, of at most 30 characters (Penedo et al. 2024)."""
    return share(batch.lines.short, batch.lines.worded)


def repeated_worded_character_share(batch: Batch) -> Column:
    """Characters in lines that stood in the text before, per character that is no line break (Penedo et al. 2024)."""
    return share(batch.lines.repeated_worded_characters, batch.lines.characters - batch.lines.newlines)


def newlines_per_word(batch: Batch) -> Column:
    """Line breaks per word, signs counted as words (FineWeb's code)."""
    return share(batch.lines.newlines, batch.words.tokens)


def longest_line_characters(batch: Batch) -> Column:
    """Length of the longest line, code points (Li et al. 2023; Chen et al. 2021)."""
    return batch.lines.longest.astype(np.float64)


def mean_line_characters(batch: Batch) -> Column:
    """Mean length of lines, blank ones too, code points without line breaks (Li et al. 2023; Chen et al. 2021)."""
    return share(batch.lines.characters - batch.lines.newlines, batch.lines.lines)


ALWAYS: dict[str, Signal] = {"characters": characters, "alphanumeric_share": alphanumeric_share}
"""Signals of every text, whatever rule sets its source has."""

SIGNALS: dict[str, dict[str, Signal]] = {
    "gopher_quality": {
        "words": words,
        "mean_word_characters": mean_word_characters,
        "hashes_per_word": hashes_per_word,
        "ellipses_per_word": ellipses_per_word,
        "bullet_line_share": bullet_line_share,
        "ellipsis_line_share": ellipsis_line_share,
        "alphabetic_word_share": alphabetic_word_share,
        "stop_words": stop_words,
    },
    "gopher_repetition": {
        "duplicate_paragraph_share": duplicate_paragraph_share,
        "duplicate_paragraph_character_share": duplicate_paragraph_character_share,
        "duplicate_line_share": duplicate_line_share,
        "duplicate_line_character_share": duplicate_line_character_share,
        **{f"top_{n}gram_character_share": partial(ngram_character_share, n=n) for n in ngrams.TOP},
        **{f"duplicate_{n}gram_character_share": partial(ngram_character_share, n=n) for n in ngrams.DUPLICATE},
    },
    "c4": {
        "lorem_ipsum_lines": lorem_ipsum_lines,
        "curly_bracket_lines": curly_bracket_lines,
        "sentences": sentences,
        "removed_lines": removed_lines,
    },
    "fineweb": {
        "punctuated_line_share": punctuated_line_share,
        "short_line_share": short_line_share,
        "duplicate_line_character_share": repeated_worded_character_share,
        "newlines_per_word": newlines_per_word,
    },
    "code": {
        "longest_line_characters": longest_line_characters,
        "mean_line_characters": mean_line_characters,
        "alphanumeric_share": alphanumeric_share,
    },
}
"""The signals of each rule set. In the table `quality` the set's name stands before the signal's (`column`)."""


def column(rule_set: str, signal: str) -> str:
    """The column of the table `quality` that a signal stands in."""
    return f"{rule_set}_{signal}"


def measured(texts: pa.Array, sets: Sequence[str], params: CleanParams) -> tuple[dict[str, Column], pa.Array]:
    """Every signal of these texts (large_string without nulls), by column; and the texts that go on: where C4's lines
    are to be removed, without these, else the very same array.

    The signals of rule sets are of the texts as they came, those of `ALWAYS` of the texts that go on. Works through
    about 1 MB of text at a time; a longer text takes memory in proportion to it (see `words.py`, `lines.py`,
    `ngrams.py`).
    """
    wanted = {column(name, signal): measure for name in sets for signal, measure in SIGNALS[name].items()}
    found: dict[str, list[Column]] = {name: [np.zeros(0)] for name in (*ALWAYS, *wanted)}
    removes = "c4" in sets and params.c4.remove_lines
    left = [texts[:0]]
    for piece in text_batches(texts):
        batch = going_on = Batch(piece, sets, params)
        if removes:
            left.append(batch.page.texts)
            going_on = Batch(left[-1], sets, params)
        for name, measure in ALWAYS.items():
            found[name].append(measure(going_on))
        for name, measure in wanted.items():
            found[name].append(measure(batch))
    return {name: np.concatenate(pieces) for name, pieces in found.items()}, pa.concat_arrays(
        left
    ) if removes else texts


def quality_table(doc_ids: pa.ChunkedArray, language_scores: Column, signals: dict[str, Column]) -> pa.Table:
    """The table `quality` (schema QUALITY): signals that are NaN, or were not asked for, are null."""
    rows = len(language_scores)
    columns = {"doc_id": doc_ids, "language_score": pa.array(language_scores, pa.float64())}
    columns |= {name: pa.array(values, pa.float64(), from_pandas=True) for name, values in signals.items()}
    absent = pa.nulls(rows, pa.float64())
    return pa.table([columns.get(name, absent) for name in schemas.QUALITY.names], schema=schemas.QUALITY)
