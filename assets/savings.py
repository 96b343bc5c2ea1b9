"""What removed documents would have cost further down, told by what those stages last cost per byte."""

from decimal import Decimal

from assets.values import Metadata, integer, number
from pipelines.costs.account import Account
from pipelines.costs.ledger import Ledger
from pipelines.costs.report import dollars
from pipelines.dataset import Version
from pipelines.store import Store


def savings_metadata(version: Version, account: Account, ledger: Ledger, store: Store) -> Metadata:
    """Bytes that duplicates held, and the dollars that all later stages would have spent on them.

    The stages after are those that read what was left over (`unique_documents`), directly or not, source by source;
    training is not among them: its budget is counted in tokens. Nothing is said of dollars before they have run.
    """
    dropped = version.stats.get("bytes_dropped_by_source")
    if dropped is None:
        return {}
    metadata: Metadata = {"dedup/bytes_saved": integer(sum(dropped.values()))}
    rate = usd_per_byte(account, ledger, store)
    if rate is not None:
        usd = rate * sum(dropped.values())
        metadata["dedup/usd_saved_downstream"] = number(usd)
        metadata["dedup/summary"] = (
            f"Duplicates held {sum(dropped.values()) / 1e6:,.1f} MB. At what the stages after this one last cost per "
            f"byte, they would have cost ${dollars(usd)} there."
        )
    return metadata


def usd_per_byte(account: Account, ledger: Ledger, store: Store) -> Decimal | None:
    """What the current versions of the stages after `unique_documents` cost for each byte that they read.

    A stage's results are counted at what they cost when they were made. None where no such stage has run.
    """
    found = (Version.find(store, pointer.version) for pointer in ledger.all_current())
    current = [version for version in found if version is not None and version.partition]
    read = {v.partition: v.stats.get("bytes_out", 0) for v in current if v.asset == "unique_documents"}
    after, more = {"unique_documents"}, True
    while more:
        readers = {v.asset for v in current if any(asset in after for asset, partition, _ in v.inputs if partition)}
        more, after = not readers <= after, after | readers
    rate, known = Decimal(0), False
    for asset in after - {"unique_documents"}:
        versions = [v for v in current if v.asset == asset and read.get(v.partition)]
        if versions:
            whole = sum(read[version.partition] for version in versions)
            rate, known = rate + sum(account.own_usd(version.id) for version in versions) / Decimal(whole), True
    return rate if known else None
