"""A mixture as people read it: what each group supplies, repeats and leaves unused, and what could not be met.

The figures are those of the stage (`pipelines/mixture/plan.py`), what tokens cost is told in `token_costs.py`.
"""

from collections.abc import Mapping
from typing import Any

from assets.values import Metadata, cell, integer, number, share, table

TOLD_HERE = ("mixture", "notes", "epochs", "estimates", "estimated_tokens", "shares_off", "waste", "validation_waste")
"""Stats of a mixture and of a blend that stand in tables of this module."""

MOST_FOLLOWED = 20
"""Groups whose tokens and epochs are numbers that Dagster draws over time."""


def mixture_metadata(stats: Mapping[str, Any], params: Mapping[str, Any]) -> Metadata:
    """The tables of a mixture, and numbers to follow over time; nothing where a stage mixes nothing.

    params: of the version, as recorded: the blend's say how long a packed sample is.
    """
    rows = stats.get("mixture")
    if not rows:
        return {}
    metadata: Metadata = {}
    if notes := stats["notes"]:
        metadata["what could not be met"] = table([{"group": name, "note": note} for name, note in notes.items()])
    metadata["mixture"] = table([_row(row) for row in rows])
    if estimates := stats.get("estimates"):
        metadata["estimated and counted"] = table([_estimate(name, one) for name, one in estimates.items()])
    if waste := stats.get("waste"):
        sides = [*waste.items(), ("(held out for validation)", stats["validation_waste"])]
        metadata["padding of packed samples"] = table(
            [_padding(name, one, params["sequence_length"] + 1) for name, one in sides]
        )
        padded = sum(one["padding_tokens"] for _, one in sides)
        room = sum(one["samples"] for _, one in sides) * (params["sequence_length"] + 1)
        metadata["mixture/padding_share"] = number(padded / room if room else 0)
    for row in rows[:MOST_FOLLOWED]:
        metadata[f"mixture/{row['group']}/tokens"] = integer(row["planned_tokens"])
        metadata[f"mixture/{row['group']}/epochs"] = number(row["epochs"])
    return metadata


def _row(row: Mapping[str, Any]) -> dict[str, str]:
    return {
        "group": row["group"],
        "share wanted": share(row["wanted_share"], 1),
        "share": share(row["planned_share"], 1),
        "tokens": cell(row["planned_tokens"]),
        "epochs": f"{row['epochs']:.3g} of {row['max_epochs']:g}",
        "tokens available": cell(row["available_tokens"]),
        "repeated": cell(row["repeated_tokens"]),
        "unused": cell(row["unused_tokens"]),
    }


def _estimate(name: str, one: Mapping[str, Any]) -> dict[str, str]:
    off = one["estimate_off"]
    return {
        "group": name,
        "tokens estimated": cell(one["estimated_tokens"]),
        "counted for training": cell(one["counted_tokens"]),
        "estimate off by": "" if off is None else f"{off:+.1%}",
    }


def _padding(name: str, one: Mapping[str, Any], sample_tokens: int) -> dict[str, str]:
    return {
        "group": name,
        "samples of one epoch": cell(one["samples"]),
        "tokens of padding": cell(one["padding_tokens"]),
        "share of all": share(one["padding_tokens"], one["samples"] * sample_tokens),
        "documents cut": cell(one["documents_cut"]),
        "cut if concatenated": cell(one["documents_cut_if_concatenated"]),
        "documents left out": cell(one["documents_left_out"]),
    }
