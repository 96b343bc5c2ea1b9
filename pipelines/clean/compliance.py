"""Which documents may be used: licence, retention, opt-out. A rule that the profile leaves empty objects to nothing.

What is permitted follows from `policy.py`. What a source as a whole must show is `audit.py`'s business.
"""

import fnmatch
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.clean.policy import Policy
from pipelines.clean.rules import Decision
from pipelines.spdx import permitted_expression

_ONE_LICENCE = re.compile(r"\S+( with \S+)?")
"""One licence of an expression: a pattern must not reach over AND and OR."""


def objections(documents: pa.Table, policy: Policy) -> list[Decision | None]:
    """For each document (columns license, metadata) the rule that forbids its use, None where none does."""
    if policy.asks_nothing:
        return [None] * len(documents)
    rows = zip(documents["license"].to_pylist(), documents["metadata"].to_pylist(), strict=True)
    return [_objection(license, metadata, policy) for license, metadata in rows]


def with_objections(decisions: pa.Table, found: Sequence[Decision | None]) -> pa.Table:
    """Decisions in which objections stand instead of whatever was decided about the same document."""
    against = pa.array([objection is not None for objection in found], pa.bool_())
    objected = [objection for objection in found if objection is not None]
    if not objected:
        return decisions
    for name in ("keep", "rule", "value", "threshold", "detail"):
        place = decisions.schema.get_field_index(name)
        field = decisions.schema.field(place)
        values = pa.array([getattr(objection, name) for objection in objected], field.type)
        column = pc.replace_with_mask(decisions[name].combine_chunks(), against, values)
        decisions = decisions.set_column(place, field, column)
    return decisions


def _objection(license: str | None, metadata: str | None, policy: Policy) -> Decision | None:
    if policy.licences and not is_permitted(license, policy.licences):
        return Decision(False, "compliance.licence", detail=(license or "no licence is named")[:200])
    fields = json.loads(metadata) if metadata else {}
    if policy.opt_outs and (words := directives(fields) & set(policy.opt_outs)):
        return Decision(False, "compliance.opt_out", detail=", ".join(sorted(words)))
    if policy.expired is not None:
        dated = day_of(fields.get("date")) or policy.collected
        if dated is None:
            return Decision(False, "compliance.retention", detail="neither the document nor its source has a date")
        if dated < policy.expired:
            return Decision(False, "compliance.retention", detail=f"{dated}, expired before {policy.expired}")
    return None


def is_permitted(license: str | None, patterns: Iterable[str]) -> bool:
    """Whether an SPDX expression allows use under one of the patterns; capital letters do not count."""
    wanted = [pattern.lower() for pattern in patterns]

    def permitted(name: str) -> str | None:
        one = _ONE_LICENCE.fullmatch(name.lower())
        return name if one and any(fnmatch.fnmatchcase(one[0], pattern) for pattern in wanted) else None

    return bool(license) and permitted_expression(str(license), permitted) is not None


def directives(fields: Mapping[str, Any]) -> set[str]:
    """The words of a page's `robots` metadata, in small letters."""
    return {word.strip().lower() for word in str(fields.get("robots") or "").split(",") if word.strip()}


def day_of(value: Any) -> date | None:
    """The day that a document's `date` names, ISO 8601; None where it names none."""
    try:
        return date.fromisoformat(str(value)[:10]) if value else None
    except ValueError:
        return None
