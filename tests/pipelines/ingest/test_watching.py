"""Looking at a source: content decides, a look reads no more than it may, and many looks see everything."""

import os
from pathlib import Path

import pytest

from pipelines.dataset import seal
from pipelines.engines.local import Engine
from pipelines.ingest import hashes
from pipelines.ingest.params import IngestParams, Source
from pipelines.ingest.stage import ingest
from pipelines.ingest.watching import is_held_by, look
from pipelines.store import Store


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    monkeypatch.setattr(hashes, "SETTLED_NANOSECONDS", -(10**12))  # no file is too young for a hint
    (tmp_path / "notes").mkdir()
    for number in range(9):
        (tmp_path / "notes" / f"{number}.txt").write_text(f"Note {number}. " * 10)  # 80 bytes
    return Source(name="notes", path=str(tmp_path / "notes"))


def test_a_look_reads_what_it_may_and_the_next_ones_the_rest(source: Source, store: Store) -> None:
    looks = [look(source, store, max_bytes=240) for _ in range(4)]

    assert [one.unread for one in looks] == [6, 3, 0, 0]
    assert looks[2] == looks[3]
    assert looks[2].content == look(source, Store(store.url + " elsewhere")).content


def test_a_file_too_large_for_any_look_is_known_by_size_and_time(source: Source, store: Store) -> None:
    large = Path(source.path) / "large.txt"
    large.write_text("x" * 1000)
    before = look(source, store, max_bytes=900)
    assert before.unread == 0

    os.utime(large, (1, 1))

    assert look(source, store, max_bytes=900).content != before.content


def test_times_change_the_stamp_and_only_content_changes_the_content(source: Source, store: Store) -> None:
    before = look(source, store)
    note = Path(source.path) / "3.txt"
    os.utime(note, (1, 1))
    touched = look(source, store)
    note.write_text(note.read_text().replace("3", "4"))
    os.utime(note, (1, 1))
    edited = look(source, store)

    assert touched.stamp != before.stamp
    assert touched.content == before.content != edited.content


def test_a_version_holds_a_look_if_it_was_made_of_the_same_files(source: Source, store: Store) -> None:
    config = IngestParams(shard_megabytes=0.001)
    engine = Engine(store, 1)
    draft = ingest(source, config, engine)
    version = seal(store, draft, asset="raw_documents", actions=[result.key for result in engine.results])
    assert is_held_by(look(source, store), source, config, version)

    (Path(source.path) / "new.txt").write_text("A new note.")
    assert not is_held_by(look(source, store), source, config, version)
    assert not is_held_by(look(source, store, max_bytes=1), source, config, version)  # not all is read

    (Path(source.path) / "new.txt").unlink()
    assert is_held_by(look(source, store), source, config, version)
