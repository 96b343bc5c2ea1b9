"""Stage `contamination_scores`: what each document shares with the evaluation sets, and where.

A document is contaminated where it holds an n-gram (a run of words) of an evaluation example. How n-grams are found
stands in `overlap.py`, how the sets are read in `evaluation.py`; what becomes of contaminated documents is decided in
`rules.py` and `filters/decide.py`.
"""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.dataset import Dataset, Draft, Part, Shard, join_parts, read_table
from pipelines.engines.local import Engine
from pipelines.engines.task import File, Inputs, Made, Result, Stats, Task
from pipelines.filters.contamination.evaluation import file_of, read_examples
from pipelines.filters.contamination.overlap import FILE_NAMES, Matches, OverlapIndex, index_files, word_bounds
from pipelines.filters.contamination.params import ContaminationParams
from pipelines.histograms import added, text_bytes
from pipelines.schemas import CONTAMINATION, CONTAMINATION_HITS
from pipelines.store import Store
from pipelines.text.words import Words, text_buffers, word_batches

VERSION = 2
"""Of this stage's code; raise it when scores, hits or the files of the index change."""

MOSTLY = 0.7
"""Share of its n-grams that a document must hold of an example to hold it mostly (Chowdhery et al. 2022: PaLM calls an
example clean below 70 %)."""


def score_contamination(unique_documents: Dataset, config: ContaminationParams, engine: Engine) -> Draft:
    """Look for the evaluation sets in every document, shard by shard.

    Part "contamination" is row-aligned with the documents, part "contamination_hits" has a row for every passage that
    a document shares with an example. Without sets both are empty, and no document is read. Raises `ValueError` where
    a set cannot be read.
    """
    parts = {"contamination": Part("table", ()), "contamination_hits": Part("table", ())}
    if not config.sets:
        return Draft(parts, {"looked_for": "nothing: contamination.sets names no evaluation set"})
    hashes = {name: file_of(name, wanted).sha256() for name, wanted in sorted(config.sets.items())}
    described = engine.map([_index_task(config, hashes)])[0]
    index = {shard.name: shard.object for shard in described.parts["evaluation_index"].shards}
    results: list[Result] = engine.map(
        [
            Task(
                score_shard,
                "filters.contamination.score",
                VERSION,
                {"unicode": unicodedata.unidata_version},
                (shard.object,),
                tuple(index[name] for name in FILE_NAMES),
                rows=shard.rows,
                in_threads=True,
            )
            for shard in unique_documents.shards("documents")
        ]
    )
    parts |= join_parts([result.parts for result in results])
    tally = added([_nothing(hashes), *(result.stats for result in results)])
    documents = tally.pop("documents_by_set")
    examples = _examples_found(engine.store, parts["contamination_hits"].shards)
    sets = {
        name: {"documents": documents[name], **examples.get(name, {"examples_found": 0, "examples_mostly_found": 0})}
        | described.stats["sets"][name]
        | {"sha256": content}
        for name, content in hashes.items()
    }
    return Draft(parts, tally | {"evaluation_sets": sets})


# -- the index ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Indexing:
    config: ContaminationParams
    hashes: dict[str, str]


def _index_task(config: ContaminationParams, hashes: dict[str, str]) -> Task:
    """The task that makes the index once for all shards; a set is known by its content, not by its path."""
    sets = [[name, config.sets[name].model_dump(exclude={"path"}), content] for name, content in hashes.items()]
    params = {
        "sets": sets,
        "ngram": config.ngram,
        "common_examples": config.common_examples,
        "unicode": unicodedata.unidata_version,
    }
    return Task(make_index, "filters.contamination.index", VERSION, params, payload=_Indexing(config, hashes))


def make_index(inputs: Inputs, payload: _Indexing) -> Iterable[Made]:
    """The task of the index: part "evaluation_index", the files of `OverlapIndex`."""
    config = payload.config
    sets = [(name, read_examples(name, config.sets[name], known)) for name, known in payload.hashes.items()]
    files, counts = index_files(sets, config.ngram, config.common_examples)
    for name, content in files:
        yield "evaluation_index", File(name, content)
    yield Stats({"sets": counts})


# -- scoring ------------------------------------------------------------------------------------------------------


def score_shard(inputs: Inputs, payload: None) -> Iterable[Made]:
    """The task of one shard: its scores, its hits and their tally."""
    documents = inputs.table(0, ["doc_id", "text"])
    index = OverlapIndex.open([inputs.broadcast_path(number) for number in range(len(FILE_NAMES))])
    scores, hits = contamination_of(documents, index)
    if scores.num_rows != documents.num_rows:
        raise RuntimeError(
            f"contamination: {documents.num_rows} documents came in and {scores.num_rows} scores went out"
        )
    yield "contamination", scores
    yield "contamination_hits", hits
    yield Stats(contamination_tally(documents, scores, hits, index.sets))


def contamination_of(documents: pa.Table, index: OverlapIndex) -> tuple[pa.Table, pa.Table]:
    """Tables of schema CONTAMINATION, one row per document (columns doc_id, text), and CONTAMINATION_HITS.

    Linear in the text. Memory: that of a batch of words, and of the hits.
    """
    found: dict[int, _Score] = {}
    hits: list[dict[str, Any]] = []
    begin = 0
    for texts, words in word_batches(documents["text"]):
        matches = index.matches(words)
        if len(matches):
            counts = words.counts.tolist()
            covered, held = _covered_words(matches, words), _distinct_ngrams(matches, len(index.keys))
            for hit in _passages(matches, texts, counts):
                row, example = begin + hit.text, hit.example
                doc_id, (set_name, key) = documents["doc_id"][row].as_py(), index.name(example)
                shared = held[hit.text, example]
                share = shared / int(index.examples[example, 2])
                hits.append(
                    {"doc_id": doc_id, "evaluation_set": set_name, "example": key, "example_share": share, **hit.place}
                )
                score = found.setdefault(row, _Score(covered[hit.text] / counts[hit.text]))
                score.hits += 1
                score.best = max(score.best, (shared, -example, set_name, key, share))
        begin += len(texts)
    scores = _score_table(documents["doc_id"], found)
    return scores, pa.Table.from_pylist(hits, schema=CONTAMINATION_HITS)


@dataclass
class _Score:
    """Of one contaminated document. best: n-grams shared with an example, minus its number, set, key, share of it."""

    share: float
    hits: int = 0
    best: tuple[int, int, str, str, float] = (0, 0, "", "", 0.0)


@dataclass(frozen=True)
class _Hit:
    """A maximal run of matching n-grams. place: the columns of CONTAMINATION_HITS that tell where it stands."""

    text: int
    example: int
    place: dict[str, Any]


def _passages(matches: Matches, texts: pa.Array, counts: Sequence[int]) -> Iterable[_Hit]:
    """The matching passages, text by text, in the order in which they begin. counts: words of each text."""
    begins = np.ones(len(matches), np.bool_)
    begins[1:] = (
        (np.diff(matches.text) != 0)
        | (np.diff(matches.example) != 0)
        | (matches.position[1:] != matches.position[:-1] + 1)
    )
    first = np.flatnonzero(begins)
    ngrams = np.diff(first, append=len(matches))
    data, offsets = text_buffers(texts)
    of_text, bounds = -1, np.zeros((0, 2), np.int64)
    for run in np.lexsort((matches.example[first], matches.position[first], matches.text[first])).tolist():
        match = int(first[run])
        text, position = int(matches.text[match]), int(matches.position[match])
        if text != of_text:
            of_text, bounds = text, word_bounds(texts.slice(text, 1), counts[text])
        start, stop = int(bounds[position, 0]), int(bounds[position + ngrams[run] + matches.length[match] - 2, 1])
        passage = data[offsets[text] + start : offsets[text] + stop].tobytes().decode("utf-8", "replace")
        place = {"text": passage, "start": start, "length": stop - start, "ngrams": int(ngrams[run])}
        yield _Hit(text, int(matches.example[match]), place)


def _covered_words(matches: Matches, words: Words) -> list[int]:
    """How many words of each text stand in a matching n-gram."""
    begin = words.offsets[matches.text] + matches.position
    change = np.zeros(len(words.hashes) + 1, np.int64)
    np.add.at(change, begin, 1)
    np.add.at(change, begin + matches.length, -1)
    before = np.concatenate([[0], np.cumsum(np.cumsum(change[:-1]) > 0)])
    covered: list[int] = np.diff(before[words.offsets]).tolist()
    return covered


def _distinct_ngrams(matches: Matches, examples: int) -> dict[tuple[int, int], int]:
    """How many different n-grams of an example a text holds, by (text, example)."""
    pair = matches.text * examples + matches.example
    order = np.lexsort((matches.ngram, pair))
    pair, ngram = pair[order], matches.ngram[order]
    fresh = np.ones(len(pair), np.bool_)
    fresh[1:] = (np.diff(pair) != 0) | (np.diff(ngram) != 0)
    pairs, counts = np.unique(pair[fresh], return_counts=True)
    return {divmod(one, examples): count for one, count in zip(pairs.tolist(), counts.tolist(), strict=True)}


def _score_table(doc_ids: pa.ChunkedArray, found: dict[int, _Score]) -> pa.Table:
    count, rows = len(doc_ids), np.array(list(found), np.int64)
    share, hits = np.zeros(count), np.zeros(count, np.int64)
    share[rows], hits[rows] = [score.share for score in found.values()], [score.hits for score in found.values()]
    best: list[tuple[Any, ...]] = [(None, None, None)] * count
    for row, score in found.items():
        best[row] = score.best[2:]
    named = [pa.array(column, kind) for column, kind in zip(zip(*best, strict=True), _BEST, strict=False)]
    named = named or [pa.array([], kind) for kind in _BEST]
    return pa.table([doc_ids, share, hits, *named], schema=CONTAMINATION)


_BEST = [CONTAMINATION.field(name).type for name in ("evaluation_set", "example", "example_share")]


# -- what is counted ----------------------------------------------------------------------------------------------


def contamination_tally(documents: pa.Table, scores: pa.Table, hits: pa.Table, sets: Sequence[str]) -> dict[str, Any]:
    """Counts of one shard: documents, bytes, passages, contaminated documents in all and by set."""
    pairs = set(zip(hits["doc_id"].to_pylist(), hits["evaluation_set"].to_pylist(), strict=True))
    by_set = Counter(name for _, name in pairs)
    return {
        "documents_in": documents.num_rows,
        "documents_out": scores.num_rows,
        "bytes_in": int(text_bytes(documents["text"]).sum()),
        "contaminated_documents": int(np.count_nonzero(scores["hits"].to_numpy())),
        "passages": hits.num_rows,
        "documents_by_set": {name: by_set[name] for name in sets},
    }


def _nothing(sets: Iterable[str]) -> dict[str, Any]:
    documents = pa.table({"text": pa.array([], pa.large_string())})
    return contamination_tally(documents, CONTAMINATION.empty_table(), CONTAMINATION_HITS.empty_table(), list(sets))


def _examples_found(store: Store, shards: Sequence[Shard]) -> dict[str, dict[str, int]]:
    """By set, the examples that occur in any document, and those of which one document holds most."""
    columns = ["evaluation_set", "example", "example_share"]

    def best(hits: pa.Table) -> pa.Table:
        return hits.group_by(columns[:2]).aggregate([("example_share", "max")]).rename_columns(columns)

    shares = [best(read_table(store, shard.object, columns)) for shard in shards if shard.rows]
    if not shares:
        return {}
    whole = best(pa.concat_tables(shares))
    whole = whole.append_column("mostly", pc.greater_equal(whole["example_share"], MOSTLY))
    counted = whole.group_by("evaluation_set").aggregate([("example", "count"), ("mostly", "sum")])
    return {
        name: {"examples_found": found, "examples_mostly_found": mostly}
        for name, found, mostly in zip(*(column.to_pylist() for column in counted.columns), strict=True)
    }
