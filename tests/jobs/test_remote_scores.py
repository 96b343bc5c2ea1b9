"""Calls of the remote scorer on the meter: dollars of the materialization that they were made for, and of failures."""

from decimal import Decimal
from pathlib import Path

import dagster as dg
import pytest

from tests.jobs.corpus import make_profile
from tests.jobs.test_chain import Mill, reason
from tests.pipelines.filters.toxicity.perspective import serving

pytestmark = pytest.mark.slow


def test_calls_are_dollars_of_the_scores_and_those_of_a_failed_step_are_waste(tmp_path: Path) -> None:
    with serving() as service, dg.DagsterInstance.ephemeral() as instance:
        remote = {"url": service.url, "languages": ["en"], "usd_per_call": "0.01", "tries": 2, "backoff_seconds": 0}
        toxicity = {"languages": [], "remote": {**remote, "requests_per_second": 1000}}
        mill = Mill(make_profile(tmp_path, toxicity=toxicity), instance)
        assert mill.run("*unique_documents").success
        service.first[:] = [(503, {})] * 20

        failed = mill.run("toxicity_scores")

        assert not failed.success
        assert "gave no score in 2 tries, at last: status 503" in reason(failed)
        wasted = len(service.asked)
        assert wasted > 0
        [attempt] = [one for one in mill.account().attempts if one.asset == "toxicity_scores"]
        assert attempt.charge.bought_usd == Decimal("0.01") * wasted
        assert mill.account().wasted_usd(attempt) >= attempt.charge.bought_usd

        service.first.clear()
        result = mill.run("toxicity_scores")

        assert result.success, reason(result)
        account = mill.account()
        for source in ("books", "web"):
            version = mill.dataset("toxicity_scores", source).version
            [made] = [one for one in account.attempts if one.version == version.id]
            calls = version.stats["remote_calls"]
            assert made.charge.bought_usd == Decimal("0.01") * calls
            assert calls == version.stats["read_by"]["remote"] == version.stats["scored_by"]["remote"]
        paid = len(service.asked)
        metadata = result.get_asset_materialization_events()[0].event_specific_data.materialization.metadata
        assert metadata["cost/usd"].value > 0.01

        assert mill.run("toxicity_scores").success
        assert len(service.asked) == paid, "answers that are kept are not asked for again"
