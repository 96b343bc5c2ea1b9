"""What a web page declares about its use: directives for robots, an opt-out of text and data mining, a licence.

They are passed on as they stand; what may be used is decided by the compliance audit.
"""

import re
from collections.abc import Iterable
from typing import Any

from pipelines.ingest.licences import identifier

_META = 'meta[name*="bot" i], meta[name="google-extended" i], meta[name="tdm-reservation" i]'
"""Meta elements for robots: for all of them, or for one by its name (googlebot, gptbot …)."""
_LICENCE = 'a[rel~="license" i][href], link[rel~="license" i][href]'
_WITH_VALUE = ("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview")
_AGENT = re.compile(rf"^(?!(?:{'|'.join(_WITH_VALUE)})\b)[a-z0-9_-]+\s*:\s*")
_LONGEST_DIRECTIVE = 100

_CREATIVE_COMMONS = re.compile(
    r"(?:https?:)?//(?:www\.)?creativecommons\.org/(?:licenses/(by(?:-nc|-nd|-sa)*)|(publicdomain)/(zero|mark))"
    r"/([1-4]\.[0-9])(?:/([a-z]{2,3})(?=/|$))?",
    re.IGNORECASE,
)
_PARTS = frozenset({"by", "by-sa", "by-nd", "by-nc", "by-nc-sa", "by-nc-nd"})
_PORTED = re.compile(
    r"BY-(2\.5-AU|3\.0-(AT|AU|DE|IGO|NL|US))|BY-SA-(2\.0-UK|2\.1-JP|3\.0-(AT|DE|IGO))|BY-N[CD]-3\.0-DE"
    r"|BY-NC-SA-(2\.0-(DE|FR|UK)|3\.0-(DE|IGO))|BY-NC-ND-3\.0-(DE|IGO)"
)
"""Licences of single jurisdictions that the SPDX list 3.27 knows; of others the address is kept."""
_SHORTEST_LICENCE_PATH = re.compile(
    r"(?:https?:)?//(?:www\.)?(?:opensource|spdx)\.org/licenses?/([\w.+-]+?)(?:\.html)?/?$"
)


def robots_of_page(tree: Any, from_server: Iterable[str] = ()) -> str:
    """The directives for robots in a page and in its `X-Robots-Tag` headers, comma-separated, in small letters and in
    alphabetic order; 'tdm-reservation' where rights in text and data mining are reserved (TDM Reservation Protocol).
    Empty: there are none. Directives for one robot count like those for all. tree: None where only the server speaks.
    """
    found: set[str] = set()
    for value in from_server:
        found.update(_directives(value))
    if tree is not None and tree.head is not None:
        for meta in tree.head.query_selector_all(_META):
            content = meta.getattr("content") or ""
            if meta.getattr("name").lower() != "tdm-reservation":
                found.update(_directives(content))
            elif content.strip() == "1":
                found.add("tdm-reservation")
    return ",".join(sorted(found))


def _directives(value: str) -> Iterable[str]:
    """'googlebot: noindex, max-snippet:5' → noindex, max-snippet:5. A date may hold a comma of its own."""
    whole = _AGENT.sub("", " ".join(value.lower().split()), count=1)
    for part in whole.split(","):
        part = _AGENT.sub("", part.strip(), count=1).replace(": ", ":")
        if part and re.match(r"[a-z]", part):
            yield part[:_LONGEST_DIRECTIVE]


def licence_of_page(tree: Any) -> str | None:
    """The licence that a page names with rel="license", as an SPDX identifier where it is known, else its address."""
    named = tree.document.query_selector(_LICENCE) if tree.document is not None else None
    address = named.getattr("href").strip() if named is not None else ""
    return licence_of_address(address) if address else None


def licence_of_address(address: str) -> str:
    """The SPDX identifier of the licence at an address, else the address itself."""
    if (found := _CREATIVE_COMMONS.match(address)) and (known := _creative_commons(found)):
        return known
    if found := _SHORTEST_LICENCE_PATH.match(address):
        return identifier(found[1]) or address
    return address[:500]


def _creative_commons(found: re.Match[str]) -> str | None:
    parts, public, kind, version, place = (group.lower() if group else "" for group in found.groups())
    if public:
        return {"zero": "CC0-1.0", "mark": "CC-PDM-1.0"}[kind] if version == "1.0" else None
    parts = parts.replace("nd-nc", "nc-nd")  # as version 1.0 wrote it
    if parts not in _PARTS or version not in ("1.0", "2.0", "2.1", "2.5", "3.0", "4.0"):
        return None
    name = f"{parts}-{version}" + (f"-{place}" if place else "")
    if (place or version == "2.1") and not _PORTED.fullmatch(name.upper()):
        return None
    return f"CC-{name.upper()}"
