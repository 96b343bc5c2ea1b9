"""Text that is not UTF-8: decoded where it is clear what it is, rejected where it is not, and always counted."""

import codecs
import io
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.ingest.encodings import as_utf8, charset_of, decode, wide_encoding

GERMAN = (
    "Die Würde des Menschen ist unantastbar. Sie zu achten und zu schützen ist Verpflichtung aller staatlichen Gewalt. "
)
TEXTS = {
    "windows-1251": "Все люди рождаются свободными и равными в своем достоинстве и правах.",
    "koi8-r": "Все люди рождаются свободными и равными в своем достоинстве и правах.",
    "shift_jis": "すべての人間は、生れながらにして自由であり、かつ、尊厳と権利とについて平等である。",
    "euc-jp": "すべての人間は、生れながらにして自由であり、かつ、尊厳と権利とについて平等である。",
    "gb18030": "人人生而自由,在尊严和权利上一律平等。他们赋有理性和良心,并应以兄弟关系的精神相对待。",
    "euc-kr": "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
    "windows-1252": GERMAN * 8,
}


@pytest.mark.parametrize("encoding", TEXTS)
def test_a_text_in_a_known_encoding_is_decoded_and_counted(folder: Path, read: Callable, encoding: str) -> None:
    (folder / "a.txt").write_bytes(TEXTS[encoding].encode(encoding))
    got = read()
    assert got.texts == {"a.txt#0": TEXTS[encoding]}
    [repair] = got.draft.stats["repaired"]
    assert repair.startswith("decoded_")


def test_lines_of_another_encoding_are_read_beside_lines_of_utf8(folder: Path, read: Callable) -> None:
    line = '{"text": "%s"}\n'
    foreign = (line % TEXTS["windows-1251"]).encode("windows-1251")
    (folder / "a.jsonl").write_bytes((line % TEXTS["gb18030"]).encode() + foreign)
    rows = "text,n\n" + f'"{TEXTS["koi8-r"]}",1\n' * 2
    (folder / "b.csv").write_bytes(rows.encode("koi8-r"))
    got = read()
    assert got.texts == {
        "a.jsonl#0": TEXTS["gb18030"],
        "a.jsonl#1": TEXTS["windows-1251"],
        "b.csv#0": TEXTS["koi8-r"],
        "b.csv#1": TEXTS["koi8-r"],
    }
    assert sum(got.draft.stats["repaired"].values()) == 3


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32", "utf-32-be"])
def test_wide_encodings_with_a_mark_are_read_by_every_reader_of_lines(
    folder: Path, read: Callable, encoding: str
) -> None:
    mark = b"" if encoding in ("utf-16", "utf-32") else "\ufeff".encode(encoding)
    for name, text in {
        "a.jsonl": '{"text": "é😀"}\n{"text": "two"}\n',
        "b.csv": "text\tn\né😀\t1\n",
        "c.json": '[{"text": "é😀"}]',
        "d.txt": "é😀",
    }.items():
        (folder / name).write_bytes(mark + text.encode(encoding))
    assert sorted(read().texts.values()) == ["two", *["é😀"] * 4]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_mark_is_known_by_its_zero_bytes(folder: Path, read: Callable, encoding: str) -> None:
    for name, text in {
        "a.jsonl": '{"text": "é😀"}\n{"text": "two"}\n',
        "b.csv": "text\tn\né😀\t1\n",
        "c.json": '[{"text": "é😀"}]',
        "d.txt": TEXTS["windows-1251"],
        "e.html": f"<html><p>{GERMAN}</p></html>",
    }.items():
        (folder / name).write_bytes(text.encode(encoding))
    got = read()
    assert sorted(got.texts.values()) == sorted(["two", *["é😀"] * 3, TEXTS["windows-1251"], GERMAN.strip()])
    assert f'"charset":"{encoding}"' in next(row["metadata"] for row in got.documents if row["uri"] == "e.html#0")


@pytest.mark.parametrize(
    "data",
    [b"hello\0world!", b"a\0" + b"plain text " * 3, bytes(range(256)) * 8, b"\1\0\2\0" * 99, b"\0" * 99, b"RIFF\0\0"],
)
def test_zero_bytes_alone_make_no_utf_16(data: bytes) -> None:
    assert wide_encoding(data) is None


@given(st.text("".join(map(chr, range(32, 127))) + "\n", min_size=2), st.sampled_from(["utf-16-le", "utf-16-be"]))
def test_ascii_in_utf_16_is_read_back(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding)) == (text, ())
    assert decode(text.encode()) == (text, ())


def test_a_short_text_in_an_unknown_encoding_is_rejected(folder: Path, read: Callable) -> None:
    (folder / "a.txt").write_bytes("déjà vu".encode("latin-1"))
    (folder / "b.jsonl").write_bytes('{"text": "déjà vu à l\'été"}\n'.encode("latin-1"))
    assert read().reasons == {"a.txt#0": "not_utf8", "b.jsonl#0": "not_utf8"}


@given(st.binary(max_size=300))
def test_no_bytes_are_too_strange(data: bytes) -> None:
    name = charset_of(data)
    assert name is None or codecs.lookup(name).name == name


@given(
    st.text(st.characters(exclude_categories=()), max_size=50),
    st.sampled_from(["utf-16-le", "utf-32-be"]),
    st.binary(max_size=3),
)
def test_what_was_wide_is_valid_after_the_next_decoding(text: str, encoding: str, tail: bytes) -> None:
    data = text.encode(encoding, "surrogatepass")
    assert (
        as_utf8(io.BytesIO(data), encoding).read()
        == text.encode("utf-16-le", "surrogatepass")
        .decode("utf-16-le", "surrogatepass")
        .encode("utf-8", "surrogatepass")
        or encoding == "utf-32-be"
    )
    as_utf8(io.BytesIO(data + tail), encoding).read().decode("utf-8", "replace")
