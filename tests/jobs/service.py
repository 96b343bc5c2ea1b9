"""Dagster's webserver and daemon for a mill, as real processes on a free port, and what its UI asks of them."""

import json
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from jobs.build import RANGE_END, RANGE_START, full_range
from pipelines.costs.ledger import Event
from tests.jobs.processes import ROOT, Mill, wait_for

REPOSITORY = {"repositoryLocationName": "corpusmill", "repositoryName": "__repository__"}
ASSET_JOB = "__ASSET_JOB"
"""The job that Dagster runs for *Materialize* on the asset graph."""

ENDED = {"SUCCESS", "FAILURE", "CANCELED"}
SHIPPED = ROOT / "deploy" / "dagster.yaml"


class Refused(AssertionError):
    """Dagster did not do what a query asked for."""


@dataclass
class Service:
    """A webserver and a daemon of a mill. Each has a log and can be killed and started again by itself.

    Their code servers, and the runs, are processes of the mill's family too: see `Mill.family`.
    """

    mill: Mill
    port: int = 0
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @classmethod
    def make(cls, mill: Mill, settings: str | Path = SHIPPED) -> "Service":
        """A service that answers. settings: what the mill's `dagster.yaml` says, as text or as a file."""
        home = mill.folder / "dagster"
        home.mkdir(exist_ok=True)
        if isinstance(settings, Path):
            shutil.copyfile(settings, home / "dagster.yaml")
        else:
            (home / "dagster.yaml").write_text(settings)
        service = cls(mill, free_port())
        # Two processes that make the same new SQLite files at once can leave them unusable.
        service.start("storage", "dagster", "instance", "info").wait()
        del service.processes["storage"]
        service.start_webserver()
        service.start_daemon()
        service.wait_until_it_answers()
        return service

    # -- processes ----------------------------------------------------------------------------------------------

    def start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        """A process of the mill in a session of its own; its log is the file `name`.log."""
        with self._log(name).open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", *command],
                env=self.mill.environment(),
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self.processes[name]

    def start_webserver(self) -> subprocess.Popen[bytes]:
        """A webserver, with a code server of its own."""
        address = ["--host", "127.0.0.1", "--port", str(self.port)]
        return self.start("webserver", "dagster_webserver", "--workspace", str(ROOT / "workspace.yaml"), *address)

    def start_daemon(self) -> subprocess.Popen[bytes]:
        """A daemon. Runs that were queued are children of its code server."""
        return self.start("daemon", "tests.jobs.quick_daemon", "run", "--workspace", str(ROOT / "workspace.yaml"))

    def start_ui(self, *arguments: str) -> subprocess.Popen[bytes]:
        """What `make ui` starts, on this service's port."""
        return self.start("ui", "jobs.ui", "--port", str(self.port), *arguments)

    def kill(self, name: str) -> None:
        """End a process without a word (SIGKILL)."""
        self.processes[name].kill()
        self.processes[name].wait()

    def told(self, name: str) -> str:
        """What a process has printed."""
        return self._log(name).read_text(errors="replace")

    def wait_until_it_answers(self) -> None:
        """Wait until the webserver shows our jobs."""

        def answers() -> bool:
            with suppress(OSError, Refused):
                loaded = self.ask("{workspaceOrError {... on Workspace {locationEntries {name loadStatus}}}}")
                return all(e["loadStatus"] == "LOADED" for e in loaded["workspaceOrError"]["locationEntries"])
            for name, process in self.processes.items():
                assert process.poll() is None, f"the {name} ended:\n{self.told(name)}"
            return False

        wait_for(answers, f"the webserver on port {self.port}")

    def _log(self, name: str) -> Path:
        return self.mill.folder / f"{name}.log"

    def run_processes(self) -> list[psutil.Process]:
        """The processes that work on runs: everybody of the mill but webserver, daemon and code servers."""
        family = {process.pid: process for process in self.mill.family()}
        for pid, process in list(family.items()):
            with suppress(psutil.Error):
                told = process.cmdline()
                helper = "resource_tracker" in " ".join(told) and _is_service(psutil.Process(process.ppid()).cmdline())
                if _is_service(told) or helper:
                    del family[pid]
        return [process for process in family.values() if process.is_running()]

    def reaches(self, run_id: str, condition: Callable[[], Any], what: str) -> Any:
        """The first true value of the condition, which must come before the run ends."""

        def reached() -> Any:
            over = self.status(run_id) in ENDED
            value = condition()
            assert value or not over, f"the run ended before {what}:\n{self.messages(run_id)}"
            return value

        return wait_for(reached, what)

    def open_attempt(self, run_id: str, asset: str, partition: str = "", *, finished_tasks: int = 0) -> Event:
        """As `Mill.open_attempt`, for a run of this service."""
        return self.mill.open_attempt(_Watched(self, run_id), asset, partition, finished_tasks=finished_tasks)

    # -- what the UI asks ---------------------------------------------------------------------------------------

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        """The answer to a GraphQL query. Raises `Refused` for an answer that is only an error."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/graphql",
            json.dumps({"query": query, "variables": variables}).encode(),
            {"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                answer = json.load(response)
        except urllib.error.HTTPError as error:
            raise Refused(error.read().decode()) from None
        if answer.get("errors"):
            raise Refused(str(answer["errors"]))
        return answer["data"]

    def _do(self, mutation: str, arguments: str, wanted: str, fields: str, **variables: Any) -> dict[str, Any]:
        """Do one mutation, which must answer with the wanted type."""
        names = ", ".join(f"${name}: {kind}" for name, kind in (a.split(": ") for a in arguments.split(", ")))
        given = ", ".join(f"{name}: ${name}" for name in variables)
        failed = "... on Error {message}"
        query = f"mutation M({names}) {{did: {mutation}({given}) {{__typename ... on {wanted} {{{fields}}} {failed}}}}}"
        did = self.ask(query, **variables)["did"]
        if did["__typename"] != wanted:
            raise Refused(f"{did['__typename']}: {did.get('message', did)}")
        return did

    def launch(
        self,
        *assets: str,
        job: str = "full_job",
        tags: Mapping[str, str] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> str:
        """Launch one run of a job, for some of its assets or all; returns its id.

        tags: by default those of all sources, as `corpusmill run` sends them.
        """
        selector = {**REPOSITORY, "jobName": job}
        if assets:
            selector["assetSelection"] = [{"path": [asset]} for asset in assets]
        wanted = full_range(self.mill.profile) if tags is None else tags
        did = self._do(
            "launchRun",
            "executionParams: ExecutionParams!",
            "LaunchRunSuccess",
            "run {runId}",
            executionParams={
                "selector": selector,
                "mode": "default",
                "runConfigData": json.dumps(config or {}),
                "executionMetadata": {"tags": _pairs(wanted)},
            },
        )
        return did["run"]["runId"]

    def materialize(self, *assets: str, source: str = "", config: Mapping[str, Any] | None = None) -> str:
        """*Materialize* on the asset graph, for one source or without partitions; returns the run's id."""
        tags = {RANGE_START: source, RANGE_END: source} if source else {}
        return self.launch(*assets, job=ASSET_JOB, tags=tags, config=config)

    def backfill(self, *assets: str, sources: Sequence[str] | None = None) -> str:
        """*Materialize* on the asset graph for several sources (by default all); returns the backfill's id."""
        did = self._do(
            "launchPartitionBackfill",
            "backfillParams: LaunchBackfillParams!",
            "LaunchBackfillSuccess",
            "backfillId",
            backfillParams={
                "assetSelection": [{"path": [asset]} for asset in assets],
                **({"allPartitions": True} if sources is None else {"partitionNames": list(sources)}),
                "tags": [],
            },
        )
        return did["backfillId"]

    def terminate(self, run: str, *, by_force: bool = False) -> None:
        """The button *Terminate* of a run. by_force: mark it as canceled at once, whatever its processes do."""
        policy = "MARK_AS_CANCELED_IMMEDIATELY" if by_force else "SAFE_TERMINATE"
        self._do(
            "terminateRun",
            "runId: String!, terminatePolicy: TerminateRunPolicy",
            "TerminateRunSuccess",
            "run {runId}",
            runId=run,
            terminatePolicy=policy,
        )

    def start_schedule(self, name: str) -> None:
        """Turn a schedule on."""
        selector = {**REPOSITORY, "scheduleName": name}
        arguments = "scheduleSelector: ScheduleSelector!"
        self._do("startSchedule", arguments, "ScheduleStateResult", "scheduleState {id}", scheduleSelector=selector)

    def stop_schedule(self, name: str) -> None:
        """Turn a schedule off."""
        state = self._state("schedule", name)
        self._do("stopRunningSchedule", "id: String!", "ScheduleStateResult", "scheduleState {id}", id=state)

    def start_sensor(self, name: str) -> None:
        """Turn a sensor on."""
        selector = {**REPOSITORY, "sensorName": name}
        self._do("startSensor", "sensorSelector: SensorSelector!", "Sensor", "id", sensorSelector=selector)

    def stop_sensor(self, name: str) -> None:
        """Turn a sensor off."""
        state = self._state("sensor", name)
        self._do("stopSensor", "id: String!", "StopSensorMutationResult", "instigationState {id}", id=state)

    def _state(self, kind: str, name: str) -> str:
        """The id of the state of a schedule or sensor."""
        found = f"... on {kind.title()} {{{kind}State {{id}}}}"
        query = f"query Q($it: {kind.title()}Selector!) {{it: {kind}OrError({kind}Selector: $it) {{{found}}}}}"
        return self.ask(query, it={**REPOSITORY, f"{kind}Name": name})["it"][f"{kind}State"]["id"]

    # -- what it shows ------------------------------------------------------------------------------------------

    def runs(self) -> list[dict[str, Any]]:
        """All runs, newest first: `runId`, `status`, `tags`, times in Unix seconds."""
        fields = "runId status rootRunId parentRunId creationTime startTime endTime tags {key value}"
        found = self.ask(f"{{runsOrError {{... on Runs {{results {{{fields}}}}}}}}}")["runsOrError"]["results"]
        return [{**run, "tags": {tag["key"]: tag["value"] for tag in run["tags"]}} for run in found]

    def run(self, run_id: str) -> dict[str, Any]:
        """One run, as in `runs`."""
        return next(run for run in self.runs() if run["runId"] == run_id)

    def status(self, run_id: str) -> str:
        """The status of a run: QUEUED, STARTING, STARTED, CANCELING, SUCCESS, FAILURE, CANCELED."""
        return self.run(run_id)["status"]

    def wait_for_status(self, run_id: str, *wanted: str) -> str:
        """Wait until a run has one of these statuses; fails when it ends in another."""

        def reached() -> str:
            status = self.status(run_id)
            assert status in wanted or status not in ENDED, f"run {run_id[:8]}: {status}\n{self.messages(run_id)}"
            return status if status in wanted else ""

        return wait_for(reached, f"run {run_id[:8]} to be {' or '.join(wanted)}")

    def messages(self, run_id: str) -> str:
        """The event log of a run, one message a line; errors with their cause."""
        errors = " ".join(
            f"... on {kind} {{error {{message cause {{message}}}}}}"
            for kind in ("ExecutionStepFailureEvent", "RunFailureEvent")
        )
        events = f"... on EventConnection {{events {{... on MessageEvent {{message}} {errors}}}}}"
        told = []
        for event in self.ask(f"query Q($id: ID!) {{it: logsForRun(runId: $id) {{{events}}}}}", id=run_id)["it"][
            "events"
        ]:
            error = event.get("error") or {}
            told += [event.get("message"), (error.get("cause") or error).get("message")]
        return "\n".join(message.strip() for message in told if message)

    def backfill_status(self, backfill_id: str) -> str:
        """The status of a backfill, for example REQUESTED, COMPLETED_SUCCESS, COMPLETED_FAILED."""
        found = "... on PartitionBackfill {status}"
        query = f"query Q($id: String!) {{it: partitionBackfillOrError(backfillId: $id) {{{found}}}}}"
        return self.ask(query, id=backfill_id)["it"]["status"]


@dataclass
class _Watched:
    """A run of the service, as `Mill.open_attempt` wants it."""

    service: Service
    run_id: str

    def reaches(self, condition: Callable[[], Any], what: str) -> Any:
        """The first true value of the condition, which must come before the run ends."""
        return self.service.reaches(self.run_id, condition, what)


def _is_service(command: Sequence[str]) -> bool:
    return bool(
        {"dagster_webserver", "tests.jobs.quick_daemon", "dagster._daemon", "jobs.ui", "grpc", "code-server", "dev"}
        & set(command)
    )


def services() -> Iterator[Callable[..., Service]]:
    """A maker of services, for fixtures: none of their processes survives the test, nor does the mill's family."""
    made: list[Service] = []

    def make(mill: Mill, settings: str | Path = SHIPPED) -> Service:
        made.append(Service.make(mill, settings))
        return made[-1]

    try:
        yield make
    finally:
        for service in made:
            service.mill.end_everything()
            for process in service.processes.values():
                process.wait()


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def _pairs(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in tags.items()]
