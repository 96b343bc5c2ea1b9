"""Tables of the command."""

from decimal import Decimal

import pytest
from rich.console import Console

from jobs.tables import funnel_table
from pipelines.dataset import Version


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
