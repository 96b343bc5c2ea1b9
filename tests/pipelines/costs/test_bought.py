"""What people and paid services cost, beside compute: bought once, never priced again, never lost."""

import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from pipelines.costs.account import PEOPLE, Account
from pipelines.costs.ledger import Ledger, Pointer
from pipelines.costs.meter import Meter
from pipelines.costs.report import dataset_costs
from pipelines.dataset import Draft, seal
from pipelines.processes import ProcessIdentity, process_identity
from pipelines.purchases import Journal
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


def killed(ledger: Ledger, folder: Path) -> tuple[str, Journal]:
    """An open attempt whose process is gone, and its journal, which is not written yet."""
    gone = ProcessIdentity(**{**vars(process_identity()), "pid": 2**22 - 3})
    what = {"root_run": "r", "run": "r", "step": "a", "asset": "a", "partition": "", "role": "stage"}
    journal = Journal(folder / "journal")
    return ledger.open_attempt(**what, usage=Usage(), owner=gone, journal=journal.path), journal


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


def test_a_result_that_bought_something_carries_it_and_no_other_does(diary: Diary) -> None:
    """Given a step of ten seconds: eight for a screen, two for asking a service 300 times for a dollar each."""
    paid = {"": {"asked": "300"}}
    first = diary.attempt("s", 10, version="v1", made={"screen": 8.0, "asked": 2.0}, bought="300", paid=paid)
    diary.publish(first, "s", "v1")
    other = diary.attempt("s", 1, version="v2", made={"k": 1.0}, reused={first: {"screen": 8.0}}, run="2", paid={})
    diary.publish(other, "s", "v2")
    whole = {first: {"screen": 8.0, "asked": 2.0}}
    again = diary.attempt("s", 1, version="v1", reused=whole, run="3", paid={first: {"asked": "300"}})
    diary.publish(again, "s", "v1")

    account = diary.account()

    assert account.usd_of([(first, "screen")]) == 8 * CENT
    assert account.usd_of([(first, "asked")]) == 300 + 2 * CENT
    assert account.saved_usd(account.attempt(other)) == 8 * CENT
    assert account.saved_usd(account.attempt(again)) == 300 + 10 * CENT
    assert (account.lineage_usd("v1"), account.lineage_usd("v2")) == (300 + 10 * CENT, 9 * CENT)


def test_calls_that_led_to_no_result_are_waste_whatever_else_is_salvaged(diary: Diary) -> None:
    failed = diary.attempt(
        "s",
        10,
        made={"screen": 6.0, "asked": 2.0},
        bought="5",
        paid={"": {"asked": "3"}},  # two more were asked in vain
        status="failed",
    )
    retry = diary.attempt(
        "s",
        1,
        version="v",
        made={"k": 1.0},
        reused={failed: {"screen": 6.0, "asked": 2.0}},
        paid={failed: {"asked": "3"}},
        run="2",
    )
    before = diary.account().buckets()

    diary.publish(retry, "s", "v")

    buckets = diary.account().buckets()
    assert (buckets.salvaged, buckets.waste) == (3 + 8 * CENT, 2 + 2 * CENT)
    assert buckets.total == before.total
    assert diary.account().lineage_usd("v") == 3 + 9 * CENT


def test_calls_of_a_published_attempt_that_no_result_knows_are_spread_like_start_up(diary: Diary) -> None:
    """Given a ledger of before results said what they bought."""
    attempt = diary.attempt("s", 10, version="v", made={"screen": 8.0, "asked": 2.0}, bought="3")
    diary.publish(attempt, "s", "v")

    account = diary.account()

    assert account.usd_of([(attempt, "screen")]) == Decimal("2.40") + 8 * CENT
    assert account.lineage_usd("v") == 3 + 10 * CENT


def test_what_another_attempt_had_paid_for_a_part_of_a_result_is_salvaged(diary: Diary) -> None:
    """Given an attempt that paid for five answers and failed, and one that paid for two more and had the result."""
    failed = diary.attempt("s", 4, bought="5", status="failed")
    paid = {"": {"asked": "2"}, failed: {"asked": "4"}}  # one of five was of no use
    retry = diary.attempt("s", 2, version="v", made={"asked": 2.0}, bought="2", paid=paid, run="2")
    diary.publish(retry, "s", "v")

    account = diary.account()
    buckets = account.buckets()

    others = 10 * CENT
    assert (buckets.published, buckets.salvaged, buckets.waste) == (2 + 2 * CENT + others, 4, 1 + 4 * CENT)
    assert account.lineage_usd("v") == 6 + 2 * CENT
    assert account.saved_usd(account.attempt(retry)) == 4


def test_a_result_never_carries_more_than_its_maker_is_known_to_have_paid(diary: Diary) -> None:
    killed = diary.attempt("s", 4, made={"asked": 2.0}, bought="1", status="failed")
    retry = diary.attempt("s", 1, version="v", reused={killed: {"asked": 2.0}}, paid={killed: {"asked": "3"}}, run="2")
    diary.publish(retry, "s", "v")

    buckets = diary.account().buckets()

    assert (buckets.salvaged, buckets.waste) == (1 + 2 * CENT, 2 * CENT)


def test_what_nobody_can_price_by_seconds_is_in_the_lineage_all_the_same(diary: Diary) -> None:
    """Given a result that took no measurable time, but money."""
    attempt = diary.attempt("s", 1, version="v", made={"asked": 0.0}, bought="3", paid={"": {"asked": "3"}})
    diary.publish(attempt, "s", "v")

    assert diary.account().lineage_usd("v") == 3 + CENT


# -- killed ----------------------------------------------------------------------------------------------------------

BUYER = """
import os, signal, sys
from decimal import Decimal
from pathlib import Path
from pipelines.costs.ledger import Ledger
from pipelines.costs.meter import Meter
from pipelines.usage import Usage, UsageReader

meter = Meter(Ledger(sys.argv[1]), UsageReader(), whole_process=True)
where = {"root_run": "r", "run": "r", "step": "s", "asset": "s", "partition": ""}
with meter.attempt(**where, journals=Path(sys.argv[2])) as attempt:
    for _ in range(7):
        attempt.progress.buy(Usage(bought={"calls": 1}, bought_usd={"calls": Decimal("0.01")}))
    os.kill(os.getpid(), signal.SIGKILL)
"""
"""A step that pays for seven calls and is killed before its first heartbeat."""


def test_a_process_that_is_killed_loses_no_call_and_none_is_charged_twice(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    subprocess.run([sys.executable, "-c", BUYER, url, str(tmp_path)], cwd=Path(__file__).parents[3], check=False)

    for _ in range(2):  # whatever opens the ledger settles
        [attempt] = Account.read(Ledger(url), BOOK).attempts
        assert attempt.status == "killed"
        assert attempt.usage.bought == {"calls": 7}
        assert attempt.charge.bought_usd == Decimal("0.07")
    assert list(tmp_path.glob("*.jsonl")) == []


def test_an_attempt_that_closes_leaves_no_journal(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    meter = Meter(ledger, UsageReader(), whole_process=False)
    what = {"root_run": "r", "run": "r", "step": "s", "asset": "s", "partition": "", "journals": tmp_path}

    with pytest.raises(RuntimeError), meter.attempt(**what) as attempt:
        attempt.progress.buy(CALLS)
        assert Journal(next(tmp_path.glob("*.jsonl"))).total() == CALLS
        raise RuntimeError

    assert list(tmp_path.glob("*.jsonl")) == []
    assert Account.read(ledger, BOOK).attempt(attempt.id).usage.bought_usd == CALLS.bought_usd


def test_an_attempt_whose_journal_cannot_be_read_stays_open_until_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    _, journal = killed(Ledger(url), tmp_path)
    journal.note(CALLS)

    def refused(_: Journal) -> None:
        raise PermissionError("not yours")

    with monkeypatch.context() as patched:
        patched.setattr(Journal, "total", refused)
        assert Account.read(Ledger(url), BOOK).attempts == []

    assert Account.read(Ledger(url), BOOK).attempts[0].charge.bought_usd == Decimal("0.30")


def test_what_a_heartbeat_knows_and_a_journal_lost_is_charged(tmp_path: Path) -> None:
    """Given a machine whose power failed: what was written last is not in the file."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    ledger = Ledger(url)
    name, journal = killed(ledger, tmp_path)
    ledger.heartbeat(name, "r", CALLS, {})
    journal.note(Usage(bought={"calls of oracle": 1}, bought_usd={"calls of oracle": Decimal("0.001")}))
    journal.note(Usage(bought={"calls of sibyl": 1}, bought_usd={"calls of sibyl": Decimal("0.50")}))

    bought = Account.read(Ledger(url), BOOK).attempt(name).usage.bought_usd

    assert bought == {"calls of oracle": Decimal("0.30"), "calls of sibyl": Decimal("0.50")}


def test_calls_of_a_killed_attempt_are_known_from_its_last_heartbeat(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    ledger = Ledger(url)
    name, _ = killed(ledger, tmp_path)
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
