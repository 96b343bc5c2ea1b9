"""The arithmetic of a mixture: tokens available and what is asked for in, tokens planned out. Exact, in integers.

Nothing here reads data. `stage.py` feeds it estimates from text bytes; the blend (`pipelines/tokens/blend.py`) is
handed `replan` as a function and feeds it counted tokens. What the plan says in words is `notes.py`'s.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import pyarrow as pa

from pipelines.mixture.notes import notes_of, percent
from pipelines.mixture.params import MixtureParams
from pipelines.schemas import MIXTURE

DIGITS = 30
"""Of the powers behind a temperature: decimals, which give the same on any machine."""


MOST_TOLD = 3
"""Of what a plan does not meet, so much is said first; every group has its note."""


def plan(available_tokens: Mapping[str, int], asked: MixtureParams) -> pa.Table:
    """Tokens to take of each group: one row per group in the order given, schema MIXTURE.

    available_tokens: tokens in one epoch, by group. Shares are `asked.shares`, of which only the proportions count, or
    follow from the sizes (`natural_weights`).

    Without a budget there are as many tokens as the groups in the mixture hold, or fewer where a share would need more
    epochs of its group than are allowed; the shares are met. With a budget, a group that cannot supply its share gives
    all it has at most epochs, and the others make up for it in proportion to their shares; where `asked.if_short` is
    'shrink', the shares stay, and there are fewer tokens. Every such change is told in `note`. A group without tokens
    leaves its share to the others in any case. Token counts are apportioned by largest remainder (Hamilton's method;
    ties go to the group named first), so they add up exactly.
    Raises `ValueError` where a parameter names a group that is not there.
    """
    refuse_unknown_groups(available_tokens, asked)
    weights = _weights(available_tokens, asked)
    together = sum(weights.values(), Fraction(0))
    wanted = {name: weight / together if together else Fraction(0) for name, weight in weights.items()}
    most_epochs = {name: asked.epochs.get(name, asked.max_epochs) for name in available_tokens}
    limits = {name: int(_exact(most_epochs[name]) * tokens) for name, tokens in available_tokens.items()}
    taking_part = [name for name in wanted if wanted[name] and limits[name]]
    if asked.token_budget and asked.if_short != "shrink":
        tokens = min(asked.token_budget, sum(limits[name] for name in taking_part))
    else:
        held = asked.token_budget or sum(available_tokens[name] for name in taking_part)
        tokens = min([held, _most_at_these_shares(taking_part, wanted, limits)]) if taking_part else 0
    planned = _fill(tokens, taking_part, wanted, limits)
    notes = notes_of(asked, available_tokens, wanted, most_epochs, limits, planned)
    return pa.Table.from_pylist(
        [
            {
                "group": name,
                "wanted_share": float(wanted[name]),
                "planned_share": planned[name] / tokens if tokens else 0.0,
                "available_tokens": count,
                "planned_tokens": planned[name],
                "repeated_tokens": max(0, planned[name] - count),
                "unused_tokens": max(0, count - planned[name]),
                "epochs": planned[name] / count if count else 0.0,
                "max_epochs": most_epochs[name],
                "note": "; ".join(notes[name]) or None,
            }
            for name, count in available_tokens.items()
        ],
        schema=MIXTURE,
    )


def replan(counted_tokens: Mapping[str, int], planned: Mapping[str, Any]) -> tuple[pa.Table, dict[str, Any]]:
    """The plan again, from counted tokens: (table of schema MIXTURE, what the blend says of it in its stats).

    planned: the stats of the stage's draft. Groups that it counted and that have no tokens now stand with 0.
    Raises `ValueError` where a share or the budget cannot be met and `if_short` is 'refuse', and for stats that an
    earlier version of the stage left.
    """
    if "estimated_tokens" not in planned:
        raise ValueError("the mixture was planned by an earlier version of its stage; materialize it again")
    asked = MixtureParams.model_validate(planned["request"])
    estimated: Mapping[str, int] = planned["estimated_tokens"]
    table = plan(dict.fromkeys(estimated, 0) | dict(counted_tokens), asked)
    rows = table.to_pylist()
    if asked.if_short == "refuse" and (why := unmet(rows, asked)):
        raise ValueError(
            f"the mixture cannot be had as it is asked for: {'; '.join(why)}. Ask for less, allow more "
            "epochs, or let mixture.if_short say what to do then"
        )
    off = {
        row["group"]: {
            "estimated_tokens": estimated.get(row["group"], 0),
            "counted_tokens": row["available_tokens"],
            "estimate_off": _off(estimated.get(row["group"], 0), row["available_tokens"]),
        }
        for row in rows
    }
    told = told_of(rows, asked)
    told["realised_shares"], told["planned_shares"] = told["planned_shares"], planned["planned_shares"]
    return table, told | {"estimates": off}


def told_of(rows: Sequence[Mapping[str, Any]], asked: MixtureParams) -> dict[str, Any]:
    """What stats say of a plan: its rows, for people, what is not as it was asked for, and figures by group."""
    why = unmet(rows, asked)
    return {
        **({"attention": f"The mixture is not as it was asked for: {'; '.join(why[:MOST_TOLD])}."} if why else {}),
        "mixture": [{name: value for name, value in row.items() if name != "note"} for row in rows],
        "wanted_shares": {row["group"]: row["wanted_share"] for row in rows},
        "planned_shares": {row["group"]: row["planned_share"] for row in rows},
        "epochs": {row["group"]: row["epochs"] for row in rows},
        "notes": {row["group"]: row["note"] for row in rows if row["note"]},
        "token_budget": asked.token_budget,
    }


def unmet(rows: Sequence[Mapping[str, Any]], asked: MixtureParams) -> list[str]:
    """What of a request a plan does not meet, in words: the budget, and groups with less than their share."""
    total = sum(row["planned_tokens"] for row in rows)
    whole = total if asked.if_short == "shrink" else asked.token_budget or total
    told = []
    if total < asked.token_budget:
        told.append(f"{total:,} tokens can be had; mixture.token_budget is {asked.token_budget:,}")
    for row in rows:
        if whole * row["wanted_share"] - row["planned_tokens"] > 1 + 1e-9 * whole:  # more than rounding
            had, wanted = percent(row["planned_tokens"] / whole), percent(row["wanted_share"])
            told.append(f"{row['group']} can supply {had} at {row['max_epochs']:g} epochs; asked {wanted}")
    return told


def natural_weights(available_tokens: Mapping[str, int], temperature: float) -> dict[str, Fraction]:
    """Weights of groups that nobody gave shares: tokens^(1/temperature).

    Lample and Conneau 2019 (XLM, section 3.1: q_i = p_i^α / Σ p_j^α, α = 1/temperature), of which Conneau et al. 2020
    (XLM-R, section 3.1) take α = 0.3; Raffel et al. 2020 (T5, section 3.5.2, temperature-scaled mixing). Temperature 1
    is in proportion to size.
    """
    if temperature == 1:
        return {name: Fraction(tokens) for name, tokens in available_tokens.items()}
    with localcontext() as context:
        context.prec = DIGITS
        exponent = 1 / Decimal(str(temperature))
        return {
            name: Fraction(Decimal(tokens) ** exponent) if tokens else Fraction(0)
            for name, tokens in available_tokens.items()
        }


def largest_remainder(total: int, quotas: Mapping[str, Fraction]) -> dict[str, int]:
    """Integers that add up to `total`, each its quota rounded down or up. The quotas must add up to `total`."""
    counts = {name: int(quota) for name, quota in quotas.items()}
    by_remainder = sorted(quotas, key=lambda name: counts[name] - quotas[name])
    for name in by_remainder[: total - sum(counts.values())]:
        counts[name] += 1
    return counts


def refuse_unknown_groups(groups: Mapping[str, Any], asked: MixtureParams) -> None:
    """Raise `ValueError` where a key of the profile names a group that is not there, saying which there are."""
    kind = "a source" if asked.by == "source" else f"a {asked.by} of the documents"
    for key, names in asked.naming_groups.items():
        for name in names:
            if name not in groups:
                raise ValueError(f"{key} names {name!r}, which is not {kind}; there are: {', '.join(groups) or 'none'}")


def _exact(value: float) -> Fraction:
    """The decimal number that the user wrote: 1/5 for 0.2."""
    return Fraction(str(value))


def _off(estimated: int, counted: int) -> float | None:
    return estimated / counted - 1 if counted else None


def _weights(available_tokens: Mapping[str, int], asked: MixtureParams) -> dict[str, Fraction]:
    if not asked.shares:
        return natural_weights(available_tokens, asked.temperature)
    return {name: _exact(asked.shares.get(name, 0)) for name in available_tokens}


def _most_at_these_shares(taking_part: Sequence[str], wanted: Mapping[str, Fraction], limits: Mapping[str, int]) -> int:
    """Tokens of the largest mixture in which every group has its share of what those taking part have."""
    together = sum((wanted[name] for name in taking_part), Fraction(0))
    return min(int(limits[name] * together / wanted[name]) for name in taking_part)


def _fill(
    tokens: int, taking_part: Sequence[str], wanted: Mapping[str, Fraction], limits: Mapping[str, int]
) -> dict[str, int]:
    """Share `tokens` out in proportion; what is above a group's limit flows to the others, again in proportion."""
    planned = dict.fromkeys(wanted, 0)
    open_groups = list(taking_part)
    while open_groups:
        together = sum((wanted[name] for name in open_groups), Fraction(0))
        quotas = {name: tokens * wanted[name] / together for name in open_groups}
        full = [name for name in open_groups if quotas[name] > limits[name]]
        if not full:
            return planned | largest_remainder(tokens, quotas)
        for name in full:
            planned[name] = limits[name]
            tokens -= limits[name]
            open_groups.remove(name)
    return planned
