"""What each format gives, and what damage costs."""

import bz2
import gzip
import io
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from pipelines.ingest.encodings import DETECTION_BYTES, valid_unicode
from pipelines.ingest.readers import detect
from pipelines.ingest.records import BadInput, metadata_json
from pipelines.ingest.streams import Stream

LINES = b'{"text": "one", "n": 1}\n{"text": "two", "n": 2}\n'


def test_a_jsonl_record_becomes_a_document_with_its_other_fields_as_metadata(folder: Path, read: Callable) -> None:
    (folder / "a.jsonl").write_text('{"b": 2, "text": "hello", "a": [1]}\n')
    [document] = read(license="MIT").documents
    assert document == {
        "doc_id": xxhash.xxh3_128_hexdigest(b"corpus\0a.jsonl#0"),
        "source": "corpus",
        "uri": "a.jsonl#0",
        "text": "hello",
        "language": None,
        "license": "MIT",
        "metadata": '{"a":[1],"b":2}',
    }


def test_mapped_fields_give_text_id_and_license(folder: Path, read: Callable) -> None:
    (folder / "a.jsonl").write_text('{"key": 7, "body": "hello", "terms": "CC0-1.0"}\n')
    [document] = read(fields={"text": "body", "id": "key", "license": "terms"}, license="MIT").documents
    assert (document["uri"], document["text"], document["license"]) == ("a.jsonl#7", "hello", "CC0-1.0")
    assert document["metadata"] is None


def test_every_bad_line_is_one_counted_rejection_and_numbers_go_on(folder: Path, read: Callable) -> None:
    (folder / "a.jsonl").write_bytes(
        b'{"text": "good"}\n'
        b'{"text": "torn\n'
        b"[1, 2]\n"
        b'{"other": "x"}\n'
        b'{"text": 5}\n'
        b'{"text": "  \\n"}\n'
        b"\n"
        b'{"text": "good too"}\n'
    )
    got = read()
    assert got.texts == {"a.jsonl#0": "good", "a.jsonl#6": "good too"}
    assert got.reasons == {
        "a.jsonl#1": "invalid_json",
        "a.jsonl#2": "not_an_object",
        "a.jsonl#3": "missing_field",
        "a.jsonl#4": "wrong_type",
        "a.jsonl#5": "empty_text",
    }
    stats = got.draft.stats
    assert stats["documents_in"] == 7 == stats["documents_out"] + sum(stats["dropped"].values())
    assert stats["histograms"]["text bytes"]["documents"][:6] == [0, 0, 0, 1, 1, 0]  # 4 bytes and 8
    assert "line 2" in next(row["detail"] for row in got.rejects if row["reason"] == "invalid_json")


def test_errors_fail_stops_with_a_sentence_that_names_file_and_record(folder: Path, read: Callable) -> None:
    (folder / "a.jsonl").write_bytes(LINES + b"oops\n")
    with pytest.raises(BadInput, match=r"'corpus': a\.jsonl#2: invalid_json \(line 3.*errors: skip"):
        read(errors="fail")


def test_empty_text_is_no_damage(folder: Path, read: Callable) -> None:
    (folder / "a.jsonl").write_bytes(LINES + b'{"text": ""}\n')
    assert read(errors="fail").reasons == {"a.jsonl#2": "empty_text"}


def test_a_second_record_with_the_same_id_is_rejected(folder: Path, read: Callable) -> None:
    (folder / "a.jsonl").write_text('{"text": "first", "id": "x"}\n{"text": "second", "id": "x"}\n')
    got = read(fields={"id": "id"})
    assert got.texts == {"a.jsonl#x": "first"}
    assert [row["reason"] for row in got.rejects] == ["duplicate_id"]


def test_lone_surrogates_are_replaced_and_pairs_joined(folder: Path, read: Callable) -> None:
    (folder / "a.jsonl").write_bytes(b'{"text": "a\\ud835b"}\n{"text": "\\ud83d\\ude00", "\\ud800": "\\udfff"}\n')
    got = read()
    assert got.texts == {"a.jsonl#0": "a\ufffdb", "a.jsonl#1": "😀"}
    assert got.draft.stats["repaired"] == {"lone_surrogates": 1}


def test_nul_byte_order_mark_and_nan_do_no_harm(folder: Path, read: Callable) -> None:
    (folder / "a.jsonl").write_bytes(b'\xef\xbb\xbf{"text": "a\\u0000b", "x": NaN, "y": 1e999}\n')
    [document] = read().documents
    assert document["text"] == "a\0b"
    assert json.loads(document["metadata"]) == {"x": None, "y": None}


def test_one_broken_byte_is_repaired_another_encoding_is_rejected(folder: Path, read: Callable) -> None:
    (folder / "cut.txt").write_bytes("déjà".encode()[:-1])
    (folder / "latin.txt").write_bytes("déjà vu à l'été".encode("latin-1"))
    (folder / "wide.txt").write_bytes("déjà".encode("utf-16"))
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(200))
    got = read()
    assert got.texts == {"cut.txt#0": "déj\ufffd", "wide.txt#0": "déjà"}
    assert got.reasons == {"latin.txt#0": "not_utf8", "picture.png#0": "not_text"}
    assert got.draft.stats["repaired"] == {"broken_utf8": 1}


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [(".gz", gzip.compress), (".zst", zstandard.compress), (".bz2", bz2.compress), (".xz", lzma.compress)],
)
def test_compressed_files_of_several_members_are_read_whole(
    folder: Path, read: Callable, suffix: str, compress: Callable[[bytes], bytes]
) -> None:
    (folder / f"a.jsonl{suffix}").write_bytes(compress(LINES) + compress(LINES))
    assert [row["text"] for row in read(reader="jsonl").documents] == ["one", "two", "one", "two"]


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress])
def test_of_a_truncated_file_what_was_readable_is_kept(
    folder: Path, read: Callable, compress: Callable[[bytes], bytes]
) -> None:
    lines = b"".join(
        b'{"text": "%s"}\n' % xxhash.xxh3_128_hexdigest(bytes([n % 256, n >> 8])).encode() for n in range(9000)
    )
    whole = compress(lines)
    (folder / "a.jsonl.z").write_bytes(whole[: len(whole) * 2 // 3])
    got = read()
    assert 3000 < len(got.documents) < 9000
    [reject] = got.rejects
    assert (reject["uri"], reject["reason"]) == ("a.jsonl.z", "damaged_file")
    assert "near byte" in reject["detail"]
    with pytest.raises(BadInput, match="damaged_file"):
        read(errors="fail")


def test_a_truncated_text_keeps_its_beginning(folder: Path, read: Callable) -> None:
    text = " ".join(xxhash.xxh3_128_hexdigest(bytes([n % 256, n >> 8])) for n in range(2000))
    (folder / "a.txt.gz").write_bytes(gzip.compress(text.encode())[:-2000])
    got = read()
    assert text.startswith(got.texts["a.txt.gz#0"])
    assert got.reasons == {"a.txt.gz": "damaged_file"}


def test_a_row_that_is_too_large_is_passed_over(folder: Path, read: Callable) -> None:
    (folder / "a.jsonl").write_bytes(b'{"text": "small"}\n{"text": "' + b"x" * 5000 + b'"}\n{"text": "after"}\n')
    (folder / "b.txt").write_bytes(b"y" * 5000)
    (folder / "c.csv").write_bytes(b"text,n\nsmall,1\n" + b"z" * 5000 + b",2\nafter,3\n")
    got = read(max_document_megabytes=0.001)
    assert sorted(row["text"] for row in got.documents) == ["after", "after", "small", "small"]
    assert got.reasons == {"a.jsonl#1": "too_large", "b.txt#0": "too_large", "c.csv#1": "too_large"}


def test_csv_quotes_delimiters_and_rows_with_missing_columns(folder: Path, read: Callable) -> None:
    (folder / "a.csv").write_text('text,n\n"two\nlines, one field",1\nshort\n"""quoted""",2\n')
    (folder / "b.tsv").write_text("n\ttext\n1\ta, b\n")
    (folder / "c.csv").write_text("n;text\n1;x, y\n")
    got = read()
    assert got.texts == {
        "a.csv#0": "two\nlines, one field",
        "a.csv#2": '"quoted"',
        "b.tsv#0": "a, b",
        "c.csv#0": "x, y",
    }
    assert got.reasons == {"a.csv#1": "wrong_columns"}


def test_csv_with_an_open_quote_loses_that_row_with_a_reason(folder: Path, read: Callable) -> None:
    (folder / "a.csv").write_text('text,n\ngood,1\n"open,2\nswallowed,3\n')
    got = read()
    assert got.texts == {"a.csv#0": "good"}
    assert got.reasons == {"a.csv#1": "invalid_csv"}


def test_parquet_rows_strings_bytes_and_nulls(folder: Path, read: Callable) -> None:
    table = pa.table({"text": ["one", None, "three"], "n": [1, 2, 3]})
    pq.write_table(table, folder / "a.parquet")
    raw = pa.table({"text": pa.array([b"caf\xc3\xa9", b"\xff\xfe\xfa\xfb"], pa.binary())})
    pq.write_table(raw, folder / "b.parquet")
    got = read()
    assert got.texts == {"a.parquet#0": "one", "a.parquet#2": "three", "b.parquet#0": "café"}
    assert got.reasons == {"a.parquet#1": "missing_field", "b.parquet#1": "not_utf8"}
    assert got.documents[0]["metadata"] == '{"n":1}'


def test_parquet_without_the_column_is_told_with_the_columns_it_has(folder: Path, read: Callable) -> None:
    pq.write_table(pa.table({"body": ["x"], "n": [1]}), folder / "a.parquet")
    (folder / "b.jsonl").write_bytes(LINES)
    [reject] = read().rejects
    assert (reject["uri"], reject["reason"]) == ("a.parquet", "missing_column")
    assert reject["detail"] == "no column 'text'; the file has body, n"
    with pytest.raises(BadInput, match=r"a\.parquet: missing_column \(no column 'text'; the file has body, n\)"):
        read(errors="fail")


def test_a_source_without_any_text_field_is_an_error_that_says_how_to_map_it(folder: Path, read: Callable) -> None:
    (folder / "a.jsonl").write_text('{"body": "x"}\n')
    with pytest.raises(BadInput, match=r"none of 1 inputs has text in a field 'text'.*fields: {text: body}"):
        read()


def test_damaged_parquet_is_one_rejection(folder: Path, read: Callable) -> None:
    pq.write_table(pa.table({"text": ["x" * 100] * 50}), folder / "a.parquet")
    data = (folder / "a.parquet").read_bytes()
    (folder / "a.parquet").write_bytes(data[: len(data) // 2])
    assert read().reasons == {"a.parquet": "damaged_file"}


def test_a_column_may_change_its_type_between_files(folder: Path, read: Callable) -> None:
    pq.write_table(pa.table({"text": ["x"], "n": [1]}), folder / "a.parquet")
    pq.write_table(pa.table({"text": ["y"], "n": [{"deep": b"\xff"}]}), folder / "b.parquet")
    assert [row["metadata"] for row in read().documents] == ['{"n":1}', '{"n":{"deep":"\ufffd"}}']


def test_content_decides_over_the_name(folder: Path, read: Callable) -> None:
    (folder / "records.txt").write_bytes(LINES)
    (folder / "prose.md").write_text("{ not json }\nprose")
    assert set(read().texts) == {"records.txt#0", "records.txt#1", "prose.md#0"}


PAGE = b"<!doctype html><html><body><p>Some text in a page.</p></body></html>"
README = b'<p align="center">Mills</p>\n\nAn example:\n```html\n' + PAGE + b"\n```\n"
DUMP = b"<mediawiki><page>"


@pytest.mark.parametrize(
    ("name", "data", "reader"),
    [
        ("a", PAGE, "html"),
        ("a", b"\xef\xbb\xbf\n<?xml version='1.0'?>\n<!-- saved -->\n<!-- " + b"x" * 9000 + b" -->" + PAGE, "html"),
        ("a", b"<HTML>", "html"),
        ("a", b"<head><title>t</title></head>", "html"),
        ("a", b"<header>a part</header>", "text"),
        ("a", README, "text"),
        ("README.md", README, "text"),
        ("README.md", PAGE, "text"),
        ("a.rst", PAGE, "text"),
        ("a.txt", b"<!-- c -->" + PAGE, "text"),
        ("a.html", README, "html"),
        ("a", b"<!-- " + PAGE, "text"),
        ("a", b"<?xml version='1.0'?>\n" + DUMP, "mediawiki"),
        ("a", b"<p>An example: " + DUMP, "text"),
        ("a.php", PAGE, "code"),
    ],
)
def test_a_page_or_a_dump_begins_as_one(name: str, data: bytes, reader: str) -> None:
    assert detected(name, data) == reader


@pytest.mark.parametrize(
    ("name", "data", "reader"),
    [
        ("a.md", b'{"text": "an example"}\n\nis one record,\nand this is prose.\n', "text"),
        ("a.txt", b'{"text": "an example"}\nand this is prose.\n', "text"),
        ("a.py", b'{"a": 1}\nprint(1)\n', "code"),
        ("a.md", b'{\n "a": 1\n}\nand prose.\n', "text"),
        ("a.js", b'[{"a": 1}].map(f)\n', "code"),
        ("a.txt", LINES, "jsonl"),
        ("a.txt", LINES + b"torn", "jsonl"),
        ("a.txt", b'{"text": "alone"}', "jsonl"),
        ("a.txt", b'{\n "text": "alone"\n}\n', "json"),
        ("a.txt", b'[{"text": "one"},\n{"text": "two"}]', "json"),
        ("a.txt", LINES * 5000, "jsonl"),
        ("a.md", b'{"text": "an example"}\n' + b"prose\n" * 20_000, "text"),
        ("a", b'{"text": "one"}\noops\n', "jsonl"),
        ("a.json", b'{"text": "' + b"x" * 70_000 + b'"}', "json"),
        ("a", b'{"text": "' + b"x" * 70_000 + b'"}', "jsonl"),
        ("a.txt", b'{"text": "' + b"x" * 70_000 + b'"}', "text"),
        ("a.txt", b'{\n "text": "' + b"x" * 70_000 + b'"\n}', "text"),
        ("a.txt", b'[{"text": "' + b"x" * 70_000 + b'"}] and prose', "json"),
        ("a.ipynb", b'{"text": "one"}\n', "notebook"),
        ("a.ipynb", b"", "notebook"),
        ("a.ipynb", b'[{"text": "one"}]', "json"),
        ("a.wet", b"", "warc"),
        ("a.jsonl", b'{"text": "one"}\noops\noops\n', "jsonl"),
    ],
)
def test_a_text_that_begins_with_json_is_a_text(name: str, data: bytes, reader: str) -> None:
    assert detected(name, data) == reader


def detected(name: str, data: bytes) -> str:
    with Stream(io.BytesIO(data), name, len(data)) as stream:
        return detect(stream.head(DETECTION_BYTES), stream)


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_the_head_of_a_file_is_read_once(compress: Callable[[bytes], bytes]) -> None:
    class Counted(io.BytesIO):
        reads = 0

        def read(self, size: int | None = -1) -> bytes:
            self.reads += 1
            return super().read(size)

    file = Counted(compress(LINES))
    with Stream(file, "a.jsonl", len(file.getvalue())) as stream:
        assert stream.head(DETECTION_BYTES) == LINES
        reads = file.reads
        assert stream.head(DETECTION_BYTES) == LINES and stream.head(4) == LINES[:4]
        assert file.reads == reads
        assert stream.bytes.read() == LINES


@given(st.text(st.characters(exclude_categories=()), max_size=20))
def test_valid_unicode_always_encodes_and_changes_nothing_valid(text: str) -> None:
    mended, repairs = valid_unicode(text)
    mended.encode()
    assert bool(repairs) == any("\ud800" <= character <= "\udfff" for character in text)


@given(
    st.dictionaries(
        st.text(max_size=3),
        st.recursive(st.none() | st.floats() | st.text() | st.binary(max_size=3), st.lists, max_leaves=4),
    )
)
def test_metadata_is_always_strict_json(fields: dict) -> None:
    told = metadata_json(fields)
    if told is not None:
        json.loads(told, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_a_file_without_a_record_is_counted(folder: Path, read: Callable) -> None:
    (folder / "header.csv").write_text("text,n\n")
    (folder / "blank.jsonl").write_text("\n \n")
    (folder / "empty.json").write_text("[]")
    (folder / "packed.txt.gz").write_bytes(gzip.compress(b""))
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), folder / "empty.parquet")
    got = read(errors="fail")
    assert set(got.reasons) == {"header.csv", "blank.jsonl", "empty.json", "packed.txt.gz", "empty.parquet"}
    assert set(got.reasons.values()) == {"empty_file"}
