"""The toxicity screen: the linear model that alt-profanity-check ships, run by compiled code over passages of a text.

The weights are the package's (TF-IDF of words, five calibrated linear classifiers, trained on 200,000 labelled
comments); only how they are applied is ours. Which documents are screened stands in `stage.py`.
"""

import io
import warnings
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.filters.hash_table import find, word_table
from pipelines.filters.words import decode, next_word, screen_alphabet, text_buffers

PACKAGE = "alt-profanity-check"

_EXPECTED = {
    "analyzer": "word",
    "binary": False,
    "lowercase": True,
    "ngram_range": (1, 1),
    "norm": "l2",
    "preprocessor": None,
    "strip_accents": None,
    "sublinear_tf": False,
    "token_pattern": r"(?u)\b\w\w+\b",
    "tokenizer": None,
    "use_idf": True,
}
_PROBES = ("you are a complete and utter moron", "what a lovely garden you have", "damn this stupid, stupid bug")


def package_version() -> str:
    """Version of the package whose weights are used; belongs in the key of every score."""
    return version(PACKAGE)


@dataclass(frozen=True)
class Screen:
    """words: table uint64[slots, 2] of word hash and term number. idf: float64[terms]. weights: float64[terms, models],
    intercepts: float64[models] of the linear classifiers. slopes, offsets: float64[models]; a model's probability is
    1 / (1 + exp(slope · margin + offset)) (Platt 1999), and that of the screen is their mean.
    """

    words: npt.NDArray[np.uint64]
    idf: npt.NDArray[np.float64]
    weights: npt.NDArray[np.float64]
    intercepts: npt.NDArray[np.float64]
    slopes: npt.NDArray[np.float64]
    offsets: npt.NDArray[np.float64]

    def to_bytes(self) -> bytes:
        """The screen as one file; the same screen gives the same bytes."""
        buffer = io.BytesIO()
        np.savez(buffer, **vars(self))
        return buffer.getvalue()

    @classmethod
    def open(cls, path: Path) -> "Screen":
        """Read what `to_bytes` gave."""
        with np.load(path) as arrays:
            return cls(**arrays)

    def score(self, texts: pa.Array | pa.ChunkedArray, window_bytes: int) -> npt.NDArray[np.float64]:
        """float64[n]: the probability, 0 to 1, that the worst passage of each text is toxic; see `score_passages`."""
        return self.score_passages(texts, window_bytes)[0]

    def score_passages(
        self, texts: pa.Array | pa.ChunkedArray, window_bytes: int
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """float64[n] each: the probability, 0 to 1, that the worst passage of each text is toxic, and the mean of all
        its passages.

        Passages are about window_bytes long; they end between words, at a line break if one comes in their second
        half. A rest shorter than half a passage belongs to the last one, so a text under 1.5 windows is one passage
        and scores as with `profanity_check.predict_prob`. A text is scored by passages because the model weighs words
        by their share of the text: a whole book hides any insult. The price: a maximum over more passages is higher,
        so long texts of a rough tongue score high (Shakespeare's plays in one document: 0.98).
        """
        offsets, data = text_buffers(texts)
        worst, mean = np.zeros(len(offsets) - 1, np.float64), np.zeros(len(offsets) - 1, np.float64)
        _screen_texts(
            offsets,
            data,
            screen_alphabet(),
            self.words,
            self.idf,
            self.weights,
            self.intercepts,
            self.slopes,
            self.offsets,
            window_bytes,
            worst,
            mean,
        )
        return worst, mean


def extract_screen() -> Screen:
    """The screen from the installed package. Loads scikit-learn, which takes seconds: stages do it once, then keep the
    arrays in the store.

    Raises `RuntimeError` if the package's model is of another form, or does not give the same probabilities here.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*unpickle estimator")
        from profanity_check.profanity_check import model, vectorizer

    try:
        screen = _from_scikit_learn(vectorizer, model)
        same = np.allclose(
            screen.score(pa.array(_PROBES), 10_000),
            model.predict_proba(vectorizer.transform(_PROBES))[:, 1],
            rtol=0,
            atol=1e-9,
        )
    except (AttributeError, KeyError, IndexError, ValueError) as error:
        raise _unknown_form(str(error)) from error
    if not same:
        raise _unknown_form("its probabilities differ from ours")
    return screen


def _unknown_form(detail: str) -> RuntimeError:
    return RuntimeError(
        f"{PACKAGE} {package_version()} ships a model of a form that the toxicity screen does not know ({detail}); "
        f"install {PACKAGE} 1.9"
    )


def _from_scikit_learn(vectorizer: Any, model: Any) -> Screen:
    settings = vectorizer.get_params()
    for name, expected in _EXPECTED.items():
        if settings[name] != expected:
            raise ValueError(f"its vectorizer has {name} = {settings[name]!r} instead of {expected!r}")
    terms = sorted(vectorizer.vocabulary_, key=vectorizer.vocabulary_.__getitem__)
    alphabet = screen_alphabet()
    encoded = "\n".join(terms).encode()
    hashes = _term_hashes(np.frombuffer(encoded, np.uint8), alphabet, len(terms))
    classifiers = model.calibrated_classifiers_
    calibrators = [classifier.calibrators[0] for classifier in classifiers]
    return Screen(
        words=word_table(hashes, np.arange(len(terms))),
        idf=np.asarray(vectorizer.idf_, np.float64),
        weights=np.ascontiguousarray(np.stack([c.estimator.coef_[0] for c in classifiers], axis=1), np.float64),
        intercepts=np.array([c.estimator.intercept_[0] for c in classifiers], np.float64),
        slopes=np.array([c.a_ for c in calibrators], np.float64),
        offsets=np.array([c.b_ for c in calibrators], np.float64),
    )


@numba.njit(nogil=True, cache=True)
def _term_hashes(data, alphabet, terms):  # type: ignore[no-untyped-def]
    hashes = np.empty(terms, np.uint64)
    at = 0
    for index in range(terms):
        _, at, hashes[index], _ = next_word(data, at, len(data), alphabet)
    return hashes


@numba.njit(nogil=True, cache=True)
def _screen_texts(  # type: ignore[no-untyped-def]
    offsets, data, alphabet, words, idf, weights, intercepts, slopes, calibrations, window_bytes, worsts, means
):
    counts = np.zeros(len(idf), np.int64)
    terms = np.empty(len(idf), np.int64)  # of the passage, in order of first occurrence
    margins = np.empty(len(intercepts), np.float64)
    for document in range(len(offsets) - 1):
        at, end = offsets[document], offsets[document + 1]
        worst, total, passages = 0.0, 0.0, 0
        passage = at
        distinct = 0
        while True:
            before = at
            start, at, hashed, characters = next_word(data, at, end, alphabet)
            done = characters == 0
            if done or ends_passage(data, before, start, passage, end, window_bytes):
                probability = _probability(
                    terms, distinct, counts, idf, weights, intercepts, slopes, calibrations, margins
                )
                worst = max(worst, probability)
                total += probability
                passages += 1
                passage = start
                distinct = 0
            if done:
                break
            if characters >= 2:
                row = find(words, hashed)
                if row >= 0:
                    term = np.int64(words[row, 1])
                    if counts[term] == 0:
                        terms[distinct] = term
                        distinct += 1
                    counts[term] += 1
        worsts[document] = worst
        means[document] = total / passages


@numba.njit(nogil=True, cache=True)
def ends_passage(data, before, start, passage, end, window_bytes):  # type: ignore[no-untyped-def]
    """Whether a passage that began at byte `passage` of a text that ends at `end` ends between two words: the first
    ends at byte `before`, the next begins at byte `start`."""
    half_full = start - passage >= window_bytes // 2 and end - start >= window_bytes // 2
    return half_full and (start - passage >= window_bytes or _breaks_line(data, before, start))


@numba.njit(nogil=True, cache=True)
def _breaks_line(data, start, end):  # type: ignore[no-untyped-def]
    at = start
    while at < end:
        code_point, at = decode(data, at, end)
        if code_point == 10 or code_point == 0x2029:
            return True
    return False


@numba.njit(nogil=True, cache=True)
def _probability(  # type: ignore[no-untyped-def]
    terms, distinct, counts, idf, weights, intercepts, slopes, calibrations, margins
):
    """Probability of one passage; sets its counts back to 0."""
    squares = 0.0
    margins[:] = 0.0
    for index in range(distinct):
        term = terms[index]
        value = counts[term] * idf[term]
        counts[term] = 0
        squares += value * value
        for model in range(len(margins)):
            margins[model] += value * weights[term, model]
    norm = np.sqrt(squares) if squares > 0 else 1.0
    total = 0.0
    for model in range(len(margins)):
        margin = margins[model] / norm + intercepts[model]
        total += 1.0 / (1.0 + np.exp(slopes[model] * margin + calibrations[model]))
    return total / len(margins)
