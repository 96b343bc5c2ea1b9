"""The sensor `failure_alert`: tells people of a failed run, in words that say what to do about it.

Why a run failed is told by `jobs/failures.py`, the telling itself is `jobs/notify.py`.
"""

from collections.abc import Sequence
from decimal import Decimal

import dagster as dg
from dagster._core.definitions.run_request import DagsterRunReaction

from jobs.environment import smtp_password
from jobs.failures import Failure, OomKills, failures
from jobs.notify import Message, notify
from pipelines.costs.account import Account
from pipelines.costs.ledger import Ledger, LedgerError
from pipelines.prices.book import PriceError, load_book
from resources.settings import Profile

EVERY_SECONDS = 30
LONGEST_REASON = 2000
"""Characters of a reason that are sent; the run's page has all of it."""


def failure_alert_sensor(profile: Profile) -> dg.SensorDefinition:
    """The sensor for a profile."""
    oom_kills = OomKills()

    def alert(context: dg.RunStatusSensorContext) -> DagsterRunReaction:
        run = context.dagster_run
        why = failures(context.instance, run.run_id, oom_kill=oom_kills.since_last_asked())
        message = failure_message(profile, run, why)
        context.log.error(f"{message.subject}\n{message.text}")
        for channel, reason in notify(message, profile.alerts, smtp_password()).items():
            if reason:
                context.log.error(f"the {channel} could not be told of run {run.run_id}: {reason}")
        # An answer ends the look, so that one look tells of one run and stays within Dagster's minute.
        return DagsterRunReaction(dagster_run=run, run_status=dg.DagsterRunStatus.FAILURE)

    return dg.RunStatusSensorDefinition(
        name="failure_alert",
        run_status=dg.DagsterRunStatus.FAILURE,
        run_status_sensor_fn=alert,
        minimum_interval_seconds=EVERY_SECONDS,
        monitor_all_code_locations=True,  # runs of the command belong to none
        description="Tells of every failed run in the log, and by webhook and e-mail where the profile says so: step, "
        "source, reason, cost so far, and the class of the cause.",
    )


def failure_message(profile: Profile, run: dg.DagsterRun, why: Sequence[Failure]) -> Message:
    """What is told of a failed run."""
    cost, sources = _cost_and_sources(profile, run.run_id)
    causes = ", ".join(dict.fromkeys(failure.cause for failure in why)) or "no reason given"
    lines = []
    for failure in why:
        at = ", ".join(sources.get(failure.step, []))
        lines.append(f"{failure.step}{f' [{at}]' if at else ''}: {_short(failure.reason)}\nCause: {failure.cause}")
    lines.append(f"Run {run.run_id} of {run.job_name}, profile {profile.name}. Cost so far: {cost}.")
    url = f"{profile.alerts.webserver.rstrip('/')}/runs/{run.run_id}" if profile.alerts.webserver else None
    if url:
        lines.append(url)
    facts = {
        "profile": profile.name,
        "job": run.job_name,
        "run": run.run_id,
        "url": url,
        "cost": cost,
        "failures": [
            {"step": f.step, "sources": sources.get(f.step, []), "reason": _short(f.reason), "cause": f.cause}
            for f in why
        ],
    }
    return Message(f"{profile.name}: {run.job_name} failed ({causes})", "\n".join(lines), facts)


def _short(reason: str) -> str:
    """A reason that every channel takes: not too long, and valid Unicode."""
    cut = reason if len(reason) <= LONGEST_REASON else f"{reason[:LONGEST_REASON]}…"
    return cut.encode(errors="replace").decode()


def _cost_and_sources(profile: Profile, run: str) -> tuple[str, dict[str, list[str]]]:
    """The dollars that a run has cost until now, in words, and by step the sources whose attempts did not succeed."""
    try:
        ledger = Ledger(profile.ledger_url)  # settles what the run left open
        attempts = [a for a in Account.read(ledger, load_book(profile.prices_path)).attempts if a.run == run]
        sources: dict[str, list[str]] = {}
        for attempt in attempts:
            if attempt.role == "stage" and attempt.status != "done" and attempt.partition:
                sources.setdefault(attempt.step, []).append(attempt.partition)
    except (LedgerError, PriceError) as error:
        return f"unknown ({error})", {}
    try:
        return f"{sum((a.charge.usd for a in attempts), Decimal(0)):.6f} USD", sources
    except PriceError as error:
        return f"unknown ({error})", sources
