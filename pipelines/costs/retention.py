"""Which versions are kept, and the removal of all other bytes. What removal means is `pipelines/store.py`."""

from collections import defaultdict

from pipelines.costs.ledger import Ledger
from pipelines.dataset import Version
from pipelines.store import LEASE_SECONDS, Store, StoreError, Swept


def collect(
    ledger: Ledger, store: Store, *, keep: int = 1, dry_run: bool = False, lease_seconds: float = LEASE_SECONDS
) -> Swept:
    """Keep the newest `keep` versions of every dataset and everything that they were made from; remove other bytes.

    Raises `pipelines.costs.ledger.Busy` while a run is at work.
    """
    if keep < 1:
        raise StoreError(f"gc keeps at least 1 version of every dataset, not {keep}")
    with ledger.alone("gc"):
        return store.gc(kept_versions(ledger, store, keep), lease_seconds=lease_seconds, dry_run=dry_run)


def kept_versions(ledger: Ledger, store: Store, keep: int) -> set[str]:
    """Ids of the newest `keep` versions of every dataset and of all their inputs, however far upstream."""
    newest: dict[tuple[str, str], list[str]] = defaultdict(list)
    for pointer in reversed(ledger.history()):
        versions = newest[pointer.asset, pointer.partition]
        if pointer.version not in versions and len(versions) < keep:
            versions.append(pointer.version)
    kept: set[str] = set()
    waiting = [version for versions in newest.values() for version in versions]
    while waiting:
        current = waiting.pop()
        if current not in kept:
            kept.add(current)
            waiting.extend(pin for _, _, pin in Version.load(store, current).inputs)
    return kept
