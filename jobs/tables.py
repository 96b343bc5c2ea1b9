"""Tables that people read in a terminal: what was kept and why not, what it cost."""

from collections.abc import Iterable, Sequence
from decimal import Decimal

from rich import box
from rich.console import Console
from rich.table import Table

from pipelines.costs.account import Account
from pipelines.costs.report import DatasetCost, dollars, plain
from pipelines.dataset import Version
from pipelines.purchases import Quote

STAGES = {
    "raw_documents": "ingestion",
    "clean_documents": "cleaning",
    "unique_documents": "deduplication",
    "filtered_documents": "filtering",
}
"""The assets that documents pass through, and the word for what each does."""


def terminal(*, stderr: bool = False) -> Console:
    """The console to print to; wide enough for the tables where the output is a file or a pipe."""
    console = Console(stderr=stderr, highlight=False, markup=False, soft_wrap=True)
    return console if console.is_terminal else Console(stderr=stderr, highlight=False, markup=False, width=140)


def say(console: Console, *lines: str) -> None:
    """Print lines as they are, however long."""
    for line in lines:
        console.print(line, soft_wrap=True, emoji=False)  # a text's :smile: is no emoji


def one_line(text: str) -> str:
    """Text on one line, without what would move a terminal's cursor."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def quote_told(quote: Quote) -> str:
    """What work is going to buy, in words: '40 calls of scorer.example for $0.40 (at most 240 for $2.40)'; '' where it
    costs nothing."""
    expected, most = quote.expected, quote.most
    return ", ".join(
        f"{expected.bought[item]:,.0f} {item} for ${dollars(expected.bought_usd[item])} (at most {units:,.0f} for "
        f"${dollars(most.bought_usd[item])}, if calls fail and are tried again)"
        for item, units in most.bought.items()
        if most.bought_usd[item]
    )


def cost_table(costs: Iterable[DatasetCost], *, title: str) -> Table:
    """One row per dataset: this run, everything upstream, wasted, saved, bought of people and services where anything
    was, and what a million tokens cost. As wide as it has to be: an amount that is cut is another amount."""
    costs = list(costs)
    with_purchases = any(cost.bought_usd for cost in costs)
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", collapse_padding=True)
    table.add_column("dataset")
    for heading in (
        "tokens",
        "this\nrun $",
        "all\nupstream $",
        "wasted $",
        "saved $",
        *(["people,\ncalls $"] if with_purchases else []),
        "hours",
        "kWh",
        "$/M\ntokens",
    ):
        table.add_column(heading, justify="right")
    for cost in costs:
        table.add_row(
            cost.name,
            f"{cost.tokens:,}" if cost.tokens else "",
            dollars(cost.usd),
            dollars(cost.lineage_usd),
            dollars(cost.wasted_usd),
            dollars(cost.saved_usd),
            *([dollars(cost.bought_usd)] if with_purchases else []),
            plain(cost.compute_hours),
            plain(cost.energy_kwh),
            dollars(cost.usd_per_million_tokens),
        )
    table.width = Console(width=1000, markup=False).measure(table).maximum
    return table


def bucket_lines(account: Account) -> str:
    """Where all the money went, and the rates it was counted at."""
    buckets = account.buckets()
    named = ("published", "salvaged", "waste", "overhead")
    parts = " + ".join(f"{name} {getattr(buckets, name):f}" for name in named)  # exact: they add up on paper too
    gpus = {line.item.removeprefix("gpu ") for attempt in account.attempts for line in attempt.charge.lines}
    return f"All runs together: ${buckets.total:f} = {parts}.\n" + "\n".join(account.book.lines(gpus))


def funnel_table(versions: Sequence[Version], costs: dict[str, Decimal]) -> Table:
    """Documents in, kept and dropped with reasons, for every source and stage that has run.

    costs: by version id, the dollars of the attempt that published it.
    """
    table = Table(title="What was kept, what was dropped, and why", box=box.SIMPLE_HEAD, title_justify="left")
    for heading in ("source", "stage"):
        table.add_column(heading)
    for heading in ("documents in", "kept", "dropped"):
        table.add_column(heading, justify="right")
    table.add_column("why")
    table.add_column("$", justify="right")
    ordered = sorted(versions, key=lambda v: list(STAGES).index(v.asset))
    for source in dict.fromkeys(version.partition for version in versions):
        for version in ordered:
            if version.partition != source:
                continue
            seen, kept = version.stats["documents_in"], version.stats["documents_out"]
            dropped = [item for item in version.stats.get("dropped", {}).items() if item[1]]
            reasons = sorted(dropped, key=lambda item: -item[1])
            why = ", ".join(f"{reason} {count:,}" for reason, count in reasons[:4])
            more = f" and {len(reasons) - 4} more reasons" if len(reasons) > 4 else ""
            table.add_row(
                source,
                STAGES[version.asset],
                f"{seen:,}",
                f"{kept:,}",
                f"{seen - kept:,}",
                why + more,
                dollars(costs[version.id]),
            )
        table.add_section()
    return table


def mixture_table(version: Version) -> Table:
    """What each group gives to a mixture, or to a blend, and why it is not as asked."""
    what = "planned, from estimated tokens" if version.asset == "training_mixture" else "from counted tokens"
    table = Table(title=f"What the model is to read, {what}", box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("group")
    for heading in ("wanted", "share", "tokens", "epochs", "available", "unused"):
        table.add_column(heading, justify="right")
    table.add_column("note")
    for row in version.stats["mixture"]:
        table.add_row(
            row["group"],
            f"{row['wanted_share']:.1%}",
            f"{row['planned_share']:.1%}",
            f"{row['planned_tokens']:,}",
            f"{row['epochs']:.3g}",
            f"{row['available_tokens']:,}",
            f"{row['unused_tokens']:,}",
            version.stats["notes"].get(row["group"], ""),
        )
    return table
