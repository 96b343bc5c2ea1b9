"""Web archives: WARC (pages as servers sent them) and WET (their text, `conversion` records), plain or compressed.

Where records begin and end, and what damage costs, is decided in `frames.py`; fastwarc reads what they hold, and pages
become text in `html.py`. Only responses and conversions are documents; the other records of a file (requests, metadata
and so on) are told in one rejection.
"""

import re
from collections import Counter
from typing import Any

from pipelines.ingest.encodings import DETECTION_BYTES, NotText, is_blank, valid_unicode
from pipelines.ingest.formats.declarations import robots_of_page
from pipelines.ingest.formats.frames import Frame, frames
from pipelines.ingest.formats.html import begins_as_page, decode_page, page_record
from pipelines.ingest.params import Source
from pipelines.ingest.records import Items, Record, Reject, metadata_json
from pipelines.ingest.streams import Stream

HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
TEXT_TYPES = frozenset({"text/plain"})

_TYPE = re.compile(rb"^warc-type:[ \t]*([a-z]+)", re.IGNORECASE | re.MULTILINE)
_CHARSET = re.compile(r"charset\s*=\s*[\"']?\s*([A-Za-z0-9_:.-]+)", re.IGNORECASE)
_METADATA = {
    "date": "WARC-Date",
    "payload_type": "WARC-Identified-Payload-Type",
    "content_language": "WARC-Identified-Content-Language",
    "truncated": "WARC-Truncated",
}
"""Names in the metadata → the headers that they come from, where these are there."""


class _LeftOut(Exception):
    """A record that is no document. `reason` is one of `pipelines.ingest.records.REASONS`."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


def read(stream: Stream, source: Source, max_bytes: int) -> Items:
    """The pages of an archive. The key is the record's number in the file, or its url where `id` is mapped to that."""
    by_url = source.field("id") == "url"
    left_out: Counter[str] = Counter()
    number = 0
    for frame in frames(stream, max_bytes):
        if frame.reason == "damaged_file":
            yield Reject(None, frame.reason, frame.detail)
            continue
        told = _TYPE.search(frame.header)
        kind = told[1].decode().lower() if told else "unknown"
        if frame.reason:
            yield Reject(str(number), frame.reason, f"record {number} at {frame.place}: {frame.detail}")
        elif kind in ("response", "conversion"):
            yield _document(frame, number, by_url, max_bytes)
        else:
            left_out[kind] += 1
        number += 1
    if left_out:
        told_types = ", ".join(f"{count} of type {kind}" for kind, count in left_out.most_common(20))
        yield Reject(None, "not_a_document", f"{left_out.total()} records that hold no page: {told_types}")


def _document(frame: Frame, number: int, by_url: bool, max_bytes: int) -> Record | Reject:
    from fastwarc.warc import WarcRecord

    key = str(number)
    try:
        record = WarcRecord.from_bytes(frame.data)
        headers = record.headers
        url = valid_unicode((headers.get("WARC-Target-URI") or "").strip().strip("<>"))[0]
        key = url if by_url and url else key
        fields: dict[str, Any] = {"url": url} if url else {}
        for ours, theirs in _METADATA.items():
            if value := headers.get(theirs):
                fields[ours] = value
        if record.is_http:
            return _page(record, frame, key, fields, max_bytes)
        content_type = (headers.get("Content-Type") or "text/plain").partition(";")[0].strip().lower()
        if content_type not in TEXT_TYPES:
            raise _LeftOut("other_content_type", f"{content_type[:100]!r} is neither HTML nor plain text")
        return _plain(record.reader.read(max_bytes + 1), "utf-8", key, fields)
    except _LeftOut as error:
        return Reject(key, error.reason, f"record {number} at {frame.place}: {error.detail}")
    except (OSError, ValueError) as error:
        return Reject(key, "damaged_record", f"record {number} at {frame.place}: {str(error)[:200]}")


def _page(record: Any, frame: Frame, key: str, fields: dict[str, Any], max_bytes: int) -> Record | Reject:
    """The document in a server's answer."""
    record, body = _body(record, frame, max_bytes)
    headers = record.http_headers
    if headers.status_code != 200:
        raise _LeftOut("http_status", f"the server answered with status {headers.status_code}")
    if len(body) > max_bytes:
        raise _LeftOut("too_large", f"more than {max_bytes} bytes after decompression")
    stated = headers.get("Content-Type") or ""
    content_type = stated.partition(";")[0].strip().lower() or fields.get("payload_type", "")
    if not content_type and begins_as_page(body[:DETECTION_BYTES]):
        content_type = "text/html"
    charset = found[1] if (found := _CHARSET.search(stated)) else ""
    fields["content_type"] = content_type
    robots = headers.get_multiple("X-Robots-Tag")
    if (headers.get("tdm-reservation") or "").strip() == "1":
        robots = (*robots, "tdm-reservation")
    if content_type in HTML_TYPES:
        return page_record(key, body, charset=charset, robots=robots, fields=fields)
    if content_type in TEXT_TYPES:
        if directives := robots_of_page(None, robots):
            fields["robots"] = directives
        return _plain(body, charset, key, fields)
    raise _LeftOut("other_content_type", f"{content_type[:100]!r} is neither HTML nor plain text")


def _body(record: Any, frame: Frame, max_bytes: int) -> tuple[Any, bytes]:
    """The record with its HTTP headers read, and what the server sent without the encodings of its transport.

    The body is left as it stands where those are not the ones that the headers name: many crawlers store it decoded and
    keep the headers. At most `max_bytes` and one are read.
    """
    from fastwarc.warc import WarcRecord

    try:
        record.parse_http(auto_decode="all")
        return record, record.reader.read(max_bytes + 1)
    except OSError:
        record = WarcRecord.from_bytes(frame.data)
        record.parse_http()
        return record, record.reader.read(max_bytes + 1)


def _plain(body: bytes, charset: str, key: str, fields: dict[str, Any]) -> Record | Reject:
    try:
        text, encoding, repairs = decode_page(body, charset)
    except NotText as error:
        return Reject(key, error.reason, error.detail)
    text, joined = valid_unicode(text)
    if is_blank(text):
        return Reject(key, "empty_text", f"no text in {len(body)} bytes")
    return Record(key, text, metadata=metadata_json(fields | {"charset": encoding}), repairs=repairs + joined)
