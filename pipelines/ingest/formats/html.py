"""HTML pages: their character encoding, their main text, and what they declare about themselves.

Parsing and extraction are resiliparse's (the Lexbor engine). What a page declares about robots and its licence is read
in `declarations.py`; web archives (`warc.py`) bring pages here together with what the server said about them.
"""

import functools
import re
from codecs import BOM_UTF8
from collections.abc import Iterable
from typing import Any

from pipelines.ingest.encodings import DETECTION_BYTES, MARKS, NotText, decode, is_blank, valid_unicode, wide_encoding
from pipelines.ingest.formats.declarations import licence_of_page, robots_of_page
from pipelines.ingest.formats.text import read_whole
from pipelines.ingest.params import Source
from pipelines.ingest.records import Items, Record, Reject, metadata_json
from pipelines.ingest.streams import Stream

DECLARATION_BYTES = 1024
"""A page declares its encoding within so many bytes (HTML standard, section 4.2.5.4)."""
LONGEST_TITLE = 1000
MAX_DEEP = 2_000
"""Levels of nesting up to which the main text is looked for: what that takes grows with their square (2,000: 0.2 s)."""
MAX_TAG = 20_000
"""Characters after which a tag loses its attributes if they are many: parsing them takes the square of their number."""

PROLOG = rb"(?:\s++|<!--.*?-->|<\?.*?\?>)*+"
"""What may stand before the first element: white space, comments, an XML declaration (HTML standard, 13.1)."""

_BEGINNING = re.compile(PROLOG + rb"<(!doctype\s+html|html|head|body)[\s>]", re.IGNORECASE | re.DOTALL)
_META_CHARSET = re.compile(
    rb"<meta[^>]{0,500}?charset\s{0,9}=\s{0,9}[\"']?\s{0,9}([a-zA-Z0-9_:.-]{2,40})", re.IGNORECASE
)
_NOT_ASCII = frozenset({"utf-16", "utf-16-le", "utf-16-be", "iso2022_jp", "iso-2022-jp"})
"""Encodings whose bytes pass for UTF-8 with control characters in it, so that only the server can tell."""
_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]*)")
_LONG_TAG = re.compile(rf"<([a-zA-Z][a-zA-Z0-9-]*+)[^<>]{{{MAX_TAG},}}+")
_NOT_NESTED = re.compile(
    r"area|base|br|col|embed|hr|img|input|link|meta|param|path|source|track|wbr|p|li|d[dt]|t[rdh]|option", re.IGNORECASE
)
"""Elements that hold no others, or that the next of their kind closes, so that a missing end tag nests nothing."""
_EXTRACTION: dict[str, Any] = {
    "preserve_formatting": True,  # lines are what the quality rules count
    "list_bullets": True,  # lists stay lists: a rule counts their bullets
    "alt_texts": False,  # descriptions of pictures would stand in the middle of sentences
    "links": False,
    "form_fields": False,
    "noscript": False,  # mostly "switch JavaScript on"
    "comments": True,  # without it forums and questions with answers are pages without text
}


def read(stream: Stream, source: Source, max_bytes: int) -> Items:
    """A page on disk as one record."""
    return read_whole(stream, max_bytes, functools.partial(page_record, "0"))


def begins_as_page(data: bytes) -> bool:
    """Whether what begins so, in UTF-8 or anything like it, is a page, whatever it is called."""
    return bool(_BEGINNING.match(data.removeprefix(BOM_UTF8)))


def page_record(
    key: str, data: bytes, *, charset: str = "", robots: Iterable[str] = (), fields: dict[str, Any] | None = None
) -> Record | Reject:
    """The record of a page. charset: that the server named. robots: values of the server's `X-Robots-Tag`.

    fields: of the metadata, where they are known beside the page: added are charset, title, page_language and robots.
    """
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.html import HTMLTree

    try:
        page, encoding, repairs = decode_page(data, charset)
    except NotText as error:
        return Reject(key, error.reason, error.detail)
    if _may_have_long_tags(page):
        page = _LONG_TAG.sub(_without_many_attributes, page)
    tree = HTMLTree.parse(page)
    text = "" if is_deep(page) else extract_plain_text(tree, main_content=True, **_EXTRACTION)
    if is_blank(text):  # a page that is all navigation, or whose text a rule takes for it
        text = extract_plain_text(tree, main_content=False, **_EXTRACTION)
    if is_blank(text):
        return Reject(key, "empty_text", f"no text in {len(data)} bytes of HTML")
    text, joined = valid_unicode(text)
    metadata = dict(fields or {})
    metadata["charset"] = encoding
    if title := " ".join((tree.title or "").split())[:LONGEST_TITLE]:
        metadata["title"] = title
    root = tree.document.first_element_child if tree.document else None
    language = root.getattr("lang") if root is not None else None
    if language and re.fullmatch(r"[A-Za-z0-9-]{2,35}", language.strip()):
        metadata["page_language"] = language.strip()
    if directives := robots_of_page(tree, robots):
        metadata["robots"] = directives
    return Record(key, text, licence_of_page(tree), metadata_json(metadata), repairs + joined)


def decode_page(data: bytes, charset: str = "") -> tuple[str, str, tuple[str, ...]]:
    """A page as text, the encoding that it turned out to have, and what was repaired. charset: the server's word.

    A byte order mark decides; then UTF-8, wherever the bytes are UTF-8, because hardly any other text passes for it and
    many pages declare what they are not. Else what the server or the page declares, then what resiliparse detects: the
    first that decodes without an error. Raises `NotText` where none does and UTF-8 would be too badly broken.
    """
    from resiliparse.parse.encoding import detect_encoding, map_encoding_to_html5

    named = map_encoding_to_html5(charset, False) if charset else None
    if named and named.lower() in _NOT_ASCII and not data.startswith(tuple(mark for mark, _ in MARKS)):
        try:
            return data.decode(named), named, ()
        except UnicodeDecodeError:
            pass
    broken: NotText | None = None
    text = ""
    repairs: tuple[str, ...] = ()
    try:
        text, repairs = decode(data)
    except NotText as error:
        if error.reason == "not_text":
            raise
        broken = error
    if not broken and (not repairs or _mostly_utf8(text)):
        return text, _name_of(data), repairs
    declared = _META_CHARSET.search(data, 0, DECLARATION_BYTES)
    candidates = [named, map_encoding_to_html5(declared[1].decode("ascii"), False) if declared else None]
    for encoding in [*candidates, detect_encoding(data, max_len=DETECTION_BYTES)]:
        if not encoding or encoding.lower() in ("utf-8", *_NOT_ASCII):
            continue
        try:
            return data.decode(encoding), encoding, ()
        except (UnicodeDecodeError, LookupError):
            continue
    if broken:
        raise broken
    return text, "utf-8", repairs


def is_deep(page: str) -> bool:
    """Whether elements may be nested more than `MAX_DEEP` deep. Counted exactly only where there are tags enough."""
    if page.count("<") <= MAX_DEEP:
        return False
    step, still_open = 1 << 15, 0
    for start in range(0, len(page), step):
        block = page[start : start + step]
        closing = block.count("</")
        opening = block.count("<") - closing
        if still_open + opening > MAX_DEEP:
            return _depth(page) > MAX_DEEP
        still_open = max(0, still_open + opening - closing)
    return False


def _depth(page: str) -> int:
    depth = deepest = 0
    for closing, name in _TAG.findall(page):
        if not _NOT_NESTED.fullmatch(name):
            depth = max(0, depth - 1) if closing else depth + 1
            deepest = max(deepest, depth)
    return deepest


def _may_have_long_tags(page: str) -> bool:
    """Whether some aligned half of the length of a long tag has no bracket in it, as one within such a tag has not."""
    half = MAX_TAG // 2
    return any(
        page.find("<", start, start + half) < 0 and page.find(">", start, start + half) < 0
        for start in range(0, len(page) - half, half)
    )


def _without_many_attributes(tag: re.Match[str]) -> str:
    return f"<{tag[1]} " if len(tag[0].split()) > MAX_DEEP else tag[0]


def _mostly_utf8(text: str) -> bool:
    """Whether more characters beyond ASCII were read than had to be replaced."""
    replaced = text.count("\ufffd")
    return len(text) - len(text.encode("ascii", "ignore")) > 2 * replaced


def _name_of(data: bytes) -> str:
    return "utf-8" if data.startswith(BOM_UTF8) else wide_encoding(data[:DETECTION_BYTES]) or "utf-8"
