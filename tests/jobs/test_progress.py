"""Lines about a run under way."""

import pytest
from rich.console import Console

from jobs.progress import Watcher
from pipelines.costs.ledger import Ledger
from pipelines.usage import Usage
from tests.pipelines.costs.book import BOOK


@pytest.mark.parametrize(
    ("status", "made", "reused", "told"),
    [
        ("done", 0, 2, "all reused"),
        ("done", 1, 2, "2 of 3 reused"),
        ("done", 1, 0, "$0.0500\n"),
        ("failed", 0, 2, "$0.0500\n"),  # it looked up what it could and did nothing: nobody is served by these
        ("failed", 2, 2, "2 results kept"),
        ("cancelled", 0, 0, "$0.0500\n"),
    ],
)
def test_a_line_says_what_was_reused_by_a_step_that_ended_well_and_what_is_kept_of_others(
    tmp_path, capsys: pytest.CaptureFixture, status: str, made: int, reused: int, told: str
) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    attempt = ledger.open_attempt(
        root_run="r", run="r", step="s", asset="scores", partition="web", role="stage", usage=Usage()
    )
    results = {attempt: dict.fromkeys(map(str, range(made)), 1.0), "earlier": dict.fromkeys("ab"[:reused], 1.0)}
    outcome = {"results": results} | ({"error": "the service is away"} if status == "failed" else {})
    ledger.close_attempt(attempt, "r", status, Usage(cpu_seconds=5), outcome)

    Watcher(ledger, BOOK, Console(width=140, highlight=False, markup=False), {}).tell("r")

    said = capsys.readouterr().out
    assert told in said
    assert ("reused" in told) == ("reused" in said)
