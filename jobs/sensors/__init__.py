"""Sensors: what Dagster's daemon looks at again and again. One module for each; all are off until turned on."""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from jobs.sensors.alerts import failure_alert_sensor
from jobs.sensors.audit import audit_sensor
from jobs.sensors.housekeeping import housekeeping_sensor
from jobs.sensors.settlement import settlement_sensor
from jobs.sensors.watch import new_files_sensor
from resources.settings import Profile


def build_sensors(
    profile: Profile, corpus_job: Any, everything: Mapping[str, str], assets: Sequence[str]
) -> list[dg.SensorDefinition]:
    """The sensors of a profile.

    everything: run tags that make one run of all sources. assets: names of the assets whose records are audited.
    """
    return [
        new_files_sensor(profile, corpus_job, everything),
        settlement_sensor(profile),
        audit_sensor(profile, assets),
        failure_alert_sensor(profile),
        housekeeping_sensor(profile),
    ]
