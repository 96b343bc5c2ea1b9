"""`corpusmill forget`: documents that no later version may hold, and what is left of them in what stands already.

A dry run by default: it says which documents are meant, which copies stand at other addresses, and which datasets and
models hold or held them. `--yes` notes the removal in the ledger, from where ingestion obeys it; `--purge` takes the
bytes out of the store at once. Both write a certificate. Finding traces is the business of `jobs/traces.py`.
"""

import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import yaml
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from jobs.tables import terminal
from jobs.traces import Document, Holding, Likeness, Traces, told_of
from pipelines.costs.ledger import Ledger, LedgerError
from pipelines.removals import Criterion, Kind, Removal, criteria_from
from pipelines.store import Store, Swept
from resources.settings import Profile

SHOWN = 20
"""Documents that are listed on a terminal; `--json` lists all."""


@dataclass(frozen=True)
class Request:
    """What a user asks for. near: the copies at other addresses too. reason: for the certificate."""

    criteria: tuple[Criterion, ...]
    near: bool = False
    reason: str = ""
    yes: bool = False
    purge: bool = False

    @classmethod
    def of(cls, given: Mapping[Kind, Sequence[str]], **options: Any) -> "Request":
        """Raises `LedgerError` where the criteria or the options make no sense."""
        try:
            criteria = criteria_from(dict(given))
        except ValueError as error:
            raise LedgerError(str(error)) from None
        if not criteria and any(options.values()):
            raise LedgerError("say what is to be forgotten: --document, --uri, --glob, --domain or --publisher")
        if options.get("purge") and not options.get("yes"):
            raise LedgerError("--purge removes bytes for good: look at the dry run first, then add --yes")
        return cls(criteria, **options)


@dataclass(frozen=True)
class Findings:
    """What a removal means today. objects: stored bytes that hold one of the documents or speak of it; holdings: the
    versions that name such; made_of: models made of the documents."""

    removal: Removal
    documents: list[Document]
    likenesses: list[Likeness]
    objects: set[str]
    holdings: list[Holding]
    made_of: list[Holding]

    def record(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "removal": self.removal.id,
            "criteria": [vars(criterion) for criterion in self.removal.criteria],
            "documents": [document.record() for document in self.documents],
            "offered": [likeness.record() for likeness in self.likenesses],
            "held_by": [holding.record() for holding in self.holdings],
            "models": [holding.record() for holding in self.made_of],
            "objects": len(self.objects),
        }


def forget(request: Request, profile: Profile, *, as_json: bool) -> int:
    """Do what is asked, or say what it would be; without criteria, list what was forgotten. Returns the exit code."""
    ledger, store = Ledger(profile.ledger_url), Store(profile.store_url)
    if not request.criteria:
        _list(ledger, as_json=as_json)
        return 0
    if not request.yes:
        found = findings(request, ledger, store)
        _show(found, None, list(_remains(found, None, ledger)), as_json=as_json)
        return 0
    with ledger.alone("forget"):  # a run at work would not know of the removal
        found = findings(request, ledger, store)
        if found.removal.id not in {known.id for known in ledger.removals().removals}:
            ledger.ask_removal(found.removal)
        swept = store.erase(found.objects) if request.purge else None
        remains = list(_remains(found, swept, ledger))
        ledger.certify_removal(found.removal.id, certificate(found, swept, remains, request.reason))
    _show(found, swept, remains, as_json=as_json, done=True)
    return 0


def findings(request: Request, ledger: Ledger, store: Store) -> Findings:
    """What a request means: documents, copies, datasets, models. The same request again is the same removal."""
    asked = [one for one in ledger.removals().removals if set(request.criteria) == set(one.criteria)]
    known = next((one for one in asked if one.near == request.near), None)
    fresh = Removal(uuid.uuid4().hex[:12], time.time(), request.reason, request.criteria, request.near)
    traces = Traces(ledger, store)
    documents = traces.documents(known or fresh)
    likenesses = traces.likenesses(documents)
    if request.near:
        hashes = {document.text_hash for document in documents} - {""}
        everywhere = {one.doc_id: one for one in traces.with_texts(hashes | set(known.texts if known else ()))}
        everywhere |= {one.document.doc_id: one.document for one in likenesses}
        documents += [one for doc_id, one in everywhere.items() if doc_id not in {other.doc_id for other in documents}]
        likenesses = []
    named = {criterion.pattern for criterion in request.criteria if criterion.kind == "document"}
    objects = traces.objects(documents, named)
    holdings = traces.holdings(objects)
    return Findings(
        known or _with_documents(fresh, documents),
        documents,
        likenesses,
        objects,
        holdings,
        traces.made_of(holdings),
    )


def _with_documents(removal: Removal, documents: Sequence[Document]) -> Removal:
    """A removal that remembers which documents it meant; of their texts, where copies are meant too."""
    return replace(
        removal,
        texts=tuple(sorted({one.text_hash for one in documents} - {""})) if removal.near else (),
        documents=tuple((one.doc_id, one.source, one.uri) for one in documents),
        files=tuple(sorted({one.file for one in documents})),
    )


def certificate(found: Findings, swept: Swept | None, remains: list[str], reason: str) -> dict[str, Any]:
    """What was forgotten, what had held it, what was done, and what is left for somebody else to do; no text."""
    return found.record() | {
        "asked": _told_time(found.removal.time),
        "certified": _told_time(time.time()),
        "reason": reason or found.removal.reason,
        "left_out_from_now_on": True,
        "erased": None if swept is None else {"objects": swept.objects, "bytes": swept.bytes, "results": swept.actions},
        "remains": remains,
    }


def _remains(found: Findings, swept: Swept | None, ledger: Ledger) -> Iterator[str]:
    """What this command does not touch, in sentences."""
    files = sorted({f"{source}: {uri}" for source, uri in found.removal.files})
    if files:
        more = f" and {len(files) - 3} more" if len(files) > 3 else ""
        yield f"the source files ({', '.join(files[:3])}{more}): they are read without these documents"
    if found.made_of:
        yield f"models made of them, until they are made again: {', '.join(told_of(found.made_of))}"
    if found.objects and swept is None:
        yield f"{len(found.objects)} stored objects of versions that stand; --purge removes them at once"
    runs = sorted({run for holding in found.holdings for run in holding.runs if _shows_texts(run, ledger)})
    if runs:
        yield f"samples of text in Dagster's event log, if they show one: delete the runs {', '.join(runs)} there"


def _shows_texts(run: str, ledger: Ledger) -> bool:
    """Whether a run put samples of texts into Dagster's event log (previews: ui), as far as is known."""
    began = ledger.began_with(run)
    profile = yaml.safe_load(began.profile) if began else {}
    return profile.get("previews", "ui") == "ui"


# -- what is told ---------------------------------------------------------------------------------------------------


def _show(found: Findings, swept: Swept | None, remains: Sequence[str], *, as_json: bool, done: bool = False) -> None:
    if as_json:
        erased = None if swept is None else vars(swept) | {}
        print(json.dumps(found.record() | {"done": done, "erased": erased, "remains": list(remains)}, indent=1))
        return
    console = terminal()
    later = "" if found.documents else " It would hold for what is read later."
    console.print(f"{len(found.documents):,} documents are meant.{later}")
    _table(console, "", [(one, "", None) for one in found.documents])
    offered = [(one.document, one.level, one.similarity) for one in found.likenesses]
    _table(console, "Copies and near-copies at other addresses; --near takes them too", offered)
    for told, holdings in (("Held by", found.holdings), ("Made of them", found.made_of)):
        for line in told_of(holdings):
            console.print(f"  {told}: {line}")
    if swept is not None:
        console.print(f"Erased {swept.objects:,} objects ({swept.bytes / 1e6:,.1f} MB), {swept.actions:,} results.")
    for line in remains:
        console.print(f"What remains: {line}.", soft_wrap=True)
    if not done:
        console.print("Nothing was removed: this was a dry run. Add --yes to leave them out of every later version.")
    else:
        console.print(
            f"Removal {found.removal.id} is noted: `corpusmill run` makes the current versions again without them. "
            "The certificate: `corpusmill forget --json`.",
            soft_wrap=True,
        )


def _table(console: Console, title: str, rows: Sequence[tuple[Document, str, float | None]]) -> None:
    if not rows:
        return
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    for heading in ("document", "source", "uri", *(["level", "similarity"] if title else [])):
        table.add_column(heading)
    for document, level, similarity in rows[:SHOWN]:
        address = document.uri if document.address is None else f"{document.uri} ({document.address})"
        likeness = [] if similarity is None else [level, f"{similarity:.3f}"]
        table.add_row(document.doc_id, document.source, Text(address), *likeness)
    console.print(table)
    if len(rows) > SHOWN:
        console.print(f"  and {len(rows) - SHOWN:,} more; all with --json")


def _list(ledger: Ledger, *, as_json: bool) -> None:
    certificates = ledger.certificates()
    removals = ledger.removals().removals
    if as_json:
        print(json.dumps([one.record() | {"certificates": certificates.get(one.id, [])} for one in removals], indent=1))
        return
    console = terminal()
    if not removals:
        console.print("Nothing was asked to be forgotten. Start with `corpusmill forget --document ID`, a dry run.")
        return
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("removal", "asked", "what", "documents", "erased", "reason"):
        table.add_column(heading)
    for one in removals:
        erased = sum((paper["erased"] or {"objects": 0})["objects"] for paper in certificates.get(one.id, []))
        what = ", ".join(f"{criterion.kind} {criterion.pattern}" for criterion in one.criteria[:3])
        documents = str(len(one.documents))
        table.add_row(one.id, _told_time(one.time), Text(what), documents, f"{erased:,} objects", Text(one.reason))
    console.print(table)


def _told_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
