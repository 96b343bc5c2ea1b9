"""Label review: a sample of documents for people, and what their labels say about a score and its threshold.

Nothing here knows where documents or files live: who exports, imports and books the hours is `jobs/review.py`, how the
file for people looks `review_file.py`. The formulas stand in `statistics.py`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.filters.statistics import Estimate, Stratum, cohen_kappa, fleiss_kappa, of_all

EDGES: dict[str, list[float]] = {
    "toxicity": [step / 10 for step in range(1, 10)],
    "perplexity": [10, 31.6, 100, 316, 1000, 3160, 10_000, 31_600],
}
"""Where the bins of a score end that a sample takes equally of: each holds its upper edge, the last has none."""

Labels = Mapping[str, Mapping[str, bool]]
"""By annotator and document: whether it is to be dropped."""


@dataclass(frozen=True)
class Drawn:
    """A document of a sample. shard, row: where it stands among the documents that were scored."""

    doc_id: str
    source: str
    score: float
    shard: int
    row: int


@dataclass(frozen=True)
class Sample:
    """Documents for people, as many of every bin of a score.

    threshold: documents above it are dropped; it is an edge too, so that no bin is dropped in part. sizes: documents
    of each bin in the corpus. unscored: documents without a score, of which none is in the sample. versions: (asset,
    partition, version id) of the scores.
    """

    score: str
    threshold: float | None
    edges: tuple[float, ...]
    sizes: tuple[int, ...]
    unscored: int
    versions: tuple[tuple[str, str, str], ...]
    documents: tuple[Drawn, ...]

    def record(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> "Sample":
        """The inverse of `record`. Raises `KeyError` or `TypeError` where it is none."""
        lists = {name: tuple(record[name]) for name in ("edges", "sizes")}
        versions = tuple((asset, partition, version) for asset, partition, version in record["versions"])
        documents = tuple(Drawn(**one) for one in record["documents"])
        return cls(**{**record, **lists, "versions": versions, "documents": documents})

    def bin_of(self, score: float) -> int:
        """Number of the bin of a score."""
        return int(np.searchsorted(self.edges, score, side="left"))

    @property
    def bins(self) -> list[str]:
        """The bins in words."""
        ends = [f"{edge:g}" for edge in self.edges]
        return [f"to {ends[0]}", *(f"{low} to {high}" for low, high in pairwise(ends)), f"above {ends[-1]}"]


@dataclass
class Sampler:
    """Draws a sample shard by shard; holds no more than the sample.

    The documents of a bin with the lowest second halves of their ids: hashes, so they are a fair sample, the same
    ones for the same corpus, and neither of the two folds of the perplexity model (told by the first digit) is missed.
    """

    score: str
    threshold: float | None
    per_bin: int
    edges: list[float] = field(init=False)
    sizes: list[int] = field(init=False)
    unscored: int = 0
    _drawn: list[list[tuple[str, Drawn]]] = field(init=False)

    def __post_init__(self) -> None:
        self.edges = sorted({*EDGES[self.score], *([] if self.threshold is None else [self.threshold])})
        self.sizes = [0] * (len(self.edges) + 1)
        self._drawn = [[] for _ in self.sizes]

    def add(self, source: str, shard: int, scores: pa.Table, without: frozenset[str] = frozenset()) -> None:
        """The scores of a shard: columns doc_id and that of the score. without: documents not to be drawn."""
        found = np.asarray(pc.fill_null(scores[self.score], float("nan")), np.float64)
        bins = np.where(np.isnan(found), -1, np.searchsorted(self.edges, found, side="left"))
        self.unscored += int((bins < 0).sum())
        keys = pc.utf8_slice_codeunits(scores["doc_id"], 16)
        order = pc.sort_indices(keys).to_numpy() if len(keys) else np.zeros(0, np.int64)
        ordered = bins[order]
        for number in range(len(self.sizes)):
            rows = order[ordered == number]
            self.sizes[number] += len(rows)
            ids = scores["doc_id"].take(rows[: self.per_bin + len(without)]).to_pylist()
            drawn = [
                (doc_id[16:], Drawn(doc_id, source, float(found[row]), shard, int(row)))
                for doc_id, row in zip(ids, rows.tolist(), strict=False)
                if doc_id not in without
            ]
            best = sorted([*self._drawn[number], *drawn], key=lambda one: one[0])
            self._drawn[number] = best[: self.per_bin]

    def sample(self, versions: Sequence[tuple[str, str, str]]) -> Sample:
        """What was drawn, in an order that tells nothing of the scores."""
        drawn = sorted((one for bin in self._drawn for one in bin), key=lambda one: one[0])
        documents = tuple(document for _, document in drawn)
        sizes, edges = tuple(self.sizes), tuple(self.edges)
        return Sample(self.score, self.threshold, edges, sizes, self.unscored, tuple(versions), documents)


@dataclass(frozen=True)
class Agreement:
    """Of two annotators, over the documents that both have labelled."""

    annotators: tuple[str, str]
    documents: int
    kappa: float | None


@dataclass(frozen=True)
class Quality:
    """What a threshold is worth, over all scored documents. None: nothing is to be dropped, or nothing is dropped."""

    threshold: float
    dropped: int
    precision: Estimate | None
    recall: Estimate | None
    f1: Estimate | None


@dataclass(frozen=True)
class Review:
    """What the labels say. labelled: documents by annotator. tied: documents on which annotators are evenly split,
    which count nowhere. fleiss: of the documents with two labels and more. strata: by bin."""

    sample: Sample
    labelled: dict[str, int]
    tied: int
    cohen: list[Agreement]
    fleiss: float | None
    strata: list[Stratum]
    thresholds: list[Quality]

    @property
    def present(self) -> Quality | None:
        """What the threshold in force is worth; None where none is."""
        return next((one for one in self.thresholds if one.threshold == self.sample.threshold), None)

    @property
    def left_out(self) -> int:
        """Documents of bins without a label: the estimates know nothing of them."""
        return sum(stratum.documents for stratum in self.strata if not stratum.labelled)

    def record(self) -> dict[str, Any]:
        """JSON values."""
        bins = [
            {"bin": name, "documents": s.documents, "labelled": s.labelled, "positive": s.positive}
            for name, s in zip(self.sample.bins, self.strata, strict=True)
        ]
        return {
            "score": self.sample.score,
            "threshold": self.sample.threshold,
            "labelled": self.labelled,
            "tied": self.tied,
            "cohen_kappa": [asdict(one) for one in self.cohen],
            "fleiss_kappa": self.fleiss,
            "bins": bins,
            "documents_of_unlabelled_bins": self.left_out,
            "unscored": self.sample.unscored,
            "thresholds": [asdict(one) for one in self.thresholds],
            "present": asdict(self.present) if self.present else None,
        }


def review(sample: Sample, labels: Labels) -> Review:
    """What labels say about a sample, agreement and quality; any part of the sample may be labelled.

    A document is what most of its annotators say.
    """
    verdicts = verdicts_of(labels)
    cohen = []
    for first, second in combinations(sorted(labels), 2):
        both = [doc_id for doc_id in labels[first] if doc_id in labels[second]]
        said = [[labels[name][doc_id] for doc_id in both] for name in (first, second)]
        cohen.append(Agreement((first, second), len(both), cohen_kappa(*said)))
    votes = _votes(labels)
    positive, labelled = Counter[int](), Counter[int]()
    for document in sample.documents:
        verdict = verdicts.get(document.doc_id)
        if verdict is not None:
            labelled[sample.bin_of(document.score)] += 1
            positive[sample.bin_of(document.score)] += verdict
    counts = [(size, labelled[number], positive[number]) for number, size in enumerate(sample.sizes)]
    return Review(
        sample,
        {name: len(given) for name, given in sorted(labels.items())},
        sum(verdict is None for verdict in verdicts.values()),
        cohen,
        fleiss_kappa(list(votes.values())) if votes else None,
        [Stratum(*count, dropped=False) for count in counts],
        [_quality(counts, number, edge) for number, edge in enumerate(sample.edges)],
    )


def verdicts_of(labels: Labels) -> dict[str, bool | None]:
    """By document, what most annotators say; None where they are evenly split."""
    return {doc_id: None if no == yes else yes > no for doc_id, (no, yes) in _votes(labels).items()}


def _votes(labels: Labels) -> dict[str, list[int]]:
    """By document, how many annotators say that it stays, and that it goes."""
    votes: dict[str, list[int]] = {}
    for given in labels.values():
        for doc_id, label in given.items():
            votes.setdefault(doc_id, [0, 0])[label] += 1
    return votes


def _quality(counts: Sequence[tuple[int, int, int]], last_kept: int, threshold: float) -> Quality:
    strata = [Stratum(*count, number > last_kept) for number, count in enumerate(counts)]
    return Quality(threshold, sum(s.documents for s in strata if s.dropped), **of_all(strata))
