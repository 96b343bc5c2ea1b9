"""What a plan says in words, group by group: what could not be met, and who makes up for it."""

from collections.abc import Mapping
from fractions import Fraction

from pipelines.mixture.params import MixtureParams


def notes_of(
    asked: MixtureParams,
    available_tokens: Mapping[str, int],
    wanted: Mapping[str, Fraction],
    most_epochs: Mapping[str, float],
    limits: Mapping[str, int],
    planned: Mapping[str, int],
) -> dict[str, list[str]]:
    """Sentences about each group, none where it has what was asked for.

    wanted: shares. limits: the most tokens that each group can supply. planned: tokens.
    """
    names = list(available_tokens)
    budget, total = asked.token_budget, sum(planned.values())
    shares_stay = not budget or asked.if_short == "shrink"
    lacking = [name for name in names if wanted[name] and not limits[name]]
    short = [name for name in names if limits[name] and budget and limits[name] < int(budget * wanted[name])]
    whole = budget or sum(available_tokens[name] for name in names if wanted[name])
    others = " and ".join([*lacking, *([] if shares_stay else short)])
    notes: dict[str, list[str]] = {name: [] for name in names}
    for name, available in available_tokens.items():
        note, share, epochs = notes[name].append, percent(wanted[name]), f"{most_epochs[name]:g} epochs"
        if not available:
            note("has no tokens" + (f"; asked {share}" if wanted[name] else ""))
        elif not wanted[name]:
            note(f"left out: {'its share is 0' if name in asked.shares else 'mixture.shares does not name it'}")
        elif not limits[name]:
            note(f"has {available} tokens, too few for {epochs}; asked {share}")
        elif name in short:
            note(f"{name} can supply {percent(Fraction(limits[name], budget))} at {epochs}; asked {share}")
        elif others and Fraction(planned[name], total or 1) > wanted[name]:
            note(f"takes {percent(Fraction(planned[name], total))}; asked {share}: {others} lack tokens")
        if planned[name] and total < whole:
            if not shares_stay:
                note(f"all groups together supply {total:,} tokens; the budget is {budget:,}")
            elif planned[name] + 1 >= limits[name]:
                note(f"its share of {share} at {epochs} limits the mixture to {total:,} tokens")
    return notes


def percent(share: Fraction | float) -> str:
    """A share as people read it: 12.5 %."""
    return f"{100 * float(share):.3g} %"
