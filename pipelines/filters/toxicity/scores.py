"""Scores of toxicity as tables: what the cheap scorers say of documents, and what becomes of all that was said.

Pure functions, and the tasks of a shard that call them. The rules stand in `cascade.py`; the stage in `stage.py`.
"""

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.engines.task import File, Inputs, Made, Stats
from pipelines.filters import tallies
from pipelines.filters.toxicity.cascade import REMOTE, Band, Floats, Pooling, Routes, Rows, agreement, pooled
from pipelines.filters.toxicity.experts import NEURAL, VERDICTS, verdict_of
from pipelines.filters.toxicity.lexicon import Lexicons
from pipelines.filters.toxicity.screen import Screen
from pipelines.histograms import TOXICITY_EDGES, histogram, text_bytes
from pipelines.schemas import TOXICITY, TOXICITY_SCREEN

# -- cheap scores -------------------------------------------------------------------------------------------------


def screened(
    documents: pa.Table, screen: Screen, lexicons: Lexicons | None, languages: Sequence[str], window_bytes: int
) -> pa.Table:
    """Table of schema TOXICITY_SCREEN, one row per document (columns doc_id, text, language); memory: one copy of the
    text that is scored."""
    columns: dict[str, pa.Array] = {"doc_id": documents["doc_id"]}
    named = tallies.named(documents["language"])  # who asks for 'und' asks for documents without a language
    known = pc.is_in(named, pa.array(languages, pa.large_string()))
    columns |= _placed("screen", known, screen.score_passages(documents["text"].filter(known), window_bytes))
    found = np.full((2, documents.num_rows), np.nan)
    for language in lexicons.entries if lexicons else ():
        own = pc.equal(named, language)
        texts = documents["text"].filter(own).combine_chunks()
        if lexicons is not None and len(texts):
            found[:, np.asarray(own)] = lexicons.score_passages(language, texts, window_bytes)
    columns |= {name: _nullable(one) for name, one in zip(("lexicon", "lexicon_mean"), found, strict=True)}
    return pa.table(columns, schema=TOXICITY_SCREEN)


def _placed(name: str, known: pa.ChunkedArray, scores: tuple[Floats, Floats]) -> dict[str, pa.Array]:
    """Scores of the known documents as columns of all."""
    mask = np.asarray(known)
    columns = {}
    for column, one in zip((name, f"{name}_mean"), scores, strict=True):
        whole = np.full(len(mask), np.nan)
        whole[mask] = one
        columns[column] = _nullable(whole)
    return columns


@dataclass(frozen=True)
class Scores:
    """float64[n] each, NaN where there is no score: of the worst passage, and the mean of all. scorer: whose, None
    where there is none."""

    worst: Floats
    mean: Floats
    scorer: npt.NDArray[np.object_]

    @classmethod
    def none(cls, count: int) -> "Scores":
        """No scores of so many documents."""
        return cls(np.full(count, np.nan), np.full(count, np.nan), np.full(count, None, object))

    def put(self, scorer: str, where: npt.NDArray[Any], worst: Floats, mean: Floats) -> None:
        """Take these scores for the documents `where` (a mask or rows), all of them numbers."""
        self.worst[where], self.mean[where], self.scorer[where] = worst, mean, scorer


def cheap_of(table: pa.Table) -> Scores:
    """The cheap score of each row of a table of schema TOXICITY_SCREEN: the screen's, or the lexicon's where that is
    higher or alone."""
    scores = Scores.none(table.num_rows)
    for name in ("screen", "lexicon"):
        worst, mean = tallies.numbers(table[name]), tallies.numbers(table[f"{name}_mean"])
        better = ~np.isnan(worst) & ~(worst <= scores.worst)
        scores.put(name, better, worst[better], mean[better])
    return scores


# -- all scores ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Combining:
    """How the scores of a document become one. attributes: of the remote scorer; the first says what is toxic."""

    routes: Routes
    band: Band | None
    decision: Pooling
    attributes: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        """What of it is in the key of scores."""
        band = None if self.band is None else [self.band.low, self.band.high, self.band.threshold]
        said = {"routes": self.routes.record(), "band": band, "decision": self.decision}
        return said | {"attributes": list(self.attributes[:1])}

    def rows(self, languages: Sequence[str | None], screen: pa.Table) -> dict[str, Rows]:
        """The rows that each expert reads, by its name."""
        return self.routes.readers(languages, cheap_of(screen).worst, self.band)

    def combined(
        self,
        doc_ids: pa.ChunkedArray,
        languages: Sequence[str | None],
        screen: pa.Table,
        said: Mapping[str, tuple[Rows, pa.Table]],
    ) -> pa.Table:
        """Table of schema TOXICITY, one row per document. said: by expert, the rows that it read and its labels.

        An expert's score stands before the cheap one. Cheap scores of languages that have both are made comparable
        with those of the experts (`Band.comparable`); all others are the scorer's own.
        """
        scores = cheap_of(screen)
        if self.band is not None:
            beside = self.routes.cascaded(languages)
            for one in (scores.worst, scores.mean):
                one[beside] = self.band.comparable(one[beside])
        agreed = np.full(len(doc_ids), np.nan)
        models = [name for name in said if name != REMOTE]
        if models:
            worst, mean = (np.full((len(doc_ids), len(models)), np.nan) for _ in range(2))
            for number, name in enumerate(models):
                rows, labels = said[name]
                worst[rows, number], mean[rows, number] = verdict_of(labels, VERDICTS)
            common, mean = pooled(worst, self.decision), pooled(mean, self.decision)
            read = ~np.isnan(common)
            scores.put(NEURAL, read, common[read], mean[read])
            if self.band is not None:
                agreed = agreement(worst, common, self.band.threshold)
        if REMOTE in said:
            rows, labels = said[REMOTE]
            worst, mean = verdict_of(labels, self.attributes)
            answered = ~np.isnan(worst)
            scores.put(REMOTE, rows[answered], worst[answered], mean[answered])
        columns = [_nullable(scores.worst), _nullable(scores.mean), pa.array(scores.scorer, pa.large_string())]
        return pa.table([doc_ids, *columns, _nullable(agreed)], schema=TOXICITY)


def tally(documents: pa.Table, scores: pa.Table) -> dict[str, Any]:
    """Counts of one shard: documents (column language), unscored ones by language, scored ones by scorer, and the
    histogram of scores."""
    unscored = documents.filter(pc.is_null(scores["toxicity"]))
    by_scorer = pc.value_counts(scores["scorer"].drop_null()).to_pylist()
    return {
        "documents_in": documents.num_rows,
        "documents_out": scores.num_rows,
        "unknown_language": tallies.count_by_language(unscored["language"]),
        "scored_by": dict(sorted((entry["values"], entry["counts"]) for entry in by_scorer)),
        "histograms": {"toxicity": histogram(TOXICITY_EDGES, documents=tallies.numbers(scores["toxicity"]))},
    }


def _nullable(values: Floats) -> pa.Array:
    return pa.array(values, pa.float64(), from_pandas=True)


# -- tasks --------------------------------------------------------------------------------------------------------


def screen_shard(inputs: Inputs, payload: tuple[list[str], int]) -> Iterable[Made]:
    """The task of the cheap scorers on one shard: part "toxicity_screen". Broadcast: the screen, the lexicons."""
    documents = inputs.table(0, ["doc_id", "text", "language"])
    lexicons = Lexicons.open(inputs.broadcast_path(1)) if inputs.broadcast_count > 1 else None
    scores = screened(documents, Screen.open(inputs.broadcast_path(0)), lexicons, *payload)
    if scores.num_rows != documents.num_rows:
        raise RuntimeError(f"toxicity: {documents.num_rows} documents came in and {scores.num_rows} scores went out")
    yield "toxicity_screen", scores
    yield Stats({"documents_in": documents.num_rows, "bytes_in": int(text_bytes(documents["text"]).sum())})


def choose_rows(inputs: Inputs, payload: Combining) -> Iterable[Made]:
    """The task that says who reads what of one shard (input 0, and input 1 its "toxicity_screen"): part
    "toxicity_rows", a file for each expert that reads anything, so that what it reads is known by its content."""
    languages = inputs.table(0, ["language"])["language"].to_pylist()
    for name, rows in sorted(payload.rows(languages, inputs.table(1)).items()):
        content = io.BytesIO()
        np.save(content, rows)
        yield "toxicity_rows", File(name, content.getvalue(), rows=len(rows))


def combine_shard(inputs: Inputs, payload: tuple[Combining, list[str]]) -> Iterable[Made]:
    """The task that makes one score of all: part "toxicity". Inputs: the documents, their "toxicity_screen", and for
    each expert that read any, in order, the rows and the labels."""
    combining, names = payload
    documents = inputs.table(0, ["doc_id", "language"])
    said = {name: (np.load(inputs.path(2 + 2 * n)), inputs.table(3 + 2 * n)) for n, name in enumerate(names)}
    languages = documents["language"].to_pylist()
    scores = combining.combined(documents["doc_id"], languages, inputs.table(1), said)
    yield "toxicity", scores
    yield Stats(tally(documents, scores))
