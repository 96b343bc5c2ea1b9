"""The arithmetic of the mixture, on numbers that can be checked by hand."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.mixture.plan import largest_remainder, plan
from pipelines.schemas import MIXTURE


def planned(table):
    return dict(zip(table["source"].to_pylist(), table["planned_tokens"].to_pylist(), strict=True))


def notes(table):
    return dict(zip(table["source"].to_pylist(), table["note"].to_pylist(), strict=True))


def test_shares_that_can_be_met_are_met_exactly():
    table = plan({"web": 10_000, "books": 1_000}, {"web": 0.8, "books": 0.2}, 5_000, 4)
    assert table.schema == MIXTURE
    assert table.to_pylist() == [
        {
            "source": "web",
            "wanted_share": 0.8,
            "planned_share": 0.8,
            "available_tokens": 10_000,
            "planned_tokens": 4_000,
            "epochs": 0.4,
            "note": None,
        },
        {
            "source": "books",
            "wanted_share": 0.2,
            "planned_share": 0.2,
            "available_tokens": 1_000,
            "planned_tokens": 1_000,
            "epochs": 1.0,
            "note": None,
        },
    ]


def test_only_the_proportions_of_shares_count():
    available = {"web": 10_000, "books": 1_000}
    assert plan(available, {"web": 4, "books": 1}, 500, 4) == plan(available, {"web": 0.8, "books": 0.2}, 500, 4)


def test_without_shares_and_budget_every_source_is_read_once():
    table = plan({"web": 700, "books": 300}, {}, 0, 4)
    assert planned(table) == {"web": 700, "books": 300}
    assert table["epochs"].to_pylist() == [1.0, 1.0]


def test_a_source_that_cannot_supply_its_share_is_told_and_the_others_make_up_for_it():
    # books: 275 tokens, 4 epochs, 1,100 of 10,000 = 11 %; asked 20 %.
    table = plan({"web": 50_000, "code": 50_000, "books": 275}, {"web": 0.6, "code": 0.2, "books": 0.2}, 10_000, 4)
    assert planned(table) == {"web": 6_675, "code": 2_225, "books": 1_100}
    assert notes(table)["books"] == "books can supply 11 % at 4 epochs; asked 20 %"
    assert notes(table)["web"] == "takes 66.8 %; asked 60 %: books lack tokens"


def test_without_a_budget_the_shares_are_exact_and_the_scarcest_source_sets_the_size():
    table = plan({"web": 10_000, "books": 100}, {"web": 0.8, "books": 0.2}, 0, 4)
    assert planned(table) == {"web": 1_600, "books": 400}
    assert notes(table) == {
        "web": None,
        "books": "its share of 20 % at 4 epochs limits the mixture to 2,000 tokens",
    }


def test_a_budget_beyond_all_sources_is_told():
    table = plan({"web": 100, "books": 50}, {}, 1_000, 4)
    assert planned(table) == {"web": 400, "books": 200}
    assert notes(table)["web"].endswith("all sources together supply 600 tokens at 4 epochs; the budget is 1,000")


def test_a_source_without_documents_leaves_its_share_to_the_others():
    table = plan({"web": 100, "books": 0}, {"web": 0.5, "books": 0.5}, 80, 4)
    assert planned(table) == {"web": 80, "books": 0}
    assert notes(table)["books"].startswith("has no tokens; asked 50 %")
    assert table["epochs"].to_pylist() == [0.8, 0.0]


def test_a_source_too_small_for_a_part_of_an_epoch_is_told():
    table = plan({"web": 1_000, "books": 9}, {"web": 0.5, "books": 0.5}, 0, 0.1)
    assert planned(table) == {"web": 100, "books": 0}
    assert notes(table)["books"] == "has 9 tokens, too few for 0.1 epochs; asked 50 %"


def test_sources_that_are_not_named_are_left_out_and_told():
    table = plan({"web": 100, "books": 100, "code": 100}, {"web": 1, "code": 0}, 0, 4)
    assert planned(table) == {"web": 100, "books": 0, "code": 0}
    assert "does not name it" in notes(table)["books"]
    assert notes(table)["code"] == "left out: its share is 0"


def test_tiny_weights_do_not_overrun_a_source():
    table = plan({"a": 1_000, "b": 1_000_000}, {"a": 0.001, "b": 0.999}, 1_000_000, 4)
    assert planned(table) == {"a": 1_000, "b": 999_000}


@pytest.mark.parametrize("available", [{}, {"a": 0}, {"a": 0, "b": 0}])
def test_nothing_at_all_gives_an_empty_plan(available):
    assert sum(planned(plan(available, {}, 100, 4)).values()) == 0


def test_an_unknown_source_is_named():
    with pytest.raises(ValueError, match="'boks', which is not a source; the sources are: books, web"):
        plan({"books": 1, "web": 1}, {"boks": 1.0}, 0, 4)


@pytest.mark.parametrize("shares", [{"a": -0.1}, {"a": 0.0}])
def test_shares_below_or_all_zero_are_refused(shares):
    with pytest.raises(ValueError, match="share"):
        plan({"a": 1}, shares, 0, 4)


@settings(deadline=None)
@given(
    sizes=st.lists(st.integers(0, 10**12), min_size=1, max_size=8),
    weights=st.lists(st.floats(0.001, 1000), min_size=8, max_size=8),
    budget=st.integers(0, 10**13),
    max_epochs=st.floats(0.01, 100),
)
def test_the_plan_adds_up_and_no_source_is_overrun(sizes, weights, budget, max_epochs):
    available = {f"s{i}": size for i, size in enumerate(sizes)}
    shares = {f"s{i}": weights[i] for i in range(len(sizes))}
    rows = plan(available, shares, budget, max_epochs).to_pylist()
    total = sum(row["planned_tokens"] for row in rows)
    limits = {name: int(Fraction(str(max_epochs)) * size) for name, size in available.items()}
    assert all(row["planned_tokens"] <= limits[row["source"]] for row in rows)
    if budget:
        assert total == min(budget, sum(limits.values()))
    else:
        assert total <= sum(sizes)
        active = sum(Fraction(str(shares[n])) for n in available if limits[n])
        for row in rows:
            if limits[row["source"]]:
                assert abs(row["planned_tokens"] - total * Fraction(str(shares[row["source"]])) / active) < 1
    if total:
        assert sum(row["planned_share"] for row in rows) == pytest.approx(1)


@settings(deadline=None)
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=10), st.integers(0, 10_000))
def test_largest_remainder_rounds_up_or_down_and_adds_up(weights, total):
    together = sum(weights)
    if not together:
        return
    quotas = {str(i): Fraction(total * weight, together) for i, weight in enumerate(weights)}
    counts = largest_remainder(total, quotas)
    assert sum(counts.values()) == total
    assert all(abs(counts[name] - quota) < 1 for name, quota in quotas.items())


def test_largest_remainder_prefers_the_largest_remainder_then_the_first():
    assert largest_remainder(10, {"a": Fraction(7, 2), "b": Fraction(7, 2), "c": Fraction(3)}) == {
        "a": 4,
        "b": 3,
        "c": 3,
    }
