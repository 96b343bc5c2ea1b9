"""Masking: what is written instead, what stays, and that hostile texts take linear time."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pipelines.clean.pii.find import find
from pipelines.clean.pii.finding import Window
from pipelines.clean.pii.mask import mask
from pipelines.clean.pii.params import TYPES, PiiParams

MOST_READ = 2000
"""Bytes for each byte of text: a window of 5,200 around every `eyJ`."""
SAMPLES = (
    "jane@python.org", "jane at python dot org", "+44 20 7031 3000", "650-253-0000", "6502530000", "81.2.69.142",
    "2a00:1450:4001:81b::200e", "4539 1488 0343 6467", "DE89 3704 0044 0532 0130 00", "536-90-4399", "54362315K",
    'password = "q7Zp-2LxV9"', "https://app:q7Zp2LxV@db/", "AKIAQ3EGLZ4TNWX7HVRB", "phone", "isbn", "version",
    "card", "ssn", "jörg.o'hara@t-online.de", "山田@softbank.co.jp", "john%40gmx.net", "'", "&",
    "iban de89370400440532013000", "curl -u a:q7Zp2LxV9 ", "DB_PASS=q7Zp2LxV9", "<EMAIL>", "<CREDENTIAL>",
    "é", "漢", "０", "٣", " ", "\n", ":", "=", "@", ".", "-", "+", "/", "(", "1", "0",
)  # fmt: skip
SOUP = st.lists(st.sampled_from(SAMPLES) | st.text(max_size=3), max_size=12).map("".join)


def array(*texts: str) -> pa.Array:
    return pa.array(texts, pa.large_string())


def masked(text: str, params: PiiParams | None = None) -> str:
    [left] = mask(array(text), params or PiiParams()).texts.to_pylist()
    return left


@pytest.fixture
def key(tmp_path: Path) -> str:
    file = tmp_path / "key"
    file.write_bytes(b"0123456789abcdef0123456789abcdef")
    return str(file)


def test_the_type_stands_for_the_value() -> None:
    text = "Mail jane@python.org or call +44 20 7031 3000 from 81.2.69.142."
    assert masked(text) == "Mail <EMAIL> or call <PHONE> from <IP>."


def test_counts_by_text_and_type() -> None:
    texts = array("nothing", "jane@python.org, joe@python.org", "81.2.69.142", "")
    result = mask(texts, PiiParams())
    assert result.counts["email"].tolist() == [0, 2, 0, 0]
    assert result.counts["ip"].tolist() == [0, 0, 1, 0]
    assert set(result.counts) == set(TYPES) and result.counts["email"].dtype == np.int32


def test_the_same_array_where_nothing_is_found() -> None:
    texts = array("nothing", "at all 1.2.3")
    assert mask(texts, PiiParams()).texts is texts


def test_a_slice_of_an_array_is_masked_by_itself() -> None:
    texts = array("joe@python.org", "nothing", "é jane@python.org", "jim@python.org").slice(1, 2)
    assert mask(texts, PiiParams()).texts.to_pylist() == ["nothing", "é <EMAIL>"]


def test_no_texts() -> None:
    assert len(mask(array(), PiiParams()).texts) == 0


def test_a_null_is_refused() -> None:
    with pytest.raises(ValueError, match="1 of 1 texts are null"):
        mask(pa.array([None], pa.large_string()), PiiParams())


def test_keep_counts_and_changes_nothing() -> None:
    result = mask(array("jane@python.org 81.2.69.142"), PiiParams(email="keep"))
    assert result.texts.to_pylist() == ["jane@python.org <IP>"]
    assert result.counts["email"].tolist() == [1]


def test_drop_counts_and_changes_nothing() -> None:
    result = mask(array("jane@python.org", "81.2.69.142"), PiiParams(ip="drop"))
    assert result.counts["ip"].tolist() == [0, 1]
    assert result.texts.to_pylist() == ["<EMAIL>", "81.2.69.142"]


def test_a_hash_knows_the_value_again_however_it_is_written(key: str) -> None:
    params = PiiParams(card="hash", email="hash", hash_key_file=key)
    texts = array("4539 1488 0343 6467", "4539-1488-0343-6467", "Jane@Python.org", "jane@python.org", "joe@python.org")
    one, same, jane, again, joe = mask(texts, params).texts.to_pylist()
    assert one == same and jane == again != joe
    assert one.startswith("<CARD_") and len(one) == len("<CARD_>") + 16


def test_another_key_gives_other_hashes(key: str, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"another key of at least 16 bytes")
    made = {masked("jane@python.org", PiiParams(email="hash", hash_key_file=file)) for file in (key, str(other))}
    assert len(made) == 2


def test_hashing_needs_a_key() -> None:
    with pytest.raises(ValidationError, match="phone: hash needs `hash_key_file`"):
        PiiParams(phone="hash")


def test_a_short_or_missing_key_is_refused(tmp_path: Path) -> None:
    short = tmp_path / "short"
    short.write_bytes(b"salt")
    with pytest.raises(ValueError, match=r"holds 4 bytes; a key has 16 to 64"):
        mask(array(""), PiiParams(phone="hash", hash_key_file=str(short)))
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        mask(array(""), PiiParams(phone="hash", hash_key_file=str(tmp_path / "none")))


def test_an_unknown_country_is_refused() -> None:
    with pytest.raises(ValidationError, match="`countries` names 'Germany'; known are AU, BR"):
        PiiParams(countries=["Germany"])


@given(SOUP)
def test_masking_twice_changes_nothing_more(text: str) -> None:
    once = mask(array(text), PiiParams()).texts
    assert mask(once, PiiParams()).texts is once
    assert find(once[0].as_py(), PiiParams()) == []


@given(SOUP)
def test_hashing_twice_changes_nothing_more(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.getbasetemp() / "key_of_hashing"
    file.write_bytes(b"0123456789abcdef")
    params = PiiParams(**dict.fromkeys(TYPES, "hash"), hash_key_file=str(file))
    once = mask(array(text), params).texts
    assert mask(once, params).texts is once


@given(SOUP)
def test_what_lies_outside_findings_stays(text: str) -> None:
    left, at = "", 0
    for finding in find(text, PiiParams()):
        assert at <= finding.start < finding.stop
        left += text[at : finding.start] + f"<{finding.type.upper()}>"
        at = finding.stop
    left += text[at:]
    assert masked(text) == masked(left)


@given(st.lists(SOUP, max_size=4))
def test_texts_do_not_see_each_other(texts: list[str]) -> None:
    assert mask(array(*texts), PiiParams()).texts.to_pylist() == [masked(text) for text in texts]


@pytest.mark.parametrize(
    "piece",
    [
        "1", "@", ":", "a@", "a@a.", "1 ", "1.", "0-", "+1", "::", "2a00:", "4539 1488 0343 6467 1 ", "(0)", "eyJ", "=",
        " eyJ", "-----BEGIN PRIVATE KEY-----", "-----BEGIN ", "://a:b@", "A1", "DE89", "password:", " dot ",
        "(at)", "０", "é", "́", "12345678 ", "é@é.", "o'b@", "山@", "%40", "a%40b.de", "&#64;", "iban ",
        "iban de", "curl -u a:", "pass=", "password = '",
    ],
)  # fmt: skip
def test_of_a_hostile_text_checks_read_a_bounded_number_of_bytes_per_byte(
    piece: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And as many of the last third of a text as of the second: no check sees more of a longer text."""
    read = []

    def check(window: Window) -> tuple[()]:
        read.append(len(window.text.encode("utf-8", "surrogateescape")))
        return ()

    monkeypatch.setattr("pipelines.clean.pii.find._checks", lambda params: [(check,)] * 8)

    def bytes_read(size: int) -> int:
        read.clear()
        assert find(piece * (size // len(piece.encode())), PiiParams()) == []
        return sum(read)

    first, second, third = bytes_read(20_000), bytes_read(40_000), bytes_read(60_000)
    assert second - first <= MOST_READ * 20_000
    assert third - second == pytest.approx(second - first, rel=0.01, abs=1000)


def test_ten_megabytes_of_anything_end() -> None:
    texts = array(*(sign * 10_000_000 for sign in "1@:"))
    assert mask(texts, PiiParams()).texts is texts
