"""The sensor `housekeeping`: removes old runs from Dagster, a few at a time. Which of them: `jobs/housekeeping.py`."""

import datetime
import time

import dagster as dg
from dagster._time import get_current_datetime

from jobs.housekeeping import removable_runs, remove_run
from resources.settings import Profile

EVERY_SECONDS = 3600
LIMIT_RUNS = 200
LIMIT_SECONDS = 30.0
"""How much one look removes at most: Dagster gives a sensor a minute."""


def housekeeping_sensor(profile: Profile) -> dg.SensorDefinition:
    """The sensor for a profile."""
    days = profile.retention.days

    @dg.sensor(
        name="housekeeping",
        minimum_interval_seconds=EVERY_SECONDS,
        description="Removes finished runs from Dagster that are older than the profile's retention.days and hold the "
        "newest record of nothing. The ledger, and so every cost, stays as it is.",
    )
    def tidied(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        if days is None:
            return dg.SkipReason("the profile keeps all runs: retention.days is null")
        before = get_current_datetime() - datetime.timedelta(days=days)
        definitions = context.repository_def
        checks = sorted(definitions.asset_graph.asset_check_keys) if definitions else []
        deadline = time.monotonic() + LIMIT_SECONDS
        removed = 0
        for run_id in list(removable_runs(context.instance, before, checks)):
            if removed == LIMIT_RUNS or time.monotonic() > deadline:
                return dg.SkipReason(f"removed {removed} runs older than {days} days; more go at the next look")
            remove_run(context.instance, run_id)
            removed += 1
        return dg.SkipReason(f"removed {removed} runs older than {days} days; none is left that may go")

    return tidied
