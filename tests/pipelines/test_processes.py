"""Processes: which are alive, which belong to a tree, and that a pid used again is not mistaken for its first owner."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import psutil
import pytest

from pipelines import processes
from pipelines.processes import descendants, is_alive, process_identity

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

NEST = """
import subprocess, sys
depth = int(sys.argv[1])
child = subprocess.Popen([sys.executable, "-c", sys.argv[2], str(depth - 1), sys.argv[2]], stdin=0) if depth else None
print("up", flush=True)
sys.stdin.read()
if child: child.wait()
"""


@pytest.fixture
def nest() -> Iterator[subprocess.Popen[bytes]]:
    """A process with a child with a child, all alive until their common standard input closes."""
    process = subprocess.Popen([sys.executable, "-c", NEST, "2", NEST], stdin=-1, stdout=-1)
    assert process.stdout is not None
    for _ in range(3):
        process.stdout.readline()
    yield process
    process.communicate()


def test_a_process_is_alive_until_it_ends() -> None:
    with subprocess.Popen(["cat"], stdin=-1) as process:
        identity = process_identity(process.pid)
        assert is_alive(identity)
    assert is_alive(identity) is False


def test_a_zombie_is_not_alive() -> None:
    process = subprocess.Popen(["cat"], stdin=-1)
    identity = process_identity(process.pid)
    assert process.stdin is not None
    process.stdin.close()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and nobody has waited for it
    assert is_alive(identity) is False
    process.wait()


def test_a_pid_used_again_is_another_process() -> None:
    assert is_alive(replace(process_identity(), started=1)) is False


def test_a_process_of_an_earlier_boot_is_gone() -> None:
    assert is_alive(replace(process_identity(), boot_id="another")) is False


def test_a_process_elsewhere_can_not_be_told() -> None:
    assert is_alive(replace(process_identity(), host="another")) is None


def test_a_container_is_a_place_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = process_identity()
    monkeypatch.setattr(processes, "_pid_namespace", lambda: "pid:[4026532201]")
    assert is_alive(ours) is None
    assert process_identity().host == f"{ours.host}/pid:[4026532201]"


def test_no_identity_without_a_process() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    with pytest.raises(ProcessLookupError, match=f"no process {process.pid}"):
        process_identity(process.pid)


@linux
def test_a_name_with_brackets_and_spaces_does_not_confuse() -> None:
    rename = "import ctypes; ctypes.CDLL(None).prctl(15, b'a) Z (b'); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", rename], stdin=-1, stdout=-1) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert psutil.Process(process.pid).name() == "a) Z (b"
        assert is_alive(process_identity(process.pid))
        assert descendants(os.getpid())[process.pid].parent == os.getpid()
        process.communicate(b"\n")


@linux
@pytest.mark.parametrize("lists_of_children", [True, False])
def test_the_tree_is_the_one_that_psutil_sees(
    nest: subprocess.Popen[bytes], lists_of_children: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_kernel_lists_children", lambda: lists_of_children)
    expected = {process.pid for process in psutil.Process(nest.pid).children(recursive=True)}
    assert len(expected) == 2
    assert set(descendants(nest.pid)) == expected
    assert set(descendants(os.getpid())) >= expected | {nest.pid}


@linux
def test_without_proc_psutil_sees_the_same_tree(nest: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    by_proc = descendants(nest.pid)
    monkeypatch.setattr(processes, "LINUX", False)
    by_psutil = descendants(nest.pid)
    assert by_psutil.keys() == by_proc.keys()
    for pid, process in by_psutil.items():
        assert process.parent == by_proc[pid].parent
        assert process.cpu_seconds == pytest.approx(by_proc[pid].cpu_seconds, abs=0.05)
        assert process.resident_bytes == pytest.approx(by_proc[pid].resident_bytes, rel=0.1)
    assert is_alive(process_identity(nest.pid))


@linux
def test_a_process_that_is_gone_is_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a list of children that is out of date: one pid is gone, one belongs to a stranger by now
    with subprocess.Popen(["true"]) as process:
        process.wait()
    stranger = os.getppid()
    monkeypatch.setattr(processes, "_children", lambda pid, _: [process.pid, stranger] if pid == os.getpid() else [])
    # When the tree is read, then neither is in it
    assert descendants(os.getpid()) == {}
