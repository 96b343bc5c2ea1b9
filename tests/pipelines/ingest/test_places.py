"""Files behind URLs and patterns: the same documents as from a folder, and changes are seen."""

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.registry import _registry

from pipelines.dataset import seal
from pipelines.engines.local import Engine
from pipelines.ingest import hashes, places, stage
from pipelines.ingest.globs import Glob, split_glob
from pipelines.ingest.params import IngestParams, Source
from pipelines.ingest.places import seen
from pipelines.ingest.records import BadInput
from pipelines.ingest.stage import ingest
from pipelines.ingest.watching import is_held_by, look
from pipelines.store import Store

LINES = b'{"text": "one"}\n{"text": "two"}\n'


@pytest.fixture
def bucket() -> Iterator[Any]:
    """A file system in memory, with a folder /bucket."""
    files = fsspec.filesystem("memory")
    files.pipe_file("/bucket/a.jsonl", LINES)
    files.pipe_file("/bucket/deep/b #1.txt", b"text")
    files.pipe_file("/bucket/deep/c.log", b"log")
    files.pipe_file("/bucket/.hidden/d.txt", b"secret")
    files.pipe_file("/bucket/.hidden/e.txt", b"secret")
    yield files
    files.rm("/bucket", recursive=True)


def test_a_remote_folder_gives_what_a_local_one_gives(bucket: Any, folder: Path, read: Callable) -> None:
    bucket.get("/bucket/", str(folder), recursive=True)
    remote, local = read(path="memory://bucket"), read(store="other")
    assert remote.draft.parts == local.draft.parts
    assert remote.draft.stats | {"files_left_out": {}} == local.draft.stats | {"files_left_out": {}}
    assert remote.texts == {"a.jsonl#0": "one", "a.jsonl#1": "two", "deep/b %231.txt#0": "text", "deep/c.log#0": "log"}
    assert remote.draft.stats["files_left_out"] == {"hidden": 2}
    assert local.draft.stats["files_left_out"] == {"hidden": 1}  # the folder, into which nobody looks


def test_one_remote_file_and_a_remote_pattern(bucket: Any, read: Callable) -> None:
    assert set(read(path="memory://bucket/a.jsonl").texts) == {"a.jsonl#0", "a.jsonl#1"}
    got = read(path="memory://bucket/**/*.txt", exclude=["x*"])
    assert set(got.texts) == {"deep/b %231.txt#0"}
    assert got.draft.stats["files_left_out"] == {"hidden": 2, "not_included": 2}


@pytest.fixture
def opened(bucket: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the remote files that were opened, once for each time."""
    names: list[str] = []
    opens = type(bucket)._open

    def counted(self: Any, path: str, mode: str = "rb", **named: Any) -> Any:
        if mode == "rb":
            names.append(path.removeprefix("/bucket/"))
        return opens(self, path, mode, **named)

    monkeypatch.setattr(type(bucket), "_open", counted)
    return names


def test_a_remote_file_is_opened_twice_when_it_is_new_or_changed_and_not_at_all_afterwards(
    bucket: Any, opened: list[str], read: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hashes, "SETTLED_NANOSECONDS", -(10**12))  # no file is too young for a hint
    sizes = {"path": "memory://bucket", "shard_megabytes": 0.001}
    bucket.pipe_file("/bucket/large.txt", b"x" * 2000)  # a task of its own
    read(**sizes)
    assert sorted(opened) == sorted(["a.jsonl", "deep/b #1.txt", "deep/c.log", "large.txt"] * 2)
    opened.clear()
    bucket.pipe_file("/bucket/large.txt", b"y" * 2000)
    assert read(**sizes).texts["large.txt#0"] == "y" * 2000
    assert opened == ["large.txt"] * 2
    opened.clear()
    assert all(result.reused for result in read(**sizes).engine.results)
    assert opened == []


def test_a_remote_file_that_vanishes_while_it_is_read_is_listed_again(
    bucket: Any, read: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, calls = stage.read_file, []

    def disturbed(*given: Any) -> Any:
        if not calls:
            bucket.rm("/bucket/a.jsonl")
        calls.append(given)
        return reader(*given)

    monkeypatch.setattr(stage, "read_file", disturbed)
    assert "a.jsonl#0" not in read(path="memory://bucket").texts


def test_a_network_that_fails_stops_with_a_sentence_and_quarantines_nothing(
    bucket: Any, read: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(Exception):
        pass

    def broken(*given: Any, **named: Any) -> Any:
        raise Broken("the connection is lost")

    monkeypatch.setattr(type(bucket), "_open", broken)
    with pytest.raises(BadInput, match=r"memory://bucket: a\.jsonl cannot be read \(Broken: the connection is lost\)"):
        read(path="memory://bucket")


def test_a_network_that_fails_while_a_dataset_is_looked_into_stops_the_listing(
    bucket: Any, read: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be told is no "another file of that name": caches would pass for data."""
    bucket.pipe_file("/bucket/state.json", b'{"_data_files": [{"filename": "data.arrow"}]}')

    def broken(*given: Any, **named: Any) -> Any:
        raise TimeoutError("timed out")

    monkeypatch.setattr(type(bucket), "_open", broken)
    with pytest.raises(BadInput, match=r"'memory://bucket' cannot be listed: timed out"):
        read(path="memory://bucket")


@pytest.mark.parametrize(("age_seconds", "seen_changes"), [(0, True), (60, False)])
def test_a_remote_file_that_may_change_within_its_time_stamp_is_read_again(
    bucket: Any, store: Store, age_seconds: int, seen_changes: bool
) -> None:
    """Size and time are all that tells a change: an old time is believed, a young one may stand for two contents."""
    source = Source(name="far", path="memory://bucket/a.jsonl")
    when = datetime.now(UTC) - timedelta(seconds=age_seconds)
    looks = []
    for content in (b"one", b"two"):
        bucket.pipe_file("/bucket/a.jsonl", content)
        bucket.store["/bucket/a.jsonl"].created = when
        looks.append(look(source, store).content)
    assert (looks[0] != looks[1]) == seen_changes


def test_a_look_sees_new_remote_content(bucket: Any, store: Store) -> None:
    source, config = Source(name="far", path="memory://bucket"), IngestParams()
    engine = Engine(store, 1)
    draft = ingest(source, config, engine)
    version = seal(store, draft, asset="raw_documents", actions=[result.key for result in engine.results])
    assert is_held_by(look(source, store), source, config, version)
    bucket.pipe_file("/bucket/new.txt", b"new")
    assert not is_held_by(look(source, store), source, config, version)


class Hub(MemoryFileSystem):
    """Stands in for the Hugging Face Hub: datasets by name, and the hash of every file in its listing."""

    protocol = "hf"
    store: ClassVar[dict] = {}
    pseudo_dirs: ClassVar[list] = [""]

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return "/" + path.removeprefix("hf://").strip("/")

    def info(self, path: str, **named: Any) -> dict[str, Any]:
        found = super().info(path, **named)
        return found | ({"blob_id": "b10b"} if found["type"] == "file" else {})

    def find(self, path: str, *given: Any, detail: bool = False, **named: Any) -> Any:
        names = super().find(path, *given, **named)
        return {name: self.info(name) for name in names} if detail else names


def test_a_dataset_of_the_hub_is_read_by_its_name(read: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_registry, "hf", Hub)
    hub = fsspec.filesystem("hf")
    hub.pipe_file("/datasets/owner/name/data/train-0.jsonl", LINES)
    hub.pipe_file("/datasets/owner/name/README.md", b"# Card")
    got = read(path="hf://datasets/owner/name/**/*.jsonl")
    assert got.texts == {"data/train-0.jsonl#0": "one", "data/train-0.jsonl#1": "two"}
    assert all(result.reused for result in read(path="hf://datasets/owner/name/**/*.jsonl").engine.results)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("memory://nowhere", "there is no folder or file 'memory://nowhere'"),
        ("s3://bucket/x", "cannot be read without another package: .*s3fs"),
        ("gs://bucket/x", "cannot be read without another package: .*gcsfs"),
        ("nonsense://bucket/x", "is not a URL that can be read: Protocol not known: nonsense"),
        ("hf://datasets/owner/name", "'hf://datasets/owner/name' cannot be listed: "),
    ],
)
def test_what_cannot_be_reached_is_one_sentence(read: Callable, path: str, told: str) -> None:
    with pytest.raises(BadInput, match=told):
        read(path=path)


@pytest.mark.parametrize(
    ("info", "stamp", "changed_ns"),
    [
        ({"size": 3, "ETag": '"abc"', "LastModified": "x"}, (3, '"abc"'), 0),
        ({"size": 3, "blob_id": "abc"}, (3, "abc"), 0),
        ({"size": 3, "mtime": 1e9}, (3, 10**18), 10**18),
        ({"size": 3, "Last-Modified": "Sun, 09 Sep 2001 01:46:40 GMT"}, (3, 10**18), 10**18),
        ({"size": 3, "updated": "2001-09-09T01:46:40Z"}, (3, 10**18), 10**18),
        ({"size": 3, "LastModified": datetime(2001, 9, 9, 1, 46, 40)}, (3, 10**18), 10**18),
        ({"size": 3, "modified": "yesterday"}, (3, "yesterday"), 0),
        ({"size": 3}, (3,), places.NEVER),
    ],
)
def test_what_tells_the_changes_of_a_remote_file_and_since_when(
    info: dict[str, Any], stamp: tuple[int | str, ...], changed_ns: int
) -> None:
    assert (seen(info).stamp, seen(info).changed_ns) == (stamp, changed_ns)


def test_patterns_in_a_local_path(folder: Path, read: Callable) -> None:
    for path in ("a.txt", "x/b.txt", "x/y/c.txt", "x/y/d.log", "z[1]/e.txt"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("text")
    assert set(read(path=f"{folder}/*.txt").texts) == {"a.txt#0"}
    assert set(read(path=f"{folder}/**/*.txt").texts) == {"a.txt#0", "x/b.txt#0", "x/y/c.txt#0", "z[1]/e.txt#0"}
    assert set(read(path=f"{folder}/x/**/?.log").texts) == {"y/d.log#0"}
    assert set(read(path=f"{folder}/[xy]").texts) == {"x/b.txt#0", "x/y/c.txt#0", "x/y/d.log#0"}
    assert set(read(path=f"{folder}/z[1]").texts) == {"e.txt#0"}  # it exists, so it is a name
    with pytest.raises(BadInput, match="there is no folder or file"):
        read(path=f"{folder}/nothing/*.txt")


def test_where_patterns_begin() -> None:
    assert split_glob("https://host/a?b=c.jsonl") == ("https://host/a?b=c.jsonl", None)
    root, glob = split_glob("s3://bucket/crawl-20*/part-[0-3].parquet")
    assert root == "s3://bucket" and isinstance(glob, Glob)
    assert glob.matches("crawl-2024/part-2.parquet") and not glob.matches("crawl-2024/part-4.parquet")
    assert glob.enters("crawl-2024") and not glob.enters("news")
    with pytest.raises(BadInput, match=r"the pattern 'a\*\*/b'"):
        split_glob("s3://bucket/a**/b")


def test_a_folder_that_vanishes_while_it_is_listed(
    folder: Path, read: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("a/x.txt", "b/y.txt"):
        (folder / path).parent.mkdir()
        (folder / path).write_text("text")
    scan = os.scandir

    def vanishing(path: Any) -> Any:
        if str(path).endswith("/b"):
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", vanishing)
    got = read()
    assert got.texts == {"a/x.txt#0": "text"}
    assert got.reasons == {"b": "vanished_file"}
