"""What becomes of contaminated documents: they are dropped, or lose the paragraphs that an evaluation example holds.

What contaminates them was found by `contamination.py`; this module is a rule of `decide.py`.
"""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

PASSAGE_COLUMNS = ["doc_id", "start", "length"]
"""What is read of the hits: the documents that a passage stands in, and its bytes."""

_BLANK_LINES = re.compile(rb"\n[ \t\r\f\v]*\n\s*")


@dataclass(frozen=True)
class Decontaminated:
    """Documents as they are to go on, and what the rule says of each.

    documents: with cut texts. share: float64[n], of their words in matching passages. objects: bool[n]: the document is
    to go. details: for `decisions`, None where there is nothing to say. paragraphs, bytes: int64[n], what was cut.
    """

    documents: pa.Table
    share: npt.NDArray[np.float64]
    objects: npt.NDArray[np.bool_]
    details: list[str | None]
    paragraphs: npt.NDArray[np.int64]
    bytes: npt.NDArray[np.int64]


def untouched(documents: pa.Table) -> Decontaminated:
    """Documents in which nothing was looked for."""
    count = documents.num_rows
    nothing = np.zeros(count, np.int64)
    return Decontaminated(documents, np.zeros(count), np.zeros(count, np.bool_), [None] * count, nothing, nothing)


def decontaminate(documents: pa.Table, scores: pa.Table, hits: pa.Table | None, limit: float) -> Decontaminated:
    """Apply the rule to a shard's documents (columns doc_id, text) and scores.

    A document is contaminated if the share of its words in matching passages is above the limit. hits: the passages
    (`PASSAGE_COLUMNS`) whose paragraphs are cut; None: contaminated documents go whole. Memory: the texts of the
    contaminated documents, and where one is cut all texts again.
    """
    share = scores["contamination"].to_numpy() if documents.num_rows else np.zeros(0)
    rows = np.flatnonzero(share > limit)
    found = untouched(documents)
    details = found.details
    for row, score in zip(rows.tolist(), scores.take(rows).to_pylist(), strict=True):
        details[row] = f"{score['evaluation_set']}#{score['example']}"
    if hits is None or not len(rows):
        return Decontaminated(documents, share, share > limit, details, found.paragraphs, found.bytes)
    passages: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for hit in hits.select(PASSAGE_COLUMNS).to_pylist():
        passages[hit["doc_id"]].append((hit["start"], hit["start"] + hit["length"]))
    paragraphs, cut_bytes, objects = found.paragraphs.copy(), found.bytes.copy(), found.objects
    contaminated = documents.select(["doc_id", "text"]).take(rows).to_pylist()
    texts = []
    for row, document in zip(rows.tolist(), contaminated, strict=True):
        text, paragraphs[row] = without_paragraphs(document["text"], passages[document["doc_id"]])
        cut_bytes[row] = len(document["text"].encode()) - len(text.encode())
        objects[row] = not text.strip()
        told = "nothing else is left" if objects[row] else f"{paragraphs[row]} paragraphs, {cut_bytes[row]} bytes cut"
        details[row] = f"{details[row]}; {told}"
        texts.append(text)
    column = pc.replace_with_mask(
        pa.concat_arrays(documents["text"].chunks), pa.array(share > limit), pa.array(texts, pa.large_string())
    )
    place = documents.column_names.index("text")
    cut = documents.set_column(place, documents.schema.field("text"), column)
    return Decontaminated(cut, share, objects, details, paragraphs, cut_bytes)


def without_paragraphs(text: str, passages: Sequence[tuple[int, int]]) -> tuple[str, int]:
    """The text without the paragraphs that hold a part of these passages (first byte, byte after), and how many.

    Blank lines (white space only) end a paragraph, and go with it; a text without any is one paragraph. Where the last
    ones go, the text ends with the last line that stays. All else stays as it is.
    """
    data = text.encode()
    starts = [0, *(match.end() for match in _BLANK_LINES.finditer(data) if match.end() < len(data))]
    cut = np.zeros(len(starts), np.bool_)
    for begin, end in passages:
        cut[bisect_right(starts, begin) - 1 : bisect_left(starts, end)] = True
    stops = [*starts[1:], len(data)]
    kept = b"".join(data[a:b] for a, b, gone in zip(starts, stops, cut, strict=True) if not gone)
    return (kept.rstrip() if cut[-1] else kept).decode(), int(cut.sum())
