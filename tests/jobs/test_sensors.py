"""The sensors that look after the books: attempts that lost their process, records that the ledger does not know."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets.audit import CHECK, unaccounted
from pipelines.costs.ledger import Ledger
from pipelines.processes import process_identity
from tests.jobs.corpus import make_profile
from tests.jobs.test_chain import Mill, reason
from tests.jobs.watcher import Watcher, gone, open_attempt


@pytest.fixture
def mill(tmp_path: Path) -> Iterator[Mill]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield Mill(make_profile(tmp_path), instance)


@pytest.fixture
def ingested(mill: Mill) -> Mill:
    result = mill.run("raw_documents")
    assert result.success, reason(result)
    return mill


# -- settlement ---------------------------------------------------------------------------------------------------


def test_settlement_closes_what_lost_its_process_and_says_how_many(mill: Mill) -> None:
    watcher = Watcher(mill.profile, mill.instance, "settlement")
    assert watcher.tick() == "no attempt had lost its process"
    attempt = open_attempt(mill.ledger, "run", gone())
    alive = open_attempt(mill.ledger, "other", process_identity())

    assert watcher.tick() == f"1 attempts had lost their process and were closed: {attempt}"
    assert watcher.tick() == "no attempt had lost its process"
    assert alive not in {event.attempt for event in mill.ledger.events(kinds=("settled",))}


# -- audit --------------------------------------------------------------------------------------------------------


def evaluations(watcher: Watcher) -> dict[str, bool]:
    return {event.asset_key.to_user_string(): event.passed for event in watcher.events}


def by_hand(partition: str | None, **metadata: Any) -> dg.AssetMaterialization:
    return dg.AssetMaterialization("raw_documents", partition=partition, metadata=metadata)


def test_the_audit_passes_what_the_ledger_published_and_says_so_once(ingested: Mill) -> None:
    watcher = Watcher(ingested.profile, ingested.instance, "audit")

    watcher.tick()
    assert evaluations(watcher) == {"raw_documents": True}
    assert watcher.events[0].check_name == CHECK

    watcher.tick()
    assert watcher.events == []


def test_the_audit_finds_what_was_reported_by_hand_or_borrows_an_attempt(ingested: Mill) -> None:
    mine = unaccounted(ingested.instance, ingested.ledger, "raw_documents")
    assert mine == []
    pointer = ingested.ledger.current("raw_documents", "web")
    assert pointer is not None
    borrowed = {"cost/ledger_id": pointer.attempt, "corpusmill/version": pointer.version}
    ingested.instance.report_runless_asset_event(by_hand("web"))
    ingested.instance.report_runless_asset_event(by_hand("books", **borrowed))
    ingested.instance.report_runless_asset_event(by_hand("web", **{**borrowed, "corpusmill/version": "0" * 20}))
    ingested.instance.report_runless_asset_event(by_hand("web", **{**borrowed, "cost/ledger_id": "run/step/0/web"}))

    found = unaccounted(ingested.instance, ingested.ledger, "raw_documents")

    assert [(one.partition, one.run) for one in found] == [("web", ""), ("books", ""), ("web", ""), ("web", "")]
    assert [one.reason for one in found] == [
        "names no attempt: it was reported by hand or made by other code",
        f"names version {pointer.version}, which attempt {pointer.attempt} did not publish for it",
        f"names version {'0' * 20}, which attempt {pointer.attempt} did not publish for it",
        "names the attempt run/step/0/web, which published nothing in this ledger",
    ]
    assert unaccounted(ingested.instance, ingested.ledger, "raw_documents", found[1].storage_id) == found[2:]


def test_the_audit_stays_failed_until_what_was_found_is_wiped(ingested: Mill) -> None:
    watcher = Watcher(ingested.profile, ingested.instance, "audit")
    watcher.tick()
    ingested.instance.report_runless_asset_event(by_hand("web"))
    watcher.tick()
    assert evaluations(watcher) == {"raw_documents": False}

    assert ingested.run("raw_documents").success
    watcher.tick()
    assert evaluations(watcher) == {"raw_documents": False}
    watcher.tick()
    assert watcher.events == []  # told already

    ingested.instance.wipe_assets([dg.AssetKey("raw_documents")])
    watcher.tick()
    assert evaluations(watcher) == {"raw_documents": True}


def test_the_audit_finds_all_that_a_lost_ledger_knew(ingested: Mill) -> None:
    Path(ingested.profile.ledger_url.removeprefix("sqlite:///")).unlink()

    found = unaccounted(ingested.instance, Ledger(ingested.profile.ledger_url), "raw_documents")

    assert sorted(one.partition for one in found) == ["books", "web"]
