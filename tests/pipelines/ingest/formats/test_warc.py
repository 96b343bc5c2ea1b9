"""Web archives: which records become documents, and what damage costs: the damaged record, and no other."""

import bz2
import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from pipelines.ingest.records import Record, Reject

from .reading import damage, items, reasons, records

WEB = Path(__file__).parents[4] / "../shared/data/web"
PROSE = "The mill grinds the corn of the whole valley, and nobody remembers who built it."


def record(kind: str, block: bytes, *, length: int | None = None, **headers: str) -> bytes:
    """One record. Names of headers: with '_' for '-'."""
    given = {
        "WARC-Type": kind,
        "WARC-Date": "2024-01-02T03:04:05Z",
        "Content-Type": "application/http; msgtype=response",
        "Content-Length": str(len(block) if length is None else length),
    } | {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in given.items())
    return b"WARC/1.0\r\n" + head.encode() + b"\r\n" + block + b"\r\n\r\n"


def answer(
    body: bytes, status: str = "200 OK", content_type: str = "text/html; charset=utf-8", more: str = ""
) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\n{more}\r\n".encode() + body


def page(text: str) -> bytes:
    return f"<html lang=en><head><title>{text}</title></head><body><p>{text}: {PROSE}</p></body></html>".encode()


def response(text: str, **more: Any) -> bytes:
    return record("response", answer(page(text)), WARC_Target_URI=f"http://example.org/{text}", **more)


def archive(*parts: bytes) -> bytes:
    """Every record compressed on its own, as archives are."""
    return b"".join(map(gzip.compress, parts))


def titles(given: list[Record | Reject]) -> list[str]:
    return [json.loads(item.metadata or "{}").get("title") for item in records(given)]


def metadata(data: bytes, **more: Any) -> dict[str, Any]:
    [made] = records(items("warc", data, **more))
    return json.loads(made.metadata or "{}")


INFO = record("warcinfo", b"software: mill\r\n", Content_Type="application/warc-fields")


def test_a_page_is_a_document_and_other_records_are_counted_once() -> None:
    request = record("request", b"GET / HTTP/1.1\r\n\r\n", Content_Type="application/http; msgtype=request")
    given = items("warc", archive(INFO, request, response("one"), request, response("two")))
    assert [item.key for item in records(given)] == ["2", "4"]
    assert records(given)[0].text == f"one: {PROSE}"
    assert json.loads(records(given)[0].metadata or "") == {
        "url": "http://example.org/one",
        "date": "2024-01-02T03:04:05Z",
        "content_type": "text/html",
        "charset": "utf-8",
        "title": "one",
        "page_language": "en",
    }
    assert given[-1] == Reject(
        None, "not_a_document", "3 records that hold no page: 2 of type request, 1 of type warcinfo"
    )
    assert damage(given) == []


def test_every_compression_reads_the_same() -> None:
    plain = INFO + response("one") + response("two")
    expected = items("warc", plain)
    assert titles(expected) == ["one", "two"]
    for packed in (
        archive(INFO, response("one"), response("two")),
        gzip.compress(plain),
        bz2.compress(plain),
        zstandard.compress(plain),
        b"".join(map(zstandard.compress, (INFO, response("one"), response("two")))),
    ):
        assert items("warc", packed) == expected


def test_the_url_is_the_key_where_the_source_says_so() -> None:
    given = items("warc", archive(response("a"), response("b"), response("a")), fields={"id": "url"})
    assert [item.key for item in records(given)] == ["http://example.org/a", "http://example.org/b"]
    assert reasons(given) == [("http://example.org/a", "duplicate_id")]


def test_an_answer_that_is_no_page_is_no_copy_of_one_and_has_no_copies() -> None:
    """A crawl that meets a url again and gets "not found" is in order; a page after that is the url's first."""
    gone = [
        record("response", answer(b"", "404 Not Found"), WARC_Target_URI=f"http://example.org/{name}") for name in "ab"
    ]
    given = items("warc", archive(response("a"), gone[0], gone[1], response("b")), fields={"id": "url"})
    assert titles(given) == ["a", "b"]
    assert reasons(given) == [("http://example.org/a", "http_status"), ("http://example.org/b", "http_status")]
    assert damage(given) == []


def test_text_of_a_wet_file_is_kept_as_it_is() -> None:
    text = "Eine Mühle\nam rauschenden Bach\n"
    data = record(
        "conversion",
        text.encode(),
        Content_Type="text/plain",
        WARC_Target_URI="http://example.org/",
        WARC_Identified_Content_Language="deu",
    )
    [made] = items("warc", archive(data))
    assert made.text == text
    assert json.loads(made.metadata or "")["content_language"] == "deu"


def chunked(body: bytes) -> bytes:
    return b"5\r\n" + body[:5] + b"\r\n" + f"{len(body) - 5:x}\r\n".encode() + body[5:] + b"\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    ("more", "body"),
    [
        ("Transfer-Encoding: chunked\r\n", chunked(page("t"))),
        ("Content-Encoding: gzip\r\n", gzip.compress(page("t"))),
        ("Content-Encoding: deflate\r\n", zlib.compress(page("t"))),
        ("Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", chunked(gzip.compress(page("t")))),
        ("Content-Encoding: gzip\r\n", page("t")),  # stored decoded, the header left as it was
        ("Transfer-Encoding: chunked\r\n", page("t")),
        ("Content-Encoding: nosuch\r\n", page("t")),
    ],
    ids=["chunked", "gzip", "deflate", "both", "gzip stored decoded", "chunked stored decoded", "unknown encoding"],
)
def test_the_encodings_of_http_are_undone(more: str, body: bytes) -> None:
    given = items("warc", archive(record("response", answer(body, more=more))))
    assert titles(given) == ["t"]


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        (answer(page("t"), "404 Not Found"), "http_status"),
        (answer(b"", "301 Moved", more="Location: /x\r\n"), "http_status"),
        (answer(b"\x89PNG", content_type="image/png"), "other_content_type"),
        (answer(b'{"a": 1}', content_type="application/json"), "other_content_type"),
        (answer(b"<html></html>"), "empty_text"),
        (answer(gzip.compress(b"x" * 2_000_000), more="Content-Encoding: gzip\r\n"), "too_large"),
        (b"no http at all", "http_status"),
        (b"", "http_status"),
    ],
)
def test_answers_that_are_no_pages(block: bytes, reason: str) -> None:
    given = items("warc", archive(record("response", block), response("next")))
    assert reasons(given) == [("0", reason)]
    assert titles(given) == ["next"]


@pytest.mark.parametrize(
    "before", [b"<!doctype html>", b"\xef\xbb\xbf\n<!-- " + b"x" * 2000 + b" -->", b"<?xml version='1.0'?>", b"<body>"]
)
def test_a_page_without_a_content_type_is_known_by_its_beginning(before: bytes) -> None:
    block = b"HTTP/1.1 200 OK\r\n\r\n" + before + page("t")
    assert metadata(archive(record("response", block)))["content_type"] == "text/html"


@pytest.mark.parametrize("body", [b"<?xml version='1.0'?><rss><channel/></rss>", b"<!-- a comment -->", b"text <html>"])
def test_what_does_not_begin_as_a_page_is_none_without_a_content_type(body: bytes) -> None:
    given = items("warc", archive(record("response", b"HTTP/1.1 200 OK\r\n\r\n" + body)))
    assert reasons(given) == [("0", "other_content_type")]


def test_plain_text_and_charset_and_identified_type() -> None:
    block = answer("Grüße aus der Mühle".encode("latin-1"), content_type='text/plain; charset="ISO-8859-1"')
    [made] = items("warc", archive(record("response", block, WARC_Identified_Payload_Type="text/plain")))
    assert made.text == "Grüße aus der Mühle"
    told = json.loads(made.metadata or "")
    assert (told["charset"], told["payload_type"]) == ("cp1252", "text/plain")


@pytest.mark.parametrize("content_type", ["text/html", "text/plain"])
def test_the_servers_word_on_robots_and_data_mining(content_type: str) -> None:
    more = "X-Robots-Tag: noai, noimageai\r\nX-Robots-Tag: googlebot: noindex\r\nTDM-Reservation: 1\r\n"
    block = answer(page("t"), content_type=content_type, more=more)
    assert metadata(archive(record("response", block)))["robots"] == "noai,noimageai,noindex,tdm-reservation"


# Damage


def test_a_truncated_archive_loses_its_last_record_only() -> None:
    whole = archive(response("one"), response("two"), response("three"))
    given = items("warc", whole[: len(whole) - 40])
    assert titles(given) == ["one", "two"]
    [(key, reason)] = damage(given)
    assert (key, reason) == ("2", "damaged_record")
    assert "ends in the middle" in records_rejected(given)[0].detail


def records_rejected(given: list[Record | Reject]) -> list[Reject]:
    return [item for item in given if isinstance(item, Reject)]


@pytest.mark.parametrize("at", [0, 5, 12, 60, -6, -1])
def test_a_broken_member_costs_one_record(at: int) -> None:
    """A changed byte in its magic, header, data, checksum or length."""
    middle = bytearray(gzip.compress(response("two")))
    middle[at] ^= 0xFF
    given = items("warc", gzip.compress(response("one")) + bytes(middle) + gzip.compress(response("three")))
    assert [title for title in titles(given) if title != "two"] == ["one", "three"]
    assert len(damage(given)) == (0 if "two" in titles(given) else 1)


@pytest.mark.parametrize(
    ("reader", "name", "pages"), [("auto", "a.warc.gz", ["two"]), ("warc", "a.gz", ["two"]), ("jsonl", "a.warc.gz", [])]
)
def test_an_archive_that_begins_with_a_broken_member_is_read_on(reader: str, name: str, pages: list[str]) -> None:
    """Nothing can be unpacked of its beginning: what goes on is decided by the reader that runs, not by the name."""
    given = items(reader, b"\x1f\x8b\x08\xff" + gzip.compress(response("two")), name)
    assert titles(given) == pages
    assert damage(given) == [(None, "damaged_file")]


@pytest.mark.parametrize(
    ("rubbish", "told"),
    [(b"\0" * 100, 0), (b"rubbish" * 50_000, 1), (b"\x1f\x8b\x08", 1), (b"x\x1f\x8b\x08\x00 looks like one", 1)],
    ids=["padding", "rubbish", "half a beginning", "a false beginning"],
)
def test_what_stands_between_members_is_passed_over_and_told_once(rubbish: bytes, told: int) -> None:
    given = items("warc", archive(response("one")) + rubbish + archive(response("two")))
    assert titles(given) == ["one", "two"]
    assert damage(given) == [(None, "damaged_file")] * told


@pytest.mark.parametrize(
    "compress", [archive, lambda *parts: b"".join(parts), lambda *parts: gzip.compress(b"".join(parts))]
)
@pytest.mark.parametrize("length", [0, 10, 100, 5000, 900_000])
def test_a_wrong_length_costs_one_record(compress: Any, length: int) -> None:
    given = items(
        "warc", compress(response("one"), response("two", length=length), response("three"), response("four"))
    )
    assert titles(given) == ["one", "three", "four"]
    assert damage(given) == [("1", "damaged_record")]


@pytest.mark.parametrize(
    "bad", [b"WARC/1.0\r\n\r\nno length\r\n\r\n", b"what is this\r\n" * 50, b"WARC/1.0\r\nContent-Length: x\r\n\r\n"]
)
def test_a_record_without_a_header_costs_itself(bad: bytes) -> None:
    given = items("warc", response("one") + bad + response("two"))
    assert titles(given) == ["one", "two"]
    assert damage(given) == [("1", "damaged_record")]


@pytest.mark.parametrize("compress", [archive, lambda *parts: b"".join(parts)])
def test_a_record_that_is_too_large_is_passed_over(compress: Any) -> None:
    huge = record("response", answer(b"x" * 300_000))
    given = items("warc", compress(response("one"), huge, response("two")), max_bytes=100_000)
    assert titles(given) == ["one", "two"]
    assert reasons(given) == [("1", "too_large")]


@pytest.mark.parametrize(
    "bad", [b"WARC/1.0\r\n", b"WARC/1.0\r\nContent-Length: 5\r\n", b"WARC/1.0\r\nContent-Length: 5\r\n\r\n"]
)
def test_many_records_without_a_header_or_body_take_time_as_they_are_long(bad: bytes) -> None:
    """Were every header looked for to the end of what may be one, this would take hours."""
    given = items("warc", bad * 20_000 + response("two"))
    assert titles(given) == ["two"]
    assert len(damage(given)) == 20_000


@pytest.mark.parametrize(
    ("compress", "place"),
    [
        (lambda *parts: b"".join(parts), "byte {plain}"),
        (archive, "byte {packed}"),
        (lambda *parts: gzip.compress(b"".join(parts)), "byte {plain} of the decompressed member at byte 0"),
        (lambda *parts: zstandard.compress(b"".join(parts)), "byte {plain} of the decompressed file"),
    ],
    ids=["plain", "members", "one member", "zstd"],
)
def test_a_rejection_tells_where_its_record_begins(compress: Any, place: str) -> None:
    one, bad, status = response("one"), response("two", length=7), record("response", answer(b"", "404 Not Found"))
    told = {
        item.key: item.detail.partition(": ")[0] for item in records_rejected(items("warc", compress(one, bad, status)))
    }
    before = {"1": [one], "2": [one, bad]}
    assert told == {
        key: f"record {key} at " + place.format(plain=len(b"".join(parts)), packed=len(archive(*parts)))
        for key, parts in before.items()
    }


def test_an_endless_header_is_damage() -> None:
    given = items("warc", b"WARC/1.0\r\nA: " + b"x" * 300_000 + b"\r\n\r\n" + response("two"))
    assert titles(given) == ["two"]
    assert damage(given) == [("0", "damaged_record")]


WHOLE = [INFO, response("one"), response("two"), response("three")]


@given(st.data(), st.booleans())
def test_any_cut_and_changed_bytes_end_and_spare_what_they_do_not_touch(data: st.DataObject, packed: bool) -> None:
    """Every record before the first change is as it would be without it, and nothing is lost silently."""
    parts = [gzip.compress(part) if packed else part for part in WHOLE]
    whole = bytearray(b"".join(parts))
    changed = data.draw(st.lists(st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 255)), max_size=3))
    for at, byte in changed:
        whole[at] = byte
    cut = data.draw(st.integers(1, len(whole)))
    given = items("warc", bytes(whole[:cut]))
    first = min([cut, *(at for at, _ in changed)])
    untouched = sum(sum(map(len, parts[: number + 1])) <= first for number in range(1, 4))
    assert titles(given)[:untouched] == ["one", "two", "three"][:untouched]
    assert given


# Real archives


@pytest.mark.parametrize(
    ("name", "pages", "others"),
    [
        ("sample-0000.warc.gz", 22, 26),
        ("sample-0001.warc.gz", 15, 19),
        ("whirlwind.warc.gz", 1, 3),
        ("whirlwind.warc.wet.gz", 1, 1),
    ],
)
def test_real_archives(name: str, pages: int, others: int) -> None:
    if not WEB.exists():
        pytest.skip("the shared data folder is not beside this repository")
    fastwarc = pytest.importorskip("fastwarc.warc")
    path = WEB / name
    given = items("warc", path.read_bytes(), max_bytes=32_000_000)
    assert (len(records(given)), damage(given)) == (pages, [])
    assert given[-1].detail.startswith(f"{others} records")
    with path.open("rb") as file:  # the parser itself counts as many
        assert sum(1 for _ in fastwarc.ArchiveIterator(file)) == pages + others


def test_a_real_page_of_common_crawl() -> None:
    if not WEB.exists():
        pytest.skip("the shared data folder is not beside this repository")
    [made] = records(items("warc", (WEB / "whirlwind.warc.gz").read_bytes()))
    told = json.loads(made.metadata or "")
    assert "Escopete ye un municipio d'a provincia de Guadalachara" in made.text
    assert made.license == "CC-BY-SA-4.0"
    assert told["url"] == "https://an.wikipedia.org/wiki/Escopete"
    assert told["page_language"] == "an"
    assert told["robots"] == "max-image-preview:standard"


def test_a_real_archive_with_a_broken_member_loses_one_page() -> None:
    if not WEB.exists():
        pytest.skip("the shared data folder is not beside this repository")
    data = bytearray((WEB / "sample-0000.warc.gz").read_bytes())
    data[len(data) // 2] ^= 0xFF
    given = items("warc", bytes(data))
    assert len(records(given)) == 21
    assert len(damage(given)) == 1
