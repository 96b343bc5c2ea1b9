"""GPU time and energy, from a fake NVML that a test moves through time."""

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import cast
from unittest.mock import Mock

import pytest

from pipelines import gpus
from pipelines.gpus import GpuSampler, open_gpus
from pipelines.usage import UsageReader


@dataclass
class FakeGpu:
    """A device as a test sets it: who runs on it, and its energy counter (None: not supported)."""

    name: str
    pids: list[int] = field(default_factory=list)
    millijoules: int | None = 0
    broken: bool = False


@dataclass
class FakeNvml:
    """The functions of pynvml that the sampler calls."""

    gpus: list[FakeGpu]
    initialised: bool = False

    class NVMLError(Exception):
        """As pynvml's."""

    def nvmlInit(self) -> None:
        self.initialised = True

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:
        return self.gpus[index]

    def nvmlDeviceGetName(self, gpu: FakeGpu) -> str:
        return gpu.name

    def nvmlDeviceGetComputeRunningProcesses(self, gpu: FakeGpu) -> list[SimpleNamespace]:
        if gpu.broken:
            raise self.NVMLError("GPU is lost")
        return [SimpleNamespace(pid=pid) for pid in gpu.pids]

    def nvmlDeviceGetTotalEnergyConsumption(self, gpu: FakeGpu) -> int:
        if gpu.millijoules is None or gpu.broken:
            raise self.NVMLError("Not Supported")
        return gpu.millijoules


OURS, THEIRS = 100, 900


def test_held_is_the_time_with_a_context_of_our_tree() -> None:
    # Given two devices, one that we hold and one that somebody else holds
    devices = [FakeGpu("NVIDIA H100 80GB HBM3", [OURS]), FakeGpu("Tesla T4", [THEIRS])]
    sampler = GpuSampler(FakeNvml(devices))
    # When they are looked at every 5 s
    for at in (0, 5, 10):
        sampler.sample({OURS}, at)
    # Then ours was held for 10 s and theirs costs us nothing
    assert sampler.seconds == {"NVIDIA H100 80GB HBM3": 10}


def test_an_interval_with_a_context_at_one_end_counts_by_half() -> None:
    gpu = FakeGpu("Tesla T4")
    sampler = GpuSampler(FakeNvml([gpu]))
    for at, pids in ((0, []), (5, [OURS]), (10, [OURS]), (15, [])):
        gpu.pids = pids
        sampler.sample({OURS}, at)
    assert sampler.seconds == {"Tesla T4": 2.5 + 5 + 2.5}


def test_devices_of_one_name_add_up() -> None:
    sampler = GpuSampler(FakeNvml([FakeGpu("NVIDIA L4", [OURS]) for _ in range(8)]))
    sampler.sample({OURS}, 0)
    sampler.sample({OURS}, 3600)
    assert sampler.seconds == {"NVIDIA L4": 8 * 3600}


def test_energy_is_the_counters_difference_while_held() -> None:
    gpu = FakeGpu("NVIDIA H100 80GB HBM3", millijoules=7_000_000)
    sampler = GpuSampler(FakeNvml([gpu]))
    for at, pids, millijoules in (
        (0, [], 7_000_000),
        (5, [], 8_000_000),
        (10, [OURS], 8_500_000),
        (15, [OURS], 12_000_000),
    ):
        gpu.pids, gpu.millijoules = pids, millijoules
        sampler.sample({OURS}, at)
    assert sampler.joules == {"NVIDIA H100 80GB HBM3": 500 / 2 + 3500}
    assert sampler.seconds_without_energy == {}


def test_seconds_without_a_measurement_are_told_apart() -> None:
    # Given an old device without a counter, and a new one whose driver is loaded anew, which resets the counter
    old, new = FakeGpu("Tesla P100", [OURS], None), FakeGpu("NVIDIA L4", [OURS], 9_000)
    sampler = GpuSampler(FakeNvml([old, new]))
    for at, millijoules in ((0, 9_000), (5, 10_000), (10, 500), (15, 2_500)):
        new.millijoules = millijoules
        sampler.sample({OURS}, at)
    assert sampler.seconds == {"Tesla P100": 15, "NVIDIA L4": 15}
    assert sampler.seconds_without_energy == {"Tesla P100": 15, "NVIDIA L4": 5}
    assert sampler.joules == {"NVIDIA L4": 1 + 2}


def test_a_device_that_stops_answering_does_not_become_free() -> None:
    gpu = FakeGpu("Tesla T4", [OURS])
    sampler = GpuSampler(FakeNvml([gpu]))
    sampler.sample({OURS}, 0)
    gpu.broken = True
    sampler.sample({OURS}, 5)
    assert sampler.seconds == {"Tesla T4": 5}


def test_in_a_container_any_context_on_its_devices_is_ours() -> None:
    sampler = GpuSampler(FakeNvml([FakeGpu("Tesla T4", [4_000_000]), FakeGpu("NVIDIA L4")]), pids_match=False)
    sampler.sample({OURS}, 0)
    sampler.sample({OURS}, 5)
    assert sampler.seconds == {"Tesla T4": 5}


def test_a_reading_holds_what_the_sampler_saw_of_this_process() -> None:
    reader = UsageReader(GpuSampler(FakeNvml([FakeGpu("Tesla T4", [os.getpid()], None)])))
    first, second = reader.read(), reader.read()
    used = second - first
    assert used.gpu_seconds["Tesla T4"] > 0
    assert used.gpu_seconds_without_energy == used.gpu_seconds
    assert used.gpu_joules == {}


def test_without_a_gpu_nothing_is_imported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(gpus, "DEVICE_NODES", (tmp_path / "none",))
    monkeypatch.setitem(sys.modules, "pynvml", None)  # importing it now would raise
    assert open_gpus(pids_match=True) is None


@pytest.fixture
def device_node(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine with NVIDIA's driver."""
    (tmp_path / "nvidiactl").touch()
    monkeypatch.setattr(gpus, "DEVICE_NODES", (tmp_path / "nvidiactl",))


@pytest.mark.usefixtures("device_node")
class TestOpening:
    def test_with_a_gpu_it_is_sampled(self, monkeypatch: pytest.MonkeyPatch) -> None:
        nvml = FakeNvml([FakeGpu("Tesla T4", [OURS])])
        monkeypatch.setitem(sys.modules, "pynvml", cast(ModuleType, nvml))
        sampler = open_gpus(pids_match=True)
        assert nvml.initialised
        assert sampler is not None
        sampler.sample({OURS}, 0)
        sampler.sample({OURS}, 5)
        assert sampler.seconds == {"Tesla T4": 5}

    def test_an_nvml_that_does_not_answer_is_logged(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        nvml = FakeNvml([])
        monkeypatch.setattr(nvml, "nvmlDeviceGetCount", Mock(side_effect=nvml.NVMLError("Driver/library mismatch")))
        monkeypatch.setitem(sys.modules, "pynvml", cast(ModuleType, nvml))
        assert open_gpus(pids_match=True) is None
        assert "NVML does not answer (Driver/library mismatch), so GPU time is not metered" in caplog.text

    def test_a_missing_package_is_logged(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setitem(sys.modules, "pynvml", None)
        assert open_gpus(pids_match=True) is None
        assert "nvidia-ml-py is not installed" in caplog.text
