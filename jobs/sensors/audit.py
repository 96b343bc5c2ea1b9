"""The sensor `audit`: every materialization of our assets must be in the ledger. What is looked for: `assets/audit.py`.

An asset that fails stays failed, and is looked at again, until what was found is wiped in Dagster or stands in the
ledger.
"""

import json
from collections.abc import Sequence

import dagster as dg

from assets.audit import evaluation, newest, unaccounted
from pipelines.costs.ledger import Ledger
from resources.settings import Profile

EVERY_SECONDS = 300


def _marks(cursor: str | None) -> dict[str, list[int]]:
    """By asset: the last event up to which all is well, the newest seen, how many were found. None if damaged."""
    try:
        told = json.loads(cursor or "{}")
        return {asset: [int(n) for n in mark] for asset, mark in told.items() if len(mark) == 3}
    except (ValueError, TypeError, AttributeError):
        return {}


def audit_sensor(profile: Profile, assets: Sequence[str]) -> dg.SensorDefinition:
    """The sensor for a profile and the names of its assets."""

    @dg.sensor(
        name="audit",
        minimum_interval_seconds=EVERY_SECONDS,
        description="Reports, as the check in_the_ledger of each asset, materializations that no attempt of the ledger "
        "published: reported by hand, made by other code, or older than a ledger that was lost.",
    )
    def audited(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        ledger = Ledger(profile.ledger_url)
        marks = _marks(context.cursor)
        evaluations, wrong = [], 0
        for asset in assets:
            good, last, told = marks.get(asset, [0, 0, 0])
            now = newest(context.instance, asset)
            if now == last and not told:
                continue
            found = unaccounted(context.instance, ledger, asset, after=good)
            wrong += len(found)
            if now != last or len(found) != told:
                evaluations.append(dg.AssetCheckEvaluation(**evaluation(asset, found)))
            # What was found wrong is looked at again next time: up to the event before it all is well.
            marks[asset] = [found[0].storage_id - 1 if found else now, now, len(found)]
        return dg.SensorResult(
            asset_events=evaluations,
            cursor=json.dumps(marks),
            skip_reason=f"{len(evaluations)} assets had something new; {wrong} materializations are not in the ledger",
        )

    return audited
