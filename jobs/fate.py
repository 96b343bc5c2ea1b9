"""What became of one document: what every stage decided, and the documents that it was compared with.

Documents are looked for by the columns of ids, a shard at a time, so memory is that of one shard and of two texts. Time
grows with the documents (ids of a source, until found; signatures of all, for the most similar one) and with those
removed (clusters of all sources), never with the text of the corpus. The files of the index are memory-mapped; from a
remote store they are downloaded.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ValidationError

from jobs.tables import STAGES
from pipelines.costs.ledger import Ledger
from pipelines.dataset import Version, dataset_name, read_table
from pipelines.dedup.index import Index
from pipelines.dedup.params import DedupParams
from pipelines.dedup.signatures import document_signatures
from pipelines.store import Store, StoreError
from pipelines.text.passages import Difference, differing_passages

SIGNATURES_AT_ONCE = 65_536


@dataclass(frozen=True)
class Place:
    """Where a document stands among the raw documents; doc_id is '' and shard -1 where there are only rejections."""

    source: str
    uri: str
    doc_id: str = ""
    shard: int = -1

    @property
    def told(self) -> str:
        """As people write it."""
        return f"{self.source}: {self.uri}"


@dataclass(frozen=True)
class Step:
    """What a stage decided. version: the one that is shown, '' where the asset was not made for this source. outcome:
    passed, dropped, not made, or not seen: that version was made without the document. stale: versions it was made from
    that are not current any more."""

    asset: str
    version: str
    outcome: str
    rule: str = ""
    value: float | None = None
    threshold: float | None = None
    detail: str | None = None
    stale: tuple[str, ...] = ()

    @property
    def stage(self) -> str:
        """The word for what the asset does."""
        return STAGES[self.asset]

    def record(self) -> dict[str, Any]:
        """The step as JSON values."""
        return {"stage": self.stage, **vars(self), "stale": list(self.stale)}


@dataclass(frozen=True)
class Resemblance:
    """Another document, and how similar it is. similarity: as recorded, or estimated from the signatures. jaccard: of
    the sets of shingles, computed from both texts; None where a text is gone or neither has shingles."""

    doc_id: str
    source: str
    uri: str
    level: str
    similarity: float
    jaccard: float | None
    difference: Difference | None = None

    @property
    def told(self) -> str:
        """As people write it."""
        return f"{self.source}: {self.uri or '(gone)'} ({self.doc_id})"

    def record(self, passages: int) -> dict[str, Any]:
        """The resemblance as JSON values, with so many of the differing passages."""
        told = {key: value for key, value in vars(self).items() if key != "difference"}
        if self.difference is not None:
            shown = [vars(passage) | {} for passage in self.difference.passages[:passages]]
            told["passages"] = {"count": len(self.difference.passages), "whole": self.difference.whole, "shown": shown}
        return told


@dataclass(frozen=True)
class Removed:
    """The documents that were removed in favour of one that stays."""

    count: int
    by_level: dict[str, int]
    most: Resemblance
    least: Resemblance


@dataclass(frozen=True)
class Fate:
    """All that is known of a document.

    size: bytes of its text, as read and after cleaning. characters: of the cleaned text, where it got so far. rejects:
    reason and detail of bad input at its uri. why: why the nearest other document that stays is no duplicate, or why
    none is named.
    """

    place: Place
    language: str | None = None
    size: tuple[int, int | None] = (0, None)
    characters: int = 0
    rejects: tuple[tuple[str, str | None], ...] = ()
    steps: tuple[Step, ...] = ()
    scores: dict[str, dict[str, Any]] = field(default_factory=dict)
    config: DedupParams | None = None
    kept_instead: Resemblance | None = None
    removed: Removed | None = None
    nearest: Resemblance | None = None
    why: str = ""


class Corpus:
    """The current versions of a ledger, and the rows that their tables hold about a document."""

    def __init__(self, ledger: Ledger, store: Store) -> None:
        self.store = store
        self._current = {(p.asset, p.partition): p.version for p in ledger.all_current()}
        self.version = cache(lambda version_id: Version.load(store, version_id))

    def current(self, asset: str, partition: str = "") -> Version | None:
        """The current version, None where the asset was not made."""
        version_id = self._current.get((asset, partition))
        return self.version(version_id) if version_id else None

    def pinned(self, version: Version, asset: str, partition: str = "") -> Version:
        """The version of an asset that a version was made from."""
        pins = {(name, source): pin for name, source, pin in version.inputs}
        return self.version(pins[asset, partition])

    def stale(self, version: Version) -> Iterator[str]:
        """What a version was made from, directly or through assets that are no stage, that is not current any more."""
        for asset, partition, pin in version.inputs:
            now = self._current.get((asset, partition), pin)
            if now != pin:
                yield f"{dataset_name(asset, partition)}@{pin}, not the current @{now}"
            elif asset not in STAGES:
                yield from self.stale(self.version(pin))

    def tables(
        self, version: Version, part: str, columns: Sequence[str], near: int = 0
    ) -> Iterator[tuple[int, pa.Table]]:
        """Number and columns of every shard that has rows, the one numbered `near` first."""
        shards = version.parts[part].shards if part in version.parts else ()
        for number in sorted(range(len(shards)), key=lambda number: number != near):
            if shards[number].rows:
                yield number, read_table(self.store, shards[number].object, columns)

    def row(
        self, version: Version, part: str, doc_id: str, columns: Sequence[str], near: int = 0
    ) -> dict[str, Any] | None:
        """What a part says about a document. near: the number of the shard in which it is looked for first."""
        for number, ids in self.tables(version, part, ["doc_id"], near):
            row = pc.index(ids["doc_id"], pa.scalar(doc_id, pa.large_string())).as_py()
            if row >= 0:
                shard = version.parts[part].shards[number]
                return read_table(self.store, shard.object, columns).slice(row, 1).to_pylist()[0]
        return None

    def document(self, version: Version, doc_id: str, near: int = 0) -> dict[str, Any] | None:
        """The uri, text and language of a document; None where it is not in the version, or its bytes are gone."""
        try:
            return self.row(version, "documents", doc_id, ["uri", "text", "language"], near)
        except StoreError:
            return None


def fate_of(place: Place, corpus: Corpus) -> Fate:
    """The fate of a document, or of a rejected record. Raises `StoreError` where a current version is not whole."""
    raw = corpus.current("raw_documents", place.source)
    assert raw is not None  # the place was found in it
    rejects = tuple(_rejects(place, raw, corpus))
    if not place.doc_id:
        dropped = Step("raw_documents", raw.id, "dropped", rejects[0][0], detail=rejects[0][1])
        return Fate(place, rejects=rejects, steps=(dropped,))
    read = corpus.row(raw, "documents", place.doc_id, ["uri", "text", "language"], place.shard)
    assert read is not None
    steps = tuple(_steps(place, raw, corpus))
    made = {step.asset: corpus.version(step.version) for step in steps if step.outcome in ("passed", "dropped")}
    unique = made.get("unique_documents")
    clean = corpus.pinned(unique, "clean_documents", place.source) if unique else made.get("clean_documents")
    cleaned = corpus.document(clean, place.doc_id, place.shard) if clean else None
    size = len(read["text"].encode()), len(cleaned["text"].encode()) if cleaned else None
    read = cleaned or read
    story: dict[str, Any] = {}
    if unique:
        try:
            clusters = corpus.pinned(unique, "duplicate_clusters")
            story = _Duplicates(place, cleaned["text"] if cleaned else None, clusters, corpus).story()
        except (StoreError, ValidationError) as error:  # gc took an older version's bytes, or another release made it
            reason = error if isinstance(error, StoreError) else "another release made the clusters; run it all again"
            story = {"why": f"What it was compared with can't be told: {reason}."}
    scores = _scores(place, made.get("filtered_documents"), corpus)
    return Fate(place, read["language"], size, len(read["text"]), rejects, steps, scores, **story)


def _rejects(place: Place, raw: Version, corpus: Corpus) -> Iterator[tuple[str, str | None]]:
    for _, table in corpus.tables(raw, "rejects", ["uri", "reason", "detail"]):
        for row in table.filter(pc.equal(table["uri"], place.uri)).to_pylist():
            yield row["reason"], row["detail"]


def _steps(place: Place, raw: Version, corpus: Corpus) -> Iterator[Step]:
    yield Step("raw_documents", raw.id, "passed")
    fallen = False
    columns = ["keep", "rule", "value", "threshold", "detail"]
    for asset in list(STAGES)[1:]:
        version = corpus.current(asset, place.source)
        if version is None:
            if not fallen:
                yield Step(asset, "", "not made")
            continue
        stale = tuple(dict.fromkeys(corpus.stale(version)))
        decision = corpus.row(version, "decisions", place.doc_id, columns, place.shard)
        if decision is not None:
            outcome = "passed" if decision.pop("keep") else "dropped"
            fallen = fallen or outcome == "dropped"
            yield Step(asset, version.id, outcome, **decision, stale=stale)
        elif not fallen:
            yield Step(asset, version.id, "not seen", stale=stale)


def _scores(place: Place, filtered: Version | None, corpus: Corpus) -> dict[str, dict[str, Any]]:
    """Scores that filtering read, or would read, each with the limits where it was made."""
    limits = filtered.stats["limits"] if filtered else {}
    told: dict[str, dict[str, Any]] = {}
    for asset, part, columns in (
        ("toxicity_scores", "toxicity", ["toxicity", "scorer"]),
        ("perplexity_scores", "perplexity", ["perplexity", "bits_per_byte", "tokens"]),
        ("contamination_scores", "contamination", ["contamination", "hits", "evaluation_set", "example"]),
    ):
        # of a version older than these scores, what is known of the document today
        pinned = filtered and any(pin[:2] == (asset, place.source) for pin in filtered.inputs)
        version = corpus.pinned(filtered, asset, place.source) if pinned else corpus.current(asset, place.source)
        score = version and corpus.row(version, part, place.doc_id, columns, place.shard)
        if version and score:
            bounds = {bound: limits.get(f"{bound}_{part}") for bound in ("min", "max")}
            told[part] = score | {key: value for key, value in bounds.items() if value is not None}
            told[part]["version"] = version.id
            if filtered and part == "perplexity":
                told[part]["languages"] = list(limits["languages"])
                bucket = corpus.row(filtered, "buckets", place.doc_id, ["bucket"], place.shard)
                told[part] |= bucket or {}
    return told


# -- duplicates -----------------------------------------------------------------------------------------------------


class _Duplicates:
    """What a version of the clusters says about a document, and what can be computed from its texts and index."""

    def __init__(self, place: Place, text: str | None, clusters: Version, corpus: Corpus) -> None:
        self._place, self._text, self._clusters, self._corpus = place, text, clusters, corpus
        self._config = DedupParams.model_validate(clusters.stats["parameters"])

    def story(self) -> dict[str, Any]:
        """The fields of `Fate` that tell of other documents."""
        columns = ["kept_id", "kept_source", "level", "similarity"]
        row = self._corpus.row(self._clusters, "clusters", self._place.doc_id, columns)
        if row is not None:
            kept = self._resemblance(row["kept_id"], row["kept_source"], row["level"], row["similarity"], diff=True)
            return {"config": self._config, "kept_instead": kept}
        nearest, why = self._nearest()
        if self._place.source in self._config.against:
            why = "Its source is one that the others are only compared with (dedup.against). " + why
        return {"config": self._config, "removed": self._in_its_favour(), "nearest": nearest, "why": why.strip()}

    def _resemblance(
        self, doc_id: str, source: str, level: str, similarity: float, *, near: int = 0, diff: bool = False
    ) -> Resemblance:
        clean = self._corpus.pinned(self._clusters, "clean_documents", source)
        other = self._corpus.document(clean, doc_id, near)
        if other is None or self._text is None:
            return Resemblance(doc_id, source, other["uri"] if other else "", level, similarity, None)
        shared = jaccard(self._text, other["text"], self._config)
        difference = differing_passages(self._text, other["text"]) if diff else None
        return Resemblance(doc_id, source, other["uri"], level, similarity, shared, difference)

    def _in_its_favour(self) -> Removed | None:
        columns = ["doc_id", "source", "kept_id", "level", "similarity"]
        tables = [
            table.filter(pc.equal(table["kept_id"], self._place.doc_id))
            for _, table in self._corpus.tables(self._clusters, "clusters", columns)
        ]
        if not sum(map(len, tables)):
            return None
        rows = pa.concat_tables(tables).sort_by([("similarity", "descending"), ("doc_id", "ascending")])
        most, least = (
            self._resemblance(row["doc_id"], row["source"], row["level"], row["similarity"])
            for row in rows.take([0, len(rows) - 1]).to_pylist()
        )
        return Removed(len(rows), dict(Counter(rows["level"].to_pylist())), most, least)

    def _nearest(self) -> tuple[Resemblance | None, str]:
        """The most similar other document that is not removed, and why it is no duplicate; why there is none."""
        stats = self._clusters.stats
        files = self._clusters.parts["index"].shards if "index" in self._clusters.parts else ()
        if not self._config.minhash or not files:
            return None, "Without signatures (dedup.minhash) the most similar other document is not known."
        places = [(name, number) for name in stats["sources"] for number in range(stats["shards"][name])]
        own = self._own_signature(places)
        if own is None:
            return None, "It has no words to be compared by."
        best, found = 0, None
        gone = self._clusters.parts["clusters"].shards
        for where, file, removed in zip(places, files, gone, strict=True):
            index = self._open(file.object)
            if not len(index):
                continue
            ids = index.column("doc_id")
            equal = _equal_values(next(index.minhash()), own)
            out = read_table(self._corpus.store, removed.object, ["doc_id"])["doc_id"].combine_chunks()
            equal[pc.is_in(ids, value_set=out).to_numpy()] = 0
            equal[pc.equal(ids, self._place.doc_id).to_numpy() | (index.numbers("shingles") == 0)] = 0
            row = int(np.argmax(equal))
            if equal[row] > best:
                best, found = int(equal[row]), (where, ids[row].as_py(), next(index.minhash())[row].copy())
        if found is None:
            return None, f"No other document that stays has any of its {len(own)} signature values: none is like it."
        (source, shard), doc_id, signature = found
        nearest = self._resemblance(doc_id, source, "minhash", best / len(own), near=shard)
        return nearest, self._why(nearest, own, signature)

    def _own_signature(self, places: Sequence[tuple[str, int]]) -> npt.NDArray[np.uint32] | None:
        files = zip(places, self._clusters.parts["index"].shards, strict=True)
        for _, file in sorted(files, key=lambda file: file[0] != (self._place.source, self._place.shard)):
            index = self._open(file.object)
            row = pc.index(index.column("doc_id"), pa.scalar(self._place.doc_id, pa.large_string())).as_py()
            if row >= 0:
                return next(index.minhash())[row].copy() if index.numbers("shingles")[row] else None
        return None

    def _open(self, file: str) -> Index:
        return Index.open([self._corpus.store.path(file)])

    def _why(self, nearest: Resemblance, own: npt.NDArray[np.uint32], other: npt.NDArray[np.uint32]) -> str:
        config, banding = self._config, self._config.banding
        assert banding is not None
        by_sets = config.verify == "shingles" and nearest.jaccard is not None
        similarity = nearest.jaccard if by_sets and nearest.jaccard is not None else nearest.similarity
        if similarity < config.threshold:
            return f"Similarity {similarity:.3f}, below {config.threshold:g}."
        told = f"Similarity {similarity:.3f}, not below {config.threshold:g}, "
        used = banding.bands * banding.rows
        if not (own[:used] == other[:used]).reshape(banding.bands, banding.rows).all(axis=1).any():
            share = banding.candidate_probability(similarity)
            return (
                told + f"but no band of the signatures is the same: LSH finds {share:.1%} of such pairs, not this one."
            )
        if {self._place.source, nearest.source} <= set(config.against):
            return told + "but sources in dedup.against are not compared with one another."
        if config.append_only:
            return told + "but an earlier version kept both (dedup.append_only)."
        return told + f"but others of their buckets came first (dedup.bucket_limit {config.bucket_limit})."


def _equal_values(signatures: npt.NDArray[np.uint32], own: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    """How many values of each signature are those of one: every signature is looked at."""
    slices = range(0, len(signatures), SIGNATURES_AT_ONCE)
    return np.concatenate([(signatures[i : i + SIGNATURES_AT_ONCE] == own).sum(axis=1) for i in slices])


def jaccard(left: str, right: str, config: DedupParams) -> float | None:
    """Jaccard similarity of the sets of shingles that parameters make of two texts; None where both are empty."""
    sets = config.model_copy(update={"minhash": True, "verify": "shingles", "permutations": 16})
    table = pa.table({"doc_id": ["left", "right"], "text": pa.array([left, right], pa.large_string())})
    rows = document_signatures(table, sets)[0]["shingle_set"]
    ours, theirs = (np.asarray(row.values) for row in rows)
    shared = len(np.intersect1d(ours, theirs, assume_unique=True))
    together = len(ours) + len(theirs) - shared
    return shared / together if together else None
