"""A store on top of another one."""

import os
import time
from pathlib import Path

import pyarrow as pa
import pytest

from pipelines.dataset import Draft, Part, Shard, Version, seal
from pipelines.engines.local import Engine
from pipelines.engines.task import File, Inputs, Stats, Task
from pipelines.overlay import Bytes, Overlay
from pipelines.store import Store, StoreError

DAY = 24 * 3600.0


@pytest.fixture
def overlay(store: Store, tmp_path: Path) -> Overlay:
    return Overlay(tmp_path / "above", store)


def version_of(store: Store, *contents: bytes) -> Version:
    shards = tuple(Shard(store.put(content), len(content), name=str(n)) for n, content in enumerate(contents))
    return seal(store, Draft({"model": Part("files", shards)}), asset="things")


def files(store: Store) -> set[Path]:
    return {path for path in Path(store.root).rglob("*") if path.is_file()}


def copy(inputs: Inputs, suffix: bytes):
    yield "model", File("copy", inputs.broadcast_path(0).read_bytes() + suffix)
    yield Stats({"pyarrow": pa.__version__})


def test_it_reads_from_both_and_writes_to_itself(overlay: Overlay) -> None:
    below = overlay.below.put(b"below")
    before = files(overlay.below)
    above = overlay.put(b"above")

    assert (overlay.get(below), overlay.get(above)) == (b"below", b"above")
    assert (overlay.path(below).read_bytes(), overlay.path(above).read_bytes()) == (b"below", b"above")
    assert files(overlay.below) == before
    with pytest.raises(StoreError, match="not in the store"):
        overlay.get("0" * 64)


def test_results_below_are_not_reused_and_what_workers_make_stays_above(overlay: Overlay) -> None:
    name = overlay.below.put(b"given")
    tasks = [Task(copy, "copy", 1, {"n": n}, broadcast=(name,), payload=bytes([n])) for n in range(3)]
    made = Engine(overlay.below, 1).map(tasks)
    before = files(overlay.below)

    again = Engine(overlay, 2, alone_seconds=0).map(tasks)

    assert [result.parts for result in again] == [result.parts for result in made]
    assert not any(result.reused for result in again)
    assert files(overlay.below) == before


def test_the_bytes_below_are_looked_at(overlay: Overlay) -> None:
    version = version_of(overlay.below, b"whole", b"damaged", b"gone")
    _, damaged, gone = (shard.object for shard in version.parts["model"].shards)
    overlay.below.path(damaged).write_bytes(b"Damaged")
    overlay.below.path(gone).unlink()

    assert overlay.look_below(version.parts) == Bytes(5, (damaged,), (gone,))


def test_gc_spares_what_is_held(overlay: Overlay) -> None:
    held, other = version_of(overlay.below, b"held"), version_of(overlay.below, b"other")
    for path in files(overlay.below):
        os.utime(path, (time.time() - 2 * DAY,) * 2)

    overlay.hold(held)
    overlay.below.gc([])

    assert overlay.look_below(held.parts).whole == 4
    assert overlay.look_below(other.parts).gone


def test_the_store_below_may_be_remote(tmp_path: Path) -> None:
    overlay = Overlay(tmp_path / "above", Store("memory://overlay-below"))
    version = version_of(overlay.below, b"far away")
    name = version.parts["model"].shards[0].object

    overlay.hold(version)

    assert overlay.get(name) == overlay.path(name).read_bytes() == b"far away"
    assert overlay.look_below(version.parts) == Bytes(8, (), ())
