"""A sensor of a mill, looked at again and again, and attempts whose process is gone."""

from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from jobs.build import build_definitions
from pipelines.costs.ledger import Ledger
from pipelines.processes import ProcessIdentity, process_identity
from pipelines.usage import Usage
from resources.settings import Profile


@dataclass
class Watcher:
    """A sensor that is looked at again and again, with the cursor that it left."""

    profile: Profile
    instance: dg.DagsterInstance
    name: str = "new_files"
    cursor: str | None = None
    events: list[Any] = field(default_factory=list)

    def tick(self) -> dg.RunRequest | str:
        """The run that is asked for, or why there is none."""
        definitions = build_definitions(self.profile)
        (sensor,) = [one for one in definitions.sensors or [] if one.name == self.name]
        assert isinstance(sensor, dg.SensorDefinition)
        context = dg.build_sensor_context(
            instance=self.instance, cursor=self.cursor, repository_def=definitions.get_repository_def()
        )
        told = sensor.evaluate_tick(context)
        self.cursor = told.cursor or self.cursor
        self.events = list(told.asset_events)
        for event in self.events:
            self.instance.report_runless_asset_event(event)
        requests = told.run_requests or []
        assert len(requests) <= 1
        return requests[0] if requests else told.skip_message or ""

    def fires(self) -> dg.RunRequest:
        """The run that is asked for, once nothing moves any more."""
        first = self.tick()
        told = first if isinstance(first, dg.RunRequest) else self.tick()
        assert isinstance(told, dg.RunRequest), told
        return told


def gone() -> ProcessIdentity:
    """A process of this machine that has ended."""
    own = process_identity()
    return ProcessIdentity(own.host, own.boot_id, own.pid, own.started - 1)


def open_attempt(ledger: Ledger, run: str, owner: ProcessIdentity, role: str = "stage") -> str:
    return ledger.open_attempt(
        root_run=run, run=run, step="s", asset="a", partition="", role=role, usage=Usage(cpu_seconds=1), owner=owner
    )
