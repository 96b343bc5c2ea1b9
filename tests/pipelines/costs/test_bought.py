"""What people and paid services cost, beside compute: bought once, never priced again, never lost."""

from decimal import Decimal
from pathlib import Path

import pytest

from pipelines.costs.account import PEOPLE, Account
from pipelines.costs.ledger import Ledger, Pointer
from pipelines.costs.meter import Meter
from pipelines.costs.report import dataset_costs
from pipelines.dataset import Draft, seal
from pipelines.store import Store
from pipelines.usage import Usage, UsageReader
from tests.pipelines.costs.book import BOOK, CENT
from tests.pipelines.costs.test_account import Diary

CALLS = Usage(bought={"calls of oracle": 300.0}, bought_usd={"calls of oracle": Decimal("0.30")})


def reviewed(ledger: Ledger, version: str, usd: str, run: str = "review") -> None:
    """Two hours of people on version `version` of asset a."""
    name = ledger.open_attempt(
        root_run=run, run=run, step="review", asset="a", partition="", role=PEOPLE, usage=Usage()
    )
    usage = Usage(bought={"person-hours": 2.0}, bought_usd={"person-hours": Decimal(usd)})
    ledger.close_attempt(name, run, "done", usage, {"version": version})


@pytest.fixture
def diary(tmp_path: Path) -> Diary:
    diary = Diary(tmp_path)
    diary.publish(diary.attempt("a", 8, version="va", made={"ka": 8.0}), "a", "va")
    diary.publish(diary.attempt("b", 2, version="vb", made={"kb": 2.0}, pins=[("a", "", "va")]), "b", "vb")
    return diary


def test_the_work_of_people_belongs_to_a_version_and_all_that_rests_on_it(diary: Diary) -> None:
    reviewed(diary.ledger, "va", "60")

    account = diary.account()

    assert account.people_usd("va") == 60
    assert account.lineage_usd("va") == 60 + 8 * CENT
    assert account.lineage_usd("vb") == 60 + 10 * CENT
    assert account.own_usd("va") == 8 * CENT  # what it took to make it


def test_the_work_of_people_is_no_waste_and_the_buckets_still_add_up(diary: Diary) -> None:
    reviewed(diary.ledger, "va", "60")

    buckets = diary.account().buckets()

    assert (buckets.published, buckets.waste) == (60 + 10 * CENT, 0)
    assert buckets.total == sum(attempt.charge.usd for attempt in diary.account().attempts)


def test_a_review_before_its_versions_maker_ended_makes_no_version(tmp_path: Path) -> None:
    diary = Diary(tmp_path)
    reviewed(diary.ledger, "va", "60")
    diary.publish(diary.attempt("a", 8, version="va", made={"ka": 8.0}), "a", "va")

    assert diary.account().lineage_usd("va") == 60 + 8 * CENT


def test_what_was_bought_stands_in_the_table_of_costs(tmp_path: Path) -> None:
    store, diary = Store(str(tmp_path / "store")), Diary(tmp_path)
    version = seal(store, Draft({}), asset="a").id
    diary.publish(attempt := diary.attempt("a", 8, version=version, made={"ka": 8.0}), "a", version)
    reviewed(diary.ledger, version, "60")

    (cost,) = dataset_costs(diary.account(), [Pointer("a", "", version, attempt, "run")], store)

    assert (cost.usd, cost.bought_usd, cost.lineage_usd) == (8 * CENT, 60, 60 + 8 * CENT)


def test_calls_are_charged_with_the_attempt_that_paid_them(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    meter = Meter(ledger, UsageReader(), whole_process=False)

    with meter.attempt(root_run="r", run="r", step="a", asset="a", partition="") as attempt:
        attempt.progress.bought += CALLS
        attempt.progress.bought += CALLS

    charge = Account.read(ledger, BOOK).attempt(attempt.id).charge
    assert [(one.item, one.units, one.usd) for one in charge.bought] == [("calls of oracle", 600, Decimal("0.6"))]
    assert charge.usd == Decimal("0.6") + sum(line.usd for line in charge.lines)


def test_calls_of_a_killed_attempt_are_known_from_its_last_heartbeat(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    ledger = Ledger(url)
    from pipelines.processes import ProcessIdentity, process_identity

    gone = ProcessIdentity(**{**vars(process_identity()), "pid": 2**22 - 3})
    what = {"root_run": "r", "run": "r", "step": "a", "asset": "a", "partition": "", "role": "stage"}
    name = ledger.open_attempt(**what, usage=Usage(), owner=gone)
    ledger.heartbeat(name, "r", CALLS, {})

    account = Account.read(Ledger(url), BOOK)  # opening it settles

    assert account.attempt(name).usage.bought_usd == {"calls of oracle": Decimal("0.30")}
    assert account.buckets().waste == Decimal("0.30")


def test_usage_keeps_dollars_exact_and_reads_records_that_know_none() -> None:
    exact = Usage(bought={"x": 1.0}, bought_usd={"x": Decimal("0.1")})

    assert Usage.from_record((exact + exact + exact).record()).bought_usd == {"x": Decimal("0.3")}
    assert Usage.from_record({"cpu_seconds": 1.0}) == Usage(cpu_seconds=1.0)
    with pytest.raises(ValueError, match="paid for"):
        Usage(bought={"x": 1.0})
    with pytest.raises(ValueError, match="negative"):
        Usage(bought={"x": 1.0}, bought_usd={"x": Decimal(-1)})
