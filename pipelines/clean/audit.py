"""The compliance audit: what the profile requires of a source, and what its clean documents are found to be.

It judges what cleaning let pass by looking again, not by believing it: licences, dates and opt-outs of every document,
personal data in every text. Nothing is removed here; a source that fails is not published further
(`pipelines/health.py`), and cleaning is where to mend it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pipelines import schemas
from pipelines.clean.compliance import objections
from pipelines.clean.libraries import libraries
from pipelines.clean.params import CleanParams
from pipelines.clean.pii.find import findings
from pipelines.clean.pii.params import TYPES, PiiParams
from pipelines.clean.policy import ComplianceParams, Policy, SourceFacts
from pipelines.dataset import Dataset, Draft, Part, join_parts
from pipelines.engines.local import Engine
from pipelines.engines.task import Inputs, Made, Stats, Task
from pipelines.histograms import added
from pipelines.text.words import text_buffers

VERSION = 2
LICENCES_TOLD = 20
"""The most frequent ones of a source."""


@dataclass(frozen=True)
class Look:
    """What one task looks for in a shard. masked: types of personal data of which nothing may be left."""

    policy: Policy
    pii: PiiParams
    masked: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        """As JSON values, for the key of a task."""
        looked_for = {
            "types": list(self.masked),
            "countries": self.pii.countries,
            "presidio": self.pii.presidio,
            "libraries": libraries(self.pii),
        }
        return {"policy": self.policy.record(), "personal_data": looked_for if self.masked else None}


def audit(raw_documents: Dataset, clean_documents: Dataset, config: CleanParams, engine: Engine) -> Draft:
    """Audit one source: part "audit", and stats "audit", a row for every obligation, whether it is met.

    Memory: a shard per worker.
    """
    facts = SourceFacts.of(raw_documents.version.params)
    policy = Policy.of(config.compliance, facts)
    look = Look(policy, config.pii, tuple(kind for kind in TYPES if config.pii.action(kind) != "keep"))
    looked_for = look.record()
    results = engine.map(
        [
            Task(
                look_at,
                "clean.audit",
                VERSION,
                looked_for,
                inputs=(shard.object,),
                payload=look,
                rows=shard.rows,
            )
            for shard in clean_documents.shards("documents")
        ]
    )
    seen = _total([result.stats for result in results])
    rows = judge(facts, config.compliance, policy, seen, look.masked)
    table = [{"source": clean_documents.version.partition, **row} for row in rows]
    written = engine.run(Task(write_audit, "clean.audit_table", VERSION, {"rows": table}, payload=table))
    parts = {"audit": Part("table", ())} | join_parts([written.parts])
    return Draft(parts, {"audit": rows, "licences": seen["licences"]})


def look_at(inputs: Inputs, look: Look) -> Iterable[Made]:
    """The task of one shard: how many documents each rule objects to, licences, and personal data that is left."""
    documents = inputs.table(0, ["text", "license", "metadata"])
    objected = Counter(found.rule for found in objections(documents, look.policy) if found is not None)
    left: Counter[str] = Counter()
    offending = 0
    for chunk in documents["text"].chunks if look.masked else ():
        for kinds in _personal_data(chunk, look):
            left.update(kinds)
            offending += bool(kinds)
    yield Stats(
        {
            "documents": len(documents),
            "objected": dict(objected),
            "personal_data": dict(left),
            "with_personal_data": offending,
            "licences": dict(Counter(name or "none" for name in documents["license"].to_pylist())),
        }
    )


def _personal_data(texts: pa.Array, look: Look) -> Iterator[set[str]]:
    """Of every text that holds personal data, the types of which nothing may be left."""
    strings = texts.to_pylist() if look.pii.presidio else None
    for _, found in findings(*text_buffers(texts), strings, look.pii):
        yield {finding.type for finding in found}.intersection(look.masked)


def write_audit(_: Inputs, rows: list[dict[str, Any]]) -> Iterable[Made]:
    """The task that stores the table."""
    yield "audit", pa.Table.from_pylist(rows, schema=schemas.AUDIT)


def judge(
    facts: SourceFacts, params: ComplianceParams, policy: Policy, seen: dict[str, Any], masked: Sequence[str]
) -> list[dict[str, Any]]:
    """One row for every obligation: what is required, what was found, how many documents offend, whether it is met."""
    objected, left = seen["objected"], seen["personal_data"]
    licences = ", ".join(f"{name} {count:,}" for name, count in list(seen["licences"].items())[:5]) or "no documents"
    kept_for = (
        "for ever" if policy.expired is None else f"{facts.retention_days} days, so none from before {policy.expired}"
    )
    found_left = ", ".join(f"{kind} {count:,}" for kind, count in left.items()) or "none found"

    def row(obligation: str, required: str, found: str, offending: int, met: bool) -> dict[str, Any]:
        named = {"obligation": obligation, "required": required, "found": found}
        return named | {"documents": offending, "met": met}

    def of_documents(obligation: str, required: str, found: str) -> dict[str, Any]:
        offending = objected.get(f"compliance.{obligation}", 0)
        return row(obligation, required, found, offending, offending == 0)

    everywhere = seen["documents"]
    consents = bool(facts.consent) or not params.consent
    lawful = not params.regions or facts.region in params.regions
    return [
        of_documents("licence", ", ".join(policy.licences) or "any licence", licences),
        row(
            "consent",
            "the source says what its use rests on" if params.consent else "nothing",
            facts.consent or "nothing is said (sources[].consent)",
            0 if consents else everywhere,
            consents,
        ),
        of_documents("retention", kept_for, "every date was looked at" if policy.expired else "not looked at"),
        row(
            "region",
            ", ".join(params.regions) or "any region",
            facts.region or "none is named (sources[].region)",
            0 if lawful else everywhere,
            lawful,
        ),
        of_documents(
            "opt_out",
            f"no page that says {' or '.join(policy.opt_outs)}" if policy.opt_outs else "nothing",
            f"{objected.get('compliance.opt_out', 0):,} pages say so" if policy.opt_outs else "not looked for",
        ),
        row(
            "personal_data",
            f"no {', '.join(masked)}" if masked else "nothing",
            found_left if masked else "not looked for",
            seen["with_personal_data"],
            not left,
        ),
    ]


def _total(pieces: Sequence[dict[str, Any]]) -> dict[str, Any]:
    nothing = {"documents": 0, "objected": {}, "personal_data": {}, "with_personal_data": 0, "licences": {}}
    total = added([nothing, *pieces])
    licences = sorted(total["licences"].items(), key=lambda item: (-item[1], item[0]))
    return total | {
        "personal_data": dict(sorted(total["personal_data"].items())),
        "licences": dict(licences[:LICENCES_TOLD]),
    }
