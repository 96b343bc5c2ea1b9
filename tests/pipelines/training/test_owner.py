"""A trainer ends with the process it works for, however that ended."""

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

from pipelines.processes import process_identity

ROOT = Path(__file__).parents[3]
TRAINER = textwrap.dedent(
    """
    import json, sys, time
    from pipelines.processes import ProcessIdentity
    from pipelines.training.owner import StopRequest, end_with

    stop = StopRequest()
    end_with([ProcessIdentity(**json.loads(sys.argv[1]))], stop, poll_seconds=0.02, grace_seconds=float(sys.argv[2]))
    while not stop():
        time.sleep(0.01)
    print("asked to stop", flush=True)
    time.sleep(60 if sys.argv[2] == "0.1" else 0)
    """
)


def run_until_the_owner_is_killed(grace_seconds):
    """(exit code, output) of a trainer whose owner gets SIGKILL."""
    import json
    from dataclasses import asdict

    owner = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    identity = json.dumps(asdict(process_identity(owner.pid)))
    trainer = subprocess.Popen(
        [sys.executable, "-c", TRAINER, identity, grace_seconds],
        stdout=subprocess.PIPE,
        start_new_session=True,
        cwd=ROOT,
    )
    owner.kill()
    owner.wait()
    output, _ = trainer.communicate(timeout=60)
    return trainer.returncode, output


def test_it_is_asked_to_stop_and_may_save():
    assert run_until_the_owner_is_killed("30") == (0, b"asked to stop\n")


def test_it_is_killed_when_it_does_not_stop():
    assert run_until_the_owner_is_killed("0.1") == (-signal.SIGKILL, b"asked to stop\n")
