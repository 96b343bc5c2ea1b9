"""What is to be forgotten: documents that no later version may hold, told by id, address, domain or publisher.

Ingestion leaves them out, whoever brings them again. Who asked for it and what was done stands in the ledger's database
(`pipelines/costs/ledger.py`); looking for them in what is stored is the business of `jobs/forget.py`.
"""

import fnmatch
import functools
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self, get_args
from urllib.parse import urlsplit

import xxhash

Kind = Literal["document", "uri", "glob", "domain", "publisher"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class Criterion:
    """One way to say which documents are meant.

    document: their id. uri: the document's uri, or the `url` in its metadata, as a whole. glob: the same as a shell
    pattern. domain: the host of that url, and every host below it. publisher: the `publisher` in its metadata, whatever
    the case.
    """

    kind: Kind
    pattern: str

    def meets(self, doc_id: str, uri: str, fields: dict[str, Any]) -> bool:
        """Whether a document is meant. fields: its metadata."""
        url = fields.get("url")
        addresses = [uri, url] if isinstance(url, str) else [uri]
        match self.kind:
            case "document":
                return doc_id == self.pattern
            case "uri":
                return self.pattern in addresses
            case "glob":
                return any(fnmatch.fnmatchcase(address, self.pattern) for address in addresses)
            case "domain":
                wanted = _ascii(self.pattern.lower().strip("."))
                hosts = [
                    host_of(uri),
                    *(host_of(url if "://" in url else f"//{url.lstrip('/')}") for url in addresses[1:]),
                ]
                return any(host == wanted or host.endswith(f".{wanted}") for host in hosts)
            case "publisher":
                named = fields.get("publisher")
                names = named if isinstance(named, list) else [named]
                return any(str(name).casefold() == self.pattern.casefold() for name in names)


@dataclass(frozen=True)
class Removal:
    """One request. Append only: what was forgotten stays so.

    time: Unix, seconds. near: copies at other addresses are meant, too. texts: hashes of texts (`hash_of`) that are
    meant at any address. documents: (id, source, uri) of those that were found when this was asked. files: (source, the
    uri of a file) of every file in which one of them had been read.
    """

    id: str
    time: float
    reason: str
    criteria: tuple[Criterion, ...]
    near: bool = False
    texts: tuple[str, ...] = ()
    documents: tuple[tuple[str, str, str], ...] = ()
    files: tuple[tuple[str, str], ...] = ()

    def meets(self, doc_id: str, uri: str, text_hash: str, fields: dict[str, Any]) -> bool:
        """Whether a document is meant; text_hash: '' where only its address counts."""
        known = doc_id in self._ids or text_hash in self.texts
        return known or any(criterion.meets(doc_id, uri, fields) for criterion in self.criteria)

    @functools.cached_property
    def _ids(self) -> frozenset[str]:
        return frozenset(doc_id for doc_id, _, _ in self.documents)

    def record(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self) | {
            "criteria": [asdict(criterion) for criterion in self.criteria],
            "texts": list(self.texts),
            "documents": [list(document) for document in self.documents],
            "files": [list(file) for file in self.files],
        }

    @classmethod
    def of(cls, record: dict[str, Any]) -> Self:
        """The inverse of `record`."""
        return cls(
            **{
                **record,
                "criteria": tuple(Criterion(**criterion) for criterion in record["criteria"]),
                "texts": tuple(record["texts"]),
                "documents": tuple((doc_id, source, uri) for doc_id, source, uri in record["documents"]),
                "files": tuple((source, uri) for source, uri in record["files"]),
            }
        )


@dataclass(frozen=True)
class Removals:
    """All requests so far."""

    removals: tuple[Removal, ...] = ()

    def of_files(self, source: str, uris: Iterable[str]) -> list[str]:
        """Ids of the removals that are known to concern one of these files, sorted.

        They belong in the key of whatever reads the files. Others need not: what was read before they were asked for
        holds nothing that they mean, or its file would be named, and what is read later is read without it.
        """
        read = tuple(uris)
        members = tuple(f"{uri}/" for uri in read)  # of archives
        return sorted(
            one.id
            for one in self.removals
            if any(name == source and (uri in read or uri.startswith(members)) for name, uri in one.files)
        )

    def of_source(self, source: str) -> list[str]:
        """Ids of the removals that are known to concern files of a source, sorted."""
        return sorted(one.id for one in self.removals if any(source == name for name, _ in one.files))

    def of_document(self, doc_id: str) -> str | None:
        """Id of the first removal in whose time a document was found, None where there is none."""
        return next((one.id for one in self.removals for known, _, _ in one.documents if known == doc_id), None)

    def met_by(self, doc_id: str, uri: str, text: str, metadata: str | None) -> Removal | None:
        """The first removal that means a document, None where it may stay. metadata: JSON."""
        if not self.removals:
            return None
        fields = fields_of(metadata) if self._by_metadata else {}
        text_hash = hash_of(text) if self._by_text else ""
        return next((one for one in self.removals if one.meets(doc_id, uri, text_hash, fields)), None)

    @functools.cached_property
    def _by_metadata(self) -> bool:
        return any(criterion.kind != "document" for one in self.removals for criterion in one.criteria)

    @functools.cached_property
    def _by_text(self) -> bool:
        return any(one.texts for one in self.removals)


NOTHING_FORGOTTEN = Removals()


def hash_of(text: str) -> str:
    """128-bit xxh3 of a text as it was read, 32 hex digits."""
    return xxhash.xxh3_128_hexdigest(text.encode())


def fields_of(metadata: str | None) -> dict[str, Any]:
    """A document's metadata; nothing where it has none."""
    fields = json.loads(metadata) if metadata else {}
    return fields if isinstance(fields, dict) else {}


def host_of(address: str) -> str:
    """The host that an address names, in small ASCII letters; '' where it is no URL (`//host` is one)."""
    if "//" not in address:
        return ""
    try:
        return _ascii((urlsplit(address).hostname or "").strip("."))
    except ValueError:
        return ""


def _ascii(host: str) -> str:
    """A host as the domain name system has it (IDNA); as it stands where it cannot be written so."""
    try:
        return host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        return host


def criteria_from(given: dict[Kind, Sequence[str]]) -> tuple[Criterion, ...]:
    """Criteria as a user gives them. Raises `ValueError` with a sentence where one means everything or nothing."""
    made = []
    for kind in KINDS:
        for pattern in given.get(kind, ()):
            plain = pattern.strip()
            if not plain.strip("*?./#: "):
                raise ValueError(f"--{kind} {pattern!r} would mean every document; name what is to be forgotten")
            if kind == "domain" and set(plain) & set("/:*?@ "):
                raise ValueError(f"--domain {pattern!r}: give the host alone, for example {host_of(plain) or 'a.org'}")
            if kind == "document" and not (len(plain) == 32 and set(plain.lower()) <= set("0123456789abcdef")):
                raise ValueError(f"--document {pattern!r}: give the whole id, 32 hex digits, as `explain` shows it")
            made.append(Criterion(kind, plain.lower() if kind == "document" else plain))
    return tuple(made)
