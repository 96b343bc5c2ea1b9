"""Writes an n-gram model in the ARPA format, which kenlm, SRILM and others read. Nothing here reads one."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from pipelines.filters.ngram_model import BEGIN, NgramModel

_LOG_ZERO = -99.0
"""What ARPA files put for the probability of <s>, which never follows anything."""


def write_arpa(model: NgramModel, path: Path) -> None:
    """Write the model to a file. Logarithms to base 10; words are those of `pipelines/filters/words.py`, folded.

    A program that scores with the file must cut words the same way. Memory grows with the number of n-grams.
    """
    rows = np.flatnonzero(model.ngrams[:, 0])
    context, word = model.ngrams[rows, 0] >> np.uint64(32), model.ngrams[rows, 0] & np.uint64(0xFFFFFFFF)
    values = model.ngrams.view(np.float32)[rows, 2:4] / np.log(10)
    lengths = _lengths(rows, context.astype(np.int64), len(model.vocabulary), len(model.ngrams))
    text = dict(enumerate(model.vocabulary))
    unigrams = model.unigrams / np.log(10)
    with path.open("w", encoding="utf-8") as file:
        file.write("\\data\\\n")
        for n in range(1, model.order + 1):
            file.write(f"ngram {n}={len(model.vocabulary) if n == 1 else np.count_nonzero(lengths == n)}\n")
        file.write("\n\\1-grams:\n")
        for index, (probability, backoff) in enumerate(unigrams):
            file.write(f"{_LOG_ZERO if index == BEGIN else probability:.7g}\t{text[index]}\t{backoff:.7g}\n")
        for n in range(2, model.order + 1):
            file.write(f"\n\\{n}-grams:\n")
            for index in np.flatnonzero(lengths == n).tolist():
                words = f"{text[int(context[index])]} {text[int(word[index])]}"
                text[len(model.vocabulary) + int(rows[index])] = words
                probability, backoff = values[index]
                file.write(f"{probability:.7g}\t{words}" + (f"\t{backoff:.7g}\n" if n < model.order else "\n"))
        file.write("\n\\end\\\n")


def _lengths(
    rows: npt.NDArray[np.int64], context: npt.NDArray[np.int64], vocabulary_size: int, slots: int
) -> npt.NDArray[np.int64]:
    """Length of every n-gram: one more than that of its context."""
    length_at = np.zeros(vocabulary_size + slots, np.int64)
    length_at[:vocabulary_size] = 1
    place = vocabulary_size + rows
    while (open_ngrams := length_at[place] == 0).any():
        of_context = length_at[context]
        length_at[place[open_ngrams]] = np.where(of_context > 0, of_context + 1, 0)[open_ngrams]
    return length_at[place]
