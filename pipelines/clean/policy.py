"""What the use of documents requires, and what the profile says about a source: the policy that follows for one.

Whether a document meets it is judged in `compliance.py`; what a whole source must show, in `audit.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Self

from pydantic import Field, field_validator

from pipelines.profile import Params


class ComplianceParams(Params):
    """What the use of a document requires. Off until the profile names it, all but opt-outs."""

    licences: list[str] = Field(
        default=[],
        description="SPDX identifiers that documents may be under, as shell patterns, such as CC-BY-4.* (CC-BY-* also "
        "permits CC-BY-NC-ND-4.0); of an expression with OR one is enough, with AND all must be; empty: any, and none",
    )
    regions: list[str] = Field(
        default=[], description="regions (`sources[].region`) that sources may come from; empty: any, and none"
    )
    consent: bool = Field(
        default=False, description="true: every source says what its use rests on (`sources[].consent`)"
    )
    opt_outs: list[str] = Field(
        default=["noai", "noml", "tdm-reservation"],
        description="words in a page's `robots` metadata by which its publisher forbids training",
    )
    as_of: str = Field(
        default="",
        description="day for which retention is reckoned, such as 2026-11-30; empty: the day of the run, UTC",
    )

    @field_validator("as_of")
    @classmethod
    def _a_day(cls, as_of: str) -> str:
        if as_of:
            try:
                date.fromisoformat(as_of)
            except ValueError:
                raise ValueError(f"`as_of` is {as_of!r}; write a day such as 2026-11-30") from None
        return as_of

    @property
    def day(self) -> date:
        """The day for which retention is reckoned."""
        return date.fromisoformat(self.as_of) if self.as_of else datetime.now(UTC).date()


@dataclass(frozen=True)
class SourceFacts:
    """What the profile says about one source. collected: when it was gathered, where its documents bear no date."""

    consent: str = ""
    region: str = ""
    retention_days: int | None = None
    collected: date | None = None

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> Self:
        """From the parameters of a version of raw documents, which record its source."""
        source = params.get("source", {})
        collected = source.get("collected")
        return cls(
            consent=source.get("consent") or "",
            region=source.get("region") or "",
            retention_days=source.get("retention_days"),
            collected=date.fromisoformat(collected) if collected else None,
        )


@dataclass(frozen=True)
class Policy:
    """What is permitted, for the documents of one source. today, expired: the day for which retention is reckoned, and
    documents dated before that one are past it; None: they are kept for ever. collected: the date of documents without
    one of their own."""

    licences: tuple[str, ...] = ()
    opt_outs: tuple[str, ...] = ()
    today: date | None = None
    expired: date | None = None
    collected: date | None = None

    @classmethod
    def of(cls, params: ComplianceParams, facts: SourceFacts) -> Self:
        """The policy of today, or of the day that the profile names."""
        opt_outs = tuple(sorted(word.lower() for word in params.opt_outs))
        if facts.retention_days is None:
            return cls(tuple(params.licences), opt_outs)
        expired = params.day - timedelta(days=facts.retention_days)
        return cls(tuple(params.licences), opt_outs, params.day, expired, facts.collected)

    def record(self) -> dict[str, Any]:
        """As JSON values, for the key of a task."""
        told = {name: value.isoformat() if isinstance(value, date) else value for name, value in vars(self).items()}
        return told | {"licences": list(self.licences), "opt_outs": list(self.opt_outs)}

    @property
    def asks_nothing(self) -> bool:
        """Whether no document of the source can be objected to."""
        return not (self.licences or self.opt_outs or self.expired)
