"""Where the money went. One core-second costs one cent here, so every sum can be done in the head."""

from decimal import Decimal
from pathlib import Path

import pytest

from pipelines.costs.account import Account
from pipelines.costs.ledger import Ledger, Pointer
from pipelines.prices.book import PriceError
from pipelines.usage import Usage
from tests.pipelines.costs.book import BOOK, CENT


class Diary:
    """Writes attempts as the meter would."""

    def __init__(self, path: Path) -> None:
        self.ledger = Ledger(f"sqlite:///{path / 'ledger.db'}")

    def attempt(
        self,
        asset: str,
        seconds: float,
        *,
        partition: str = "",
        version: str | None = None,
        made: dict[str, float] | None = None,
        reused: dict[str, dict[str, float]] | None = None,
        pins: list[tuple[str, str, str]] | None = None,
        status: str = "done",
        run: str = "run",
        role: str = "stage",
        bought: str = "0",
        paid: dict[str, dict[str, str]] | None = None,
    ) -> str:
        """bought: USD paid for calls. paid: what of it results say that they bought, by maker; '' for this attempt."""
        name = self.ledger.open_attempt(
            root_run=run, run=run, step=asset, asset=asset, partition=partition, role=role, usage=Usage()
        )
        results = {name: made or {}, **(reused or {})}
        outcome = {"version": version, "pins": pins or [], "results": results}
        if paid is not None:
            outcome["paid"] = {maker or name: amounts for maker, amounts in paid.items()}
        calls = {"calls": Decimal(bought)}
        usage = Usage(cpu_seconds=seconds, bought=dict.fromkeys(calls, 1.0), bought_usd=calls)
        self.ledger.close_attempt(name, run, status, usage, outcome)
        return name

    def publish(self, attempt: str, asset: str, version: str, partition: str = "") -> None:
        self.ledger.publish([Pointer(asset, partition, version, attempt, "run")])

    def account(self) -> Account:
        return Account.read(self.ledger, BOOK)


@pytest.fixture
def diary(tmp_path: Path) -> Diary:
    return Diary(tmp_path)


def test_an_attempts_dollars_are_spread_over_its_actions_start_up_included(diary: Diary) -> None:
    attempt = diary.attempt("a", 10, version="v", made={"k1": 6.0, "k2": 2.0})  # 2 s of start-up and the like
    diary.publish(attempt, "a", "v")

    account = diary.account()

    assert account.usd_of([(attempt, "k1")]) == Decimal("0.075")
    assert account.usd_of([(attempt, "k2")]) == Decimal("0.025")


def test_a_diamond_counts_once(diary: Diary) -> None:
    diary.publish(diary.attempt("top", 8, version="t", made={"kt": 8.0}), "top", "t")
    for side in ("left", "right"):
        pins = [("top", "", "t")]
        diary.publish(diary.attempt(side, 1, version=side, made={f"k{side}": 1.0}, pins=pins), side, side)
    pins = [("left", "", "left"), ("right", "", "right")]
    diary.publish(diary.attempt("bottom", 2, version="b", made={"kb": 2.0}, pins=pins), "bottom", "b")

    assert diary.account().lineage_usd("b") == 12 * CENT


def test_a_range_run_is_not_charged_once_per_partition(diary: Diary) -> None:
    for source in ("web", "books"):
        attempt = diary.attempt("raw", 3, partition=source, version=f"r-{source}", made={f"k-{source}": 3.0})
        diary.publish(attempt, "raw", f"r-{source}", source)

    account = diary.account()

    assert account.lineage_usd("r-web") == 3 * CENT
    assert account.buckets().total == 6 * CENT


def test_a_reused_result_pays_nothing_again_and_stands_in_the_lineage(diary: Diary) -> None:
    first = diary.attempt("a", 10, version="v1", made={"k1": 9.0})
    diary.publish(first, "a", "v1")
    second = diary.attempt("a", 1, version="v2", made={"k2": 0.5}, reused={first: {"k1": 9.0}}, run="later")
    diary.publish(second, "a", "v2")

    account = diary.account()

    assert account.lineage_usd("v2") == 11 * CENT
    assert account.saved_usd(account.attempt(second)) == 10 * CENT


def test_a_rerun_that_changes_nothing_is_published_and_adds_nothing_to_the_lineage(diary: Diary) -> None:
    first = diary.attempt("a", 10, version="v", made={"k": 9.0})
    diary.publish(first, "a", "v")
    again = diary.attempt("a", 2, version="v", reused={first: {"k": 9.0}})
    diary.publish(again, "a", "v")

    account = diary.account()

    assert account.lineage_usd("v") == 10 * CENT
    assert account.buckets().published == 12 * CENT


def test_work_without_tasks_of_its_own_still_stands_in_the_lineage(diary: Diary) -> None:
    failed = diary.attempt("a", 10, made={"k": 8.0}, status="failed")
    retry = diary.attempt("a", 2, version="v", reused={failed: {"k": 8.0}})
    diary.publish(retry, "a", "v")

    assert diary.account().lineage_usd("v") == 8 * CENT + 2 * CENT


def test_a_failed_attempt_is_salvaged_as_far_as_a_later_version_uses_it(diary: Diary) -> None:
    failed = diary.attempt("a", 10, made={"used": 3.0, "never": 2.0}, status="failed")
    retry = diary.attempt("a", 4, version="v", made={"new": 3.0}, reused={failed: {"used": 3.0}})
    diary.publish(retry, "a", "v")

    buckets = diary.account().buckets()

    assert (buckets.published, buckets.salvaged, buckets.waste) == (4 * CENT, 3 * CENT, 7 * CENT)


def test_a_killed_attempt_is_salvaged_though_it_could_not_say_what_it_had_done(diary: Diary) -> None:
    ledger = diary.ledger
    killed = ledger.open_attempt(
        root_run="run", run="run", step="a", asset="a", partition="", role="stage", usage=Usage()
    )
    with ledger._writing() as sql:
        ledger._append(sql, killed, "run", "settled", {"usage": Usage(cpu_seconds=5).record(), "reason": "gone"})
    retry = diary.attempt("a", 1, version="v", reused={killed: {"k": 4.0}})
    diary.publish(retry, "a", "v")

    buckets = diary.account().buckets()

    assert (buckets.salvaged, buckets.waste) == (4 * CENT, 1 * CENT)


def test_done_but_never_published_is_not_published(diary: Diary) -> None:
    diary.attempt("a", 5, partition="first of four", version="v", made={"k": 5.0})

    assert diary.account().buckets().waste == 5 * CENT


def test_the_coordinator_is_overhead(diary: Diary) -> None:
    diary.attempt("", 3, role="coordinator")

    assert diary.account().buckets().overhead == 3 * CENT


def test_the_buckets_always_add_up(diary: Diary) -> None:
    diary.attempt("", 1.7, role="coordinator")
    failed = diary.attempt("a", 1 / 3, made={"k1": 0.1, "k2": 0.2}, status="failed")
    diary.attempt("b", 0.7, status="cancelled")
    retry = diary.attempt("a", 2 / 7, version="v", reused={failed: {"k1": 0.1}}, made={"k3": 0.05})
    diary.publish(retry, "a", "v")

    account = diary.account()

    assert account.buckets().total == sum(attempt.charge.usd for attempt in account.attempts)


def test_history_can_be_priced_again(diary: Diary) -> None:
    diary.attempt("a", 5)
    dearer = BOOK.model_copy(update={"core_hour": BOOK.core_hour.model_copy(update={"usd": Decimal(72)})})

    assert Account.read(diary.ledger, dearer).buckets().total == 10 * CENT


def test_a_result_that_was_made_twice_is_salvaged_at_its_own_price_only(diary: Diary) -> None:
    dear = diary.attempt("a", 100, version="v1", made={"k": 100.0})
    diary.publish(dear, "a", "v1")
    cheap = diary.attempt("a", 1, made={"k": 1.0}, status="failed")  # made again after its bytes were collected

    account = diary.account()

    assert account.wasted_usd(account.attempt(cheap)) == 1 * CENT
    assert account.buckets().salvaged == 0
    assert account.lineage_usd("v1") == 100 * CENT


def test_results_of_an_attempt_that_only_another_ledger_knows_are_not_free(diary: Diary) -> None:
    attempt = diary.attempt("a", 1, version="v", reused={"elsewhere": {"k": 5.0}})
    diary.publish(attempt, "a", "v")

    account = diary.account()

    assert account.lineage_usd("v") == 6 * CENT
    assert account.saved_usd(account.attempt(attempt)) == 5 * CENT


def test_a_gpu_without_a_price_stops_only_those_who_ask_what_it_cost(diary: Diary) -> None:
    gpu = diary.attempt("model", 1, version="m")
    with diary.ledger._writing() as sql:
        usage = Usage(gpu_seconds={"NVIDIA L4x": 5.0}).record()
        diary.ledger._append(sql, gpu, "run", "closed", {"status": "done", "usage": usage})
    other = diary.attempt("a", 2, version="v", made={"k": 2.0})
    diary.publish(other, "a", "v")

    account = diary.account()

    assert account.lineage_usd("v") == 2 * CENT
    with pytest.raises(PriceError, match="L4x"):
        account.buckets()
