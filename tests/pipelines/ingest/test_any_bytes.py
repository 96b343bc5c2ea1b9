"""Every reader on hostile input: no crash, no hang, and nothing is lost without a rejection that says so.

The samples are whole files of each format with three records; whoever adds a reader adds one here.
"""

import bz2
import gzip
import io
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.ingest.params import Source
from pipelines.ingest.records import Record, Reject
from tests.pipelines.ingest.formats.reading import items, records
from tests.pipelines.ingest.test_archives import tar

READERS = sorted(set(get_args(Source.model_fields["reader"].annotation)) - {"environment"})
ROWS = [{"text": f"text number {number}, of some length", "n": number} for number in range(3)]
LINES = b"".join(json.dumps(row).encode() + b"\n" for row in ROWS)
PAGE = "<page><title>T{0}</title><ns>0</ns><id>{0}</id><revision><text>Some text of page {0}.</text></revision></page>"


def arrow(new: Callable) -> bytes:
    made = io.BytesIO()
    with new(made, pa.Table.from_pylist(ROWS).schema) as writer:
        writer.write_table(pa.Table.from_pylist(ROWS), max_chunksize=1)
    return made.getvalue()


def parquet() -> bytes:
    made = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(ROWS), made, row_group_size=1, write_page_checksum=True)
    return made.getvalue()


def warc() -> bytes:
    pages = []
    for number in range(3):
        body = f"<html><body><p>Some text of page {number}.</p></body></html>"
        http = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        head = f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: https://a.example/{number}\r\n"
        head += f"WARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-00000000000{number}>\r\n"
        head += "WARC-Date: 2024-05-06T07:08:09Z\r\nContent-Type: application/http; msgtype=response\r\n"
        pages.append(f"{head}Content-Length: {len(http)}\r\n\r\n{http}\r\n\r\n".encode())
    return b"".join(pages)


SAMPLES: dict[str, tuple[str, bytes]] = {
    "text": ("a.txt", b"Some text that is a document of its own."),
    "code": ("a.py", b"def answer():\n    return 42\n"),
    "notebook": (
        "a.ipynb",
        b'{"cells": [{"cell_type": "markdown", "source": ["Some text."], "metadata": {}}], "nbformat": 4}',
    ),
    "html": ("a.html", b"<!doctype html><html><body><p>Some text in a page.</p></body></html>"),
    "jsonl": ("a.jsonl", LINES),
    "json": ("a.json", json.dumps(ROWS).encode()),
    "csv": ("a.csv", b"text,n\n" + b"".join(b'"%s",%d\n' % (row["text"].encode(), row["n"]) for row in ROWS)),
    "parquet": ("a.parquet", parquet()),
    "arrow": ("a.arrow", arrow(pa.ipc.new_stream)),
    "warc": ("a.warc", warc()),
    "mediawiki": ("a.xml", f"<mediawiki>{''.join(PAGE.format(number) for number in range(3))}</mediawiki>".encode()),
    "auto": ("a.tar", tar({f"{number}.txt": b"Some text." for number in range(3)})),
    "arrow file": ("a.feather", arrow(pa.ipc.new_file)),
}
UNTOLD = {"text", "code", "html", "csv", "arrow", "warc", "mediawiki", "auto"}
"""Formats in which one bit can turn a record into no record, or two into one, and leave the file in order."""


def kept(given: list[Record | Reject]) -> int:
    return len(records(given))


@pytest.fixture(params=SAMPLES)
def sample(request: pytest.FixtureRequest) -> tuple[str, str, bytes]:
    """(reader, name of the file, its bytes)."""
    name, data = SAMPLES[request.param]
    reader = request.param.partition(" ")[0]
    return reader, name, data


def test_every_reader_has_a_sample() -> None:
    assert set(READERS) <= set(SAMPLES)


def test_a_whole_file_is_read_whole_and_found_without_its_name(sample: tuple[str, str, bytes]) -> None:
    reader, name, data = sample
    found = items(reader, data, name)
    assert found and kept(found) == len(found)
    if reader not in ("text", "code", "notebook", "csv"):
        assert items("auto", data, "without_suffix") == found


FUZZ = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


@FUZZ
@given(data=st.binary(max_size=400))
def test_random_bytes(sample: tuple[str, str, bytes], data: bytes) -> None:
    reader, name, _ = sample
    assert items(reader, data, name)


@FUZZ
@given(share=st.floats(0, 1, exclude_max=True))
def test_a_cut_anywhere(sample: tuple[str, str, bytes], share: float) -> None:
    reader, name, data = sample
    found = items(reader, data[: int(share * len(data))], name)
    assert found
    if reader not in ("arrow", "csv", "jsonl", "warc"):  # cut at the end of a record, these are whole
        assert kept(found) == kept(items(reader, data, name)) or kept(found) < len(found)


@FUZZ
@given(share=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit(sample: tuple[str, str, bytes], share: float, bit: int) -> None:
    reader, name, data = sample
    broken = bytearray(data)
    broken[int(share * len(data))] ^= 1 << bit
    found = items(reader, bytes(broken), name)
    assert found
    if reader not in UNTOLD:
        assert kept(found) == kept(items(reader, data, name)) or kept(found) < len(found)


@FUZZ
@given(at=st.integers(0, 10_000), noise=st.binary(min_size=1, max_size=8))
def test_bytes_put_in_between(sample: tuple[str, str, bytes], at: int, noise: bytes) -> None:
    reader, name, data = sample
    at %= len(data) + 1
    assert items(reader, data[:at] + noise + data[at:], name)


@pytest.mark.parametrize(
    "compress", [gzip.compress, zstandard.ZstdCompressor(write_checksum=True).compress, bz2.compress, lzma.compress]
)
@FUZZ
@given(share=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), cut=st.booleans())
def test_damage_in_compressed_lines_is_told(
    compress: Callable[[bytes], bytes], share: float, bit: int, cut: bool
) -> None:
    data = bytearray(compress(LINES))
    at = int(share * len(data))
    if cut:
        del data[at:]
    else:
        data[at] ^= 1 << bit
    found = items("jsonl", bytes(data))
    assert records(found) == items("jsonl", LINES) or kept(found) < len(found)


def test_real_files_of_odd_strings_are_accounted_for() -> None:
    folder = Path(__file__).resolve().parents[4] / "shared" / "data" / "unicode"
    if not folder.is_dir():
        pytest.skip("the strings that break programs are not here: ../shared/data/unicode")
    strings = json.loads((folder / "blns.json").read_text())
    found = items("auto", (folder / "blns.json").read_bytes(), "blns.json")
    assert len(found) == len(strings)
    assert kept(found) == sum(bool(text.strip(" \t\n\r\v\f")) for text in strings)
