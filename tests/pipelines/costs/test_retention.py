"""What gc keeps: the newest versions and everything that they were made from; and not while a run is at work."""

import os
import time
from pathlib import Path

import pytest

from pipelines.costs.ledger import RUN_LOCK, Busy, Ledger, Pointer
from pipelines.costs.retention import collect
from pipelines.dataset import Dataset, Draft, Part, Shard, Version, seal
from pipelines.processes import process_identity
from pipelines.store import Store, StoreError


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")


def publish(ledger: Ledger, store: Store, asset: str, content: bytes, *inputs: Version) -> Version:
    part = Part("files", (Shard(store.put(content), len(content), name="f"),))
    upstream = [Dataset(version.asset, (version,), store) for version in inputs]
    version = seal(store, Draft({"files": part}), asset=asset, inputs=upstream)
    ledger.publish([Pointer(asset, "", version.id, "attempt", "run")])
    return version


def grow_old(store: Store) -> None:
    then = time.time() - 25 * 3600
    for path in (Path(store.root) / "objects").rglob("*"):
        os.utime(path, (then, then))


def test_superseded_versions_go_and_what_current_ones_were_made_from_stays(ledger: Ledger, store: Store) -> None:
    raw = publish(ledger, store, "raw", b"raw")
    publish(ledger, store, "clean", b"old clean", raw)
    clean = publish(ledger, store, "clean", b"new clean", raw)
    publish(ledger, store, "raw", b"newer raw")
    grow_old(store)

    assert collect(ledger, store).objects == 1  # the old clean one

    assert store.missing_objects(raw.id) == store.missing_objects(clean.id) == []


def test_more_versions_can_be_kept(ledger: Ledger, store: Store) -> None:
    for content in (b"one", b"two", b"three"):
        publish(ledger, store, "raw", content)
    grow_old(store)

    assert collect(ledger, store, keep=2).objects == 1


def test_nothing_is_removed_while_a_run_is_at_work(ledger: Ledger, store: Store) -> None:
    ledger.take_lock(RUN_LOCK, "a run", process_identity(os.getppid()))

    with pytest.raises(Busy):
        collect(ledger, store)


def test_nothing_kept_is_refused(ledger: Ledger, store: Store) -> None:
    with pytest.raises(StoreError, match="at least 1"):
        collect(ledger, store, keep=0)
