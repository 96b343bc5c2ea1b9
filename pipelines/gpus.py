"""GPUs that this process tree held, and the energy that they drew meanwhile, sampled through NVML.

Which processes the tree has is `pipelines/processes.py`; the quantities end up in `pipelines/usage.py`.
"""

import logging
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)

DEVICE_NODES = (Path("/dev/nvidiactl"), Path("/dev/dxg"))
"""One of these is there where NVIDIA's driver is (the second under WSL)."""


@dataclass
class _Device:
    name: str
    handle: Any
    held: bool = False
    millijoules: int | None = None


class GpuSampler:
    """Adds up, from sample to sample, how long this tree held each GPU and what energy the GPU drew meanwhile.

    Held: a process of the tree has a compute context on the device. An interval between two samples counts in full
    if the device was held at both ends and by half if at one, so a holding is off by at most half an interval at
    either end, and on average not at all. Energy is the whole device's (NVML, Volta or newer), in the same shares.
    A MIG slice counts as its whole device.

    nvml: the module `pynvml`, initialised. pids_match: False in a container with a PID namespace of its own, where
    NVML reports pids of the host; then any process's context counts, as the devices a container sees are its own.
    """

    def __init__(self, nvml: Any, *, pids_match: bool = True) -> None:
        self._nvml = nvml
        self._pids_match = pids_match
        self._sampled_at: float | None = None
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
        self._devices = [_Device(nvml.nvmlDeviceGetName(handle), handle) for handle in handles]
        self.seconds: dict[str, float] = {}
        self.joules: dict[str, float] = {}
        self.seconds_without_energy: dict[str, float] = {}

    def sample(self, pids: Collection[int], at: float) -> None:
        """Look at every device. pids: the tree. at: monotonic time in seconds."""
        interval = 0.0 if self._sampled_at is None else at - self._sampled_at
        self._sampled_at = at
        for device in self._devices:
            held, millijoules = self._held(device, pids), self._millijoules(device)
            share = (device.held + held) / 2
            drawn = None if millijoules is None or device.millijoules is None else millijoules - device.millijoules
            if share and interval:
                _count(self.seconds, device.name, share * interval)
                if drawn is None or drawn < 0:  # not measured, or the driver was loaded anew
                    _count(self.seconds_without_energy, device.name, share * interval)
                else:
                    _count(self.joules, device.name, share * drawn / 1000)
            device.held, device.millijoules = held, millijoules

    def _held(self, device: _Device, pids: Collection[int]) -> bool:
        try:
            running = self._nvml.nvmlDeviceGetComputeRunningProcesses(device.handle)
        except self._nvml.NVMLError:
            return device.held  # unknown: a device that was paid for a moment ago does not become free by an error
        return any(process.pid in pids or not self._pids_match for process in running)

    def _millijoules(self, device: _Device) -> int | None:
        try:
            return int(self._nvml.nvmlDeviceGetTotalEnergyConsumption(device.handle))
        except self._nvml.NVMLError:
            return None


def _count(sums: dict[str, float], name: str, value: float) -> None:
    sums[name] = sums.get(name, 0.0) + value


def open_gpus(*, pids_match: bool) -> GpuSampler | None:
    """A sampler of this machine's GPUs, or None where there is no NVIDIA GPU (nothing is imported then).

    pids_match: see `GpuSampler`. A GPU that can't be metered is logged as a warning.
    """
    if not any(node.exists() for node in DEVICE_NODES):
        return None
    try:
        import pynvml
    except ImportError:
        log.warning("a GPU is here but nvidia-ml-py is not installed, so GPU time is not metered")
        return None
    try:
        pynvml.nvmlInit()
        return GpuSampler(pynvml, pids_match=pids_match)
    except pynvml.NVMLError as error:
        log.warning("a GPU device is here but NVML does not answer (%s), so GPU time is not metered", error)
        return None
