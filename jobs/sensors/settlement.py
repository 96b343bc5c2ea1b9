"""The sensor `settlement`: closes the books of attempts whose process is gone, without waiting for the next run."""

import time

import dagster as dg

from pipelines.costs.ledger import Ledger
from resources.settings import Profile

EVERY_SECONDS = 60


def settlement_sensor(profile: Profile) -> dg.SensorDefinition:
    """The sensor for a profile."""

    @dg.sensor(
        name="settlement",
        minimum_interval_seconds=EVERY_SECONDS,
        description="Closes, at their last heartbeat, the attempts whose process is gone, so that costs are told in "
        "time. Whatever opens the ledger does the same; this only looks every minute.",
    )
    def settled() -> dg.SkipReason:
        begun = time.time()
        ledger = Ledger(profile.ledger_url)  # which settles
        closed = [event for event in ledger.events(kinds=("settled",)) if event.time >= begun]
        if not closed:
            return dg.SkipReason("no attempt had lost its process")
        named = ", ".join(event.attempt for event in closed[:10])
        return dg.SkipReason(f"{len(closed)} attempts had lost their process and were closed: {named}")

    return settled
