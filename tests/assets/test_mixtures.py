"""A mixture as people see it, from the stages' own stats."""

from typing import Any

import dagster as dg

from assets.metadata import figures_metadata, outcome_metadata
from assets.mixtures import mixture_metadata
from pipelines.mixture.params import MixtureParams
from pipelines.mixture.plan import plan, replan, told_of
from tests.assets.test_outcomes import rows

ASKED = MixtureParams(shares={"web": 0.8, "books": 0.2}, token_budget=10_000)


def planned(**tokens: int) -> dict[str, Any]:
    """Stats of a mixture of these estimated tokens."""
    told = told_of(plan(tokens, ASKED).to_pylist(), ASKED)
    return {**told, "request": ASKED.model_dump(mode="json"), "estimated_tokens": tokens}


def test_the_plan_says_what_each_group_supplies_repeats_and_leaves_unused_and_what_cannot_be_met() -> None:
    told = mixture_metadata(planned(web=50_000, books=275), {})

    assert rows(told["mixture"]) == [
        ("web", "80.0 %", "89.0 %", "8,900", "0.178 of 4", "50,000", "0", "41,100"),
        ("books", "20.0 %", "11.0 %", "1,100", "4 of 4", "275", "825", "0"),
    ]
    assert rows(told["what could not be met"]) == [
        ("web", "takes 89 %; asked 80 %: books lack tokens"),
        ("books", "books can supply 11 % at 4 epochs; asked 20 %"),
    ]
    assert (told["mixture/books/tokens"], told["mixture/books/epochs"].value) == (1_100, 4.0)


def test_what_cannot_be_met_is_said_first() -> None:
    told = outcome_metadata(planned(web=1_000, books=275))

    assert next(iter(told)) == "attention"
    assert told["attention"] == (
        "The mixture is not as it was asked for: 5,100 tokens can be had; mixture.token_budget is 10,000; "
        "web can supply 40 % at 4 epochs; asked 80 %; books can supply 11 % at 4 epochs; asked 20 %."
    )
    assert (
        "books can supply 11 % at 4 epochs; asked 20 %" in outcome_metadata(planned(web=9_000, books=275))["attention"]
    )
    assert "attention" not in outcome_metadata(planned(web=9_000, books=2_750))


def test_a_mixture_that_can_be_had_has_nothing_to_say_in_words() -> None:
    assert "what could not be met" not in mixture_metadata(planned(web=50_000, books=5_000), {})


def test_the_blend_says_how_far_the_estimate_was_off_and_draws_all_three_shares() -> None:
    _, stats = replan({"web": 40_000, "books": 5_000}, planned(web=50_000, books=275))
    told = mixture_metadata(stats, {}) | outcome_metadata(stats)

    assert rows(told["estimated and counted"]) == [
        ("web", "50,000", "40,000", "+25.0%"),
        ("books", "275", "5,000", "-94.5%"),
    ]
    drawn = told["plot/shares of tokens"].value
    assert all(name in drawn for name in ("wanted", "planned", "realised"))
    assert "books 20 / 11 / 20 %" in drawn.replace("%2520", " ").replace("%20", " ").replace("%25", "%")


def wasted(**counts: int) -> dict[str, int]:
    names = ("documents_cut", "documents_cut_if_concatenated", "documents_left_out", "padding_tokens")
    return {**dict.fromkeys(names, 0), **counts}


def test_packed_samples_have_their_padding_told_by_group() -> None:
    waste = {
        "web": wasted(samples=10, pieces=30, padding_tokens=11, documents_cut=1, documents_cut_if_concatenated=9),
        "books": wasted(samples=1, pieces=2, documents_left_out=4),
    }
    held = wasted(samples=2, pieces=5, padding_tokens=4, documents_cut_if_concatenated=2)
    stats = {**planned(web=50_000, books=5_000), "waste": waste, "validation_waste": held}
    told = mixture_metadata(stats, {"sequence_length": 10})

    assert rows(told["padding of packed samples"]) == [
        ("web", "10", "11", "10.0 %", "1", "9", "0"),
        ("books", "1", "0", "0 %", "0", "0", "4"),
        ("(held out for validation)", "2", "4", "18.2 %", "0", "2", "0"),
    ]
    assert told["mixture/padding_share"] == dg.FloatMetadataValue(15 / 143)


def test_what_stands_in_these_tables_is_not_told_again() -> None:
    _, stats = replan({"web": 40_000}, planned(web=50_000, books=275))

    assert set(figures_metadata(stats)) == {"stats/token_budget"}
    assert mixture_metadata({"documents_in": 3}, {}) == {}


def test_a_mixture_of_many_groups_stays_small() -> None:
    tokens = {f"language-{number}": 10**9 for number in range(900)}
    asked = MixtureParams(by="language")
    stats = {**told_of(plan(tokens, asked).to_pylist(), asked), "estimated_tokens": tokens}

    told = mixture_metadata(stats, {})

    assert len(told) < 60
    assert len(dg.serialize_value(told["mixture"])) < 60_000
