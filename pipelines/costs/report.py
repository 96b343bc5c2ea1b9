"""The cost of every current dataset as rows: what `corpusmill cost` prints and what other pages show.

How amounts read, too: the same everywhere.
"""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any

from pipelines.costs.account import Account, Attempt
from pipelines.costs.ledger import Pointer
from pipelines.dataset import Version, dataset_name
from pipelines.store import Store

ByDataset = dict[tuple[str, str], Decimal]
"""USD by asset and partition."""


@dataclass(frozen=True)
class DatasetCost:
    """One current dataset. usd: the attempt that published it last; lineage_usd: it and everything upstream, each
    result once; wasted_usd: what attempts at it used for nothing; saved_usd: what the results it reused had cost.
    bought_usd: what was paid to people and services for it, over all runs.
    """

    asset: str
    partition: str
    version: str
    rows: int | None
    tokens: int | None
    usd: Decimal
    lineage_usd: Decimal
    wasted_usd: Decimal
    saved_usd: Decimal
    bought_usd: Decimal
    compute_hours: float
    energy_kwh: float
    usd_per_million_tokens: Decimal | None

    @property
    def name(self) -> str:
        """The dataset as people write it."""
        return dataset_name(self.asset, self.partition)

    def record(self) -> dict[str, Any]:
        """JSON values; dollars and quantities as numbers."""
        return {key: float(v) if isinstance(v, Decimal) else v for key, v in asdict(self).items()}


def dataset_costs(account: Account, current: Iterable[Pointer], store: Store) -> list[DatasetCost]:
    """The cost of each of these current datasets, in their order."""
    wasted, bought = wasted_usd(account), by_dataset(account, lambda attempt: attempt.charge.bought_usd)
    return [_cost(account, pointer, store, wasted, bought) for pointer in current]


def wasted_usd(account: Account) -> ByDataset:
    """What attempts used for nothing, over all runs."""
    return by_dataset(account, account.wasted_usd)


def by_dataset(account: Account, usd_of: Callable[[Attempt], Decimal]) -> ByDataset:
    """The sum of an amount over all attempts at each dataset."""
    sums: ByDataset = {}
    for attempt in account.attempts:
        place = attempt.asset, attempt.partition
        sums[place] = sums.get(place, Decimal(0)) + usd_of(attempt)
    return sums


def dollars(value: Decimal | None) -> str:
    """An amount with enough digits to see it: cents and above to the cent, less to three significant digits."""
    if value is None:
        return ""
    if value == 0:
        return "0"
    return f"{value:,.2f}" if value >= Decimal("0.1") else plain(value)


def plain(value: float | Decimal) -> str:
    """A small quantity with three significant digits, never in powers of ten."""
    return f"{Decimal(f'{value:.3g}'):f}"


def _cost(account: Account, pointer: Pointer, store: Store, wasted: ByDataset, bought: ByDataset) -> DatasetCost:
    place = pointer.asset, pointer.partition
    attempt = account.attempt(pointer.attempt)
    version = Version.load(store, pointer.version)
    lineage = account.lineage_usd(pointer.version)
    tokens = version.stats.get("tokens")
    return DatasetCost(
        asset=pointer.asset,
        partition=pointer.partition,
        version=pointer.version,
        rows=version.stats.get("documents_out"),
        tokens=tokens,
        usd=attempt.charge.usd,
        lineage_usd=lineage,
        wasted_usd=wasted.get(place, Decimal(0)),
        saved_usd=account.saved_usd(attempt),
        bought_usd=bought.get(place, Decimal(0)),
        compute_hours=attempt.charge.compute_hours,
        energy_kwh=attempt.charge.energy_kwh,
        usd_per_million_tokens=lineage / tokens * 1_000_000 if tokens else None,
    )
