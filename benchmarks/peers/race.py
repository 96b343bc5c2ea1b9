"""The whole deduplication stage, ours and the peers', on the same Parquet, timed and judged in the same way.

Everybody is a process of its own with two workers, timed from its start to its end: interpreter and imports, reading,
comparing, writing what stays. Ours reads and writes a store (zstd level 1, checksums, a decision for every document,
a record of every result); peers read the files of that store and write what they like. Our numba kernels lie compiled
in their cache, since `benchmarks/dedup.py` has used them all before.
"""

import json
import shutil
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from benchmarks.corpora import Corpus
from benchmarks.harness import REPEATS, Measurement
from benchmarks.peers import HERE, PEERS, ROOT, Peer, timed
from benchmarks.peers.truth import Pairs, precision, recall, similar_pairs
from pipelines.dataset import Dataset, Version, place_file
from pipelines.store import Store

SHARDS = 8
SAMPLE = 3000
SLOW_SECONDS = 60
TARGET_OF_LIMIT = 0.2
"""Within five times of reading and writing."""


@dataclass
class Runner:
    """One who deduplicates: seconds of each run, the ids that the last one kept."""

    seconds: list[float] = field(default_factory=list)
    inner: list[float] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)

    @property
    def median(self) -> float:
        """Median wall seconds."""
        return statistics.median(self.seconds)


def race(corpus: Corpus, quick: bool) -> list[Measurement]:
    """Ours against every peer whose environment is there, in turns, and against reading and writing.

    Three runs of each; a peer that takes longer than a minute runs once, and so does every peer where quick. A peer
    that fails is left out, and why is printed.
    """
    ready = [peer for peer in PEERS if peer.ready]
    for peer in PEERS:
        if peer not in ready:
            print(f"{peer.name} is left out: make its environment with python -m benchmarks.peers", file=sys.stderr)
    ours, limit, others = Runner(), Runner(), {peer: Runner() for peer in ready}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clean = corpus.stored(Store(folder / "store"), SHARDS)
        source = folder / "input"
        source.mkdir()
        for number, shard in enumerate(clean.shards("documents")):
            place_file(clean.store, shard.object, source / f"{number:05}.parquet")
        for turn in range(REPEATS):
            run_ours(ours, clean, folder / "copy")
            run_limit(limit, source, folder / "limit")
            for peer, runner in list(others.items()):
                if not turn or not (quick or runner.seconds[0] > SLOW_SECONDS):
                    try:
                        run_peer(peer, runner, corpus, source, folder / f"peer{turn}")
                    except RuntimeError as error:
                        print(f"{peer.name} is left out on {corpus.name}: {error}", file=sys.stderr)
                        del others[peer]
    what = f"{corpus.name}, {corpus.megabytes:.0f} MB"
    reading = f"reading and writing, {len(clean.shards('documents'))} files"
    inner = statistics.median(ours.inner), statistics.median(limit.inner)
    found = [
        Measurement(f"whole stage, {what}", reading, ours.median, limit.median, "s", TARGET_OF_LIMIT, True),
        Measurement(f"the same without start-up, {what}", reading, *inner, "s", TARGET_OF_LIMIT, True),
        *(
            Measurement(f"whole stage, {what}", peer.name, ours.median, runner.median, "s", peer.target, True)
            for peer, runner in others.items()
        ),
        *(
            Measurement(
                f"the same without start-up, {what}",
                peer.name,
                inner[0],
                statistics.median(runner.inner),
                "s",
                peer.target,
                True,
            )
            for peer, runner in others.items()
            if runner.inner
        ),
    ]
    return found + judged(corpus, ours, others, what)


def judged(corpus: Corpus, ours: Runner, others: dict[Peer, Runner], what: str) -> list[Measurement]:
    """Recall and precision (see `truth.py`) on a sample of the documents, compared with all."""
    texts = len(corpus.texts)
    sample = np.sort(np.random.default_rng(2).choice(texts, min(SAMPLE, texts), replace=False))
    pairs = similar_pairs(corpus.texts, corpus.language, sample)
    ids = corpus.documents["doc_id"].to_pylist()
    mine = removed(ids, ours)
    found = []
    for peer, runner in others.items():
        theirs = removed(ids, runner)
        for name, score in (("recall", recall), ("precision", precision)):
            marks = score(pairs, mine), score(pairs, theirs)
            found.append(Measurement(f"{name}, {what}", peer.name, *marks, "share", 1.0))
    return found or unrivalled(pairs, mine, what)


def unrivalled(pairs: Pairs, mine: npt.NDArray[np.bool_], what: str) -> list[Measurement]:
    """Our recall and precision where there is no peer: beside 1."""
    return [
        Measurement(f"{name}, {what}", "brute force", score(pairs, mine), 1.0, "share", 0.95)
        for name, score in (("recall", recall), ("precision", precision))
    ]


def removed(ids: list[str], runner: Runner) -> npt.NDArray[np.bool_]:
    """Which documents are not among those that the last run kept."""
    kept = set(runner.kept)
    return np.array([doc_id not in kept for doc_id in ids])


def run_ours(runner: Runner, clean: Dataset, folder: Path) -> None:
    """One run on a fresh copy of the store, so that no result is there before."""
    shutil.copytree(clean.store.root, folder)
    command = [sys.executable, "-m", "benchmarks.peers.corpusmill_script", str(folder), clean.version.id]
    seconds, printed = timed(command, ROOT)
    said = json.loads(printed)
    store = Store(folder)
    unique = Dataset("unique_documents", (Version.load(store, said["version"]),), store)
    runner.seconds.append(seconds)
    runner.inner.append(said["find"] + said["drop"])
    runner.kept = unique.table("documents")["doc_id"].to_pylist()
    shutil.rmtree(folder)


def run_limit(runner: Runner, source: Path, target: Path) -> None:
    """One run of reading and writing."""
    target.mkdir()
    command = [sys.executable, str(HERE / "read_write_script.py"), str(source), str(target)]
    seconds, printed = timed(command, target)
    runner.seconds.append(seconds)
    runner.inner.append(json.loads(printed)["copy"])
    shutil.rmtree(target)


def run_peer(peer: Peer, runner: Runner, corpus: Corpus, source: Path, target: Path) -> None:
    """One run of a peer."""
    target = target / peer.script
    target.mkdir(parents=True)
    seconds, printed = peer.run(source, target, corpus.language)
    runner.seconds.append(seconds)
    if peer.tells_seconds:
        runner.inner.append(float(printed))
    table = pq.read_table(target)
    runner.kept = table["id" if "id" in table.column_names else "doc_id"].to_pylist()
    shutil.rmtree(target)
