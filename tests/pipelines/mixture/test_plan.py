"""The arithmetic of the mixture, on numbers that can be checked by hand."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.mixture.params import MixtureParams
from pipelines.mixture.plan import largest_remainder, natural_weights, plan, unmet
from pipelines.schemas import MIXTURE


def mixed(available, **asked):
    return plan(available, MixtureParams(**asked))


def column(table, name):
    return dict(zip(table["group"].to_pylist(), table[name].to_pylist(), strict=True))


def planned(table):
    return column(table, "planned_tokens")


def notes(table):
    return column(table, "note")


def test_shares_that_can_be_met_are_met_exactly():
    table = mixed({"web": 10_000, "books": 1_000}, shares={"web": 0.6, "books": 0.4}, token_budget=5_000)
    assert table.schema == MIXTURE
    assert table.to_pylist() == [
        {
            "group": "web",
            "wanted_share": 0.6,
            "planned_share": 0.6,
            "available_tokens": 10_000,
            "planned_tokens": 3_000,
            "repeated_tokens": 0,
            "unused_tokens": 7_000,
            "epochs": 0.3,
            "max_epochs": 4.0,
            "note": None,
        },
        {
            "group": "books",
            "wanted_share": 0.4,
            "planned_share": 0.4,
            "available_tokens": 1_000,
            "planned_tokens": 2_000,
            "repeated_tokens": 1_000,
            "unused_tokens": 0,
            "epochs": 2.0,
            "max_epochs": 4.0,
            "note": None,
        },
    ]


def test_only_the_proportions_of_shares_count():
    available = {"web": 10_000, "books": 1_000}
    assert mixed(available, shares={"web": 4, "books": 1}) == mixed(available, shares={"web": 0.8, "books": 0.2})


def test_without_shares_and_budget_every_group_is_read_once():
    table = mixed({"web": 700, "books": 300})
    assert planned(table) == {"web": 700, "books": 300}
    assert table["epochs"].to_pylist() == [1.0, 1.0]


# books: 275 tokens, 4 epochs, 1,100 of 10,000 = 11 %; asked 20 %.
SHORT = {"web": 50_000, "code": 50_000, "books": 275}
ASKED = {"shares": {"web": 0.6, "code": 0.2, "books": 0.2}, "token_budget": 10_000}


def test_a_group_that_cannot_supply_its_share_is_told_and_the_others_make_up_for_it():
    table = mixed(SHORT, **ASKED)
    assert planned(table) == {"web": 6_675, "code": 2_225, "books": 1_100}
    assert notes(table)["books"] == "books can supply 11 % at 4 epochs; asked 20 %"
    assert notes(table)["web"] == "takes 66.8 %; asked 60 %: books lack tokens"


def test_or_the_shares_stay_and_there_are_fewer_tokens():
    table = mixed(SHORT, **ASKED, if_short="shrink")
    assert planned(table) == {"web": 3_300, "code": 1_100, "books": 1_100}
    assert notes(table) == {
        "web": None,
        "code": None,
        "books": "books can supply 11 % at 4 epochs; asked 20 %; "
        "its share of 20 % at 4 epochs limits the mixture to 5,500 tokens",
    }


def test_a_group_may_be_repeated_more_often_than_the_others_or_less():
    assert planned(mixed(SHORT, **ASKED, epochs={"books": 8})) == {"web": 6_000, "code": 2_000, "books": 2_000}
    table = mixed(SHORT, **ASKED, epochs={"books": 1.5})
    assert planned(table)["books"] == 412
    assert notes(table)["books"] == "books can supply 4.12 % at 1.5 epochs; asked 20 %"
    assert column(table, "max_epochs") == {"web": 4.0, "code": 4.0, "books": 1.5}


def test_without_a_budget_the_shares_are_exact_and_the_scarcest_group_sets_the_size():
    table = mixed({"web": 10_000, "books": 100}, shares={"web": 0.8, "books": 0.2})
    assert planned(table) == {"web": 1_600, "books": 400}
    assert notes(table) == {
        "web": None,
        "books": "its share of 20 % at 4 epochs limits the mixture to 2,000 tokens",
    }


def test_a_budget_beyond_all_groups_is_told():
    table = mixed({"web": 100, "books": 50}, token_budget=1_000, epochs={"web": 2})
    assert planned(table) == {"web": 200, "books": 200}
    assert notes(table)["web"].endswith("all groups together supply 400 tokens; the budget is 1,000")


@pytest.mark.parametrize("if_short", ["others", "shrink"])
def test_a_group_without_documents_leaves_its_share_to_the_others(if_short):
    shares = {"web": 0.4, "code": 0.1, "books": 0.5}
    table = mixed({"web": 100, "code": 100, "books": 0}, shares=shares, token_budget=80, if_short=if_short)
    assert planned(table) == {"web": 64, "code": 16, "books": 0}
    assert notes(table)["books"] == "has no tokens; asked 50 %"
    assert notes(table)["web"] == "takes 80 %; asked 40 %: books lack tokens"
    assert table["epochs"].to_pylist() == [0.64, 0.16, 0.0]


def test_a_group_too_small_for_a_part_of_an_epoch_is_told():
    table = mixed({"web": 1_000, "books": 9}, shares={"web": 0.5, "books": 0.5}, max_epochs=0.1)
    assert planned(table) == {"web": 100, "books": 0}
    assert notes(table)["books"] == "has 9 tokens, too few for 0.1 epochs; asked 50 %"


def test_groups_that_are_not_named_are_left_out_and_told():
    table = mixed({"web": 100, "books": 100, "code": 100}, shares={"web": 1, "code": 0})
    assert planned(table) == {"web": 100, "books": 0, "code": 0}
    assert column(table, "unused_tokens") == {"web": 0, "books": 100, "code": 100}
    assert "does not name it" in notes(table)["books"]
    assert notes(table)["code"] == "left out: its share is 0"


def test_tiny_weights_do_not_overrun_a_group():
    table = mixed({"a": 1_000, "b": 1_000_000}, shares={"a": 0.001, "b": 0.999}, token_budget=1_000_000)
    assert planned(table) == {"a": 1_000, "b": 999_000}


@pytest.mark.parametrize("available", [{}, {"a": 0}, {"a": 0, "b": 0}])
@pytest.mark.parametrize("if_short", ["others", "shrink"])
def test_nothing_at_all_gives_an_empty_plan(available, if_short):
    assert sum(planned(mixed(available, token_budget=100, if_short=if_short)).values()) == 0


@pytest.mark.parametrize("key", ["shares", "epochs", "bytes_per_token"])
def test_an_unknown_group_is_named_with_the_groups_that_there_are(key):
    with pytest.raises(ValueError, match=f"mixture.{key} names 'boks', which is not a source; there are: books, web"):
        mixed({"books": 1, "web": 1}, **{key: {"boks": 1.0}})
    with pytest.raises(ValueError, match="'xx', which is not a language of the documents; there are: de, en"):
        mixed({"de": 1, "en": 1}, by="language", **{key: {"xx": 1.0}})


# -- temperature ------------------------------------------------------------------------------------------------------


def test_a_temperature_flattens_the_shares():
    # sqrt(900) : sqrt(100) = 30 : 10
    table = mixed({"en": 900, "de": 100}, temperature=2, token_budget=400)
    assert planned(table) == {"en": 300, "de": 100}
    assert column(table, "wanted_share") == {"en": 0.75, "de": 0.25}


def test_temperature_one_is_in_proportion_to_size_and_a_high_one_is_nearly_equal():
    sizes = {"en": 10**12, "de": 10**6, "yo": 10}
    assert natural_weights(sizes, 1) == sizes
    flat = natural_weights(sizes, 1000)
    assert max(flat.values()) / min(flat.values()) < 1.03


def test_at_the_temperature_of_xlm_r_shares_are_those_of_its_formula():
    # Conneau et al. 2020, alpha 0.3: q = p^0.3 / sum of p^0.3
    sizes = {"en": 55_608, "ur": 730, "sw": 275}
    powers = {name: (size / sum(sizes.values())) ** 0.3 for name, size in sizes.items()}
    shares = column(mixed(sizes, temperature=1 / 0.3, token_budget=1000), "wanted_share")
    assert shares == pytest.approx({name: power / sum(powers.values()) for name, power in powers.items()})


def test_a_group_without_tokens_has_no_share_at_any_temperature():
    assert planned(mixed({"en": 10, "de": 0}, temperature=100)) == {"en": 10, "de": 0}


def test_a_temperature_beside_shares_and_one_below_one_are_refused():
    with pytest.raises(ValueError, match="temperature 2 has no effect beside shares"):
        MixtureParams(shares={"en": 1}, temperature=2)
    with pytest.raises(ValueError, match="greater than or equal to 1"):
        MixtureParams(temperature=0.5)


@settings(deadline=None)
@given(
    sizes=st.lists(st.integers(1, 10**13), min_size=2, max_size=6),
    low=st.floats(1, 50),
    more=st.floats(1.1, 10),
)
def test_the_higher_the_temperature_the_nearer_to_equal_and_the_order_of_sizes_stays(sizes, low, more):
    names = {f"g{i}": size for i, size in enumerate(sizes)}
    cool, warm = (natural_weights(names, temperature) for temperature in (low, low * more))
    for one, other in zip(list(names)[:-1], list(names)[1:], strict=True):
        a, b = (one, other) if names[one] >= names[other] else (other, one)
        assert 1 <= warm[a] / warm[b] <= cool[a] / cool[b] <= Fraction(names[a], names[b])


# -- for any request --------------------------------------------------------------------------------------------------

REQUESTS = st.fixed_dictionaries(
    {
        "sizes": st.lists(st.one_of(st.integers(0, 3), st.integers(0, 10**12)), min_size=1, max_size=8),
        "weights": st.lists(st.one_of(st.just(0.001), st.just(0.999), st.floats(0.001, 1000)), min_size=8, max_size=8),
        "epochs": st.lists(st.floats(0.01, 100), min_size=8, max_size=8),
        "named": st.sampled_from(["shares", "none", "temperature"]),
        "temperature": st.floats(1, 100),
        "token_budget": st.one_of(st.just(0), st.integers(1, 10**13)),
        "max_epochs": st.floats(0.01, 100),
        "if_short": st.sampled_from(["others", "shrink"]),
    }
)


def asked_for(request):
    """(tokens available, parameters) of a request."""
    names = [f"s{i}" for i in range(len(request["sizes"]))]
    shares = dict(zip(names, request["weights"], strict=False)) if request["named"] == "shares" else {}
    return dict(zip(names, request["sizes"], strict=True)), MixtureParams(
        shares=shares,
        temperature=request["temperature"] if request["named"] == "temperature" else 1,
        epochs=dict(zip(names[::2], request["epochs"], strict=False)),
        **{key: request[key] for key in ("token_budget", "max_epochs", "if_short")},
    )


@settings(deadline=None)
@given(REQUESTS)
def test_the_plan_adds_up_and_no_group_is_overrun(request):
    available, asked = asked_for(request)
    rows = plan(available, asked).to_pylist()
    total = sum(row["planned_tokens"] for row in rows)
    limits = {n: int(Fraction(str(asked.epochs.get(n, asked.max_epochs))) * size) for n, size in available.items()}
    assert all(0 <= row["planned_tokens"] <= limits[row["group"]] for row in rows)
    for row in rows:
        seen_once = row["planned_tokens"] - row["repeated_tokens"]
        assert seen_once + row["unused_tokens"] == row["available_tokens"]
    if asked.token_budget and asked.if_short == "others":
        assert total == min(asked.token_budget, sum(limits.values()))
    else:
        assert total <= (asked.token_budget or sum(available.values()))
        weights = {n: Fraction(str(w)) for n, w in asked.shares.items()} or natural_weights(
            available, asked.temperature
        )
        active = sum(weights[n] for n in available if limits[n])
        for row in rows:
            if limits[row["group"]]:
                assert abs(row["planned_tokens"] - total * weights[row["group"]] / active) < 1
    if total:
        assert sum(row["planned_share"] for row in rows) == pytest.approx(1)


@settings(deadline=None)
@given(REQUESTS, st.randoms(use_true_random=False))
def test_the_order_of_groups_decides_nothing_but_ties(request, random):
    available, asked = asked_for(request)
    names = list(available)
    random.shuffle(names)
    there, back = plan(available, asked).to_pylist(), plan({name: available[name] for name in names}, asked).to_pylist()
    assert [row["group"] for row in back] == names
    again = {row["group"]: row for row in back}
    for row in there:
        assert abs(row["planned_tokens"] - again[row["group"]]["planned_tokens"]) <= 1
        assert row["wanted_share"] == again[row["group"]]["wanted_share"]
    assert sum(row["planned_tokens"] for row in there) == sum(row["planned_tokens"] for row in back)


@settings(deadline=None)
@given(REQUESTS)
def test_what_is_not_as_it_was_asked_for_is_told(request):
    available, asked = asked_for(request)
    rows = plan(available, asked).to_pylist()
    total = sum(row["planned_tokens"] for row in rows)
    short = [told.split(" can supply")[0] for told in unmet(rows, asked) if "can supply" in told]
    assert all(row["note"] for row in rows if row["group"] in short)
    for row in rows:
        asked_tokens = (asked.token_budget or total) * row["wanted_share"]
        if row["planned_tokens"] < asked_tokens * (1 - 1e-9) - 1 and asked.if_short == "others":
            assert row["note"]
    if asked.token_budget and total < asked.token_budget:
        assert any(row["note"] for row in rows)


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
