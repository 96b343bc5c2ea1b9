"""What becomes of toxic documents: they are dropped, or lose the sentences that are toxic.

How toxic they are was found by `stage.py`; this module is a rule of `filters/decide.py`.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.dataset import Dataset
from pipelines.filters.cutting import Spans, Verdict, spans_by_document
from pipelines.filters.tallies import numbers


def toxic(documents: pa.Table, scores: pa.ChunkedArray, sentences: pa.Table | None, limit: float | None) -> Verdict:
    """What the rule says of a shard's documents (column doc_id) by their scores; a null score objects to nothing.

    sentences: those that were listed, of which every one above the limit is cut, also out of a document that is not
    above it as a whole; None: toxic documents go whole. So does one above the limit without such a sentence. A
    document's value is its highest score, its sentences' included.
    """
    value = numbers(scores)
    cuts: dict[int, Spans] = {}
    if limit is None:
        return Verdict(value, np.zeros(len(value), np.bool_))
    if sentences is not None:
        beyond = sentences.filter(pc.greater(sentences["toxicity"], limit))
        ids = documents["doc_id"].combine_chunks()
        rows = pc.index_in(beyond["doc_id"], value_set=ids).to_numpy() if beyond.num_rows else np.zeros(0, np.int64)
        place = dict(zip(beyond["doc_id"].to_pylist(), rows.tolist(), strict=True))
        cuts = {place[doc_id]: spans for doc_id, spans in spans_by_document(beyond).items()}
        np.fmax.at(value, rows, beyond["toxicity"].to_numpy() if beyond.num_rows else np.zeros(0))
    with np.errstate(invalid="ignore"):
        return Verdict(value, value > limit, cuts, unit="sentences")


def other_threshold(toxicity_scores: Dataset, limit: float | None) -> dict[str, str]:
    """A note for the stats where the limit is not the threshold that the band of the scores was chosen for."""
    for version in toxicity_scores.versions:
        threshold = version.stats.get("band", {}).get("threshold")
        if limit is not None and threshold not in (None, limit):
            return {
                "toxicity_limit": f"max_toxicity {limit:g} is not the neural_threshold {threshold:g} that the band was "
                "made for: where the screen decided alone its own order stands, which no model has looked at"
            }
    return {}


def refuse_unlisted(toxicity_scores: Dataset, limit: float) -> None:
    """Raise `ValueError` unless every sentence above the limit is listed."""
    for version in toxicity_scores.versions:
        least = version.stats.get("sentences_from")
        if version.stats.get("documents_in") and (least is None or least > limit):
            raise ValueError(
                f"filtering: filters.toxic is 'sentence', and {version.name} lists "
                f"{'no sentences' if least is None else f'sentences from {least:g} on, above max_toxicity {limit:g}'}; "
                f"set toxicity.sentences_from to {limit:g} or less and materialize toxicity_scores"
            )
