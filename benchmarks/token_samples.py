"""What training reads: samples at random, of few shards and of many, and a resume at sample 10⁹ of a generated index.

Run `python -m benchmarks.token_samples [--quick] [--json]`. Correctness is tested in tests/pipelines/tokens.
"""

import itertools
import json
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.harness import REPEATS, Measurement, main, median_seconds
from pipelines.tokens.layout import order_bytes
from pipelines.tokens.training_dataset import BlendDataset

SEQUENCE_LENGTH = 2048
MEAN_DOCUMENT = 600
"""Tokens, of a log-normal distribution as wide as that of web pages."""

GROUPS = {"web": 0.7, "books": 0.2, "code": 0.1, "rare": 6e-9}
"""Shares of the tokens; the rare group gives five of the 10⁹ samples of `resume`."""

ASKED_TOKENS = 5e6
"""Tokens per second of one worker below which a loader can be what training waits for."""

RESUMED_AT = 10**9

RESUME = """
import json, sys, time
from pathlib import Path
from pipelines.tokens.training_dataset import BlendDataset
started = time.perf_counter()
data = BlendDataset(Path(sys.argv[1]), "train", int(sys.argv[2]))
for index in range(int(sys.argv[3]), int(sys.argv[3]) + 256):
    data.read(index)
seconds = time.perf_counter() - started
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps([seconds, int(peak.split()[1]) / 1024]))
"""


def measure(quick: bool) -> list[Measurement]:
    """Tokens per second of one worker; seconds and megabytes until a training that goes on at sample 10⁹ reads it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        small = generated(folder / "small", shards=4, tokens=5_000_000 if quick else 50_000_000, planned=10**10)
        many = generated(folder / "many", shards=1000, tokens=20_000 if quick else 200_000, planned=10**10)
        large = generated(folder / "large", shards=3, tokens=300_000_000, planned=11 * 10**9, written=False)
        return [
            *random_access("random access", small, 200 if quick else 1000),
            *random_access("random access, 1,000 shards", many, 3000),
            *resume(large),
        ]


def generated(folder: Path, shards: int, tokens: int, planned: int, *, written: bool = True) -> Path:
    """A blend of token shards of so many tokens each. written: with ids in them, else they take no disk."""
    folder.mkdir()
    draw = np.random.default_rng(0)
    told = []
    for number in range(shards):
        stem = f"shard{number}"
        lengths = np.maximum(1, draw.lognormal(np.log(MEAN_DOCUMENT) - 0.72, 1.2, tokens // MEAN_DOCUMENT).astype(int))
        lengths[-1] += max(0, tokens - int(lengths.sum()))
        size = int(lengths.sum())
        if written:
            draw.integers(0, 50_000, size, np.uint16).tofile(folder / f"{stem}.bin")
        else:
            with (folder / f"{stem}.bin").open("wb") as file:
                file.truncate(2 * size)
        order = draw.permutation(len(lengths))
        bounds = np.linspace(0, len(lengths), len(GROUPS) + 1).astype(int).tolist()
        runs = [slice(first, after) for first, after in itertools.pairwise(bounds)]
        ends = [np.cumsum(lengths[order[run]]) for run in runs]
        starts = np.cumsum(lengths) - lengths
        (folder / f"{stem}.order").write_bytes(order_bytes(starts[order], np.concatenate(ends)))
        told.append(
            {
                "bin": f"{stem}.bin",
                "idx": f"{stem}.idx",
                "order": f"{stem}.order",
                "documents": len(lengths),
                "tokens": size,
                "groups": {
                    group: [run.start, run.stop - run.start, int(end[-1])]
                    for group, run, end in zip(GROUPS, runs, ends, strict=True)
                },
                "validation": [len(lengths), 0, 0],
            }
        )
    groups = [{"name": group, "planned_tokens": int(share * planned)} for group, share in GROUPS.items()]
    content = {"version": 2, "dtype": "uint16", "vocabulary_size": 50_000, "bos_id": None, "eos_id": 0, "pad_id": 1}
    content |= {"seed": 0, "packing": "concatenate", "sequence_length": None, "groups": groups, "shards": told}
    (folder / "blend.json").write_text(json.dumps(content))
    return folder


def random_access(told: str, corpus: Path, count: int) -> list[Measurement]:
    """Whole samples (inputs, labels, positions) at random indices, beside slices of one mapped file.

    Files are mapped before: the same samples are read once without being timed.
    """
    found = []
    flat = np.memmap(max(corpus.glob("*.bin")), dtype="<u2", mode="r")
    draw = random.Random(0)
    for attention in ("sample", "document"):
        data = BlendDataset(corpus, "train", SEQUENCE_LENGTH, attention=attention)
        indices = [draw.randrange(len(data)) for _ in range(count)]
        starts = [draw.randrange(len(flat) - SEQUENCE_LENGTH - 1) for _ in range(count)]
        for index in indices:
            data[index]
        ours = count * SEQUENCE_LENGTH / median_seconds(lambda: [data[index] for index in indices])  # noqa: B023
        theirs = (
            count
            * SEQUENCE_LENGTH
            / median_seconds(
                lambda: [flat[start : start + SEQUENCE_LENGTH + 1].astype(np.int64) for start in starts]  # noqa: B023
            )
        )
        name = f"{told}, samples of {SEQUENCE_LENGTH} tokens, attention within a {attention}"
        found.append(Measurement(name, "what is asked for", ours / 1e6, ASKED_TOKENS / 1e6, "M tokens/s/worker", 1.0))
        found.append(Measurement(name, "slices of a memory map", ours / 1e6, theirs / 1e6, "M tokens/s", 0.05))
    return found


def resume(corpus: Path) -> list[Measurement]:
    """A process of its own that reads 256 samples from sample 10⁹ on: its time after imports, its memory (Linux)."""
    length = 11
    command = [sys.executable, "-c", RESUME, str(corpus), str(length), str(RESUMED_AT - 1000)]
    told = [json.loads(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(REPEATS)]
    seconds, megabytes = map(statistics.median, zip(*told, strict=True))
    name = f"resume at sample {RESUMED_AT:.0e} of 3 × 300M tokens"
    return [
        Measurement(f"{name}: open and read 256", "what is asked for", seconds, 1.0, "s", 1.0, lower_is_better=True),
        Measurement(
            f"{name}: memory of the process", "what is asked for", megabytes, 200.0, "MB", 1.0, lower_is_better=True
        ),
    ]


if __name__ == "__main__":
    main(measure, __doc__ or "")
