"""The sensor `new_files`: starts corpus_job when what the watched sources hold is no longer what was made of it.

The cursor holds digests only; what is known about single files stands in the store's scratch. What a source holds is
told by `pipelines/ingest/watching.py`.
"""

import json
from collections.abc import Mapping
from typing import Any

import dagster as dg

from jobs.schedules import UNFINISHED
from pipelines.costs.ledger import Ledger
from pipelines.dataset import Version
from pipelines.ingest.records import BadInput
from pipelines.ingest.watching import Look, is_held_by, look
from pipelines.store import Store, digest
from resources.settings import Profile

RAW = "raw_documents"


def new_files_sensor(profile: Profile, corpus_job: Any, everything: Mapping[str, str]) -> dg.SensorDefinition:
    """The sensor for a profile. everything: run tags that make one run of all sources."""
    names = ", ".join(source.name for source in profile.watched_sources) or "none"

    @dg.sensor(
        name="new_files",
        job=corpus_job,
        minimum_interval_seconds=profile.watch.every_seconds,
        description=f"Starts corpus_job for all sources when files of a watched source came, went or changed their "
        f"content, once nothing changed between two looks. Watched: {names}.",
    )
    def watched(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        ledger, store = Ledger(profile.ledger_url), Store(profile.store_url)
        known = _Known.read(context.cursor)
        reason = _Watch(profile, ledger, store, known).reason_to_wait(context.instance)
        if reason:
            return dg.SensorResult(skip_reason=reason, cursor=known.cursor())
        request = dg.RunRequest(run_key=known.run_key, tags=dict(everything))
        return dg.SensorResult(run_requests=[request], cursor=known.cursor())

    return watched


class _Known:
    """What the last look left behind. seen: stamp of each source. covered: its content that has a run, or needs none.

    A lost cursor costs one look: the run's key and what raw_documents was made from keep a run from starting twice.
    """

    def __init__(self, seen: dict[str, str], covered: dict[str, str]) -> None:
        self.seen, self.covered, self.run_key = seen, covered, ""

    @classmethod
    def read(cls, cursor: str | None) -> "_Known":
        try:
            told = json.loads(cursor or "{}")
            return cls(dict(told.get("seen", {})), dict(told.get("covered", {})))
        except (ValueError, TypeError, AttributeError):  # written by hand, or by another version of this
            return cls({}, {})

    def cursor(self) -> str:
        return json.dumps({"seen": self.seen, "covered": self.covered})


class _Watch:
    """One look at all watched sources."""

    def __init__(self, profile: Profile, ledger: Ledger, store: Store, known: _Known) -> None:
        self._profile, self._ledger, self._store, self._known = profile, ledger, store, known

    def reason_to_wait(self, instance: dg.DagsterInstance) -> str:
        """Why no run is started now; empty if one is. What was learnt is noted in `known`."""
        sources = self._profile.watched_sources
        if not sources:
            return "no source reads files of its own, so there is nothing to watch"
        try:
            found = {source.name: look(source, self._store) for source in sources}
        except (BadInput, OSError) as error:
            return f"waiting: {error}"
        moving = [name for name, one in found.items() if self._known.seen.get(name) != one.stamp]
        self._known.seen = {name: one.stamp for name, one in found.items()}
        if unread := sum(one.unread for one in found.values()):
            return f"{unread:,} new files are still to be read, to know what they hold"
        new = [name for name, one in found.items() if self._known.covered.get(name) != one.content]
        if not new:
            return "nothing new: every watched source holds what it held"
        if busy := run_at_work(instance, self._ledger):
            return f"{', '.join(new)} changed; waiting for the end of run {busy[:8]}, which may take it in"
        for name in list(new):
            if self._is_made(name, found[name]):
                new.remove(name)
                self._known.covered[name] = found[name].content
        if not new:
            return f"nothing new: {RAW} was made from what the watched sources hold"
        for name in new:
            if not found[name].listing.files and self._has_documents(name):
                return (
                    f"source {name!r} is empty now, as when a disk is not mounted; if that is meant, start corpus_job "
                    "by hand"
                )
        if waiting := [name for name in new if name in moving]:
            return f"{', '.join(waiting)} changed; waiting until a look finds the same as the one before"
        self._known.covered = {name: one.content for name, one in found.items()}
        self._known.run_key = self._key(found)
        return ""

    def _is_made(self, name: str, found: Look) -> bool:
        version = self._version(name)
        source = self._profile.source(name)
        return version is not None and is_held_by(found, source, self._profile.ingest, version, self._ledger.removals())

    def _has_documents(self, name: str) -> bool:
        version = self._version(name)
        return version is not None and version.stats.get("documents_in", 0) > 0

    def _version(self, name: str) -> Version | None:
        pointer = self._ledger.current(RAW, name)
        return Version.find(self._store, pointer.version) if pointer else None  # one that is gone will be made anew

    def _key(self, found: dict[str, Look]) -> str:
        """The same for the same change, however often it is looked at: what there is, and what it would replace."""
        replaced = {name: self._ledger.current(RAW, name) for name in found}
        return digest([[name, one.content, (p := replaced[name]) and p.attempt] for name, one in found.items()])[:32]


def run_at_work(instance: dg.DagsterInstance, ledger: Ledger) -> str | None:
    """Id of a queued or running run that reads the sources, if there is one."""
    for run in instance.get_runs(filters=dg.RunsFilter(statuses=UNFINISHED)):
        chosen = run.asset_selection
        reads = dg.AssetKey(RAW) in chosen if chosen is not None else run.job_name != "training_job"
        if reads and not _is_over(run, ledger):
            return run.run_id
    return None


def _is_over(run: dg.DagsterRun, ledger: Ledger) -> bool:
    """Whether the ledger knows that a run's own process has ended, which Dagster is not told when it was killed."""
    opened = ledger.events(kinds=("opened",), run=run.run_id)
    coordinators = {event.attempt for event in opened if event.payload["role"] == "coordinator"}
    ended = {event.attempt for event in ledger.events(kinds=("closed", "settled"), run=run.run_id)}
    return bool(coordinators) and coordinators <= ended
