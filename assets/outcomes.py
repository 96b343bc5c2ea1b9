"""What came out of a stage, from its stats: kept and dropped by reason, plots, tables, and numbers to follow over time.

Numbers go in under stable names, so that Dagster can draw them over all materializations. Samples of texts are not
told here: `previews.py` obeys the profile.
"""

import math
from typing import Any

import dagster as dg

from assets import plots
from assets.values import Metadata, cell, integer, number, share, table

SHARES = {
    "wanted_shares": "wanted",
    "planned_shares": "planned",
    "realised_shares": "realised",
}
CURVES = {"curve": "train", "validation_curve": "validation"}
TOLD_ELSEWHERE = {"dropped", "histograms", "samples", "audit", "thresholds", "measured", "corpus", *SHARES, *CURVES}
"""Stats that are drawn, or stand in a table of their own, or hold texts."""

WITH_SHARES = {"languages", "unknown_language"}
"""Counts of which every document is in one."""

LONGEST_JSON, LONGEST_TEXT, MOST_COLUMNS = 20_000, 2_000, 12


def outcome_metadata(stats: dict[str, Any]) -> Metadata:
    """What people look at first: what was kept and dropped, and the plots."""
    told = attention(stats)
    return ({"attention": told} if told else {}) | _kept_and_dropped(stats) | _audit(stats) | _plots(stats)


def figures_metadata(stats: dict[str, Any]) -> Metadata:
    """Everything else that a stage counted."""
    metadata: Metadata = {}
    came_in, went_out = stats.get("documents_in"), stats.get("documents_out")
    if came_in and went_out is not None:
        metadata["stats/kept_share"] = number(went_out / came_in)
    metadata |= {f"dropped/{reason}": integer(count) for reason, count in stats.get("dropped", {}).items()}
    for key, value in stats.items():
        shown = None if key in TOLD_ELSEWHERE else _shown(key, value)
        if shown is not None:
            metadata[f"stats/{key}"] = shown
    return metadata


def attention(stats: dict[str, Any]) -> str | None:
    """A sentence where a stage's counts look like a mistake: nothing came in, or nothing was kept."""
    came_in, went_out = stats.get("documents_in"), stats.get("documents_out")
    if came_in == 0:
        return "No document came in."
    if came_in and went_out == 0:
        return f"None of {came_in:,} documents was kept: look at the reasons, and at the thresholds behind them."
    return None


def _kept_and_dropped(stats: dict[str, Any]) -> Metadata:
    came_in, went_out = stats.get("documents_in"), stats.get("documents_out")
    if came_in is None or went_out is None:
        return {}
    dropped = stats.get("dropped", {})
    reasons = sorted(((name, count) for name, count in dropped.items() if count), key=lambda item: -item[1])
    rows = [("kept", went_out), *((f"dropped: {name}", count) for name, count in reasons)]
    told = [{"outcome": name, "documents": count, "share": share(count, came_in)} for name, count in rows]
    return {"kept and dropped": table(told)}


def _audit(stats: dict[str, Any]) -> Metadata:
    """What the compliance audit found, an obligation in a row."""
    columns = ("obligation", "met", "required", "found", "documents")
    rows = [{name: row[name] for name in columns} for row in stats.get("audit", [])]
    return {"audit": table(rows)} if rows else {}


def _plots(stats: dict[str, Any]) -> Metadata:
    limits = stats.get("limits", {})
    drawn: dict[str, str | None] = {}
    for name, counts in stats.get("histograms", {}).items():
        found = [limits.get(f"{which}_{name}") for which in ("min", "max")]
        drawn[name] = plots.histogram(counts, [limit for limit in found if limit is not None])
    drawn["shares of tokens"] = plots.shares({name: stats[key] for key, name in SHARES.items() if key in stats})
    drawn["loss by step"] = plots.curves({name: stats[key] for key, name in CURVES.items() if key in stats})
    return {f"plot/{name}": dg.MarkdownMetadataValue(plots.image(name, svg)) for name, svg in drawn.items() if svg}


def _shown(key: str, value: Any) -> Any:
    """A figure as metadata: number, text, table where it is as regular as that, else JSON. None: it is left out."""
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, int):
        return integer(value)
    if isinstance(value, float):
        return number(value) if math.isfinite(value) else None
    if isinstance(value, str):
        return value[:LONGEST_TEXT]
    if not value or (_all(value, dict) and not any(_values(value))):
        return None  # nothing, or nothing of each
    if isinstance(value, list) and _all_plain(value):
        return cell(value)[:LONGEST_TEXT]
    if rows := _rows(key, value):
        return table(rows)
    return dg.JsonMetadataValue(value) if len(str(value)) < LONGEST_JSON else None


def _rows(key: str, value: dict[str, Any] | list[Any]) -> list[dict[str, Any]]:
    """A list or dictionary of records, or of plain values, as the rows of a table; none where it is neither."""
    if _all(value, dict):
        records = value if isinstance(value, list) else [{"name": name, **record} for name, record in value.items()]
        columns = list(dict.fromkeys(column for record in records for column in record))
        fits = len(columns) <= MOST_COLUMNS and all(_all_plain(_values(record)) for record in records)
        return [dict.fromkeys(columns) | record for record in records] if fits else []
    if isinstance(value, list) or not _all_plain(_values(value)):
        return []
    if key not in WITH_SHARES:
        return [{"name": name, "value": one} for name, one in value.items()]
    whole = sum(value.values())
    ordered = sorted(value.items(), key=lambda item: -item[1])
    return [{"name": name, "documents": count, "share": share(count, whole)} for name, count in ordered]


def _all(value: dict[str, Any] | list[Any], kind: type) -> bool:
    return all(isinstance(one, kind) for one in _values(value))


def _values(value: dict[str, Any] | list[Any]) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value


def _all_plain(values: list[Any]) -> bool:
    """Whether each fits into a cell: anything but records, and lists of them."""
    return not any(isinstance(v, dict) or (isinstance(v, list) and not _all_plain(v)) for v in values)
