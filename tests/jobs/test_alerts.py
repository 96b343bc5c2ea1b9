"""Failures: what is said of a failed run, to whom, and that nobody's silence holds up the rest."""

import base64
import json
import os
import signal
import socket
import socketserver
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.events import EngineEventData, JobFailureData, RunFailureReason
from dagster._core.execution.plan.objects import StepFailureData
from dagster._core.executor.child_process_executor import ChildProcessCrashException
from dagster._core.test_utils import create_run_for_test
from dagster._utils.error import SerializableErrorInfo, serializable_error_info_from_exc_info

from jobs import notify as notifying
from jobs.build import build_definitions
from jobs.environment import PASSWORD_VARIABLE
from jobs.failures import OomKills, cause_class, failures, sentence
from jobs.notify import Message, notify
from pipelines.dataset import MixedVersions
from pipelines.engines.local import WorkerKilled
from pipelines.ingest.records import BadInput
from pipelines.profile import ProfileError
from pipelines.store import StoreError
from resources.automation import AlertParams
from resources.launcher import TrainerFailed
from tests.jobs.corpus import make_profile
from tests.jobs.processes import mills
from tests.jobs.test_chain import Mill

MESSAGE = Message("subject", "text", {"run": "r1"})


# -- the class of a cause -----------------------------------------------------------------------------------------


def as_dagster_keeps_it(error: Exception, cause: Exception | None = None) -> SerializableErrorInfo:
    try:
        raise error from cause
    except Exception:
        return serializable_error_info_from_exc_info(sys.exc_info())


class OutOfMemoryError(RuntimeError):
    """Named like torch's."""


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), "out of memory"),
        (OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), "out of memory"),
        (WorkerKilled("a worker process of clean was killed"), "out of memory"),
        (TrainerFailed("the device ran out of memory; lower training.micro_batch_size (CUDA)"), "out of memory"),
        (TrainerFailed("the trainer was killed (signal 9) after step 3, most often by … out of memory"), "killed"),
        (TrainerFailed("the trainer was ended by signal 15 (Terminated) after step 3"), "preempted"),
        (TrainerFailed("the trainer was asked to stop after step 3 and saved its state"), "preempted"),
        (OSError(28, "No space left on device"), "out of disk"),
        (StoreError("the store at x cannot be written: No space left on device"), "out of disk"),
        (BadInput("source 'web': none of 3 inputs has text"), "bad input"),
        (ProfileError("there is no profile"), "bad input"),
        (MixedVersions("its inputs rest on different versions"), "bad input"),
        (json.JSONDecodeError("no JSON", "x", 0), "bad input"),
        (ValueError("a negative number"), "bad input"),
        (dg.Failure("raw_documents needs sources"), "bad input"),
        (ZeroDivisionError("division by zero"), "error in ZeroDivisionError"),
    ],
)
def test_the_class_of_a_cause(error: Exception, expected: str) -> None:
    kept = as_dagster_keeps_it(error)
    wrapped = as_dagster_keeps_it(RuntimeError("an error while executing the step"), error)

    assert cause_class(kept, sentence(kept)) == expected
    assert cause_class(wrapped, sentence(wrapped)) == expected


def test_signal_9_is_out_of_memory_only_with_evidence() -> None:
    crash = as_dagster_keeps_it(ChildProcessCrashException(-9))
    reason = "its process was terminated by signal 9 (SIGKILL)."

    assert cause_class(crash, reason) == "killed"
    assert cause_class(crash, reason, oom_kill=True) == "out of memory"


def test_evidence_of_an_oom_kill_is_a_count_of_our_own_cgroup_that_rose(tmp_path: Path) -> None:
    own, events = tmp_path / "cgroup", tmp_path / "root" / "mill.slice" / "memory.events"
    own.write_text("0::/mill.slice\n")
    events.parent.mkdir(parents=True)
    events.write_text("low 0\noom 3\noom_kill 2\noom_group_kill 0\n")
    kills = OomKills(tmp_path / "root", own)
    assert not kills.since_last_asked()

    events.write_text("low 0\noom 4\noom_kill 3\noom_group_kill 0\n")
    assert kills.since_last_asked()
    assert not kills.since_last_asked()
    assert not OomKills(tmp_path / "nowhere", own).since_last_asked()


def events_of(*events: dg.DagsterEvent) -> list[tuple[str, str, str]]:
    """What is told of a run with these events."""
    with dg.DagsterInstance.ephemeral() as instance:
        run = create_run_for_test(instance, "full_job", status=dg.DagsterRunStatus.STARTED)
        for event in events:
            instance.report_dagster_event(event, run.run_id)
        return [(f.step, f.reason, f.cause) for f in failures(instance, run.run_id)]


def run_failure(message: str, data: JobFailureData | None = None) -> dg.DagsterEvent:
    return dg.DagsterEvent("PIPELINE_FAILURE", "full_job", message=message, event_specific_data=data)


def test_a_killed_step_a_lost_worker_and_a_preempted_run_are_told_apart() -> None:
    crash = as_dagster_keeps_it(ChildProcessCrashException(-9))
    died = dg.DagsterEvent(
        "ENGINE_EVENT",
        "full_job",
        step_key="clean_documents",
        message="Multiprocess executor: child process for step clean_documents was terminated by signal 9 (SIGKILL).",
        event_specific_data=EngineEventData.engine_error(crash),
    )
    failed = dg.DagsterEvent(
        "STEP_FAILURE",
        "full_job",
        step_key="clean_documents",
        event_specific_data=StepFailureData(error=crash, user_failure_data=None),
    )
    killed = "its process was terminated by signal 9 (SIGKILL)."
    assert events_of(died, failed, run_failure("Steps failed")) == [("clean_documents", killed, "killed")]

    lost = "Detected run worker status FAILED: 'run worker process is gone'. Marking run as failed."
    assert events_of(run_failure(lost)) == [("the run", lost, "lost")]

    interrupted = JobFailureData(crash, failure_reason=RunFailureReason.UNEXPECTED_TERMINATION)
    assert events_of(run_failure("Execution was interrupted unexpectedly.", interrupted)) == [
        ("the run", "it was interrupted, and nobody had cancelled it in Dagster", "preempted")
    ]


# -- the message --------------------------------------------------------------------------------------------------


@dataclass
class Server:
    """Someone who is told: port, what arrived, and what to answer next (HTTP statuses)."""

    port: int = 0
    arrived: list[Any] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)


@contextmanager
def serving(server: socketserver.TCPServer, told: Server) -> Iterator[Server]:
    told.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield told
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def webhook() -> Iterator[Server]:
    told = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            told.arrived.append((self.headers["Content-Type"], json.loads(body)))
            self.send_response(told.answers.pop(0) if told.answers else 200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with serving(HTTPServer(("127.0.0.1", 0), Handler), told) as server:
        yield server


@pytest.fixture
def mailbox() -> Iterator[Server]:
    """An SMTP server that takes every mail, and logs in `miller` with any password that it then shows."""
    told = Server()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            def say(line: str) -> None:
                self.wfile.write(line.encode() + b"\r\n")

            say("220 mill")
            mail: dict[str, Any] = {"to": []}
            while line := self.rfile.readline().decode().strip():
                verb = line.split()[0].upper()
                if verb == "EHLO":
                    self.wfile.write(b"250-mill\r\n250 AUTH PLAIN\r\n")
                elif verb == "AUTH":
                    mail["login"] = line.split()[2]
                    say("235 welcome")
                elif verb == "MAIL":
                    mail["from"] = line
                    say("250 ok")
                elif verb == "RCPT":
                    mail["to"].append(line.partition("<")[2].partition(">")[0])
                    say("250 ok")
                elif verb == "DATA":
                    say("354 go on")
                    lines = iter(lambda: self.rfile.readline().decode().rstrip("\r\n"), ".")
                    mail["lines"] = list(lines)
                    told.arrived.append(mail)
                    say("250 taken")
                elif verb == "QUIT":
                    say("221 bye")
                    return
                else:
                    say("502 what")

    with serving(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler), told) as server:
        yield server


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifying, "PAUSE_SECONDS", 0.01)


def alerts(**said: Any) -> AlertParams:
    return AlertParams.model_validate(said)


def hook(server: Server) -> str:
    return f"http://127.0.0.1:{server.port}/hook"


def mail_to(server: Server, **more: Any) -> dict[str, Any]:
    return {
        "to": ["a@example.org", "b@example.org"],
        "host": "127.0.0.1",
        "port": server.port,
        "starttls": False,
    } | more


def fail(tmp_path: Path, instance: dg.DagsterInstance, **sections: Any) -> tuple[Mill, dg.DagsterRun, Any]:
    """A run that failed because a source is not there, and the alert of the profile called for it."""
    mill = Mill(make_profile(tmp_path, **sections), instance)
    web = Path(mill.profile.source("web").path)
    web.rename(web.with_name("moved away"))
    result = mill.run("raw_documents")
    assert not result.success
    run = instance.get_run_by_id(result.run_id)
    (sensor,) = [s for s in build_definitions(mill.profile).sensors or [] if s.name == "failure_alert"]
    context = dg.build_run_status_sensor_context(
        sensor_name="failure_alert",
        dagster_event=result.get_run_failure_event(),
        dagster_instance=instance,
        dagster_run=run,
    )
    return mill, run, sensor(context)


def test_a_failed_run_is_told_with_everything_that_one_asks_at_night(
    tmp_path: Path, webhook: Server, mailbox: Server
) -> None:
    said = {"webserver": "http://mill:3000/", "webhook": hook(webhook), "email": mail_to(mailbox)}
    with dg.DagsterInstance.ephemeral() as instance:
        mill, run, reaction = fail(tmp_path, instance, alerts=said)

    assert reaction.dagster_run.run_id == run.run_id
    ((kind, body),) = webhook.arrived
    spent = sum(attempt.charge.usd for attempt in mill.account().attempts)
    assert kind == "application/json"
    assert spent > 0
    assert body["cost"] == f"{spent:.6f} USD"
    assert (body["job"], body["run"], body["url"]) == ("full_job", run.run_id, f"http://mill:3000/runs/{run.run_id}")
    (failure,) = body["failures"]
    assert (failure["step"], failure["sources"], failure["cause"]) == ("raw_documents", ["web"], "bad input")
    assert "there is no folder or file" in failure["reason"]
    (mail,) = mailbox.arrived
    assert mail["to"] == ["a@example.org", "b@example.org"]
    assert "Subject: test: full_job failed (bad input)" in mail["lines"]
    told = "\n".join(mail["lines"])
    assert "raw_documents [web]: source 'web'" in told.replace("=\n", "")
    assert body["text"].splitlines()[0] == "test: full_job failed (bad input)"


def test_without_channels_the_log_is_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        _, run, _ = fail(tmp_path, instance)

    told = capfd.readouterr().err
    assert "test: full_job failed (bad input)" in told
    assert f"Run {run.run_id} of full_job, profile test. Cost so far: 0." in told


def test_a_webhook_that_fails_neither_fails_the_sensor_nor_loses_the_mail(
    tmp_path: Path, webhook: Server, mailbox: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    webhook.answers = [500] * 10
    said = {"webhook": hook(webhook), "email": mail_to(mailbox)}
    with dg.DagsterInstance.ephemeral() as instance:
        _, run, reaction = fail(tmp_path, instance, alerts=said)

    assert reaction.dagster_run.run_id == run.run_id
    assert len(webhook.arrived) == notifying.TRIES
    assert len(mailbox.arrived) == 1
    assert f"the webhook could not be told of run {run.run_id}: HTTPError: HTTP Error 500" in capfd.readouterr().err


def test_a_webhook_is_tried_again_until_it_works_but_not_when_it_refuses(webhook: Server) -> None:
    webhook.answers = [503, 200]
    assert notify(MESSAGE, alerts(webhook=hook(webhook)), None) == {"webhook": ""}
    assert len(webhook.arrived) == 2

    webhook.answers = [404]
    assert "404" in notify(MESSAGE, alerts(webhook=hook(webhook)), None)["webhook"]
    assert len(webhook.arrived) == 3


def test_nobody_there_and_nobody_answering_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifying, "TIMEOUT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        there = Server(silent.getsockname()[1])
        told = notify(MESSAGE, alerts(webhook=hook(there), email=mail_to(there)), None)
        assert "timed out" in told["webhook"]
        assert "timed out" in told["email"]

        monkeypatch.setattr(notifying, "TIMEOUT_SECONDS", 30)
        monkeypatch.setattr(notifying, "LIMIT_SECONDS", 0.2)
        assert notify(MESSAGE, alerts(webhook=hook(there)), None) == {"webhook": "no answer within 0 s"}

    monkeypatch.undo()
    monkeypatch.setattr(notifying, "PAUSE_SECONDS", 0.01)
    assert "refused" in notify(MESSAGE, alerts(webhook=hook(there)), None)["webhook"]


def test_the_password_comes_from_the_environment_only(
    tmp_path: Path, mailbox: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, "grist")
    with dg.DagsterInstance.ephemeral() as instance:
        fail(tmp_path, instance, alerts={"email": mail_to(mailbox, user="miller")})

    (mail,) = mailbox.arrived
    assert base64.b64decode(mail["login"]) == b"\0miller\0grist"
    untold = notify(MESSAGE, alerts(email=mail_to(mailbox, user="miller")), None)
    assert untold == {"email": "the password of 'miller' is not set: export CORPUSMILL_SMTP_PASSWORD"}
    with pytest.raises(ValueError, match="readable; set starttls: true"):
        alerts(email=mail_to(mailbox, user="miller", host="mail.example"))


# -- real processes -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_killed_step_and_a_terminated_command_are_classed_as_such(tmp_path: Path) -> None:
    for make in mills(tmp_path):
        for name, number, cause in (
            ("step", signal.SIGKILL, "killed"),
            ("command", signal.SIGTERM, "preempted"),
            ("all", signal.SIGTERM, "preempted"),  # as a shutdown does
        ):
            mill = make(name, slow=0.4)
            run = mill.start("--select", "*clean_documents")
            opened = mill.open_attempt(run, "clean_documents", "web")
            if number is signal.SIGKILL:
                os.kill(opened.payload["owner"]["pid"], number)
            else:
                run.signal(number, to_all=name == "all")
            assert run.end() != 0, run.told
            with dg.DagsterInstance.from_config(str(mill.folder / "dagster")) as instance:
                (record,) = instance.get_runs()
                told = failures(instance, record.run_id)
            assert {failure.cause for failure in told} == {cause}, told
