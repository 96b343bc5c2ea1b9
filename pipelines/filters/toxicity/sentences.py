"""Toxic sentences: where a document's sentences begin, and how likely each is toxic, by the same cascade.

What becomes of them is decided in `rules.py`; how they are cut stands in `filters/cutting.py`.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.engines.task import Inputs, Made, Stats
from pipelines.filters.tallies import numbers
from pipelines.filters.toxicity import experts
from pipelines.filters.toxicity.cascade import REMOTE
from pipelines.filters.toxicity.experts import NeuralExpert
from pipelines.filters.toxicity.lexicon import Lexicons
from pipelines.filters.toxicity.neural import BatchTooLarge
from pipelines.filters.toxicity.scores import Combining, screened
from pipelines.filters.toxicity.screen import Screen
from pipelines.schemas import TOXICITY_SENTENCES

_MARKS = ".!?…‥؟۔।॥"
_END = re.compile(
    # scripts with spaces: marks, and white space after them
    rf"""(?<![{_MARKS}])[{_MARKS}]++["'”’»)\]]*+\s++"""
    # scripts without
    r"""|[。！？｡]++["'”’」』）)]*+\s*+"""
    # the end of a line
    r"""|(?<![^\S\n\u2028\u2029])[^\S\n\u2028\u2029]*+[\n\u2028\u2029]\s*+"""
)
"""Runs of marks and of spaces are looked at from their beginning alone: from each place, long ones take hours."""


def sentence_ends(text: str) -> list[int]:
    """Where each sentence of a text ends, in code points, with the white space after it; the last is the text's length.

    A sentence ends after a mark that ends one, and its closing quotes, where white space follows (in Chinese and
    Japanese always), and with every line. An abbreviation ends one too. A blank text has no sentence.
    """
    if not text.strip():
        return []
    ends = [match.end() for match in _END.finditer(text)]
    if text[ends[-1] if ends else 0 :].strip():
        ends.append(len(text))
    elif ends:
        ends[-1] = len(text)
    return ends


@dataclass(frozen=True)
class Sentencing:
    """How sentences are scored. least: lowest score of a document whose sentences are scored, and of one that is
    listed."""

    combining: Combining
    models: Sequence[NeuralExpert]
    languages: Sequence[str]
    window_bytes: int
    least: float

    def record(self) -> dict[str, Any]:
        """What of it is in the key, beside that of the cheap scorers."""
        identities = {expert.name: expert.identity for expert in self.models}
        return self.combining.record() | {"least": self.least, "identities": identities, "experts": experts.VERSION}

    def halved(self) -> "Sentencing":
        """The same with half the batches of its models."""
        return replace(self, models=[expert.halved() for expert in self.models])

    def listed(
        self, documents: pa.Table, scores: pa.Table, screen: Screen, lexicons: Lexicons | None
    ) -> tuple[pa.Table, int]:
        """Table of schema TOXICITY_SENTENCES, in the order of the documents (columns doc_id, text, language) whose
        scores stand beside them, and how many sentences were scored.

        A document that the remote scorer decided on is not read by sentences: each would be a call. Raises
        `BatchTooLarge` where memory does not suffice for a model's batches.
        """
        asked = (numbers(scores["toxicity"]) >= self.least) & (np.array(scores["scorer"].to_pylist(), object) != REMOTE)
        sentences, start, length = _sentences(documents.filter(pa.array(asked)))
        screen_scores = screened(sentences, screen, lexicons, self.languages, self.window_bytes)
        languages = sentences["language"].to_pylist()
        rows = self.combining.rows(languages, screen_scores)
        said = {
            expert.name: (rows[expert.name], expert.read(sentences.take(pa.array(rows[expert.name])))[0])
            for expert in self.models
            if expert.name in rows
        }
        combined = self.combining.combined(sentences["doc_id"], languages, screen_scores, said)
        found = np.flatnonzero(numbers(combined["toxicity"]) >= self.least)
        told = combined.take(pa.array(found))
        columns = [told["doc_id"], told["scorer"], start[found], length[found], told["toxicity"]]
        return pa.table(columns, schema=TOXICITY_SENTENCES), sentences.num_rows


def _sentences(documents: pa.Table) -> tuple[pa.Table, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Every sentence as if it were a document, and int64[n] each: where it begins in its document, and its bytes."""
    rows: list[int] = []
    texts: list[str] = []
    starts: list[int] = []
    lengths: list[int] = []
    for row, text in enumerate(documents["text"].to_pylist()):
        begin = place = 0
        for end in sentence_ends(text):
            size = len(text[begin:end].encode())
            rows.append(row)
            texts.append(text[begin:end])
            starts.append(place)
            lengths.append(size)
            begin, place = end, place + size
    named = documents.select(["doc_id", "language"]).take(pa.array(rows, pa.int64()))
    table = named.append_column("text", pa.array(texts, pa.large_string()))
    return table, np.array(starts, np.int64), np.array(lengths, np.int64)


def score_sentences(inputs: Inputs, payload: Sentencing) -> Iterable[Made]:
    """The task of one shard: part "toxicity_sentences"; nothing where memory does not suffice, as `read_shard`. Inputs:
    documents, "toxicity"; broadcast as `screen_shard`."""
    documents, scores = inputs.table(0, ["doc_id", "text", "language"]), inputs.table(1, ["toxicity", "scorer"])
    lexicons = Lexicons.open(inputs.broadcast_path(1)) if inputs.broadcast_count > 1 else None
    try:
        listed, count = payload.listed(documents, scores, Screen.open(inputs.broadcast_path(0)), lexicons)
    except BatchTooLarge:
        yield Stats({"out_of_memory": 1})
        return
    yield "toxicity_sentences", listed
    yield Stats({"sentences_scored": count, "sentences_listed": listed.num_rows})
