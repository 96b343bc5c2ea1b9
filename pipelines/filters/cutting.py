"""What is cut out of documents that stay: the passages to which a rule of `decide.py` objects, instead of the document.

Which passages those are is for the rule to say: `contamination/rules.py` for paragraphs, `toxicity/rules.py` for
sentences.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

PASSAGE_COLUMNS = ["doc_id", "start", "length"]
"""What is read of passages: the documents that they stand in, and their bytes."""

Spans = list[tuple[int, int]]
"""First byte and the byte after it of passages of a text, ascending, none inside of another."""


@dataclass(frozen=True)
class Verdict:
    """What a rule says of each document of a shard.

    value: float64[n], what it measured; NaN where there is none. beyond: bool[n], the document is to go. cuts: by row,
    what is to be cut out of it instead. told: by row, what is to be said of it beside. unit: what is cut, in words.
    """

    value: npt.NDArray[np.float64]
    beyond: npt.NDArray[np.bool_]
    cuts: dict[int, Spans] = field(default_factory=dict)
    told: dict[int, str] = field(default_factory=dict)
    unit: str = "passages"

    @classmethod
    def none(cls, count: int) -> "Verdict":
        """Of so many documents in which nothing was looked for."""
        return cls(np.zeros(count), np.zeros(count, np.bool_))

    def objects(self, emptied: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """bool[n]: the document is dropped, for being beyond, or for having nothing left where something is cut."""
        cut = np.zeros(len(self.value), np.bool_)
        cut[list(self.cuts)] = True
        return np.where(cut, emptied, self.beyond)

    @property
    def whole(self) -> npt.NDArray[np.float64]:
        """float64[n]: the value of documents of which it cuts nothing, NaN of the others."""
        whole = self.value.copy()
        whole[list(self.cuts)] = np.nan
        return whole

    def pieces(self) -> npt.NDArray[np.int64]:
        """int64[n]: how many passages are cut out of each document."""
        pieces = np.zeros(len(self.value), np.int64)
        for row, spans in self.cuts.items():
            pieces[row] = len(spans)
        return pieces


@dataclass(frozen=True)
class Cut:
    """Documents as they are to go on. emptied: bool[n], nothing but white space is left. bytes: int64[n], what was cut.
    details: by row, what was cut, in words, of each rule that cuts."""

    documents: pa.Table
    emptied: npt.NDArray[np.bool_]
    bytes: npt.NDArray[np.int64]
    details: dict[int, str]


def cut(documents: pa.Table, verdicts: Sequence[Verdict]) -> Cut:
    """Cut out of the documents (column text) what these rules want cut.

    Memory: the texts of the documents that are cut, and where one is, all texts again.
    """
    count = documents.num_rows
    emptied, cut_bytes = np.zeros(count, np.bool_), np.zeros(count, np.int64)
    rows = sorted({row for verdict in verdicts for row in verdict.cuts})
    details: defaultdict[int, list[str]] = defaultdict(list)
    texts = []
    for row, text in zip(rows, documents["text"].take(rows).to_pylist() if rows else (), strict=True):
        data = text.encode()
        every: Spans = []
        for verdict in verdicts:
            if spans := verdict.cuts.get(row):
                size = len(data) - len(without(data, spans))
                details[row].append(f"{len(spans)} {verdict.unit}, {size} bytes cut")
                every += spans
        left = without(data, sorted(every))
        emptied[row], cut_bytes[row] = not left.strip(), len(data) - len(left)
        texts.append(left.decode())
    if rows:
        mask = np.zeros(count, np.bool_)
        mask[rows] = True
        column = pc.replace_with_mask(
            pa.concat_arrays(documents["text"].chunks), pa.array(mask), pa.array(texts, pa.large_string())
        )  # of one chunk, else pyarrow restarts the replacements at each
        place = documents.column_names.index("text")
        documents = documents.set_column(place, documents.schema.field("text"), column)
    told = {row: "nothing else is left" if emptied[row] else "; ".join(parts) for row, parts in sorted(details.items())}
    return Cut(documents, emptied, cut_bytes, told)


def without(data: bytes, spans: Spans) -> bytes:
    """UTF-8 text without these passages, which may overlap. Where the end goes, white space before it goes too."""
    kept, place = [], 0
    for start, stop in spans:
        kept.append(data[place : max(start, place)])
        place = max(place, stop)
    left = b"".join([*kept, data[place:]])
    return left.rstrip() if spans and place >= len(data) else left


def spans_by_document(table: pa.Table) -> dict[str, Spans]:
    """The passages of a table (columns doc_id, start, length: bytes) by document, in its order."""
    found: defaultdict[str, Spans] = defaultdict(list)
    for row in table.select(PASSAGE_COLUMNS).to_pylist():
        found[row["doc_id"]].append((row["start"], row["start"] + row["length"]))
    return found
