"""One step of deduplication in a process of its own, which is watched from outside by `growth.py`.

`python -m benchmarks.growth_script STORE VERSION signatures|clusters`. Loads all code and runs the step on a few
documents, prints "ready", waits for a line, does the step on the documents of the version and prints its seconds.
"""

import sys
import tempfile
import time

from benchmarks.corpora import Corpus, composed
from pipelines.dataset import Dataset, Version
from pipelines.dedup.clusters import find_duplicates
from pipelines.dedup.params import DedupParams
from pipelines.dedup.signatures import signature_tasks
from pipelines.engines.local import Engine
from pipelines.store import Store


def main(folder: str, version: str, step: str) -> None:
    """The step on one worker, which is this process, so that all of its memory is seen."""
    sentences = [f"sentence {number} is here to have all code loaded" for number in range(50)]
    few = Corpus("few", "en", composed(sentences, 100, 700, "\n"))
    with tempfile.TemporaryDirectory() as small:
        take(few.stored(Store(small), 2), "clusters")
    store = Store(folder)
    clean = Dataset("clean_documents", (Version.load(store, version),), store)
    print("ready", flush=True)
    sys.stdin.readline()
    start = time.perf_counter()
    take(clean, step)
    print(time.perf_counter() - start, flush=True)


def take(clean: Dataset, step: str) -> None:
    """Signatures only, or clusters: with signatures if these are not stored yet."""
    engine = Engine(clean.store, workers=1)
    if step == "signatures":
        engine.map(signature_tasks(clean, DedupParams()))
    else:
        find_duplicates(clean, DedupParams(), engine)


if __name__ == "__main__":
    main(*sys.argv[1:])
