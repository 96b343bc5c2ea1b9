"""What tokens cost until here, by the billion, and what the token budget will have cost at the same rate.

Tokens are counted once, however often a mixture repeats them: that is what was paid for. Amounts are exact until they
are shown (`pipelines/costs`).
"""

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from assets.values import Metadata, number
from pipelines.costs.account import Account
from pipelines.costs.report import dollars
from pipelines.dataset import Version

BILLION = 10**9

ROUNDING = Fraction(1, 10**12)
"""More than a share that was stored as a floating point number can be off."""


def token_costs_metadata(version: Version, account: Account) -> Metadata:
    """Dollars for a billion tokens of a mixture or a blend, and for its token budget where there is one."""
    tokens = fresh_tokens(version.stats)
    if not tokens:
        return {}
    spent = account.lineage_usd(version.id)
    rate = spent / tokens
    told = [f"Until here {tokens:,} tokens cost ${dollars(spent)}: ${dollars(rate * BILLION)} a billion."]
    metadata: Metadata = {"cost/usd_per_billion_tokens": number(rate * BILLION)}
    if budget := version.stats.get("token_budget"):
        missing = missing_tokens(version.stats["mixture"], budget)
        more = rate * sum(missing.values())
        metadata["cost/projected_usd"] = number(spent + more)
        whole = f"The token budget, {budget:,},"
        if missing:
            needs = " and ".join(f"{count:,} of {name}" for name, count in missing.items())
            told.append(
                f"{whole} needs more tokens than there are: {needs}. At this rate they cost ${dollars(more)} more, "
                f"${dollars(spent + more)} in all."
            )
        else:
            told.append(f"{whole} needs no more than these.")
    return {"cost/tokens": " ".join(told), **metadata}


def fresh_tokens(stats: Mapping[str, Any]) -> int:
    """Tokens of all groups, each once: counted in a blend, estimated in a mixture; 0 for anything else."""
    counted: Mapping[str, int] = stats.get("tokens_by_source", stats.get("estimated_tokens", {}))
    return sum(counted.values())


def missing_tokens(rows: list[dict[str, Any]], budget: int) -> dict[str, int]:
    """By group, the tokens that it lacks to supply its share of a budget in as many epochs as it is allowed."""
    quotas = {
        row["group"]: budget * Fraction(str(row["wanted_share"])) / Fraction(str(row["max_epochs"])) for row in rows
    }
    needed = {name: math.ceil(quota * (1 - ROUNDING)) for name, quota in quotas.items()}
    missing = {row["group"]: needed[row["group"]] - row["available_tokens"] for row in rows}
    return {name: count for name, count in missing.items() if count > 0}
