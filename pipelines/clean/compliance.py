"""Which documents may be used: licence, retention, opt-out. A rule that the profile leaves empty objects to nothing.

What is permitted follows from `policy.py`. What a source as a whole must show is `audit.py`'s business.
"""

import fnmatch
import json
import re
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.clean.policy import Policy
from pipelines.clean.rules import Decision
from pipelines.spdx import permitted_expression

_ONE_LICENCE = re.compile(r"[a-z0-9.+-]+( with [a-z0-9.+-]+)?")
"""One licence of an expression: a pattern must not reach over AND and OR, however they are written, nor over WITH."""
_WORD = re.compile(r"[a-z0-9_-]+")


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
    asked = policy.expired is not None or (policy.opt_outs and '"robots"' in (metadata or ""))
    fields = json.loads(metadata) if metadata and asked else {}
    if policy.opt_outs and (words := directives(fields) & set(policy.opt_outs)):
        return Decision(False, "compliance.opt_out", detail=", ".join(sorted(words)))
    if policy.expired is not None and (why := _past_retention(fields.get("date"), policy)):
        return Decision(False, "compliance.retention", detail=why)
    return None


def _past_retention(written: Any, policy: Policy) -> str:
    """Why a document with this `date` may not be used any more; empty where it may."""
    assert policy.expired and policy.today
    dated = day_of(written) if written else policy.collected
    if dated is None:
        return f"its date {str(written)[:40]!r} cannot be read" if written else "it has no date, nor has its source"
    if dated > policy.today + timedelta(days=1):  # of another time zone
        return f"its date {dated} lies in the future"
    return f"{dated}, expired before {policy.expired}" if dated < policy.expired else ""


@lru_cache(maxsize=1024)
def is_permitted(license: str | None, patterns: tuple[str, ...]) -> bool:
    """Whether an SPDX expression allows use under one of the patterns; capital letters do not count."""
    wanted = [pattern.lower() for pattern in patterns]

    def permitted(name: str) -> str | None:
        one = _ONE_LICENCE.fullmatch(name.lower())
        alike = [pattern for pattern in wanted if one and (" with " in pattern) == bool(one[1])]
        return name if any(fnmatch.fnmatchcase(name.lower(), pattern) for pattern in alike) else None

    return bool(license) and permitted_expression(str(license), permitted) is not None


def directives(fields: Mapping[str, Any]) -> set[str]:
    """The words of a page's `robots` metadata, a text or a list of them, in small letters."""
    return set(_WORD.findall(str(fields.get("robots") or "").lower()))


def day_of(value: Any) -> date | None:
    """The day that a document's `date` names, ISO 8601; None where it names none."""
    try:
        return date.fromisoformat(str(value).strip()[:10]) if value else None
    except ValueError:
        return None
