"""Pages: main text, encoding, what they declare, and hostile HTML."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.ingest.formats import html
from pipelines.ingest.formats.declarations import licence_of_address
from pipelines.ingest.formats.html import decode_page
from pipelines.ingest.records import Record

from .reading import items, reasons, records

PROSE = "The mill grinds the corn of the whole valley, and nobody remembers who built it."


def page(body: str, head: str = "", *, root: str = "<html>") -> bytes:
    return f"<!doctype html>{root}<head>{head}</head><body>{body}</body></html>".encode()


def metadata(data: bytes) -> dict[str, Any]:
    [record] = records(items("html", data))
    return json.loads(record.metadata or "{}")


def test_the_main_text_of_a_page_with_title_and_language() -> None:
    data = page(
        f"<nav><a href='/'>Home</a><a href='/b'>Shop</a></nav><main><h1>Mills</h1><p>{PROSE}</p><div><div><div>"
        "<ul><li>wind</li><li>water</li></ul></div></div></div><img alt='a picture' src='x'></main>"
        "<footer>© 2024</footer>"
        "<script>alert(1)</script>",
        "<title>\n Old  mills </title>",
        root='<html lang="en-GB">',
    )
    [record] = records(items("html", data))
    assert record.text.split() == ["Mills", *PROSE.split(), "•", "wind", "•", "water"]
    assert metadata(data) == {"charset": "utf-8", "title": "Old mills", "page_language": "en-GB"}


def test_a_page_that_is_all_navigation_gives_its_whole_text() -> None:
    data = page("<nav><p>Home</p></nav><footer><p>Imprint</p></footer>")
    assert records(items("html", data))[0].text.split() == ["Home", "Imprint"]


@pytest.mark.parametrize("data", [page(""), page("<script>x()</script>"), b"<!-- a -->", b"<title>t</title>"])
def test_a_page_without_text_is_rejected(data: bytes) -> None:
    assert reasons(items("html", data)) == [("0", "empty_text")]


UMLAUTS = "<p>Größe, Öl und Übung: süß, schön, fünf Bücher über Mühlen</p>"
JAPANESE = "<p>吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。何でも薄暗いじめじめした所で</p>"


@pytest.mark.parametrize(
    ("text", "encoding", "head", "server"),
    [
        (UMLAUTS, "cp1252", "<meta charset='iso-8859-1'>", ""),
        (UMLAUTS, "cp1252", "", "ISO-8859-1"),
        (UMLAUTS, "cp1252", "<meta charset='utf-8'>", ""),
        (UMLAUTS, "utf-8", "<meta charset='iso-8859-1'>", "iso-8859-1"),
        (UMLAUTS, "utf-16-le", "", "utf-16le"),
        (UMLAUTS, "utf-16", "", ""),
        (JAPANESE, "cp932", "<meta http-equiv='Content-Type' content='text/html; charset=Shift_JIS'>", ""),
        (JAPANESE, "cp932", "", ""),
        (JAPANESE, "euc_jp", "", "no-such-charset"),
        (JAPANESE, "iso2022_jp", "", "iso-2022-jp"),
        ("<p>Привет, мир! Как дела у мельника на реке?</p>", "cp1251", "", "windows-1251"),
    ],
)
def test_the_encoding_of_a_page(text: str, encoding: str, head: str, server: str) -> None:
    page, _, repairs = decode_page((head + text).encode(encoding), server)
    assert (page, repairs) == (head + text, ())


def test_a_scratch_in_utf_8_is_repaired_and_no_other_encoding() -> None:
    data = (UMLAUTS * 3).encode()
    text, encoding, repairs = decode_page(data[:300] + b"\xff" + data[300:])
    assert (encoding, repairs, text.count("\ufffd")) == ("utf-8", ("broken_utf8",), 1)


def test_a_picture_that_calls_itself_html_is_no_text() -> None:
    assert reasons(items("html", b"\x89PNG\r\n\x1a\n" + bytes(range(32)) * 50)) == [("0", "not_text")]


@pytest.mark.parametrize(
    ("head", "robots"),
    [
        ('<meta name="robots" content="noindex, NoFollow">', "nofollow,noindex"),
        (
            '<meta name="GoogleBot" content="noai,noimageai"><meta name="robots" content="noindex">',
            "noai,noimageai,noindex",
        ),
        (
            '<meta name="robots" content="max-snippet:-1, max-image-preview: large">',
            "max-image-preview:large,max-snippet:-1",
        ),
        ('<meta name="tdm-reservation" content="1">', "tdm-reservation"),
        ('<meta name="tdm-reservation" content="0"><meta name="keywords" content="noindex">', None),
        ("", None),
    ],
)
def test_the_directives_for_robots(head: str, robots: str | None) -> None:
    assert metadata(page(f"<p>{PROSE}</p>", head)).get("robots") == robots


def test_directives_of_the_server_are_added() -> None:
    made = html.page_record(
        "0", page(PROSE), robots=("googlebot: noindex", "unavailable_after: 25 Jun 2010 15:00:00 PST")
    )
    assert isinstance(made, Record)
    assert json.loads(made.metadata or "")["robots"] == "noindex,unavailable_after:25 jun 2010 15:00:00 pst"


@pytest.mark.parametrize(
    ("address", "licence"),
    [
        ("https://creativecommons.org/licenses/by-sa/4.0/", "CC-BY-SA-4.0"),
        ("http://creativecommons.org/licenses/by/3.0/deed.de", "CC-BY-3.0"),
        ("//creativecommons.org/licenses/by-nc-nd/2.5/legalcode", "CC-BY-NC-ND-2.5"),
        ("https://creativecommons.org/licenses/by/3.0/us/", "CC-BY-3.0-US"),
        ("https://creativecommons.org/licenses/by-nc/2.0/kr/", "https://creativecommons.org/licenses/by-nc/2.0/kr/"),
        ("https://creativecommons.org/publicdomain/zero/1.0/", "CC0-1.0"),
        ("https://creativecommons.org/publicdomain/mark/1.0/", "CC-PDM-1.0"),
        ("https://opensource.org/licenses/MIT", "MIT"),
        ("https://spdx.org/licenses/Apache-2.0.html", "Apache-2.0"),
        ("/terms", "/terms"),
    ],
)
def test_the_licence_at_an_address(address: str, licence: str) -> None:
    assert licence_of_address(address) == licence


@pytest.mark.parametrize(
    "declaration",
    [
        '<a rel="nofollow LICENSE" href="https://creativecommons.org/licenses/by/4.0/">terms</a>',
        '<link rel="license" href=" https://creativecommons.org/licenses/by/4.0/ ">',
    ],
)
def test_a_page_declares_its_licence(declaration: str) -> None:
    in_head, in_body = page(f"<p>{PROSE}</p>", declaration), page(f"<p>{PROSE}</p>{declaration}")
    assert {records(items("html", data))[0].license for data in (in_head, in_body)} == {"CC-BY-4.0"}
    assert records(items("html", page(f"<p>{PROSE} license</p>")))[0].license is None


def test_depth_is_counted_by_what_nests() -> None:
    assert html.is_deep("<div>" * 2_001)
    assert html.is_deep("</div>" * 9_000 + "<b>" * 2_001)
    assert not html.is_deep("<div>" * 2_000 + "</div>" * 2_000)
    assert not html.is_deep("<li>one<br><img src=x><p>two" * 9_000)
    assert not html.is_deep("<p>a</p>" * 9_000)


HOSTILE = {
    "10,000 tags deep": b"<div>" * 10_000 + PROSE.encode(),
    "closed 10,000 tags deep": b"<div>" * 10_000 + PROSE.encode() + b"</div>" * 10_000,
    "10,000 inline tags deep": b"<b><i>" * 5_000 + PROSE.encode(),
    "10,000 tables deep": b"<table><tr><td>" * 3_000 + PROSE.encode(),
    "no closing tag": b"<html><body><p>" + PROSE.encode() + b"<p>" * 20_000,
    "a tag that never ends": b"<p>" + PROSE.encode() + b"</p><a href='" + b"x" * 500_000,
    "a huge attribute": b"<p title='" + b"y" * 800_000 + b"'>" + PROSE.encode() + b"</p>",
    "many attributes": b"<p "
    + b" ".join(b"a%d=1" % number for number in range(20_000))
    + b">"
    + PROSE.encode()
    + b"</p>",
    "NULs": b"<p>\x00" + PROSE.encode() + b"\x00</p>" + b"<!-- padding -->" * 20,
    "many declarations": b"<meta charset=" * 5_000 + b"><p>" + PROSE.encode() + b"</p>",
    "wrong charset": b"<meta charset='utf-16'><p>" + PROSE.encode() + b"</p>",
    "entities": b"<p>" + PROSE.encode() + b"&#xD800;&#0;&#x110000;&nosuch;&" * 1000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_html_keeps_its_text(name: str) -> None:
    [record] = records(items("html", HOSTILE[name]))
    assert "corn of the whole valley" in record.text


@given(st.binary(max_size=300), st.integers(0, 200), st.integers(0, 200))
def test_damaged_pages_are_kept_or_rejected(noise: bytes, start: int, cut: int) -> None:
    whole = page(f"<main><p title='x'>{PROSE}</p></main>", "<meta charset=utf-8><title>t</title>")
    data = whole[:start] + noise + whole[start + cut :]
    assert len(items("html", data)) == 1
