"""The jobs, and when they start by themselves: nightly and weekly, in the profile's time zone. Off until turned on.

What starts on files or failures instead of at a time stands in `jobs/sensors/`.
"""

import datetime
from collections.abc import Mapping
from typing import Any

import dagster as dg

from resources.settings import Profile

UNFINISHED = [dg.DagsterRunStatus[name] for name in ("QUEUED", "STARTING", "STARTED", "CANCELING")]
"""A run that was never submitted is not among them: nobody will finish it."""

RUN_KEY_TAG, SCHEDULE_TAG = "dagster/run_key", "dagster/schedule_name"


def build_jobs() -> dict[str, Any]:
    """The jobs by name, as `dagster.Definitions` takes them."""
    corpus = dg.AssetSelection.assets("training_blend").upstream()
    training = dg.AssetSelection.groups("training", "alignment")
    return {
        "full_job": dg.define_asset_job(
            "full_job", selection="*", description="From raw documents to a trained model."
        ),
        "corpus_job": dg.define_asset_job(
            "corpus_job",
            selection=corpus,
            description="From raw documents to the blend of tokens to train on: everything before training.",
        ),
        "training_job": dg.define_asset_job(
            "training_job",
            selection=training,
            description="Trains on the blend that is current. It makes no data, and needs no sources to be chosen.",
        ),
    }


def build_schedules(
    profile: Profile, jobs: Mapping[str, Any], everything: Mapping[str, str]
) -> list[dg.ScheduleDefinition]:
    """The schedules that a profile has a time for. everything: run tags that make one run of all sources."""
    times = {"nightly": (profile.schedules.nightly, "corpus_job"), "weekly": (profile.schedules.weekly, "full_job")}
    return [
        _schedule(name, jobs[job], job, cron, profile.timezone, everything)
        for name, (cron, job) in times.items()
        if cron is not None
    ]


def _schedule(
    name: str, job: Any, job_name: str, cron: str, timezone: str, everything: Mapping[str, str]
) -> dg.ScheduleDefinition:
    @dg.schedule(
        name=name,
        job=job,
        cron_schedule=cron,
        execution_timezone=timezone,
        description=f"Starts {job_name} for all sources. Left out while the run before it is not finished.",
    )
    def ticked(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        key = f"{name} {context.scheduled_execution_time.astimezone(datetime.UTC):%Y-%m-%dT%H:%MZ}"
        mine = dg.RunsFilter(statuses=UNFINISHED, tags={SCHEDULE_TAG: name})
        for run in context.instance.get_runs(filters=mine):
            if run.tags.get(RUN_KEY_TAG) != key:  # a look that was interrupted is made again, and finds its own run
                return dg.SkipReason(f"run {run.run_id[:8]} of the schedule before is not finished")
        return dg.RunRequest(run_key=key, tags=dict(everything))

    return ticked
