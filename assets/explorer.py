"""The threshold explorer: what every threshold of a rule would keep, as tables of `filtered_documents`.

The counts were made by the stage (`pipelines/filters/thresholds.py`). A source's page has its own table of each rule,
and one of all sources that have been filtered so far; the page of the last source of a run has all of them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from assets.values import Metadata, cell, share, table
from pipelines.costs.ledger import Ledger, Pointer
from pipelines.dataset import Dataset, Version
from pipelines.filters.thresholds import DROPPED_BELOW, kept_at, without_rule

IN_FORCE = "in force"
MOST_SOURCES = 12
"""Columns of sources that fit on a page."""

LIMITS = {
    "toxicity": "max_toxicity",
    "perplexity_high": "max_perplexity",
    "perplexity_low": "min_perplexity",
    "contamination": "max_contamination",
}
"""By rule, its threshold among a version's limits."""

CUTS = {"toxicity": ("toxic", "sentence"), "contamination": ("decontaminate", "paragraph")}
"""By rule, the limit that says what goes, and its value where less than the document does."""


def explorer_metadata(made: Dataset, ledger: Ledger, pending: Sequence[Pointer]) -> Metadata:
    """The tables for one source that was filtered. pending: the step's pointers that have not moved yet."""
    version = made.version
    if "thresholds" not in version.stats:
        return {}
    others = _sources(made, ledger, pending)
    metadata: Metadata = {}
    for rule, counts in version.stats["thresholds"].items():
        if sum(map(bool, counts["documents"])) > 1 or counts["unscored"]["documents"]:
            metadata[f"thresholds/{rule}"] = table(rows(rule, counts, version.stats["limits"]))
            if len(others) > 1:
                by_source = {name: stats["thresholds"][rule] for name, stats in others.items()}
                metadata[f"thresholds/{rule} by source"] = table(
                    rows_by_source(rule, by_source, version.stats["limits"])
                )
    return metadata


def rows(rule: str, counts: Mapping[str, Any], limits: Mapping[str, Any]) -> list[dict[str, str]]:
    """A row for each threshold: what it would keep, all other rules as they are."""
    documents, size = without_rule(counts)
    kept = _kept(rule, limits)
    return [
        {
            _dropped(rule): cell(edge),
            f"documents {kept}": cell(n),
            "share": share(n, documents),
            f"MB {kept}": cell(bytes_kept / 1e6),
            "share of bytes": share(bytes_kept, size),
            "now": _now(rule, edge, limits),
        }
        for edge, n, bytes_kept in kept_at(rule, counts)
    ]


def rows_by_source(
    rule: str, by_source: Mapping[str, Mapping[str, Any]], limits: Mapping[str, Any]
) -> list[dict[str, str]]:
    """A row for each threshold: the documents of each source that it would keep, and of all, with their share."""
    kept = {name: {edge: (n, without_rule(c)[0]) for edge, n, _ in kept_at(rule, c)} for name, c in by_source.items()}
    edges = [edge for edge in next(iter(kept.values())) if all(edge in one for one in kept.values())]
    found = []
    for edge in edges:
        at = {name: one[edge] for name, one in kept.items()}
        whole = sum(n for n, _ in at.values()), sum(most for _, most in at.values())
        shown = dict(list(at.items())[:MOST_SOURCES]) | {"all sources": whole}
        told = {name: f"{n:,} ({share(n, most)})" for name, (n, most) in shown.items()}
        found.append({_dropped(rule): cell(edge), **told, "now": _now(rule, edge, limits)})
    return found


def _sources(made: Dataset, ledger: Ledger, pending: Sequence[Pointer]) -> dict[str, dict[str, Any]]:
    """Stats of every source as it stands now, in the order in which they were first filtered; of this one, these."""
    current = {pointer.partition: pointer.version for pointer in ledger.all_current() if pointer.asset == made.asset}
    current |= {pointer.partition: pointer.version for pointer in pending if pointer.asset == made.asset}
    current[made.version.partition] = made.version.id
    found = {name: Version.find(made.store, version) for name, version in current.items()}
    return {name: one.stats for name, one in found.items() if one is not None and "thresholds" in one.stats}


def _dropped(rule: str) -> str:
    return "dropped below" if rule in DROPPED_BELOW else "dropped above"


def _kept(rule: str, limits: Mapping[str, Any]) -> str:
    """A rule that cuts documents instead of dropping them says how many it leaves whole."""
    key, value = CUTS.get(rule, ("", None))
    return "left whole" if value is not None and limits.get(key) == value else "kept"


def _now(rule: str, edge: float, limits: Mapping[str, Any]) -> str:
    return IN_FORCE if limits.get(LIMITS[rule]) == edge else ""
