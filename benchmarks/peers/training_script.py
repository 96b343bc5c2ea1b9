"""Our training of an n-gram model as a process of its own, to be measured beside lmplz.

`python -m benchmarks.peers.training_script TEXT FOLDER MEGABYTES`: reads a document per line, leaves the files of the
model in the folder, and prints what it took as JSON (`lmplz.Training`); compiled code is loaded before that.
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from pipelines.filters.perplexity.ngram_training import NgramTrainer
from pipelines.processes import own_peak_bytes

BYTES_AT_ONCE = 1_000_000


def main(text: Path, folder: Path, megabytes: float) -> None:
    """Train as the stage does by default, within so much memory for sorting."""
    warm_up = NgramTrainer(5, 500_000, 2, 10)
    warm_up.add(pa.array(["a few words to load the compiled code"]))
    warm_up.estimate()
    before, start = own_peak_bytes(), time.process_time()
    trainer = NgramTrainer(5, 500_000, 2, megabytes, folder)
    for documents in _documents(text):
        trainer.add(documents)
    trainer.estimate()
    seconds = time.process_time() - start
    print(json.dumps({"cpu_seconds": seconds, "megabytes": (own_peak_bytes() - before) / 1e6}))


def _documents(text: Path) -> Iterator[pa.Array]:
    with text.open(encoding="utf-8") as file:
        while lines := file.readlines(BYTES_AT_ONCE):
            yield pa.array(lines, pa.large_string())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]))
