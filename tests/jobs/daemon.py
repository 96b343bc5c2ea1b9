"""Dagster's daemon, one look at a time and at any hour: real schedules and sensors, runs that are created, not run."""

import datetime
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.scheduler.instigation import TickStatus
from dagster._core.test_utils import create_test_daemon_workspace_context, freeze_time, instance_for_test
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import PythonFileTarget
from dagster._daemon.sensor import execute_sensor_iteration
from dagster._scheduler.scheduler import launch_scheduled_runs

from jobs.environment import PROFILE_VARIABLE
from resources.settings import HOME

NO_RUNS = {"run_launcher": {"module": "dagster._core.test_utils", "class": "MockedRunLauncher"}}
"""Settings of an instance whose runs are launched and stay as they are."""

QUIET = logging.getLogger("tests.daemon")


@dataclass
class Daemon:
    """A daemon whose code location is the project's own."""

    instance: dg.DagsterInstance
    workspace: WorkspaceProcessContext
    memory: dict[str, Any] = field(default_factory=dict)

    def restart(self) -> None:
        """Forget what is not written down, as a daemon does that is started anew."""
        self.memory.clear()

    def reload(self) -> None:
        """Load the code location again, as after an edit of the profile."""
        (name,) = self.workspace.create_request_context().code_location_names
        self.workspace.reload_code_location(name)

    def turn_on(self, name: str) -> None:
        """Turn a schedule or a sensor on, as in the UI."""
        for schedule in self._repository.get_schedules():
            if schedule.name == name:
                self.instance.start_schedule(schedule)
        for sensor in self._repository.get_sensors():
            if sensor.name == name:
                self.instance.start_sensor(sensor)

    def tick_schedules(self, now: datetime.datetime) -> None:
        """What the daemon does about schedules at this time."""
        with freeze_time(now):
            list(launch_scheduled_runs(self.workspace, QUIET, end_datetime_utc=now, iteration_times=self.memory))

    def tick_sensors(self, now: datetime.datetime) -> None:
        """What the daemon does about sensors at this time."""
        with freeze_time(now):
            list(execute_sensor_iteration(self.workspace, QUIET, None, None))

    def last_tick(self, sensor: str) -> Any:
        """The last look of a sensor."""
        (remote,) = [one for one in self._repository.get_sensors() if one.name == sensor]
        tick = self.instance.get_ticks(remote.get_remote_origin_id(), remote.selector_id, limit=1)[0]
        assert tick.status in (TickStatus.SUCCESS, TickStatus.SKIPPED), tick.error
        return tick

    def forget(self, sensor: str) -> None:
        """Reset the cursor of a sensor, as in the UI."""
        (remote,) = [one for one in self._repository.get_sensors() if one.name == sensor]
        state = self.instance.get_instigator_state(remote.get_remote_origin_id(), remote.selector_id)
        assert state is not None and state.instigator_data is not None
        data = state.instigator_data._replace(cursor=None)
        self.instance.update_instigator_state(state.with_data(data))

    @property
    def _repository(self) -> Any:
        (location,) = self.workspace.create_request_context().code_locations
        return location.get_repository("__repository__")


@contextmanager
def daemon(profile: Path, folder: Path, monkeypatch: Any) -> Iterator[Daemon]:
    """A daemon for a profile, with an instance of its own in a folder."""
    monkeypatch.setenv(PROFILE_VARIABLE, str(profile))
    folder.mkdir()
    target = PythonFileTarget(str(HOME / "jobs" / "definitions.py"), "definitions", str(HOME), "corpusmill")
    with (
        instance_for_test(overrides=NO_RUNS, temp_dir=str(folder)) as instance,
        create_test_daemon_workspace_context(target, instance) as workspace,
    ):
        yield Daemon(instance, workspace)
