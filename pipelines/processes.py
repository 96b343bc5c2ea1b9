"""Processes: the tree below one, what each has used until now, and an identity that outlives its pid.

Read from /proc on Linux, through psutil elsewhere. Adding up what the tree used is `pipelines/usage.py`.
"""

import ctypes
import functools
import os
import resource
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psutil

LINUX = sys.platform == "linux"
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
"""Clock ticks per second, the resolution of /proc: 0.01 s on every common machine. A live process is counted at most
four ticks short (its own user and system time, and those of what it waited for)."""

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""The kernel gives its first PID namespace this inode (PROC_PID_INIT_INO in include/linux/proc_ns.h)."""


class Process(NamedTuple):
    """One process at one moment. The times hold, on Linux, also those of the descendants that it waited for."""

    parent: int
    threads: int
    cpu_seconds: float
    resident_bytes: int
    read_bytes: int
    written_bytes: int


def become_subreaper() -> bool:
    """Have orphans among this process's descendants handed to it instead of to init, so that they stay in the tree.

    True if it worked (Linux). An orphan that ends stays a zombie, and countable, until this process ends.
    """
    set_child_subreaper = 36  # PR_SET_CHILD_SUBREAPER, prctl(2)
    return LINUX and ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0) == 0


def descendants(root: int) -> dict[int, Process]:
    """Live and unreaped descendants by pid, each looked at after its parent."""
    if not LINUX:
        return _descendants_by_psutil(root)
    children = _children if _kernel_lists_children() else _children_by_scan()
    found: dict[int, Process] = {}
    waiting = deque(children(root, 0))
    while waiting:
        pid = waiting.popleft()
        process = look(pid)
        # The parent is checked because the number may have gone to a stranger since it was listed.
        if process is None or pid in found or (process.parent != root and process.parent not in found):
            continue
        found[pid] = process
        waiting.extend(children(pid, process.threads))
    return found


def _by_psutil(process: psutil.Process) -> Process | None:
    try:
        with process.oneshot():
            times, resident = process.cpu_times(), process.memory_info().rss
            return Process(process.ppid(), process.num_threads(), times.user + times.system, resident, 0, 0)
    except psutil.Error:  # ended meanwhile, or not ours to look into
        return None


def _descendants_by_psutil(root: int) -> dict[int, Process]:
    looks = {process.pid: _by_psutil(process) for process in psutil.Process(root).children(recursive=True)}
    return {pid: look for pid, look in looks.items() if look is not None}


@functools.cache
def _kernel_lists_children() -> bool:
    return Path(f"/proc/self/task/{threading.get_native_id()}/children").exists()  # CONFIG_PROC_CHILDREN


def _children(pid: int, threads: int) -> list[int]:
    """Children of a process with so many threads: the kernel keeps a list for each of them."""
    names = [str(pid)]
    if threads != 1:
        try:
            names = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - called for every process of every reading
        except OSError:
            return []
    return [int(child) for name in names for child in _contents(f"/proc/{pid}/task/{name}/children").split()]


def _children_by_scan() -> Callable[[int, int], list[int]]:
    """The same from the parent that every process names, for kernels without lists of children."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208
        if entry.isdigit() and (stat := _stat(int(entry))):
            children.setdefault(int(stat[1]), []).append(int(entry))
    return lambda pid, threads: children.get(pid, [])


def look(pid: int) -> Process | None:
    """One process as it is now, a zombie included; None if it is gone."""
    if not LINUX:
        return _by_psutil(psutil.Process(pid)) if psutil.pid_exists(pid) else None
    stat = _stat(pid)
    if stat is None:
        return None
    # proc_pid_stat(5), counted from the state: 1 parent, 11-14 times of its own and of what it waited for, 17 threads,
    # 21 pages
    ticks = sum(map(int, stat[11:15]))
    storage = dict(line.split(b": ") for line in _contents(f"/proc/{pid}/io").splitlines())
    return Process(
        parent=int(stat[1]),
        threads=int(stat[17]),
        cpu_seconds=ticks / CLOCK_TICKS,
        resident_bytes=int(stat[21]) * PAGE_BYTES,
        read_bytes=int(storage.get(b"read_bytes", 0)),
        written_bytes=int(storage.get(b"write_bytes", 0)),
    )


def own_peak_bytes() -> int:
    """The most memory that this process had resident since it started its program."""
    if not LINUX:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS
    for line in _contents("/proc/self/status").splitlines():  # ru_maxrss would hold the mark of whoever forked us
        if line.startswith(b"VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def _stat(pid: int) -> list[bytes] | None:
    """The fields of /proc/<pid>/stat from the state on (what stands before may hold spaces and brackets)."""
    fields = _contents(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return fields or None


def _contents(path: str) -> bytes:
    """A file of /proc; empty if its process is gone, or is not ours to look into."""
    chunks = []
    try:
        file = os.open(path, os.O_RDONLY)
        try:
            while chunk := os.read(file, PAGE_BYTES):
                chunks.append(chunk)
                if len(chunk) < PAGE_BYTES // 2:  # /proc fills a page as long as it has more to say
                    break
        finally:
            os.close(file)
    except OSError:
        return b""
    return b"".join(chunks)


@dataclass(frozen=True)
class ProcessIdentity:
    """Names one process for good, where a pid alone is used again.

    host: host name, with the PID namespace where that is not the machine's own (a container's), since pids mean
    something only inside one. boot_id: the boot of the machine. started: clock ticks from boot to the start of the
    process (Linux), else milliseconds of its start in Unix time.
    """

    host: str
    boot_id: str
    pid: int
    started: int


def process_identity(pid: int | None = None) -> ProcessIdentity:
    """The identity of a process, by default this one. Raises `ProcessLookupError` if there is none of that pid."""
    pid = os.getpid() if pid is None else pid
    started = _started(pid)
    if started is None:
        raise ProcessLookupError(f"there is no process {pid} on this machine")
    return ProcessIdentity(_host(), _boot_id(), pid, started)


def is_alive(identity: ProcessIdentity) -> bool | None:
    """Whether the process still runs (a zombie doesn't), or None if it ran where this process can't see."""
    if identity.host != _host():
        return None
    return identity.boot_id == _boot_id() and _started(identity.pid) == identity.started


def _started(pid: int) -> int | None:
    if LINUX:
        stat = _stat(pid)
        return None if stat is None or stat[0] in b"ZX" else int(stat[19])
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else round(process.create_time() * 1000)
    except psutil.Error:
        return None


def age_seconds() -> float:
    """How long ago this process started. Resolution: one clock tick."""
    started = _started(os.getpid()) or 0
    if LINUX:
        return time.clock_gettime(time.CLOCK_BOOTTIME) - started / CLOCK_TICKS
    return time.time() - started / 1000


def pids_are_the_machines() -> bool:
    """Whether pids here are those that the machine (and NVML) uses; they aren't in most containers."""
    return _pid_namespace() == INITIAL_PID_NAMESPACE


def _pid_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - not a path, a name
    except OSError:
        return INITIAL_PID_NAMESPACE


def _host() -> str:
    namespace = _pid_namespace()
    return socket.gethostname() + ("" if namespace == INITIAL_PID_NAMESPACE else f"/{namespace}")


@functools.cache
def _boot_id() -> str:
    return _contents("/proc/sys/kernel/random/boot_id").decode().strip() or str(round(psutil.boot_time()))
