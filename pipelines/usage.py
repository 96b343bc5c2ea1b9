"""What this process tree has used: CPU, memory, I/O and GPUs.

How processes and GPUs are looked at stands in `pipelines/processes.py` and `pipelines/gpus.py`; what a quantity
costs in `pipelines/prices/`; who pays in `pipelines/costs/`. Linux is exact; elsewhere (macOS) live descendants are
seen through psutil, what *they* waited for is not seen until they end, and I/O reads as zero.
"""

import math
import os
import resource
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from decimal import Decimal
from typing import Any

from pipelines.gpus import GpuSampler
from pipelines.processes import LINUX, Process, age_seconds, descendants, look, own_peak_bytes


@dataclass(frozen=True)
class Usage:
    """Quantities used; never negative. Readings of one process subtract, uses of several processes add.

    cpu_seconds: user and system time over all cores. outside_cpu_seconds: the part of it that other machines worked, as
    they told; no reading of this process tree holds it. wall_seconds: time passed (added up over what is added).
    gpu_seconds: by NVML device name, seconds held, over all devices of the name. gpu_joules: by device name, energy
    measured while held; gpu_seconds_without_energy: the part of gpu_seconds for which no energy was measured.
    peak_memory_bytes: see `UsageReader`; sums and differences keep the larger, respectively the later, peak.
    read_bytes, written_bytes: what storage was asked for; reads that the page cache answered don't count.
    bought: what people and paid services gave, by item ('person-hours', 'calls of …'), in the item's unit; bought_usd:
    what was paid for it, a fact that no price book changes.
    """

    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    gpu_seconds: Mapping[str, float] = field(default_factory=dict)
    gpu_joules: Mapping[str, float] = field(default_factory=dict)
    gpu_seconds_without_energy: Mapping[str, float] = field(default_factory=dict)
    peak_memory_bytes: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    outside_cpu_seconds: float = 0.0
    bought: Mapping[str, float] = field(default_factory=dict)
    bought_usd: Mapping[str, Decimal] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            for number in value.values() if isinstance(value, dict) else [value]:
                if not (math.isfinite(number) and number >= 0):
                    raise ValueError(f"usage can't be negative or infinite, and {name} is {value}")
        if set(self.bought) != set(self.bought_usd):
            raise ValueError(
                f"what was bought ({', '.join(self.bought)}) and paid for ({', '.join(self.bought_usd)}) differ"
            )

    def __add__(self, other: "Usage") -> "Usage":
        return self._combine(other, 1, max(self.peak_memory_bytes, other.peak_memory_bytes))

    def __sub__(self, earlier: "Usage") -> "Usage":
        """What was used between an earlier reading of the same process and this one.

        Raises `ValueError` if `earlier` is not earlier.
        """
        return self._combine(earlier, -1, self.peak_memory_bytes)

    def record(self) -> dict[str, Any]:
        """The usage as JSON values; dollars as text, so that they stay exact."""
        return {**asdict(self), "bought_usd": {item: str(usd) for item, usd in self.bought_usd.items()}}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Usage":
        """The usage of a record; quantities that an older record lacks are zero, unknown ones raise `ValueError`."""
        unknown = set(record) - {one.name for one in fields(cls)}
        if unknown:
            raise ValueError(
                f"a usage record has quantities that this version can't count: {', '.join(sorted(unknown))}"
            )
        usd = {item: Decimal(usd) for item, usd in record.get("bought_usd", {}).items()}
        return cls(**{**record, "bought_usd": usd})

    def _combine(self, other: "Usage", sign: int, peak_memory_bytes: int) -> "Usage":
        def sum_of(ours: float, theirs: float) -> float:
            total = ours + sign * theirs
            return 0.0 if -1e-6 < total < 0 else total  # less than a microsecond is the rounding of floats

        def by_name(ours: Mapping[str, float], theirs: Mapping[str, float]) -> dict[str, float]:
            return {name: sum_of(ours.get(name, 0.0), theirs.get(name, 0.0)) for name in sorted({*ours, *theirs})}

        return Usage(
            cpu_seconds=sum_of(self.cpu_seconds, other.cpu_seconds),
            wall_seconds=sum_of(self.wall_seconds, other.wall_seconds),
            gpu_seconds=by_name(self.gpu_seconds, other.gpu_seconds),
            gpu_joules=by_name(self.gpu_joules, other.gpu_joules),
            gpu_seconds_without_energy=by_name(self.gpu_seconds_without_energy, other.gpu_seconds_without_energy),
            peak_memory_bytes=peak_memory_bytes,
            read_bytes=self.read_bytes + sign * other.read_bytes,
            written_bytes=self.written_bytes + sign * other.written_bytes,
            outside_cpu_seconds=sum_of(self.outside_cpu_seconds, other.outside_cpu_seconds),
            bought=by_name(self.bought, other.bought),
            bought_usd={
                item: self.bought_usd.get(item, Decimal(0)) + sign * other.bought_usd.get(item, Decimal(0))
                for item in sorted({*self.bought_usd, *other.bought_usd})
            },
        )


class UsageReader:
    """Reads what this process tree has used since this process started. Readings never go backwards.

    CPU time is `getrusage` of this process and of the children it waited for, plus every live or unreaped
    descendant's own and waited-for time. A process that ends between two looks of one reading is missed by that
    reading and caught by the next; none is counted twice. Resolution: a live descendant is at most four clock ticks
    (0.04 s) short, everything else is exact. Out of sight: children of a process that ignores SIGCHLD
    (the kernel drops their times), orphans unless `become_subreaper` was called first, and other machines.

    peak_memory_bytes is counted from the making of the reader: the largest sum, over readings, of the resident
    memory of the tree (pages that processes share count once in each), or a larger high-water mark that this
    process or one ended child set meanwhile (getrusage, VmHWM). One reader may be read from several threads.
    """

    def __init__(self, gpus: GpuSampler | None = None) -> None:
        """gpus: what samples the GPUs (`pipelines.gpus.open_gpus`); without it no GPU time is read."""
        self._gpus = gpus
        self._lock = threading.Lock()
        self._last = Usage()
        self._own_mark, self._ended_mark = own_peak_bytes(), _ended_peak_bytes()
        self.read()

    def read(self) -> Usage:
        """The usage up to now. Takes about 0.1 ms, and 0.04 ms more for each descendant (benchmarks/metering.py)."""
        with self._lock:
            # The tree is read from the top down: a child that is waited for meanwhile is then missed, never doubled.
            ended = resource.getrusage(resource.RUSAGE_CHILDREN)
            own = resource.getrusage(resource.RUSAGE_SELF)
            pid = os.getpid()
            ours = look(pid) or Process(0, 0, 0.0, 0, 0, 0)
            tree = descendants(pid)
            processes = [ours, *tree.values()]
            if self._gpus is not None:
                self._gpus.sample({pid, *tree}, time.monotonic())
            cpu_seconds = own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime
            cpu_seconds += sum(process.cpu_seconds for process in tree.values())
            last = self._last
            self._last = Usage(
                cpu_seconds=max(last.cpu_seconds, cpu_seconds),
                wall_seconds=max(last.wall_seconds, age_seconds()),
                gpu_seconds=dict(self._gpus.seconds) if self._gpus else {},
                gpu_joules=dict(self._gpus.joules) if self._gpus else {},
                gpu_seconds_without_energy=dict(self._gpus.seconds_without_energy) if self._gpus else {},
                peak_memory_bytes=max(last.peak_memory_bytes, self._peak(processes)),
                read_bytes=max(last.read_bytes, sum(process.read_bytes for process in processes)),
                written_bytes=max(last.written_bytes, sum(process.written_bytes for process in processes)),
            )
            return self._last

    def _peak(self, processes: Iterable[Process]) -> int:
        peak = sum(process.resident_bytes for process in processes)
        own, ended = own_peak_bytes(), _ended_peak_bytes()
        if own > self._own_mark:
            peak = max(peak, own)
        # Between fork and exec a child shows its parent's mark: only a higher one is certainly the child's own.
        if ended > max(self._ended_mark, own):
            peak = max(peak, ended)
        return peak


def _ended_peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * (1024 if LINUX else 1)
