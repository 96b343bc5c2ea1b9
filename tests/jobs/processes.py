"""The real command in real processes: started, watched through its ledger, killed, and cleaned up after."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import psutil

from pipelines.costs.account import Account, Attempt
from pipelines.costs.ledger import Event, Ledger
from pipelines.dataset import Version
from pipelines.prices.book import load_book
from pipelines.processes import become_subreaper
from pipelines.store import Store
from resources.settings import Profile
from tests.jobs.corpus import make_profile

ROOT = Path(__file__).parents[2]
COMMAND = [str(Path(sys.executable).with_name("corpusmill"))]
LIMIT_SECONDS = 240.0
"""How long to wait for a condition before the test fails: far more than it takes."""

PATCH = """
import importlib.abc, importlib.util, sys, time

def _at_work(seconds):
    end = time.thread_time() + seconds / 2
    while time.thread_time() < end: pass
    time.sleep(seconds / 2)

def _meter(module):
    module.HEARTBEAT_SECONDS = 0.2

def _task(module):
    write = module.write_shard
    def write_shard(*given):
        _at_work({seconds})
        return write(*given)
    module.write_shard = write_shard

PATCHES = {{"pipelines.costs.meter": _meter, "pipelines.engines.task": _task}}

class Patched(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        patch = PATCHES.pop(name, None)
        if patch is None: return None
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module
        def exec_module(module):
            execute(module)
            patch(module)
        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Patched())
"""
"""sitecustomize of a slow mill: a heartbeat five times a second, and every shard takes its time to be written."""


def wait_for(condition: Callable[[], Any], what: str, *, seconds: float = LIMIT_SECONDS) -> Any:
    """The first true value of the condition."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.05)
    raise AssertionError(f"waited in vain for {what}")


class Watched(Protocol):
    """A run that has begun, however it was launched."""

    def reaches(self, condition: Callable[[], Any], what: str) -> Any:
        """The first true value of the condition, which must come before the run ends."""


@dataclass
class Run:
    """A started command."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def told(self) -> str:
        """What it has printed."""
        return self.log.read_text()

    def end(self) -> int:
        """Its exit code, once it has ended."""
        try:
            return self.process.wait(LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the command does not end:\n{self.told}") from None

    def reaches(self, condition: Callable[[], Any], what: str) -> Any:
        """The first true value of the condition, which must come before the command ends."""

        def reached() -> Any:
            over = self.process.poll() is not None
            value = condition()
            assert value or not over, f"the command ended before {what}:\n{self.told}"
            return value

        return wait_for(reached, what)

    def signal(self, number: signal.Signals, *, to_all: bool = False) -> None:
        """Send a signal to the command, or to its whole group, as Ctrl-C at a terminal does."""
        (os.killpg if to_all else os.kill)(self.process.pid, number)


@dataclass
class Mill:
    """A folder with a corpus, a profile, a store, a ledger and a Dagster home, all its own."""

    folder: Path
    profile: Profile
    slow: float = 0.0
    count: int = 0

    @classmethod
    def make(cls, folder: Path, *, slow: float = 0.0, **sections: Any) -> "Mill":
        """slow: seconds that every shard takes longer; heartbeats are faster then, too."""
        folder.mkdir(parents=True, exist_ok=True)
        return cls(folder, make_profile(folder, workers=2, **sections), slow)

    def start(self, *arguments: str, program: list[str] = COMMAND) -> Run:
        """`corpusmill run` in a session of its own."""
        self.count += 1
        log = self.folder / f"run {self.count}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [*program, *(arguments if program is not COMMAND else ("run", *arguments))],
                env=self.environment(),
                cwd=ROOT,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return Run(process, log)

    def run(self, *arguments: str, program: list[str] = COMMAND) -> Run:
        """The command, to its end, which must be a good one."""
        run = self.start(*arguments, program=program)
        assert run.end() == 0, run.told
        return run

    def prepare(self) -> None:
        """Make Dagster's home, which the first command does once; that belongs to no run."""
        code = "from jobs.environment import *; prepare_dagster_home(chosen_profile())"
        subprocess.run([sys.executable, "-c", code], env=self.environment(), cwd=ROOT, check=True)

    def environment(self) -> dict[str, str]:
        """What every process of this mill is told."""
        path = os.environ.get("PYTHONPATH", "")
        if self.slow:
            patches = self.folder / "patches"
            patches.mkdir(exist_ok=True)
            (patches / "sitecustomize.py").write_text(PATCH.format(seconds=self.slow))
            path = os.pathsep.join(filter(None, [str(patches), path]))
        return {
            **os.environ,
            "DAGSTER_HOME": str(self.folder / "dagster"),
            "CORPUSMILL_PROFILE": str(self.folder / "profile.yaml"),
            "PYTHONPATH": path,
            "OMP_NUM_THREADS": "1",
        }

    # -- what the ledger and the store say ----------------------------------------------------------------------

    @property
    def ledger(self) -> Ledger:
        """The ledger, opened anew: that settles attempts whose process is gone."""
        return Ledger(self.profile.ledger_url)

    @property
    def store(self) -> Store:
        """The store."""
        return Store(self.profile.store_url)

    def account(self) -> Account:
        """The account of all runs."""
        return Account.read(self.ledger, load_book(self.profile.prices_path))

    def versions(self) -> dict[tuple[str, str], tuple[str, Any]]:
        """Current version ids and the hashes of all their bytes, by asset and partition."""
        current = [Version.load(self.store, pointer.version) for pointer in self.ledger.all_current()]
        return {(v.asset, v.partition): (v.id, v.parts) for v in current}

    def damaged(self) -> list[str]:
        """Objects of the store that are not what their name says."""
        import hashlib

        files = [path for path in Path(self.store.root, "objects").rglob("*") if path.is_file()]
        return [p.name for p in files if hashlib.sha256(p.read_bytes()).hexdigest() != p.name]

    def attempt(self, asset: str, partition: str = "") -> Attempt:
        """The last ended attempt of an asset."""
        return [a for a in self.account().attempts if (a.asset, a.partition) == (asset, partition)][-1]

    def coordinators(self) -> list[Attempt]:
        """The ended coordinators of all runs."""
        return [a for a in self.account().attempts if a.role == "coordinator"]

    def open_attempt(self, run: Watched, asset: str, partition: str = "", *, finished_tasks: int = 0) -> Event:
        """The attempt of an asset that a run is at, once it has finished so many tasks and told of its use."""

        ledger = self.ledger

        def found() -> Event | None:
            ended = {event.attempt for event in ledger.events(kinds=("closed", "settled"))}
            for event in ledger.events(kinds=("opened",)):
                payload = event.payload
                if event.attempt in ended or (payload["asset"], payload["partition"]) != (asset, partition):
                    continue
                beats = [b for b in ledger.newest_heartbeats(event.run) if b.attempt == event.attempt]
                if not finished_tasks or any(b.payload["progress"]["done"] >= finished_tasks for b in beats):
                    return event
            return None

        return run.reaches(found, f"{asset}[{partition}] was at work")

    # -- processes ----------------------------------------------------------------------------------------------

    def family(self) -> list[psutil.Process]:
        """Every living process that works for this mill, whoever its parent is."""
        home = str(self.folder / "dagster")
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.status() != psutil.STATUS_ZOMBIE and process.environ().get("DAGSTER_HOME") == home:
                    found.append(process)
        return found

    def is_quiet(self) -> bool:
        """Whether nobody works for this mill."""
        return not self.family()

    def wait_until_quiet(self) -> None:
        """Wait until every process has ended by itself."""
        wait_for(self.is_quiet, f"the processes of {self.folder} to end")

    def end_everything(self) -> None:
        """Kill whatever is left."""
        while family := self.family():
            for process in family:
                with suppress(psutil.Error):
                    process.kill()
            psutil.wait_procs(family, timeout=5)


def mills(folder: Path) -> Iterator[Callable[..., Mill]]:
    """A maker of mills, for fixtures: none of their processes survives the test."""
    made: list[Mill] = []

    def make(name: str, **how: Any) -> Mill:
        made.append(Mill.make(folder / name, **how))
        return made[-1]

    try:
        yield make
    finally:
        for mill in made:
            mill.end_everything()


def kernel_cpu_seconds(run: Run) -> float:
    """What the kernel counted for a command that was started through `MEASURED`."""
    assert run.end() == 0, run.told
    return float(run.told.splitlines()[-1].removeprefix("kernel: "))


MEASURED = [sys.executable, "-m", "tests.jobs.processes", "measured", *COMMAND, "run"]
AGAIN = [sys.executable, "-m", "tests.jobs.processes", "again"]
WITH_RETRIES = [sys.executable, "-m", "tests.jobs.processes", "with_retries"]


def measured(*command: str) -> int:
    """Run a command and print what the kernel counted for all of its processes, orphans included."""
    become_subreaper()
    process = subprocess.Popen(command)
    code = process.wait()
    with suppress(ChildProcessError):
        while True:
            os.wait()  # orphans come to this process and are counted once they have been waited for
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"kernel: {used.ru_utime + used.ru_stime}", flush=True)
    return code


def again() -> int:
    """Execute the newest failed run again, from where it failed, as the button of Dagster's UI does."""
    import dagster as dg
    from dagster._core.definitions.reconstruct import ReconstructableRepository
    from dagster._core.execution.api import ReexecutionOptions, execute_job

    job = ReconstructableRepository.for_file(
        str(ROOT / "jobs" / "definitions.py"), "definitions", working_directory=str(ROOT)
    ).get_reconstructable_job("full_job")
    with dg.DagsterInstance.get() as instance:
        failed = instance.get_runs(filters=dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE]), limit=1)[0]
        with execute_job(
            job.get_subset(asset_selection=failed.asset_selection),
            instance,
            tags=failed.tags,
            asset_selection=list(failed.asset_selection or ()) or None,
            reexecution_options=ReexecutionOptions.from_failure(failed.run_id, instance),
        ) as result:
            return 0 if result.success else 1


def definitions_with_retries() -> Any:
    """The definitions of the chosen profile, with a job whose steps are tried again and again."""
    import dagster as dg

    from jobs.build import build_definitions
    from jobs.environment import chosen_profile

    built = build_definitions(chosen_profile())
    policy = dg.RetryPolicy(max_retries=100, delay=0.2)
    job = dg.define_asset_job("patient_job", selection="raw_documents", op_retry_policy=policy)
    return dg.Definitions(assets=built.assets, resources=built.resources, executor=built.executor, jobs=[job])


def with_retries() -> int:
    """Ingest all sources in the job that does not give up."""
    import dagster as dg
    from dagster._core.definitions.reconstruct import ReconstructableRepository
    from dagster._core.execution.api import execute_job

    from jobs.build import full_range
    from jobs.environment import chosen_profile

    job = ReconstructableRepository.for_file(
        str(Path(__file__)), "definitions_with_retries", working_directory=str(ROOT)
    ).get_reconstructable_job("patient_job")
    with dg.DagsterInstance.get() as instance, execute_job(job, instance, tags=full_range(chosen_profile())) as result:
        return 0 if result.success else 1


if __name__ == "__main__":
    from jobs.environment import chosen_profile, prepare_dagster_home

    prepare_dagster_home(chosen_profile())
    sys.exit(globals()[sys.argv[1]](*sys.argv[2:]))
