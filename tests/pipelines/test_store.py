"""Objects, actions and versions: whole or absent, whatever happens to their writers."""

import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pipelines.store import Store, StoreError

WRITER = """
import os, random, signal, sys, time
from pipelines.store import Store

root, kills, wanted = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
number = 0
while number < kills or sum(len(files) for _, _, files in os.walk(root + "/objects")) < wanted:
    number += 1
    child = os.fork()
    if child == 0:
        store, count = Store(root), 0
        while True:  # until killed
            content = os.urandom(random.randrange(1, 200_000))
            name = store.put(content)
            shard = {"object": name, "bytes": len(content), "rows": 0, "name": ""}
            parts = {"files": {"kind": "files", "shards": [shard]}}
            store.record_action(f"{number:032x}{count:032x}", {"parts": parts})
            store.put_version({"id": f"{number}-{count}", "parts": parts})
            count += 1
    time.sleep(random.random() * 0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""


def record(*objects: tuple[str, int]) -> dict:
    shards = [{"object": name, "bytes": size, "rows": 0, "name": ""} for name, size in objects]
    return {"parts": {"files": {"kind": "files", "shards": shards}}}


def age(store: Store, name: str, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(store.path(name), (then, then))


def test_an_object_is_named_by_its_content_and_stored_once(store: Store) -> None:
    name = store.put(b"milk")

    assert name == hashlib.sha256(b"milk").hexdigest()
    assert store.put(b"milk") == name
    assert store.get(name) == b"milk"


def test_a_file_is_stored_like_its_bytes(store: Store, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"milk")

    assert store.put_file(tmp_path / "file") == store.put(b"milk")


def test_a_missing_object_is_an_error_that_says_the_way_out(store: Store) -> None:
    with pytest.raises(StoreError, match="run the stage again"):
        store.get("0" * 64)


def test_a_damaged_object_is_replaced_when_it_is_made_again(store: Store) -> None:
    name = store.put(b"a whole object")
    store.path(name).write_bytes(b"half")

    assert store.put(b"a whole object") == name
    assert store.get(name) == b"a whole object"


def test_an_action_whose_object_is_truncated_counts_as_not_done(store: Store) -> None:
    name = store.put(b"a whole object")
    store.record_action("k" * 64, record((name, 14)))
    assert store.action("k" * 64) is not None

    store.path(name).write_bytes(b"half")

    assert store.action("k" * 64) is None


def test_the_first_writer_of_an_action_wins(store: Store) -> None:
    name = store.put(b"result")
    first = record((name, 6)) | {"made_by": "first"}

    assert store.record_action("k" * 64, first)["made_by"] == "first"
    assert store.record_action("k" * 64, first | {"made_by": "second"})["made_by"] == "first"


def test_an_action_whose_objects_are_gone_can_be_done_again(store: Store) -> None:
    store.record_action("k" * 64, record(("f" * 64, 3)) | {"made_by": "first"})
    name = store.put(b"new")

    assert store.record_action("k" * 64, record((name, 3)) | {"made_by": "second"})["made_by"] == "second"
    assert store.action("k" * 64)["made_by"] == "second"


def test_a_version_never_changes(store: Store) -> None:
    store.put_version({"id": "v1", "parts": {}, "made": "first"})
    store.put_version({"id": "v1", "parts": {}, "made": "again"})

    assert store.version("v1")["made"] == "first"


def test_gc_keeps_what_kept_versions_name_and_removes_the_rest(store: Store) -> None:
    kept, gone = store.put(b"kept"), store.put(b"gone")
    store.record_action("a" * 64, record((kept, 4)))
    store.record_action("b" * 64, record((gone, 4)))
    store.put_version({"id": "v1", **record((kept, 4))})
    for name in (kept, gone):
        age(store, name, 25 * 3600)

    swept = store.gc(["v1"])

    assert (swept.objects, swept.actions, swept.bytes) == (1, 1, 4)
    assert store.get(kept) == b"kept"
    assert store.action("b" * 64) is None
    with pytest.raises(StoreError):
        store.get(gone)


def test_gc_spares_what_was_used_within_the_lease(store: Store) -> None:
    name = store.put(b"in use")
    store.record_action("a" * 64, record((name, 6)))
    age(store, name, 25 * 3600)

    store.action("a" * 64)  # a run reuses it, which renews the lease

    swept = store.gc([])
    assert (swept.objects, swept.spared_by_lease) == (0, 1)


def test_a_dry_gc_removes_nothing(store: Store) -> None:
    name = store.put(b"still here")
    age(store, name, 25 * 3600)

    assert store.gc([], dry_run=True).objects == 1
    assert store.get(name) == b"still here"


def test_eight_writers_of_the_same_action_agree_on_one_record(store: Store) -> None:
    name = store.put(b"result")
    seen: list[str] = []

    def write(number: int) -> None:
        seen.append(store.record_action("k" * 64, record((name, 6)) | {"made_by": f"writer {number}"})["made_by"])

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(seen) == 8
    assert set(seen) == {store.action("k" * 64)["made_by"]}


def test_a_kill_at_any_moment_leaves_whole_things_only(tmp_path: Path) -> None:
    root = tmp_path / "store"
    subprocess.run([sys.executable, "-c", WRITER, str(root), "300", "60"], check=True, cwd=Path(__file__).parents[2])

    objects = [path for path in (root / "objects").rglob("*") if path.is_file()]
    assert len(objects) >= 60
    for path in objects:
        assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name
    store = Store(str(root))
    for path in [*(root / "actions").rglob("*.json"), *(root / "versions").glob("*.json")]:
        for shard in json.loads(path.read_text())["parts"]["files"]["shards"]:
            assert len(store.get(shard["object"])) == shard["bytes"]


def test_a_store_on_a_remote_file_system_does_the_same() -> None:
    store = Store("memory://corpusmill-test-store")
    name = store.put(b"far away")
    store.record_action("a" * 64, record((name, 8)) | {"made_by": "first"})

    assert store.record_action("a" * 64, record((name, 8)) | {"made_by": "second"})["made_by"] == "first"
    assert store.path(name).read_bytes() == b"far away"
    assert store.gc([], lease_seconds=-60).objects == 1
    assert store.action("a" * 64) is None


@pytest.mark.parametrize("garbage", ["", "[]", '{"key": "x"}', '{"parts": {"files": {"kind"'])
def test_a_damaged_action_counts_as_not_done_and_is_written_again(store: Store, garbage: str) -> None:
    name = store.put(b"result")
    store.record_action("k" * 64, record((name, 6)) | {"made_by": "first"})
    next((Path(store.root) / "actions").rglob("*.json")).write_text(garbage)

    assert store.action("k" * 64) is None
    assert store.gc([]).actions == 0
    assert store.record_action("k" * 64, record((name, 6)) | {"made_by": "second"})["made_by"] == "second"


def test_a_version_whose_bytes_are_gone_is_recorded_again_with_what_was_made_since(store: Store) -> None:
    lost = store.put(b"lost weights")
    store.put_version({"id": "v1", **record((lost, 12))})
    store.path(lost).unlink()
    made_again = store.put(b"new weights")

    store.put_version({"id": "v1", **record((made_again, 11))})

    assert store.missing_objects("v1") == []


def test_a_flipped_bit_is_noticed(store: Store) -> None:
    name = store.put(b"right")
    store.path(name).write_bytes(b"wrong")

    with pytest.raises(StoreError, match="damaged"):
        store.get(name)


def test_a_full_disk_is_one_sentence(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(StoreError, match=r"cannot be written: No space left on device"):
        store.put(b"too much")
