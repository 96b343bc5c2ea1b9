"""What becomes of contaminated documents: they are dropped, or lose the paragraphs that an evaluation example holds.

What contaminates them was found by `stage.py`; this module is a rule of `filters/decide.py`.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from pipelines.filters.cutting import Spans, Verdict, spans_by_document

_BLANK_LINES = re.compile(rb"\n[ \t\r\f\v]*\n\s*")


def contaminated(documents: pa.Table, scores: pa.Table, hits: pa.Table | None, limit: float) -> Verdict:
    """What the rule says of a shard's documents (columns doc_id, text) by their scores.

    A document is contaminated if the share of its words in matching passages is above the limit. hits: the passages
    (`PASSAGE_COLUMNS`) whose paragraphs are cut; None: contaminated documents go whole.
    """
    share = scores["contamination"].to_numpy() if documents.num_rows else np.zeros(0)
    rows = np.flatnonzero(share > limit)
    told = {
        row: f"{score['evaluation_set']}#{score['example']}"
        for row, score in zip(rows.tolist(), scores.take(rows).to_pylist(), strict=True)
    }
    cuts: dict[int, Spans] = {}
    if hits is not None and len(rows):
        passages = spans_by_document(hits)
        found = documents.select(["doc_id", "text"]).take(rows).to_pylist()
        for row, document in zip(rows.tolist(), found, strict=True):
            cuts[row] = paragraphs_of(document["text"].encode(), passages[document["doc_id"]])
    return Verdict(share, share > limit, cuts, told, "paragraphs")


def paragraphs_of(data: bytes, passages: Sequence[tuple[int, int]]) -> Spans:
    """The paragraphs of a text that hold a part of these passages (first byte, byte after).

    Blank lines (white space only) end a paragraph, and belong to it; a text without any is one paragraph.
    """
    starts = [0, *(match.end() for match in _BLANK_LINES.finditer(data) if match.end() < len(data))]
    cut = np.zeros(len(starts), np.bool_)
    for begin, end in passages:
        cut[bisect_right(starts, begin) - 1 : bisect_left(starts, end)] = True
    stops = [*starts[1:], len(data)]
    return [(start, stop) for start, stop, gone in zip(starts, stops, cut, strict=True) if gone]
