"""What a language model of any kind says of texts, and the scores that are made of it.

The kinds stand in `ngram_folds.py` (trained here), `kenlm_file.py` and `causal.py`; which score is too high is decided
in `rules.py`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.histograms import BITS_PER_BYTE_EDGES, PERPLEXITY_EDGES, histogram, text_bytes
from pipelines.schemas import PERPLEXITY

SCORING_VERSION = 3
"""Of the code that scores, with a model of any kind; raise it when scores change."""

FEWEST_TOKENS = 2
"""A text of fewer tokens has no score: one token says something about the token, nothing about the text."""


@dataclass(frozen=True)
class Likelihoods:
    """Of n texts, in their order.

    log_probability: float64[n], sum of the natural logarithms over the tokens of each. tokens: int64[n], how many were
    scored. bytes: int64[n], UTF-8 bytes of the text that these tokens stand for.
    """

    log_probability: npt.NDArray[np.float64]
    tokens: npt.NDArray[np.int64]
    bytes: npt.NDArray[np.int64]

    @classmethod
    def nothing(cls, count: int) -> "Likelihoods":
        """Of so many texts without a token, to be filled."""
        return cls(np.zeros(count), np.zeros(count, np.int64), np.zeros(count, np.int64))

    def put(self, places: npt.NDArray[Any], others: "Likelihoods") -> None:
        """Set the values of some texts: those at these places, or where a mask is true."""
        self.log_probability[places] = others.log_probability
        self.tokens[places] = others.tokens
        self.bytes[places] = others.bytes


def score_table(doc_ids: pa.ChunkedArray, found: Likelihoods, fold: npt.NDArray[np.int8] | None = None) -> pa.Table:
    """Table of schema PERPLEXITY. fold: int8[n], whose model scored; None where one model scores everything.

    Perplexity = exp(-Σ ln p / tokens); bits per byte = -Σ log2 p / bytes. Both are null for a text of fewer than
    `FEWEST_TOKENS` tokens, and where the model gave no finite probability or one too small for a float.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        perplexity = np.exp(-found.log_probability / np.maximum(found.tokens, 1))
        bits_per_byte = -found.log_probability / np.log(2) / np.maximum(found.bytes, 1)
    missing = (found.tokens < FEWEST_TOKENS) | ~np.isfinite(perplexity) | ~np.isfinite(bits_per_byte)
    columns = [
        doc_ids,
        pa.array(perplexity, mask=missing),
        pa.array(bits_per_byte, mask=missing),
        pa.array(found.tokens),
        pa.nulls(len(missing), pa.int8()) if fold is None else pa.array(fold, pa.int8()),
    ]
    return pa.table(columns, schema=PERPLEXITY)


def score_tally(documents: pa.Table, scores: pa.Table) -> dict[str, Any]:
    """Counts of one shard: documents, bytes, tokens, documents without a score and why, histograms of the scores."""
    too_short = int(np.count_nonzero(scores["tokens"].to_numpy() < FEWEST_TOKENS))
    return {
        "documents_in": documents.num_rows,
        "documents_out": scores.num_rows,
        "bytes_in": int(text_bytes(documents["text"]).sum()),
        "scored_tokens": int(pc.sum(scores["tokens"]).as_py() or 0),
        "too_short": too_short,
        "not_finite": scores["perplexity"].null_count - too_short,
        "histograms": {
            "perplexity": histogram(PERPLEXITY_EDGES, documents=scores["perplexity"].drop_null().to_numpy()),
            "bits per byte": histogram(BITS_PER_BYTE_EDGES, documents=scores["bits_per_byte"].drop_null().to_numpy()),
        },
    }
