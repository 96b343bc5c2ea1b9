"""What every benchmark shares: how a rate is measured, how results are written, and text to measure on.

What is measured stands in a module per subject, run as `python -m benchmarks.NAME [--quick] [--json]`.
"""

import argparse
import json
import statistics
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

REPEATS = 3


@dataclass(frozen=True)
class Measurement:
    """One line of a benchmark: we against a peer, or against what the machine can do, measured in the same run.

    ratio > 1: we are better. target: the ratio that we mean to reach. lower_is_better: for times and sizes.
    """

    name: str
    peer: str
    ours: float
    theirs: float
    unit: str
    target: float
    lower_is_better: bool = False
    ratio: float = field(init=False)

    def __post_init__(self) -> None:
        better, worse = (self.theirs, self.ours) if self.lower_is_better else (self.ours, self.theirs)
        object.__setattr__(self, "ratio", better / worse if worse else float("inf"))

    def record(self) -> dict[str, str | float]:
        """The line as JSON values; figures to four significant digits."""
        names = ("name", "peer", "ours", "theirs", "unit", "ratio", "target")
        values = asdict(self)
        return {n: float(f"{values[n]:.4g}") if isinstance(values[n], float) else values[n] for n in names}


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call; what must not count (compiling, loading) is to be done before."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def cpu_seconds(work: Callable[[], object]) -> float:
    """CPU time of one call, in this process: for machines that other work shares."""
    start = time.process_time()
    work()
    return time.process_time() - start


def median_seconds(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Median wall time of `repeats` calls."""
    return statistics.median(seconds(work) for _ in range(repeats))


def installed_texts(megabytes: float) -> list[str]:
    """Texts that any virtual environment holds: sources and notes of the installed packages, in order of their paths.

    Reads until `megabytes` (10^6 bytes of UTF-8) are reached, or everything there is.
    """
    texts: list[str] = []
    size = 0.0
    for path in _text_files(Path(sysconfig.get_path("purelib"))):
        text = path.read_text(encoding="utf-8", errors="ignore")
        if text:
            texts.append(text)
            size += len(text.encode()) / 1e6
        if size >= megabytes:
            break
    return texts


def main(measure: Callable[[bool], list[Measurement]], description: str) -> None:
    """Parse the command line, run `measure(quick)` and print a table, or JSON with --json."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="less text: ends within 50 s on 2 cores")
    parser.add_argument("--json", action="store_true", help="print a JSON list instead of a table")
    arguments = parser.parse_args()
    records = [measurement.record() for measurement in measure(arguments.quick)]
    if arguments.json:
        json.dump(records, sys.stdout, indent=2)
        print()
        return
    rows = [["name", "peer", "ours", "theirs", "unit", "ratio", "target"]]
    rows += [[str(value) for value in record.values()] for record in records]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _text_files(folder: Path) -> Iterator[Path]:
    suffixes = {".py", ".rst", ".txt", ".md"}
    return (path for path in sorted(folder.rglob("*")) if path.suffix in suffixes and path.is_file())
