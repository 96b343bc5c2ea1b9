"""Which documents may be used, and what the policy of a source follows from."""

import json
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest

from pipelines.clean.compliance import day_of, is_permitted, objections
from pipelines.clean.policy import ComplianceParams, Policy, SourceFacts

DAY = date(2026, 11, 30)


def judged(params: ComplianceParams, facts: SourceFacts, *rows: tuple[str | None, dict | None]) -> list[str | None]:
    """The rule that objects to each (licence, metadata)."""
    metadata = [None if fields is None else json.dumps(fields) for _, fields in rows]
    table = pa.table({"license": pa.array([name for name, _ in rows], pa.large_string()), "metadata": metadata})
    return [found and found.rule for found in objections(table, Policy.of(params, facts))]


def test_the_default_asks_for_nothing_but_respect_of_opt_outs() -> None:
    rows = [(None, None), ("GPL-3.0-only", {"robots": "noindex"}), ("MIT", {"robots": "noindex, NoAI"})]
    assert judged(ComplianceParams(), SourceFacts(), *rows) == [None, None, "compliance.opt_out"]


@pytest.mark.parametrize(
    "robots", [["noai"], "noai noimageai", "googlebot: noml", "NOML;noindex", "tdm-reservation", "max-snippet:-1, noai"]
)
def test_an_opt_out_is_seen_however_it_is_written(robots: object) -> None:
    assert judged(ComplianceParams(), SourceFacts(), (None, {"robots": robots})) == ["compliance.opt_out"]
    assert judged(ComplianceParams(opt_outs=["NoIndex"]), SourceFacts(), (None, {"robots": "noindex"})) != [None]


def test_metadata_is_parsed_only_where_it_can_tell_something(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = []
    loads = json.loads
    monkeypatch.setattr(json, "loads", lambda text: parsed.append(text) or loads(text))
    rows = [(None, {"title": "robots.txt"}), (None, None), (None, {"robots": "noindex"}), (None, {"robots": "noai"})]
    assert judged(ComplianceParams(), SourceFacts(), *rows) == [None, None, None, "compliance.opt_out"]
    assert parsed == ['{"robots": "noindex"}', '{"robots": "noai"}']
    parsed.clear()
    assert judged(ComplianceParams(opt_outs=[], licences=["*"]), SourceFacts(), ("MIT", {"robots": "noai"})) == [None]
    assert parsed == []


@pytest.mark.parametrize(
    ("license", "permitted"),
    [
        ("CC-BY-4.0", True),
        ("cc-by-sa-4.0", True),
        ("CC-BY-NC-4.0 OR CC0-1.0", True),
        ("CC-BY-4.0 AND GPL-3.0-only", False),
        ("CC-BY-NC-4.0", False),
        ("CC-BY-4.0,GPL-3.0-only", False),
        ("CC-BY-4.0/GPL-3.0-only", False),
        ("CC-BY-4.0 && GPL-3.0-only", False),
        ("CC-BY-4.0)AND(GPL-3.0-only", False),
        ("CC-BY-4.0 WITH no-training", False),
        ("CC-BY-4.0 or GPL-3.0-only", False),
        ("see the web site", False),
        ("", False),
        (None, False),
    ],
)
def test_licences_are_permitted_by_pattern(license: str | None, permitted: bool) -> None:
    patterns = ("CC0-1.0", "CC-BY-4.*", "CC-BY-SA-*")
    assert is_permitted(license, patterns) == permitted
    found = judged(ComplianceParams(licences=list(patterns)), SourceFacts(), (license, None))
    assert found == [None if permitted else "compliance.licence"]


def test_retention_counts_from_the_documents_date_else_from_when_the_source_was_collected() -> None:
    params = ComplianceParams(as_of="2026-11-30")
    rows = [(None, {"date": "2026-11-01T10:00:00Z"}), (None, {"date": "2025-01-01"}), (None, None)]
    kept_a_year = SourceFacts(retention_days=365)
    assert judged(params, kept_a_year, *rows) == [None, "compliance.retention", "compliance.retention"]
    collected = SourceFacts(retention_days=365, collected=date(2026, 1, 1))
    assert judged(params, collected, *rows) == [None, "compliance.retention", None]
    assert judged(params, SourceFacts(), *rows) == [None, None, None]


@pytest.mark.parametrize(
    "written",
    ["2018/01/05", "Mon, 15 Jan 2018 10:00:00 GMT", 1514764800, "2018", "2018-1-5", ["2018-01-05"], "2099-01-01"],
)
def test_a_date_that_cannot_be_read_or_lies_in_the_future_proves_nothing(written: object) -> None:
    collected = SourceFacts(retention_days=365, collected=date(2026, 11, 20))
    assert judged(ComplianceParams(as_of="2026-11-30"), collected, (None, {"date": written})) == [
        "compliance.retention"
    ]


def test_the_last_day_of_retention_counts() -> None:
    params, facts = ComplianceParams(as_of="2026-11-30"), SourceFacts(retention_days=10)
    rows = [(None, {"date": "2026-11-20"}), (None, {"date": "2026-11-19"})]
    assert judged(params, facts, *rows) == [None, "compliance.retention"]


def test_without_a_day_in_the_profile_retention_is_reckoned_from_today() -> None:
    today = datetime.now(UTC).date()
    policy = Policy.of(ComplianceParams(), SourceFacts(retention_days=0))
    assert policy.expired is not None
    assert (policy.expired - today).days in (0, 1)


def test_a_policy_without_retention_does_not_depend_on_the_day() -> None:
    assert (
        Policy.of(ComplianceParams(as_of="2026-11-30"), SourceFacts()).record()
        == Policy.of(ComplianceParams(), SourceFacts()).record()
    )


@pytest.mark.parametrize(
    ("written", "day"),
    [("2026-11-30", DAY), ("2026-11-30T23:59:59+02:00", DAY), ("last week", None), ("", None), (None, None), (7, None)],
)
def test_days(written: object, day: date | None) -> None:
    assert day_of(written) == day
