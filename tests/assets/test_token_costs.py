"""What a billion tokens cost, and the token budget. A second costs a cent."""

from pathlib import Path
from typing import Any

import pytest

from assets.token_costs import missing_tokens, token_costs_metadata
from pipelines.dataset import Version
from pipelines.mixture.params import MixtureParams
from pipelines.mixture.plan import plan, told_of
from tests.assets.test_savings import Chain


@pytest.fixture
def chain(tmp_path: Path) -> Chain:
    return Chain(tmp_path)


def blended(chain: Chain, budget: int = 0, **tokens: int) -> Version:
    """A blend that cost 12 cents with everything upstream, of which text of two sources is 4 cents each."""
    asked = MixtureParams(shares=dict.fromkeys(tokens, 1), token_budget=budget)
    mixture = told_of(plan(tokens, asked).to_pylist(), asked)["mixture"]
    upstream = [chain.make("token_shards", name, 4) for name in tokens]
    stats: dict[str, Any] = {"tokens_by_source": tokens, "mixture": mixture, "token_budget": budget}
    return chain.make("training_blend", "", 4, *upstream, **stats)


def costs(chain: Chain, version: Version) -> dict[str, Any]:
    return token_costs_metadata(version, chain.account())


def test_a_billion_tokens_cost_what_all_stages_until_here_spent_on_them(chain: Chain) -> None:
    told = costs(chain, blended(chain, web=3_000, books=1_000))

    assert told["cost/usd_per_billion_tokens"].value == 30_000
    assert told["cost/tokens"] == "Until here 4,000 tokens cost $0.12: $30,000.00 a billion."
    assert "cost/projected_usd" not in told


def test_a_budget_that_the_sources_can_supply_costs_nothing_more(chain: Chain) -> None:
    told = costs(chain, blended(chain, 8_000, web=3_000, books=1_000))

    assert told["cost/projected_usd"].value == 0.12
    assert told["cost/tokens"].endswith("The token budget, 8,000, needs no more than these.")


def test_a_budget_beyond_them_is_projected_at_the_same_rate(chain: Chain) -> None:
    told = costs(chain, blended(chain, 16_000, web=3_000, books=1_000))  # 8,000 of each: 2,000 in 4 epochs

    assert told["cost/projected_usd"].value == 0.15
    assert told["cost/tokens"].endswith(
        "needs more tokens than there are: 1,000 of books. At this rate they cost $0.0300 more, $0.15 in all."
    )


def test_what_is_missing_follows_from_shares_and_epochs() -> None:
    rows = plan(
        {"web": 100, "books": 10, "code": 0},
        MixtureParams(shares={"web": 6, "books": 2, "code": 2}, max_epochs=2, epochs={"code": 4}),
    ).to_pylist()

    assert missing_tokens(rows, 300) == {"books": 20, "code": 15}
    assert missing_tokens(rows, 10) == {"code": 1}


def test_a_share_that_was_rounded_up_when_it_was_stored_lacks_nothing() -> None:
    rows = plan({"a": 5000, "b": 1000}, MixtureParams(shares={"a": 5, "b": 1}, token_budget=24_000)).to_pylist()
    assert sum(row["planned_tokens"] for row in rows) == 24_000
    assert missing_tokens(rows, 24_000) == {}


def test_datasets_without_tokens_say_nothing_of_them(chain: Chain) -> None:
    assert costs(chain, chain.make("clean_documents", "web", 1)) == {}
    assert costs(chain, blended(chain, web=0)) == {}
