"""MediaWiki XML dumps (`pages-articles` and its kin): one article as one document, its markup removed.

How markup becomes text stands in `wikitext.py`. Only articles (namespace 0) that are no redirects are documents; the
others are told in one rejection per kind and file. The XML is parsed as it arrives, and a page never takes more memory
than `max_bytes`. Layout: https://www.mediawiki.org/wiki/Help:Export (export-0.3 to export-0.11).
"""

from collections import Counter
from dataclasses import dataclass, field
from xml.parsers import expat

from pipelines.ingest.encodings import is_blank, valid_unicode
from pipelines.ingest.formats.wikitext import DROPPED_NAMESPACES, plain_text
from pipelines.ingest.params import Source
from pipelines.ingest.records import Items, Record, Reject, metadata_json
from pipelines.ingest.streams import Stream

BLOCK_BYTES = 1 << 16
_WANTED = frozenset({"namespace", "title", "ns", "id", "timestamp", "model", "text"})
_SHORT_BYTES = 10_000
"""What a title, a number or a date may have."""
_FILES_AND_CATEGORIES = frozenset({"-2", "6", "14"})
"""Numbers of the namespaces whose links show no text; each wiki names them in its own language."""


@dataclass
class _Page:
    """A page as far as it has been read. Of several revisions the last one counts: dumps list the oldest first."""

    title: str = ""
    namespace: str = "0"
    id: str = ""
    revision: dict[str, str] = field(default_factory=dict)
    revisions: int = 0
    is_redirect: bool = False
    text_bytes: int = 0


def read(stream: Stream, source: Source, max_bytes: int) -> Items:
    """The articles of a dump; the key is the page's id."""
    dump = _Dump(max_bytes)
    left_out: Counter[str] = Counter()
    number = redirects = 0
    damage = ""
    ended = False
    while not (ended or damage):
        block = stream.bytes.read(BLOCK_BYTES)
        ended = not block
        damage = stream.damage if ended else ""
        if not damage:
            damage = dump.feed(block)
        for page in dump.finished:
            if page.namespace != "0":
                left_out[page.namespace] += 1
            elif page.is_redirect or page.revision.get("text", "").lstrip()[:9].lower() == "#redirect":
                redirects += 1
            else:
                key = page.id.strip() if page.id.strip().isdecimal() else f"page-{number}"
                yield _article(key, page, dump, max_bytes)
            number += 1
        dump.finished.clear()
    if left_out:
        told = ", ".join(f"{count} of {name[:20]}" for name, count in left_out.most_common(20))
        yield Reject(None, "other_namespace", f"{left_out.total()} pages of other namespaces: {told}")
    if redirects:
        yield Reject(None, "redirect", f"{redirects} pages only point to another")
    if damage:
        yield Reject(None, "damaged_file", f"after {number} readable pages: {damage}")


def _article(key: str, page: _Page, dump: "_Dump", max_bytes: int) -> Record | Reject:
    if page.text_bytes > max_bytes:
        return Reject(key, "too_large", f"{page.text_bytes} bytes of markup, {max_bytes} allowed")
    model = page.revision.get("model", "wikitext")
    if model != "wikitext":
        return Reject(key, "other_content_type", f"the page holds {model[:50]!r}, no wikitext")
    text, repairs = valid_unicode(plain_text(page.revision.get("text", ""), dump.dropped_namespaces))
    if is_blank(text):
        return Reject(key, "empty_text", f"nothing but markup in {page.text_bytes} bytes")
    fields: dict[str, str | int] = {"title": page.title, "url_title": page.title.replace(" ", "_")}
    for name, ours in (("id", "revision"), ("timestamp", "date")):
        if told := page.revision.get(name):
            fields[ours] = told
    if page.revisions > 1:
        fields["revisions"] = page.revisions
    return Record(key, text, metadata=metadata_json(fields), repairs=repairs)


class _Refused(Exception):
    """XML that no MediaWiki writes, and that would cost more than it is worth."""


class _Dump:
    """The pages of a dump, as expat reports them."""

    def __init__(self, max_bytes: int) -> None:
        self.finished: list[_Page] = []
        self.dropped_namespaces = set(DROPPED_NAMESPACES)
        self._max_bytes = max_bytes
        self._page: _Page | None = None
        self._namespace = ""
        self._fed = 0
        self._path: list[str] = []
        self._gathered: list[str] = []
        self._gathered_bytes = 0
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.buffer_size = BLOCK_BYTES
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.StartDoctypeDeclHandler = self._doctype
        self._parser = parser

    def feed(self, block: bytes) -> str:
        """Parse a block (empty: the end); what was wrong with it, empty: nothing."""
        try:
            self._parser.Parse(block, not block)
            self._fed += len(block)
            if self._fed - self._parser.CurrentByteIndex > self._max_bytes + 2 * BLOCK_BYTES:
                raise _Refused(f"one XML tag has more than {self._max_bytes} bytes")
        except (expat.ExpatError, ValueError, LookupError) as error:  # the latter two: an encoding nobody knows
            return f"no valid XML ({error})"
        except _Refused as error:
            return str(error)
        return ""

    def _doctype(self, *_: object) -> None:
        raise _Refused("the XML declares a document type, in which entities can grow without bound; no dump does")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._path.append(name)
        if len(self._path) > 100:
            raise _Refused("XML elements are nested more than 100 deep; no dump's are")
        if name == "page":
            self._page = _Page()
        elif name == "revision" and self._page:
            self._page.revision = {}
            self._page.revisions += 1
            self._page.text_bytes = 0
        elif name == "redirect" and self._page:
            self._page.is_redirect = True
        elif name == "namespace":
            self._namespace = attributes.get("key", "")
        self._gathered.clear()
        self._gathered_bytes = 0

    def _characters(self, text: str) -> None:
        if self._path[-1] not in _WANTED:
            return
        self._gathered_bytes += len(text.encode("utf-8", "surrogatepass"))
        if self._gathered_bytes <= (self._max_bytes if self._path[-1] == "text" else _SHORT_BYTES):
            self._gathered.append(text)

    def _end(self, name: str) -> None:
        self._path.pop()
        page, parent = self._page, self._path[-1] if self._path else ""
        told = "".join(self._gathered)
        if page is None:
            if name == "namespace" and self._namespace in _FILES_AND_CATEGORIES:
                self.dropped_namespaces.add(told.strip().lower())
        elif name == "page":
            self.finished.append(page)
            self._page = None
        elif parent == "page" and name == "title":
            page.title = told
        elif parent == "page" and name == "ns":
            page.namespace = told.strip()
        elif parent == "page" and name == "id":
            page.id = told
        elif parent == "revision" and name in _WANTED:
            page.revision[name] = told
            if name == "text":
                page.text_bytes = self._gathered_bytes
        self._gathered.clear()
        self._gathered_bytes = 0
