"""Archives: every member is read as a file of its own, and nothing in one gets lost or leads out of it."""

import gzip
import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from pipelines.ingest import readers
from pipelines.ingest.streams import Stream
from tests.pipelines.ingest.formats.reading import items

LINES = b'{"text": "one"}\n{"text": "two"}\n'


def tar(members: dict[str, bytes], mode: str = "w") -> bytes:
    """A tar of regular files."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return made.getvalue()


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_members_are_read_by_what_they_hold(folder: Path, read: Callable, mode: str) -> None:
    members = {"a.jsonl": LINES, "deep/b c.md": b"# title", "c.jsonl.gz": gzip.compress(LINES), "d.txt": b""}
    (folder / "all").write_bytes(tar(members, mode))
    got = read()
    assert got.texts == {
        "all/a.jsonl#0": "one",
        "all/a.jsonl#1": "two",
        "all/deep/b c.md#0": "# title",
        "all/c.jsonl.gz#0": "one",
        "all/c.jsonl.gz#1": "two",
    }
    assert got.reasons == {"all/d.txt": "empty_file"}


def test_a_zip_is_an_archive_by_content_and_name(folder: Path, read: Callable) -> None:
    for name in ("a.zip", "office.docx"):
        with zipfile.ZipFile(folder / name, "w") as archive:
            archive.writestr("in/a.jsonl", LINES)
            archive.writestr("blob.bin", bytes(range(256)) * 4)
    got = read()
    assert got.texts == {"a.zip/in/a.jsonl#0": "one", "a.zip/in/a.jsonl#1": "two"}
    assert got.reasons == {"a.zip/blob.bin#0": "not_text", "office.docx#0": "not_text"}


def test_unsafe_names_links_devices_copies_and_archives_inside_are_counted(folder: Path, read: Callable) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, kind in (
            ("../../etc/passwd", tarfile.REGTYPE),
            ("/absolute.txt", tarfile.REGTYPE),
            ("good.txt", tarfile.REGTYPE),
            ("good.txt", tarfile.REGTYPE),
            ("soft", tarfile.SYMTYPE),
            ("hard", tarfile.LNKTYPE),
            ("pipe", tarfile.FIFOTYPE),
            ("tty", tarfile.CHRTYPE),
            ("folder", tarfile.DIRTYPE),
            (".DS_Store", tarfile.REGTYPE),
            ("a#1%.txt", tarfile.REGTYPE),
            ("d\udcff.txt", tarfile.REGTYPE),
        ):
            member = tarfile.TarInfo(name)
            member.type = kind
            member.linkname = "/etc/passwd"
            member.size = 4 if kind == tarfile.REGTYPE else 0
            archive.addfile(member, io.BytesIO(b"text"))
        nested = tarfile.TarInfo("inner.tar")
        content = tar({"x.txt": b"text"})
        nested.size = len(content)
        archive.addfile(nested, io.BytesIO(content))
    (folder / "a.tar").write_bytes(made.getvalue())
    got = read()
    assert set(got.texts) == {"a.tar/good.txt#0", "a.tar/a%231%25.txt#0", "a.tar/d%FF.txt#0"}
    assert got.reasons == {
        "a.tar/../../etc/passwd": "unsafe_name",
        "a.tar//absolute.txt": "unsafe_name",
        "a.tar/good.txt": "duplicate_id",
        "a.tar/soft": "not_a_file",
        "a.tar/hard": "not_a_file",
        "a.tar/pipe": "not_a_file",
        "a.tar/tty": "not_a_file",
        "a.tar/.DS_Store": "hidden_member",
        "a.tar/inner.tar": "nested_archive",
    }


def test_a_member_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = []

    def detect(head: bytes, stream: Stream) -> str:
        looked_at.append(stream.name)
        return by_content(head, stream)

    by_content = readers.detect
    monkeypatch.setattr(readers, "detect", detect)
    items("auto", tar({"a.txt": b"text", "b.tar": tar({"c.txt": b"text"})}), "all.tar")
    assert looked_at == ["all.tar", "all.tar/a.txt", "all.tar/b.tar"]


def test_a_truncated_tar_keeps_the_members_before(folder: Path, read: Callable) -> None:
    whole = tar({"a.txt": b"first", "b.jsonl": LINES * 100})
    (folder / "cut.tar").write_bytes(whole[: 512 * 3 + 1000])
    (folder / "cut.tgz").write_bytes(gzip.compress(whole)[:-30])
    got = read()
    assert got.texts["cut.tar/a.txt#0"] == got.texts["cut.tgz/a.txt#0"] == "first"
    assert got.texts["cut.tar/b.jsonl#0"] == "one"
    assert {got.reasons["cut.tar"], got.reasons["cut.tar/b.jsonl"], got.reasons["cut.tgz"]} == {"damaged_file"}


def test_after_a_broken_header_the_next_member_is_found(folder: Path, read: Callable) -> None:
    whole = bytearray(tar({"a.txt": b"first", "b.txt": b"second", "c.txt": b"third"}))
    whole[1024 + 100] ^= 1  # in the header of b.txt
    (folder / "a.tar").write_bytes(whole)
    (folder / "open.tar").write_bytes(tar({"a.txt": b"first"})[:1024])
    got = read()
    assert got.texts == {"a.tar/a.txt#0": "first", "a.tar/c.txt#0": "third", "open.tar/a.txt#0": "first"}
    assert got.reasons == {"a.tar": "damaged_file", "open.tar": "damaged_file"}
    assert "the first at byte 1024" in next(row["detail"] for row in got.rejects if row["uri"] == "a.tar")


def test_a_broken_member_of_a_zip_is_told_and_the_next_one_read(folder: Path, read: Callable) -> None:
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        archive.writestr("a.txt", "first text of all")
        archive.writestr("b.txt", "second")
    data = bytearray((folder / "a.zip").read_bytes())
    data[data.index(b"first text")] ^= 1
    (folder / "a.zip").write_bytes(data)
    got = read()
    assert got.texts["a.zip/b.txt#0"] == "second"
    assert got.reasons["a.zip/a.txt"] == "damaged_file"
    (folder / "a.zip").write_bytes(data[:-10])
    (folder / "b.txt").write_text("text")
    assert read().reasons == {"a.zip": "damaged_file"}


def test_tables_inside_a_compressed_archive_are_read(folder: Path, read: Callable) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table, made = pa.table({"text": ["one", "two"]}), io.BytesIO()
    pq.write_table(table, made)
    (folder / "a.tar.gz").write_bytes(tar({"t.parquet": made.getvalue()}, "w:gz"))
    (folder / "t.parquet.gz").write_bytes(gzip.compress(made.getvalue()))
    assert set(read().texts) == {f"{name}#{row}" for name in ("a.tar.gz/t.parquet", "t.parquet.gz") for row in (0, 1)}
