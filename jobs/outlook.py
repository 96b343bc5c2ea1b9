"""What a run would do with every dataset, as people and programs read it. How it is known: `impact.py`."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any, Literal

from rich import box
from rich.table import Table

from pipelines.costs.report import dollars
from pipelines.dataset import dataset_name

Outcome = Literal["untouched", "reused", "redone", "at most", "never made", "fails"]
"""untouched: the same version again. reused: another version, all of cached results. redone: these results are to be
done, exactly. at most: as many or fewer. never made: as many or more. fails: a run would stop here."""


@dataclass(frozen=True)
class Outlook:
    """What a run would do with one dataset. to_do: results to be done; cached: results at hand, or made earlier in the
    same run. documents, tokens: that go through what is to be done. usd: None where nothing is known to go by.
    bought_usd: paid calls, which `usd` holds too; counted, or as last time where they can't be. bought_at_most: where
    each is tried as often as it may be; None where they can't be counted.
    """

    asset: str
    partition: str
    outcome: Outcome
    because: str
    cached: int
    to_do: int
    documents: int
    tokens: int
    usd: Decimal | None
    bought_usd: Decimal = Decimal(0)
    bought_at_most: Decimal | None = Decimal(0)

    @property
    def name(self) -> str:
        """The dataset as people write it."""
        return dataset_name(self.asset, self.partition)


@dataclass(frozen=True)
class Impact:
    """What a run would do with every dataset, in the order in which data flows; empty if nothing was ever made.

    run_usd: what the run itself costs, whatever it does (its coordinator, as it was last time).
    """

    outlooks: tuple[Outlook, ...]
    run_usd: Decimal = Decimal(0)

    @property
    def touched(self) -> list[Outlook]:
        """The datasets that do not come out as they are."""
        return [outlook for outlook in self.outlooks if outlook.outcome != "untouched"]

    @property
    def cached(self) -> int:
        """Results that are reused."""
        return sum(outlook.cached for outlook in self.outlooks)

    @property
    def to_do(self) -> int:
        """Results that are to be done."""
        return sum(outlook.to_do for outlook in self.outlooks)

    @property
    def usd(self) -> Decimal:
        """What the touched datasets cost, as far as it is known."""
        return sum((outlook.usd for outlook in self.touched if outlook.usd is not None), Decimal(0))

    @property
    def idle_usd(self) -> Decimal:
        """What a run of everything costs besides: the run itself, and looking at what is untouched."""
        untouched = (outlook.usd or Decimal(0) for outlook in self.outlooks if outlook.outcome == "untouched")
        return sum(untouched, self.run_usd)

    def passing(self, what: Literal["documents", "tokens"]) -> int:
        """Documents or tokens that go through again: those of a source once, however many assets they pass."""
        most: dict[str, int] = {}
        for outlook in self.touched:
            most[outlook.partition] = max(most.get(outlook.partition, 0), getattr(outlook, what))
        overall = most.pop("", 0)
        return max(overall, sum(most.values()))

    def record(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "summary": self.sentence(),
            "cached": self.cached,
            "to_do": self.to_do,
            "documents": self.passing("documents"),
            "tokens": self.passing("tokens"),
            "usd": float(self.usd),
            "idle_usd": float(self.idle_usd),
            "datasets": [
                {name: float(value) if isinstance(value, Decimal) else value for name, value in asdict(o).items()}
                for o in self.outlooks
            ],
        }

    def sentence(self) -> str:
        """The whole in a few words."""
        if not self.outlooks:
            return "Nothing has been made yet: a run does everything."
        assets, touched = len({o.asset for o in self.outlooks}), {o.asset for o in self.touched}
        if not touched:
            return (
                f"Nothing changes: all {self.cached:,} results of {assets} assets are reused. A run costs about "
                f"${dollars(self.idle_usd)} all the same, for looking at them."
            )
        bound = "At most " if any(o.outcome == "at most" for o in self.touched) else ""
        are = "is" if len(touched) == 1 else "are"
        what = [f"{self.to_do:,} of {self.to_do + self.cached:,} results"]
        if documents := self.passing("documents"):
            what.append(f"{documents:,} documents")
        if tokens := self.passing("tokens"):
            what.append(f"{tokens / 1e6:,.1f} M tokens" if tokens >= 100_000 else f"{tokens:,} tokens")
        told = [
            f"{bound}{len(touched)} of {assets} assets {are} made again: {', '.join(what)}, about ${dollars(self.usd)} "
            f"(an estimate from what they took before); {self.cached:,} results are reused."
        ]
        if unknown := [o.name for o in self.touched if o.outcome == "never made"]:
            told.append(f"Never made before, so not counted in full: {', '.join(unknown)}.")
        if bought := self._bought():
            told.append(bought)
        if failing := [o for o in self.touched if o.outcome == "fails"]:
            told.append(f"A run would stop at {failing[0].name}.")
        told.append(f"A run of all assets costs about ${dollars(self.idle_usd)} more, for looking at the others.")
        return " ".join(told)

    def _bought(self) -> str:
        """What is bought, in words; '' where nothing is."""
        counted = [o for o in self.touched if o.bought_at_most]
        told = []
        if counted:
            usd = sum((o.bought_usd for o in counted), Decimal(0))
            most = sum((o.bought_at_most or Decimal(0) for o in counted), Decimal(0))
            told.append(
                f"Paid calls for {', '.join(o.name for o in counted)}: ${dollars(usd)}, at most ${dollars(most)} if "
                "calls fail and are tried again."
            )
        if open_ones := [o for o in self.touched if o.bought_at_most is None]:
            usd = sum((o.bought_usd for o in open_ones), Decimal(0))
            counted_as = f"what was paid last time, ${dollars(usd)}" if usd else "none"
            told.append(
                f"How many calls {', '.join(o.name for o in open_ones)} will pay for shows only when what comes before "
                f"them is done; counted is {counted_as}, and it may be more."
            )
        return " ".join(told)


def impact_table(outlooks: Iterable[Outlook]) -> Table:
    """One row for each dataset that does not come out as it is."""
    table = Table(title="What a run would make again", box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("dataset")
    table.add_column("why")
    for heading in ("cached", "to do", "documents", "tokens", "about $"):
        table.add_column(heading, justify="right")
    bounds = {"at most": "≤ ", "never made": "≥ "}
    for outlook in outlooks:
        bound = bounds.get(outlook.outcome, "")
        table.add_row(
            outlook.name,
            outlook.because,
            f"{outlook.cached:,}",
            f"{bound}{outlook.to_do:,}",
            f"{bound}{outlook.documents:,}" if outlook.documents else "",
            f"{bound}{outlook.tokens:,}" if outlook.tokens else "",
            "unknown" if outlook.usd is None else f"{bound}{dollars(outlook.usd)}",
        )
    return table


def untouched_line(outlooks: Sequence[Outlook]) -> str:
    """What comes out as it is, assets as a whole where all their sources do."""
    names: list[str] = []
    for asset in dict.fromkeys(outlook.asset for outlook in outlooks):
        of_asset = [outlook for outlook in outlooks if outlook.asset == asset]
        untouched = [outlook.name for outlook in of_asset if outlook.outcome == "untouched"]
        names += [asset] if len(untouched) == len(of_asset) else untouched
    return f"Untouched: {', '.join(names) or 'nothing'}."
