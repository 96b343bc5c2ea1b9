"""What the meter says of a process tree, held against the kernel's own account (`wait4`) of the same tree."""

import json
import math
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.usage import Usage, UsageReader

ROOT = Path(__file__).parents[2]
linux = pytest.mark.skipif(sys.platform != "linux", reason="/proc and wait4 as the truth")

PRELUDE = """
import json, os, subprocess, sys, threading, time
from pipelines.processes import become_subreaper
from pipelines.usage import UsageReader

BURN = '''
import time
def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        sum(range(10_000))
'''
exec(BURN)
PARENT = '''
import subprocess, sys
for _ in range(30):
    subprocess.run([sys.executable, "-S", "-c", sys.argv[1]])
print("done", flush=True)
sys.stdin.read()
'''
assert become_subreaper()
reader = UsageReader()
"""


def metered(script: str) -> tuple[Usage, float]:
    """Run a script that sets `usage`; returns that, and the CPU seconds that the kernel charged for the whole tree."""
    ending = "print(json.dumps(usage.record()), flush=True)\nos._exit(0)"
    source = "\n".join([PRELUDE, textwrap.dedent(script), ending])
    process = subprocess.Popen(
        [sys.executable, "-c", source], cwd=ROOT, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    assert process.stdout is not None
    told = process.stdout.read()
    _, status, truth = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    assert process.returncode == 0
    return Usage.from_record(json.loads(told)), truth.ru_utime + truth.ru_stime


@linux
class TestCpuTimeAgainstTheKernel:
    def test_a_child_that_runs_short_lived_grandchildren(self) -> None:
        usage, truth = metered("""
            subprocess.run([sys.executable, "-c", PARENT, BURN + "burn(0.03)"], stdin=-3, stdout=-3, check=True)
            usage = reader.read()
        """)
        assert usage.cpu_seconds == pytest.approx(truth, rel=0.02)

    def test_the_same_while_the_child_lives(self) -> None:
        usage, truth = metered("""
            process = subprocess.Popen([sys.executable, "-c", PARENT, BURN + "burn(0.09)"], stdin=-1, stdout=-1)
            process.stdout.readline()
            usage = reader.read()
            process.communicate()
        """)
        assert usage.cpu_seconds == pytest.approx(truth, rel=0.02)

    def test_orphaned_daemons_one_alive_and_one_a_zombie(self) -> None:
        usage, truth = metered("""
            done, done_end = os.pipe()
            wait_end, go = os.pipe()
            for lives_on in (True, False):
                middle = os.fork()
                if middle == 0:
                    if os.fork() == 0:  # the daemon: its parent is gone at once
                        os.close(go)
                        burn(1.2)
                        os.write(done_end, b".")
                        if lives_on:
                            os.read(wait_end, 1)
                    os._exit(0)
                os.waitpid(middle, 0)
            for _ in range(2):
                os.read(done, 1)
            time.sleep(0.2)
            usage = reader.read()
            os.close(go)
            os.wait(), os.wait()
        """)
        assert usage.cpu_seconds == pytest.approx(truth, rel=0.02)

    def test_a_pool_of_processes_at_work(self) -> None:
        usage, truth = metered("""
            from concurrent.futures import ProcessPoolExecutor
            import multiprocessing
            pool = ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork"))
            list(pool.map(burn, [1.5, 1.5]))
            usage = reader.read()
            pool.shutdown()
        """)
        assert usage.cpu_seconds == pytest.approx(truth, rel=0.02)

    def test_threads(self) -> None:
        usage, truth = metered("""
            import hashlib
            block = bytes(1 << 20)
            def hashing():
                for _ in range(600):
                    hashlib.sha256(block).digest()
            threads = [threading.Thread(target=hashing) for _ in range(2)]
            [thread.start() for thread in threads], [thread.join() for thread in threads]
            usage = reader.read()
        """)
        assert usage.cpu_seconds == pytest.approx(truth, rel=0.02)

    def test_children_born_by_a_thread_are_seen(self) -> None:
        usage, truth = metered("""
            process = None
            started, end = threading.Event(), threading.Event()
            def parent():
                global process
                child = BURN + "burn(1.6); print('done', flush=True); input()"
                process = subprocess.Popen([sys.executable, "-c", child], stdin=-1, stdout=-1)
                process.stdout.readline()
                started.set()
                end.wait()
            threading.Thread(target=parent, daemon=True).start()
            started.wait()
            usage = reader.read()
            process.communicate(b"\\n")
        """)
        assert usage.cpu_seconds == pytest.approx(truth, rel=0.02)

    def test_under_churn_readings_never_fall_and_nothing_counts_twice(self) -> None:
        usage, truth = metered("""
            stop = False
            def churn():
                while not stop:
                    subprocess.run(["sh", "-c", "sh -c 'echo $(echo a)' & sh -c 'echo b' | cat; wait"], stdout=-3)
            threads = [threading.Thread(target=churn) for _ in range(3)]
            [thread.start() for thread in threads]
            readings, end = [], time.monotonic() + 2
            while time.monotonic() < end:
                readings.append(reader.read())
            stop = True
            [thread.join() for thread in threads]
            usage = reader.read()
            readings.append(usage)
            assert all((b - a).cpu_seconds >= 0 for a, b in zip(readings, readings[1:]))
            assert len(readings) > 100
        """)
        assert truth * 0.95 < usage.cpu_seconds <= truth  # the interpreter's own end comes after the reading


@linux
class TestOtherQuantities:
    def test_wall_time_counts_from_the_start_of_the_process(self) -> None:
        usage, _ = metered("""
            import psutil
            time.sleep(0.3)
            usage = reader.read()
            assert 0.3 < usage.wall_seconds < 60
            assert abs(usage.wall_seconds - (time.time() - psutil.Process().create_time())) < 2  # psutil: whole seconds
        """)
        assert usage.wall_seconds > 0.3

    def test_peak_memory_is_the_sum_over_live_processes(self) -> None:
        usage, _ = metered("""
            hold = "x = bytearray(b'x') * (60 << 20); print('held', flush=True); input()"
            before = reader.read().peak_memory_bytes
            two = [subprocess.Popen([sys.executable, "-c", hold], stdin=-1, stdout=-1) for _ in range(2)]
            [process.stdout.readline() for process in two]
            usage = reader.read()
            [process.communicate(b"\\n") for process in two]
            assert usage.peak_memory_bytes - before >= 2 * (60 << 20)
        """)
        assert usage.peak_memory_bytes < 1 << 30

    def test_a_peak_between_two_readings_is_seen_once_and_never_before_the_reader(self) -> None:
        metered("""
            x = bytearray(b"x") * (200 << 20)
            del x
            late = UsageReader()
            small = late.read().peak_memory_bytes
            assert small < 200 << 20, "the peak before the reader was made is not the reader's"
            subprocess.run(["true"])
            assert late.read().peak_memory_bytes < 200 << 20, "a child shows its parent's mark between fork and exec"
            x = bytearray(b"x") * (300 << 20)
            del x
            usage = late.read()
            assert usage.peak_memory_bytes >= 300 << 20
            subprocess.run([sys.executable, "-c", "bytearray(b'x') * (500 << 20)"])
            assert late.read().peak_memory_bytes >= 500 << 20, "an ended child's"
        """)

    def test_bytes_written_by_an_ended_child_equal_the_kernels_count(self, tmp_path: Path) -> None:
        usage, _ = metered(f"""
            before = reader.read()
            child = '''if 1:
                import os
                file = os.open({str(tmp_path / "file")!r}, os.O_CREAT | os.O_WRONLY)
                os.write(file, bytes(4 << 20)), os.fsync(file)
                print([line.split()[1] for line in open("/proc/self/io") if line.startswith("write_bytes")][0])
            '''
            told = int(subprocess.run([sys.executable, "-c", child], stdout=-1, check=True).stdout)
            usage = reader.read() - before
            assert usage.written_bytes >= told, (usage, told)
            assert usage.written_bytes <= told + (1 << 20)
        """)
        assert usage.read_bytes >= 0


def test_readings_from_several_threads_are_whole() -> None:
    # Given one reader and four threads
    reader, readings = UsageReader(), []
    threads = [threading.Thread(target=lambda: readings.append(reader.read())) for _ in range(4)]
    # When all read at once
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Then each got a reading, and a later one is no smaller than any of them
    last = reader.read()
    assert len(readings) == 4
    assert all((last - reading).cpu_seconds >= 0 for reading in readings)


quantities = st.dictionaries(st.sampled_from(["NVIDIA H100 80GB HBM3", "Tesla T4"]), st.integers(0, 10**6).map(float))
usages = st.builds(
    Usage,
    cpu_seconds=st.integers(0, 10**9).map(float),
    wall_seconds=st.integers(0, 10**9).map(float),
    gpu_seconds=quantities,
    gpu_joules=quantities,
    gpu_seconds_without_energy=quantities,
    peak_memory_bytes=st.integers(0, 2**50),
    read_bytes=st.integers(0, 2**60),
    written_bytes=st.integers(0, 2**60),
)


class TestArithmetic:
    @given(usages, usages)
    def test_what_was_added_can_be_taken_away(self, one: Usage, other: Usage) -> None:
        difference = (one + other) - other
        assert difference.cpu_seconds == one.cpu_seconds
        assert difference.written_bytes == one.written_bytes
        assert {k: v for k, v in difference.gpu_seconds.items() if v} == {k: v for k, v in one.gpu_seconds.items() if v}

    @given(usages, usages)
    def test_addition_commutes(self, one: Usage, other: Usage) -> None:
        assert one + other == other + one

    @given(usages)
    def test_a_record_survives_json(self, usage: Usage) -> None:
        assert Usage.from_record(json.loads(json.dumps(usage.record()))) == usage

    def test_peaks_are_not_added(self) -> None:
        assert (Usage(peak_memory_bytes=3) + Usage(peak_memory_bytes=5)).peak_memory_bytes == 5
        assert (Usage(peak_memory_bytes=5) - Usage(peak_memory_bytes=3)).peak_memory_bytes == 5

    def test_the_rounding_of_floats_is_no_negative_usage(self) -> None:
        assert 0.3 - (0.1 + 0.2) < 0
        assert Usage(cpu_seconds=0.3) - (Usage(cpu_seconds=0.1) + Usage(cpu_seconds=0.2)) == Usage()

    def test_a_later_reading_taken_from_an_earlier_one_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="can't be negative or infinite, and cpu_seconds is -1"):
            Usage(cpu_seconds=1) - Usage(cpu_seconds=2)

    @pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
    def test_impossible_quantities_are_refused(self, value: float) -> None:
        with pytest.raises(ValueError, match="gpu_seconds"):
            Usage(gpu_seconds={"Tesla T4": value})

    def test_a_record_of_an_older_version_lacks_quantities_and_a_newer_one_is_refused(self) -> None:
        assert Usage.from_record({"cpu_seconds": 2.0}) == Usage(cpu_seconds=2.0)
        with pytest.raises(ValueError, match="can't count: tpu_seconds"):
            Usage.from_record({"tpu_seconds": 1.0})
