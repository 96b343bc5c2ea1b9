"""Headers of a tar that are made to exhaust memory or time."""

import gzip
import io
import tarfile
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.ingest.formats.tape import MAX_EXTENSION_BYTES, pax_fields
from pipelines.ingest.records import Record, Reject

from .reading import items

END = bytes(1024)


def header(kind: bytes, size: int, name: str = "made.txt") -> bytes:
    made = tarfile.TarInfo(name)
    made.type, made.size = kind, size
    return made.tobuf(tarfile.GNU_FORMAT)


def member(kind: bytes, content: bytes, name: str = "made.txt") -> bytes:
    return header(kind, len(content), name) + content + bytes(-len(content) % 512)


AFTER = member(b"0", b"text", "after.txt") + END


def read(data: bytes, name: str = "a.tar") -> list[Record | Reject]:
    return items("auto", data, name)


def told(data: bytes) -> list[tuple[str, str]]:
    """Member and text of each record, member and reason of each rejection."""
    return [(item.member, item.text if isinstance(item, Record) else item.reason) for item in read(data)]


@pytest.mark.parametrize("kind", [b"x", b"g", b"X", b"L", b"K"])
def test_extensions_that_are_too_large_are_passed_over(kind: bytes) -> None:
    assert told(member(kind, b"a" * (MAX_EXTENSION_BYTES + 1)) + AFTER) == [
        ("made.txt", "too_large"),
        ("after.txt", "text"),
    ]


def test_extensions_are_counted_together() -> None:
    half = member(b"L", b"a" * (MAX_EXTENSION_BYTES // 2 + 1))
    assert [reason for _, reason in told(half * 2 + AFTER)] == ["too_large", "text"]


def peak(data: bytes, expected: list[tuple[str, str]]) -> int:
    """Bytes that Python held at most while it read an archive."""
    tracemalloc.start()
    try:
        assert told(data) == expected
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", [b"x", b"L"])
def test_an_endless_header_takes_no_memory(kind: bytes) -> None:
    packed = gzip.compress(header(kind, 96 << 20) + b"a" * (96 << 20) + AFTER, 1)
    assert peak(packed, [("made.txt", "too_large"), ("after.txt", "text")]) < 16 << 20


@pytest.mark.parametrize("content", [b"1" * 900_000, b"1 " * 450_000, b"8 a=b\n", b"999 path=x\n", b"9 path=xy"])
def test_a_broken_pax_header_is_damage_and_the_next_member_is_read(content: bytes) -> None:
    assert told(member(b"x", content) + AFTER) == [("after.txt", "text"), ("", "damaged_file")]


def pax(**fields: str) -> bytes:
    """As Python writes them."""
    return tarfile.TarInfo._create_pax_generic_header(fields, b"x", "utf-8")[512:]  # type: ignore[attr-defined]


@given(st.dictionaries(st.sampled_from(["path", "linkpath", "comment"]), st.text(min_size=1, max_size=200)))
def test_pax_fields_are_what_was_written(fields: dict[str, str]) -> None:
    told, is_sparse = pax_fields(pax(**{name: value.replace("\0", "") or "x" for name, value in fields.items()}))
    assert told == {
        name: value.replace("\0", "") or "x" for name, value in fields.items() if name in ("path", "linkpath")
    }
    assert not is_sparse


def test_long_names_and_sizes_of_every_format_are_as_tarfile_reads_them() -> None:
    name = "é" * 90 + "/" + "b" * 200
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w", format=form, pax_headers={"comment": "of all"}) as archive:
            info = tarfile.TarInfo(name)
            info.size, info.mtime = 4, 1.5  # type: ignore[assignment]
            archive.addfile(info, io.BytesIO(b"text"))
            archive.addfile(tarfile.TarInfo("empty.txt"))
        [record, empty] = read(made.getvalue())
        assert isinstance(record, Record) and isinstance(empty, Reject)
        assert record.text == "text"
        with tarfile.open(fileobj=io.BytesIO(made.getvalue())) as archive:
            assert [record.member, empty.member] == archive.getnames()


def test_the_size_in_a_pax_header_is_the_members() -> None:
    long = header(b"0", 0, "long.txt") + b"y" * 600 + bytes(-600 % 512)
    assert told(member(b"x", b"12 size=600\n") + long + AFTER) == [("long.txt", "y" * 600), ("after.txt", "text")]


@pytest.mark.parametrize("size", [1 << 62, 10**15])
def test_a_size_that_no_file_has_ends(size: int) -> None:
    assert [reason for _, reason in told(header(b"0", size) + b"some text")] == [
        "some text",
        "damaged_file",
        "damaged_file",
    ]


def sparse_map(blocks: int) -> bytes:
    """A sparse file of the old GNU format, whose map goes on for so many blocks, and has no data."""
    made = bytearray(header(b"S", 0, "sparse"))
    made[482] = 1
    made[148:156] = b" " * 8
    made[148:156] = b"%06o\0 " % sum(made)
    more = (b"00000000001\0" * 42 + b"\1").ljust(512, b"\0")
    return bytes(made) + more * (blocks - 1) + bytes(512)


def test_sparse_files_are_told_and_their_maps_not_held() -> None:
    map_of_version_1 = pax(**{"GNU.sparse.major": "1", "GNU.sparse.minor": "0"})
    endless = member(b"x", map_of_version_1) + member(b"0", b"1" * 3_000_000, "sparse")
    for data in (sparse_map(40_000) + AFTER, endless + AFTER):
        assert peak(data, [("sparse", "not_a_file"), ("after.txt", "text")]) < 4 << 20


def test_a_name_that_no_system_has_is_refused() -> None:
    [reject, after] = read(member(b"L", b"n" * 5000 + b"\0") + member(b"0", b"text") + AFTER)
    assert isinstance(reject, Reject)
    assert (reject.reason, reject.detail) == ("unsafe_name", "a name of 5000 characters, 4096 allowed")
    assert len(reject.member) == 4096
    assert after.member == "after.txt"
