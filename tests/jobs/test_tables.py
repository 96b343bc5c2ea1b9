"""Tables of the command."""

from decimal import Decimal

import pytest
from rich.console import Console

from jobs.tables import cost_table, funnel_table, mixture_table, quote_told
from pipelines.costs.report import DatasetCost
from pipelines.dataset import Version
from pipelines.mixture.params import MixtureParams
from pipelines.mixture.plan import plan, told_of
from pipelines.purchases import Quote
from pipelines.usage import Usage


def test_rules_that_dropped_nothing_are_no_reasons(capsys: pytest.CaptureFixture) -> None:
    reasons = ["toxicity", "perplexity_high", "perplexity_low", "contamination", "perplexity_bucket", "minhash"]

    def told(*counts: int) -> str:
        dropped = dict(zip(reasons, counts, strict=True))
        stats = {"documents_in": 100, "documents_out": 100 - sum(counts), "dropped": dropped}
        version = Version("v", "filtered_documents", "web", {}, {}, "1", stats=stats)
        Console(width=200).print(funnel_table([version], {"v": Decimal(0)}))
        return capsys.readouterr().out

    assert "reasons" not in told(0, 0, 0, 0, 0, 0)
    assert "toxicity 2, contamination 1" in told(2, 0, 0, 1, 0, 0)
    assert "and 1 more reasons" not in told(5, 4, 3, 2, 0, 0)
    assert "and 2 more reasons" in told(5, 4, 3, 2, 1, 1)


def test_a_plan_says_what_each_group_gives_and_what_could_not_be_had(capsys: pytest.CaptureFixture) -> None:
    asked = MixtureParams(shares={"web": 80, "books": 20}, token_budget=10_000)
    stats = told_of(plan({"web": 9_000, "books": 300}, asked).to_pylist(), asked)
    for asset in ("training_mixture", "training_blend"):
        Console(width=160).print(mixture_table(Version("v", asset, "", {}, {}, "1", stats=stats)))

    planned, counted = capsys.readouterr().out.split("What the model is to read, ")[1:]
    assert planned.startswith("planned, from estimated tokens")
    assert counted.startswith("from counted tokens")
    [books] = [" ".join(line.split()) for line in counted.splitlines() if line.strip().startswith("books")]
    assert books == "books 20.0% 12.0% 1,200 4 300 0 books can supply 12 % at 4 epochs; asked 20 %"


@pytest.mark.parametrize("width", [80, 100, 140])
@pytest.mark.parametrize("bought", ["0", "1234.5"])
def test_names_and_amounts_are_never_cut(capsys: pytest.CaptureFixture, width: int, bought: str) -> None:
    def cost(asset: str, partition: str, tokens: int | None = None) -> DatasetCost:
        some = Decimal("0.000123")
        amounts = {"usd": some, "lineage_usd": Decimal("1234.56"), "wasted_usd": some, "saved_usd": some}
        return DatasetCost(
            asset,
            partition,
            "v",
            1,
            tokens,
            **amounts,
            bought_usd=Decimal(bought),
            compute_hours=0.0123,
            energy_kwh=0.000456,
            usd_per_million_tokens=some if tokens else None,
        )

    costs = [cost("contamination_scores", "encyclopedia"), cost("token_shards", "web", 123_456_789)]
    Console(width=width, markup=False).print(cost_table(costs, title="Costs"), soft_wrap=True)

    told = capsys.readouterr().out
    for name in ("contamination_scores[encyclopedia]", "token_shards[web]"):
        [line] = [line for line in told.splitlines() if name in line]
        assert "0.000123" in line
        assert "1,234.56" in line
    assert "…" not in told


def test_a_quote_in_words() -> None:
    def calls(number: int, usd: str) -> Usage:
        return Usage(bought={"calls of x.org": number}, bought_usd={"calls of x.org": Decimal(usd)})

    assert quote_told(Quote(calls(1200, "1.20"), calls(7200, "7.20"))) == (
        "1,200 calls of x.org for $1.20 (at most 7,200 for $7.20, if calls fail and are tried again)"
    )
    assert quote_told(Quote(calls(3, "0"), calls(9, "0"))) == ""
    assert quote_told(Quote()) == ""
