"""What the checks say of versions, good and bad."""

import math
from typing import Any

import pytest

from pipelines import health
from pipelines.dataset import Part, Shard, Version
from pipelines.health import CheckParams, Unhealthy, refuse_unhealthy

PARAMS = CheckParams()


def version(number: str = "1", parts: dict[str, int] | None = None, **stats: Any) -> Version:
    made = {name: Part("table", (Shard("", 0, rows),)) for name, rows in (parts or {}).items()}
    return Version(number, "filtered_documents", "web", made, {}, "1", stats=stats)


def found(check: health.Check, now: Version, before: Version | None = None, **params: Any) -> health.Finding:
    finding = check.look(now, before, CheckParams(**params))
    assert finding is not None
    return finding


def test_rows_balance_where_every_document_is_accounted_for() -> None:
    good = version(parts={"documents": 7, "decisions": 10}, documents_in=10, documents_out=7, dropped={"a": 2, "b": 1})

    assert found(health.ROWS_BALANCE, good) == health.Finding(True, "10 in = 7 out + 3 dropped")


@pytest.mark.parametrize(
    ("parts", "dropped", "told"),
    [
        ({}, {"a": 2}, "10 in, 7 out, 2 dropped"),
        ({"documents": 6}, {"a": 3}, "6 rows of documents instead of 7"),
        ({"decisions": 9}, {"a": 3}, "9 rows of decisions instead of 10"),
        ({"rejects": 4}, {"a": 3}, "4 rows of rejects instead of 3"),
        ({"clusters": 0}, {"a": 3}, "0 rows of clusters instead of 3"),
    ],
)
def test_rows_do_not_balance(parts: dict[str, int], dropped: dict[str, int], told: str) -> None:
    bad = version(parts=parts, documents_in=10, documents_out=7, dropped=dropped)

    assert found(health.ROWS_BALANCE, bad) == health.Finding(False, told)


@pytest.mark.parametrize(
    ("before", "now", "allowed", "passes"),
    [(16, 0, False, False), (16, 0, True, True), (16, 1, False, True), (0, 0, False, True)],
)
def test_a_source_does_not_become_empty_unless_it_may(before: int, now: int, allowed: bool, passes: bool) -> None:
    finding = found(
        health.NOT_EMPTIED, version("2", documents_in=now), version("1", documents_in=before), allow_emptied=allowed
    )

    assert finding.passed is passes


@pytest.mark.parametrize(("came_in", "went_out", "passes"), [(20, 1, True), (20, 0, False), (20, 20, True)])
def test_a_source_keeps_something(came_in: int, went_out: int, passes: bool) -> None:
    assert found(health.KEEPS_SOME, version(documents_in=came_in, documents_out=went_out)).passed is passes


@pytest.mark.parametrize(
    ("sources", "passes"),
    [
        ([(2000, 1999)], True),
        ([(2000, 2000)], False),
        ([(2000, 2000), (30, 30)], False),
        ([(2000, 2000), (30, 29)], True),
        ([(600, 600), (399, 399)], True),
    ],
)
def test_the_sources_together_drop_something_if_they_are_large_enough(
    sources: list[tuple[int, int]], passes: bool
) -> None:
    findings = [found(health.DROPS_SOME, version(documents_in=i, documents_out=o)) for i, o in sources]

    assert health.DROPS_SOME.passes(findings) is passes


def test_a_source_without_documents_is_not_judged_by_what_it_keeps() -> None:
    empty = version(documents_in=0, documents_out=0)

    assert health.KEEPS_SOME.look(empty, None, PARAMS) is None
    assert health.DROPS_SOME.look(empty, None, PARAMS) is None


@pytest.mark.parametrize(
    ("documents", "kept", "passed"), [(110, 90, True), (160, 130, False), (40, 32, False), (100, 60, False)]
)
def test_drift_is_a_jump_in_documents_or_in_the_share_kept(documents: int, kept: int, passed: bool) -> None:
    before = version("1", documents_in=100, documents_out=80)

    finding = found(health.DRIFT, version("2", documents_in=documents, documents_out=kept), before)

    assert finding.passed is passed
    assert f"(100 to {documents})" in finding.told


def test_drift_limits_are_the_profiles() -> None:
    before, now = version("1", documents_in=100, documents_out=80), version("2", documents_in=160, documents_out=128)

    assert found(health.DRIFT, now, before, drift_documents=1.0).passed


@pytest.mark.parametrize("before", [None, version("1", documents_in=0, documents_out=0), version("2", documents_in=9)])
def test_nothing_drifts_without_an_earlier_version_of_its_own(before: Version | None) -> None:
    assert found(health.DRIFT, version("2", documents_in=9), before).passed


def test_copies_that_are_left_fail() -> None:
    assert found(health.NO_COPIES, version(copies_left=0)).passed
    assert not found(health.NO_COPIES, version(copies_left=3)).passed
    assert found(health.NO_COPIES, version(copies_left=None)).told == "not looked for: dedup.exact is off"


def test_documents_kept_beyond_a_threshold_fail() -> None:
    assert found(health.NOTHING_BEYOND, version(kept_beyond={"toxicity": 0})).passed
    bad = found(health.NOTHING_BEYOND, version(kept_beyond={"toxicity": 2, "perplexity_low": 0}))
    assert bad == health.Finding(False, "2 beyond toxicity")


def test_shares_out_of_tolerance_are_named() -> None:
    assert found(health.SHARES, version(shares_off={})).passed
    bad = found(health.SHARES, version(shares_off={"web": "wanted 0.5, realised 0.3"}))
    assert bad == health.Finding(False, "web: wanted 0.5, realised 0.3")


def curve(*losses: float) -> Version:
    return version(curve=[[step, loss, 0.1, 1.0] for step, loss in enumerate(losses)])


def test_a_loss_must_be_finite_and_fall() -> None:
    good, flat, broken = curve(3, 2, 1), curve(2, 1, 2), curve(3, math.nan, 1)

    assert found(health.LOSS_FINITE, good).passed and found(health.LOSS_FALLING, good).passed
    assert found(health.LOSS_FINITE, flat).passed and not found(health.LOSS_FALLING, flat).passed
    assert not found(health.LOSS_FINITE, broken).passed


def test_a_version_that_fails_a_stopping_check_is_refused_with_its_reason() -> None:
    with pytest.raises(Unhealthy, match=r"filtered_documents\[web\] cannot be read: .* rows_balance \(10 in, 7 out"):
        refuse_unhealthy(version(documents_in=10, documents_out=7), PARAMS)


def test_a_warning_stops_only_where_the_profile_is_strict() -> None:
    doubtful = version(documents_in=10, documents_out=0, dropped={"a": 10})

    refuse_unhealthy(doubtful, PARAMS)
    with pytest.raises(Unhealthy, match="keeps_some"):
        refuse_unhealthy(doubtful, CheckParams(strict=True))
