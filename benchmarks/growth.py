"""How time and memory of deduplication grow with the number of documents: 10,000, 100,000 and, if not quick, 1,000,000.

Part of `python -m benchmarks.dedup`. Documents are short (60 to 150 words), since what is measured must not grow with
text. Memory is anonymous memory (RssAnon of /proc/PID/status, every 20 ms, from outside) of the process that makes the
clusters from stored signatures, beyond what it holds before it begins. Maps of the signatures are not in it.
"""

import os
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from benchmarks.corpora import Corpus, short_english
from benchmarks.harness import REPEATS, Measurement
from benchmarks.peers import ROOT
from pipelines.store import Store

SIZES = (10_000, 100_000, 1_000_000)
SHARD_DOCUMENTS = 50_000
SAMPLING_SECONDS = 0.02
BYTES_PER_DOCUMENT = 200
LINEAR_WITHIN = 0.15


@dataclass(frozen=True)
class Growth:
    """What one size took. seconds: of signatures and clusters, one core; bytes: anonymous memory of the clusters."""

    documents: int
    signature_seconds: float
    cluster_seconds: float
    bytes: float

    @property
    def seconds(self) -> float:
        """Of both."""
        return self.signature_seconds + self.cluster_seconds


def measure_growth(quick: bool) -> list[Measurement]:
    """Bytes for each document beyond the smallest size, time per document beside that of a tenth as many documents, and
    memory with texts four times as long."""
    if not Path("/proc/self/status").exists():
        print("growth is left out: anonymous memory is read from /proc, which this system lacks", file=sys.stderr)
        return []
    sizes = SIZES[:2] if quick else SIZES
    repeats = 1 if quick else REPEATS
    grown = [grow(short_english(size), repeats) for size in sizes]
    found = []
    for one in grown[1:]:
        base = grown[0]
        further = (one.bytes - base.bytes) / (one.documents - base.documents)
        name = f"clusters, memory for each further document, {base.documents:,} to {one.documents:,}"
        found.append(Measurement(name, "our limit", further, BYTES_PER_DOCUMENT, "bytes/document", 1.0, True))
    for small, large in pairwise(grown):
        times = [1e6 * one.seconds / one.documents for one in (large, small)]
        name, peer = f"signatures and clusters, {large.documents:,} documents", f"{small.documents:,} documents"
        found.append(Measurement(name, peer, *times, "µs/document", 1 / (1 + LINEAR_WITHIN), True))
    if not quick:
        long = grow(short_english(sizes[1], times_as_long=4), repeats)
        name = f"clusters, memory, {long.documents:,} documents, texts four times as long"
        both = long.bytes / long.documents, grown[1].bytes / long.documents
        found.append(Measurement(name, "short texts", *both, "bytes/document", 0.95, True))
    return found


def grow(corpus: Corpus, repeats: int) -> Growth:
    """Signatures once, in a process of its own; then clusters from them, each time in a new one: medians."""
    documents = len(corpus.texts)
    with tempfile.TemporaryDirectory() as name:
        folder, copy = Path(name) / "store", Path(name) / "copy"
        version = corpus.stored(Store(folder), max(2, documents // SHARD_DOCUMENTS)).version.id
        signatures, _ = watched(folder, version, "signatures")
        runs = []
        for _ in range(repeats):
            shutil.copytree(folder, copy, copy_function=os.link)  # the result of one run must not be there in the next
            runs.append(watched(copy, version, "clusters"))
            shutil.rmtree(copy)
    seconds, sizes = zip(*runs, strict=True)
    return Growth(documents, signatures, statistics.median(seconds), statistics.median(sizes))


def watched(folder: Path, version: str, step: str) -> tuple[float, int]:
    """Seconds of one step and the most anonymous memory that its process had more than before, bytes."""
    command = [sys.executable, "-m", "benchmarks.growth_script", str(folder), version, step]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin and process.stdout
        if process.stdout.readline() != "ready\n":
            raise RuntimeError(f"{' '.join(command[2:4])} failed before it began; see above")
        before = peak = anonymous_bytes(process.pid)
        process.stdin.write("\n")
        process.stdin.flush()
        while not select.select([process.stdout], [], [], SAMPLING_SECONDS)[0]:
            peak = max(peak, anonymous_bytes(process.pid))
        said = process.stdout.readline()
        if not said:
            raise RuntimeError(f"{' '.join(command[2:4])} failed in the step {step!r}; see above")
    return float(said), peak - before


def anonymous_bytes(pid: int) -> int:
    """Memory of a process that no file stands behind. 0 where the process has just ended."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("RssAnon:"):
            return 1024 * int(line.split()[1])
    return 0
