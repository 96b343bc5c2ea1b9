"""How files become tasks, what is cached, and that nothing is lost on the way."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pipelines.ingest import hashes, listing, stage
from pipelines.ingest.listing import SourceFile, group_files, uri_of
from pipelines.ingest.params import Source
from pipelines.ingest.records import REASONS, BadInput


def write(folder: Path, count: int) -> None:
    for number in range(count):
        (folder / f"{number:03}.txt").write_text(f"text number {number} " * 20)


def test_an_empty_folder_gives_an_empty_dataset(read: Callable) -> None:
    got = read()
    assert (got.documents, got.rejects) == ([], [])
    assert set(got.draft.parts) == {"documents", "rejects"}


def test_a_missing_path_is_an_error_that_names_it(read: Callable) -> None:
    with pytest.raises(BadInput, match="'corpus': there is no folder or file '/nowhere/at/all'"):
        read(path="/nowhere/at/all")


def test_one_file_may_be_the_source(folder: Path, read: Callable) -> None:
    (folder / "only.md").write_text("# title")
    assert read(path=str(folder / "only.md")).texts == {"only.md#0": "# title"}


def test_workers_and_a_second_run_change_no_byte(folder: Path, read: Callable) -> None:
    write(folder, 40)
    sizes = {"shard_megabytes": 0.002}
    alone, together = read(**sizes), read(workers=2, store="other", **sizes)
    assert len(alone.draft.parts["documents"].shards) > 4
    assert together.draft == alone.draft
    again = read(**sizes)
    assert again.draft == alone.draft
    assert all(result.reused for result in again.engine.results)


def test_one_more_file_changes_one_shard(folder: Path, read: Callable) -> None:
    write(folder, 40)
    before = {shard.object for shard in read(shard_megabytes=0.003).draft.parts["documents"].shards}
    (folder / "new.txt").write_text("one more")
    after = {shard.object for shard in read(shard_megabytes=0.003).draft.parts["documents"].shards}
    assert len(after - before) == 1
    assert len(before) - 1 <= len(before & after)


def test_a_large_file_gives_several_shards(folder: Path, read: Callable) -> None:
    (folder / "a.jsonl").write_text('{"text": "%s"}\n' % ("x" * 100) * 50)
    got = read(shard_megabytes=0.001)
    assert len(got.documents) == 50
    assert [shard.rows for shard in got.draft.parts["documents"].shards] == [10, 10, 10, 10, 10]


def test_content_decides_not_time(folder: Path, read: Callable) -> None:
    (folder / "a.txt").write_text("first")
    read()
    stamp = (folder / "a.txt").stat()
    (folder / "a.txt").write_text("other")
    os.utime(folder / "a.txt", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert read().texts == {"a.txt#0": "other"}


def test_hints_may_be_garbled_or_gone(folder: Path, read: Callable, tmp_path: Path) -> None:
    (folder / "a.txt").write_text("text")
    os.utime(folder / "a.txt", (1, 1))
    read()
    for damage in ("", "[1, 2", '{"x": 3}', "null"):
        for hints in tmp_path.glob("store/work/*/hashes.json"):
            hints.write_text(damage)
        assert read().texts == {"a.txt#0": "text"}


def test_an_unchanged_file_is_not_hashed_again(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashes, "SETTLED_NANOSECONDS", -(10**18))
    (folder / "a.txt").write_text("text")
    hints = tmp_path / "hashes.json"
    found = listing.list_files(Source(name="s", path=str(folder)))
    hashes.hash_files(found, hints, 1)
    sha256 = found.files[0].sha256
    hints.write_text(hints.read_text().replace(sha256, "from the hint"))
    hashes.hash_files(found, hints, 1)
    assert found.files[0].sha256 == "from the hint"
    (folder / "a.txt").write_text("other")
    hashes.hash_files(found, hints, 1)
    assert found.files[0].sha256 not in (sha256, "from the hint")


def test_the_error_policy_and_the_sizes_are_part_of_the_key(folder: Path, read: Callable) -> None:
    (folder / "a.jsonl").write_text('{"text": "x"}\noops\n')
    read()
    with pytest.raises(BadInput):
        read(errors="fail")


def test_names_with_spaces_marks_and_bytes_that_are_no_utf8(folder: Path, read: Callable) -> None:
    for name in (b"a b.txt", b"c#1%.txt", b"d\xff.txt", "é.txt".encode()):
        (folder / os.fsdecode(name)).write_text("text")
    assert sorted(read().texts) == ["a b.txt#0", "c%231%25.txt#0", "d%FF.txt#0", "é.txt#0"]


@given(st.lists(st.binary(min_size=1, max_size=6).filter(lambda name: b"\0" not in name), unique=True, max_size=6))
def test_different_paths_have_different_uris(names: list[bytes]) -> None:
    uris = [uri_of(os.fsdecode(name)) for name in names]
    assert len(set(uris)) == len(names)
    assert not any("#" in uri for uri in uris)
    "".join(uris).encode()


def test_loops_dead_links_pipes_and_hidden_files(folder: Path, read: Callable) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "a.txt").write_text("text")
    (folder / "sub" / "loop").symlink_to(folder)
    (folder / "dead.txt").symlink_to(folder / "nothing")
    os.mkfifo(folder / "pipe")
    (folder / ".hidden").write_text("secret")
    (folder / "empty.txt").touch()
    got = read()
    assert got.texts == {"sub/a.txt#0": "text"}
    assert got.reasons == {
        "sub/loop": "repeated_directory",
        "dead.txt": "vanished_file",
        "pipe": "not_a_file",
        "empty.txt": "empty_file",
    }
    assert got.draft.stats["files_left_out"] == {"hidden": 1}


def test_patterns_choose_by_name_and_by_path(folder: Path, read: Callable) -> None:
    for path in ("a.txt", "a.log", "old/b.txt"):
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text("text")
    got = read(include=["*.txt"], exclude=["old/*"])
    assert set(got.texts) == {"a.txt#0"}
    assert got.draft.stats["files_left_out"] == {"excluded": 1, "not_included": 1}


def test_the_cap_takes_a_stable_sample(folder: Path, read: Callable) -> None:
    write(folder, 40)
    some, more = set(read(max_megabytes=0.002).texts), set(read(max_megabytes=0.004).texts)
    assert 0 < len(some) < len(more) < 40
    assert some < more


def test_the_cap_stops_inside_one_large_file(folder: Path, read: Callable) -> None:
    (folder / "a.jsonl").write_text('{"text": "%s"}\n' % ("x" * 100) * 50)
    assert len(read(max_megabytes=0.001).documents) == 10


def test_a_file_that_changes_while_it_is_read_is_listed_again(
    folder: Path, read: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a.txt").write_text("first")
    (folder / "b.txt").write_text("stays")
    reader, calls = stage.read_file, []

    def disturbed(*given: object) -> object:
        if not calls:
            (folder / "a.txt").unlink()
        calls.append(given)
        return reader(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(stage, "read_file", disturbed)
    assert read().texts == {"b.txt#0": "stays"}


def test_a_file_that_never_rests_is_an_error(folder: Path, read: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "a.txt").write_text("x")
    reader, calls = stage.read_file, []

    def disturbed(*given: object) -> object:
        calls.append(given)
        (folder / "a.txt").write_text((folder / "a.txt").read_text() + "x")
        return reader(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(stage, "read_file", disturbed)
    with pytest.raises(BadInput, match=r"a\.txt changed while it was being read; run again"):
        read()
    assert len(calls) == 3


def test_where_no_error_may_pass_a_change_ends_the_reading_at_once(
    folder: Path, read: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a.txt").write_text("x")
    reader, calls = stage.read_file, []

    def disturbed(*given: object) -> object:
        calls.append(given)
        (folder / "a.txt").write_text("other")
        return reader(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(stage, "read_file", disturbed)
    with pytest.raises(BadInput, match=r"a\.txt changed while it was being read"):
        read(errors="fail")
    assert len(calls) == 1


def test_an_unreadable_file_is_a_counted_rejection(
    folder: Path, read: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a.txt").write_text("x")
    (folder / "b.txt").write_text("y")
    opened = Path.open

    def refusing(path: Path, *rest: object, **named: object) -> object:
        if path.name == "a.txt":
            raise PermissionError(13, "Permission denied")
        return opened(path, *rest, **named)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", refusing)
    got = read()
    assert got.texts == {"b.txt#0": "y"}
    assert got.reasons == {"a.txt": "unreadable_file"}


@given(st.lists(st.integers(0, 300), max_size=30), st.integers(1, 200))
def test_groups_hold_every_file_once(sizes: list[int], shard_bytes: int) -> None:
    files = [SourceFile(f"f{number}", f"f{number}", (size, 0, 0)) for number, size in enumerate(sizes)]
    groups = group_files(files, shard_bytes)
    assert sorted(file.uri for group in groups for file in group) == sorted(file.uri for file in files)
    assert all(len(group) == 1 for group in groups if any(file.size > shard_bytes for file in group))
    assert group_files(files[::-1], shard_bytes) == groups


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"reader": "environment"}, "needs `what`"),
        ({"what": "code", "path": "x"}, "`what` is for reader 'environment'"),
        ({}, "`path` is empty"),
        ({"reader": "environment", "what": "code", "license": "MIT"}, "comes from each package"),
        ({"path": "x", "fields": {"body": "text"}}, "only text, id, license, url, date can be mapped"),
        ({"path": "x", "reader": "text", "fields": {"text": "body"}}, "no records that have `fields`"),
        ({"path": "x", "name": "No Slug"}, "pattern"),
    ],
)
def test_a_source_that_does_not_fit_together_is_refused(given: dict, told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        Source(**({"name": "s"} | given))


def test_every_reason_that_the_code_gives_is_explained() -> None:
    folder = Path(stage.__file__).parent
    given = {
        reason
        for module in folder.rglob("*.py")
        for reason in re.findall(r'(?:Reject\([^"\n]*|NotText\(|_BadLine\()\s*"(\w+)"', module.read_text())
    }
    assert given - {"0"} <= set(REASONS)
    assert len(given) > 15
