"""The arithmetic of a mixture: tokens available and shares wanted in, tokens planned out. Exact, in integers.

Nothing here reads data. `stage.py` feeds it estimates from text bytes; the blend (`pipelines/tokens/blend.py`) is
handed `plan` as a function and feeds it counted tokens.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction

import pyarrow as pa

from pipelines.schemas import MIXTURE


def plan(
    available_tokens: Mapping[str, int], shares: Mapping[str, float], token_budget: int, max_epochs: float
) -> pa.Table:
    """Tokens to take of each source: one row per source in the order given, schema MIXTURE.

    available_tokens: tokens in one epoch, by source. shares: weights by source, only their proportions count; empty:
    in proportion to the tokens available. token_budget: tokens wanted in all; 0: as many as the sources in the
    mixture hold, or fewer where a share would need more than `max_epochs` of its source.

    With a budget, a source that cannot supply its share gives all it has at `max_epochs`, and the others make up for
    it in proportion to their shares; every such change is told in `note`. Token counts are apportioned by largest
    remainder (Hamilton's method; ties go to the source named first), so they add up exactly.
    Raises `ValueError` for a share of an unknown source, a negative share, or shares that are all 0.
    """
    weights = _weights(available_tokens, shares)
    total_weight = sum(weights.values(), Fraction(0))
    wanted = {name: weight / total_weight if total_weight else Fraction(0) for name, weight in weights.items()}
    limits = {name: int(_exact(max_epochs) * tokens) for name, tokens in available_tokens.items()}
    taking_part = [name for name in wanted if wanted[name] and limits[name]]
    if token_budget:
        tokens = min(token_budget, sum(limits[name] for name in taking_part))
    else:
        tokens = _most_tokens(taking_part, wanted, available_tokens, limits)
    planned = _fill(tokens, taking_part, wanted, limits)
    notes = _notes(available_tokens, shares, wanted, limits, planned, token_budget, max_epochs)
    return pa.Table.from_pylist(
        [
            {
                "source": name,
                "wanted_share": float(wanted[name]),
                "planned_share": planned[name] / tokens if tokens else 0.0,
                "available_tokens": count,
                "planned_tokens": planned[name],
                "epochs": planned[name] / count if count else 0.0,
                "note": "; ".join(notes[name]) or None,
            }
            for name, count in available_tokens.items()
        ],
        schema=MIXTURE,
    )


def largest_remainder(total: int, quotas: Mapping[str, Fraction]) -> dict[str, int]:
    """Integers that add up to `total`, each its quota rounded down or up. The quotas must add up to `total`."""
    counts = {name: int(quota) for name, quota in quotas.items()}
    by_remainder = sorted(quotas, key=lambda name: counts[name] - quotas[name])
    for name in by_remainder[: total - sum(counts.values())]:
        counts[name] += 1
    return counts


def _exact(value: float) -> Fraction:
    """The decimal number that the user wrote: 1/5 for 0.2."""
    return Fraction(str(value))


def _weights(available_tokens: Mapping[str, int], shares: Mapping[str, float]) -> dict[str, Fraction]:
    for name, share in shares.items():
        if name not in available_tokens:
            known = ", ".join(available_tokens) or "none"
            raise ValueError(f"mixture.shares names {name!r}, which is not a source; the sources are: {known}")
        if share < 0:
            raise ValueError(f"mixture.shares gives {name!r} the share {share}; a share is 0 or more")
    if shares and not any(shares.values()):
        raise ValueError("mixture.shares: every share is 0; name at least one source with a share above 0")
    if not shares:
        return {name: Fraction(tokens) for name, tokens in available_tokens.items()}
    return {name: _exact(shares.get(name, 0)) for name in available_tokens}


def _most_tokens(
    taking_part: Sequence[str],
    wanted: Mapping[str, Fraction],
    available_tokens: Mapping[str, int],
    limits: Mapping[str, int],
) -> int:
    """Tokens of a mixture without a budget: what its sources hold, unless a share runs into its limit before."""
    together = sum((wanted[name] for name in taking_part), Fraction(0))
    held = sum(available_tokens[name] for name in taking_part)
    return min([held, *(int(limits[name] * together / wanted[name]) for name in taking_part)])


def _fill(
    tokens: int, taking_part: Sequence[str], wanted: Mapping[str, Fraction], limits: Mapping[str, int]
) -> dict[str, int]:
    """Share `tokens` out in proportion; what is above a source's limit flows to the others, again in proportion."""
    planned = dict.fromkeys(wanted, 0)
    open_sources = list(taking_part)
    while open_sources:
        together = sum((wanted[name] for name in open_sources), Fraction(0))
        quotas = {name: tokens * wanted[name] / together for name in open_sources}
        full = [name for name in open_sources if quotas[name] > limits[name]]
        if not full:
            return planned | largest_remainder(tokens, quotas)
        for name in full:
            planned[name] = limits[name]
            tokens -= limits[name]
            open_sources.remove(name)
    return planned


def _notes(
    available_tokens: Mapping[str, int],
    shares: Mapping[str, float],
    wanted: Mapping[str, Fraction],
    limits: Mapping[str, int],
    planned: Mapping[str, int],
    token_budget: int,
    max_epochs: float,
) -> dict[str, list[str]]:
    notes: dict[str, list[str]] = {name: [] for name in available_tokens}
    total = sum(planned.values())
    lacking = [name for name in available_tokens if wanted[name] and not limits[name]]
    short = [name for name in available_tokens if token_budget and planned[name] < int(token_budget * wanted[name])]
    for name, available in available_tokens.items():
        asked = _percent(wanted[name])
        if not available:
            notes[name].append("has no tokens" + (f"; asked {asked}" if wanted[name] else ""))
        elif not wanted[name]:
            why = "its share is 0" if name in shares else "mixture.shares does not name it"
            notes[name].append(f"left out: {why}")
        elif not limits[name]:
            notes[name].append(f"has {available} tokens, too few for {max_epochs:g} epochs; asked {asked}")
        elif name in short:
            supply = _percent(Fraction(limits[name], token_budget))
            notes[name].append(f"{name} can supply {supply} at {max_epochs:g} epochs; asked {asked}")
        elif (short or lacking) and Fraction(planned[name], total or 1) > wanted[name]:
            others = " and ".join(dict.fromkeys([*lacking, *short]))
            notes[name].append(f"takes {_percent(Fraction(planned[name], total))}; asked {asked}: {others} lack tokens")
        held = sum(available_tokens[other] for other in available_tokens if wanted[other])
        if not token_budget and total < held and planned[name] and planned[name] + 1 >= limits[name]:
            notes[name].append(f"its share of {asked} at {max_epochs:g} epochs limits the mixture to {total:,} tokens")
        if token_budget and total < token_budget and planned[name]:
            notes[name].append(
                f"all sources together supply {total:,} tokens at {max_epochs:g} epochs; the budget is {token_budget:,}"
            )
    return notes


def _percent(share: Fraction) -> str:
    return f"{100 * float(share):.3g} %"
