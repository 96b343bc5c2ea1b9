"""Paid calls, from the ledger's side and from that of the service: told before, charged once, lost never."""

import contextlib
import json
import os
import shutil
import signal
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from jobs.command import main
from jobs.impact import impact
from jobs.outlook import Outlook
from pipelines.purchases import JOURNALS
from resources.settings import load_profile
from tests.jobs.corpus import make_profile
from tests.jobs.processes import Mill as CommandMill
from tests.jobs.processes import mills
from tests.jobs.test_chain import Mill, reason
from tests.pipelines.filters.toxicity.perspective import Service, serving

pytestmark = pytest.mark.slow

CENT = Decimal("0.01")


def toxicity(service: Service, **more: Any) -> dict[str, Any]:
    remote = {"url": service.url, "languages": ["en"], "usd_per_call": "0.01", "tries": 2, "backoff_seconds": 0}
    return {"languages": [], "remote": {**remote, "requests_per_second": 1000, **more}}


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with serving() as service:
        yield service


@pytest.fixture(scope="module")
def mill(tmp_path_factory: pytest.TempPathFactory, service: Service) -> Iterator[Mill]:
    """A mill whose scores were bought, a cent for each document."""
    with dg.DagsterInstance.ephemeral() as instance:
        mill = Mill(make_profile(tmp_path_factory.mktemp("bought"), toxicity=toxicity(service)), instance)
        result = mill.run("*toxicity_scores")
        assert result.success, reason(result)
        yield mill


@pytest.fixture
def command(mill: Mill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    monkeypatch.setenv("CORPUSMILL_PROFILE", "")
    monkeypatch.setenv("CORPUSMILL_SET", "")
    return lambda *arguments: main([*arguments, "--profile", str(Path(mill.store.root).parent / "profile.yaml")])


def paid(mill: Mill | CommandMill) -> Decimal:
    """What all attempts of all runs bought."""
    return sum((attempt.charge.bought_usd for attempt in mill.account().attempts), Decimal(0))


# -- told before -----------------------------------------------------------------------------------------------------


def test_what_has_to_be_bought_again_is_told_and_not_bought_without_leave(
    mill: Mill, service: Service, command, capsys: pytest.CaptureFixture
) -> None:
    asked, before = len(service.asked), paid(mill)
    calls = mill.dataset("toxicity_scores", "web").version.stats["remote_calls"]

    assert command("reproduce", "toxicity_scores[web]", "--verify") == 1

    [told] = capsys.readouterr().err.splitlines()
    assert f"again buys {calls} calls of 127.0.0.1 for ${calls * CENT} (at most {2 * calls} for" in told
    assert told.endswith("say --pay to pay for it")
    assert (len(service.asked), paid(mill)) == (asked, before)
    assert command("reproduce", "unique_documents[web]", "--verify") == 0, "which buys nothing"
    assert command("reproduce", "toxicity_scores[web]", "--pay") == 1, "nothing is made again"
    assert "--pay belongs to --verify" in capsys.readouterr().err


def test_what_cannot_be_counted_is_not_bought_without_leave_either(
    mill: Mill, service: Service, command, capsys: pytest.CaptureFixture
) -> None:
    """Given a store in which nobody can look up which documents were sent."""
    actions, asked = Path(mill.store.root, "actions"), len(service.asked)
    actions.rename(actions.with_name("aside"))
    try:
        assert command("reproduce", "toxicity_scores[web]", "--verify") == 1
    finally:
        actions.with_name("aside").rename(actions)

    assert "again buys what nobody can tell beforehand for toxicity_scores[web]; say --pay" in capsys.readouterr().err
    assert len(service.asked) == asked


def test_what_is_bought_again_with_leave_is_overhead(
    mill: Mill, service: Service, command, capsys: pytest.CaptureFixture
) -> None:
    asked, before, buckets = len(service.asked), paid(mill), mill.account().buckets()
    calls = mill.dataset("toxicity_scores", "web").version.stats["remote_calls"]
    service.first[:] = [(503, {})]  # one is tried again, and changes no score

    code = command("reproduce", "toxicity_scores[web]", "--verify", "--pay", "--json")

    out = capsys.readouterr()
    assert code == 0, out
    assert f"Making it again buys {calls} calls of 127.0.0.1 for $" in out.err
    assert json.loads(out.out)["usd"] > float(calls * CENT)
    assert len(service.asked) == asked + calls + 1
    assert paid(mill) == before + (calls + 1) * CENT
    assert mill.account().buckets().overhead > buckets.overhead + calls * CENT


def test_purchases_of_a_change_are_told_before(mill: Mill, service: Service, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(Path(mill.store.root).parent, folder)
    make_profile(folder, toxicity=toxicity(service))

    def scores(*overrides: str) -> tuple[list[Outlook], str]:
        profile = load_profile(folder / "profile.yaml", list(overrides))
        found = impact(profile)
        return [o for o in found.outlooks if o.asset == "toxicity_scores"], found.sentence()

    untouched, _ = scores()
    assert [(o.bought_usd, o.bought_at_most) for o in untouched] == [(0, 0), (0, 0)]

    dearer, _ = scores("toxicity.remote.usd_per_call='0.02'")  # what was answered is not asked again
    assert [(o.bought_usd, o.bought_at_most) for o in dearer] == [(0, 0), (0, 0)]

    asked, before = len(service.asked), paid(mill)
    other = ["toxicity.remote.attributes=[INSULT]", "toxicity.remote.usd_per_call='0.02'"]
    counted, told = scores(*other)
    expected = sum(o.bought_usd for o in counted)
    assert [o.bought_at_most for o in counted] == [2 * o.bought_usd for o in counted]
    assert all(o.usd is not None and o.usd > o.bought_usd for o in counted)
    assert f"Paid calls for toxicity_scores[books], toxicity_scores[web]: ${expected}, at most ${2 * expected}" in told
    assert (len(service.asked), paid(mill)) == (asked, before), "a look buys nothing"

    later, told = scores("clean.min_characters=40")
    assert all(o.bought_at_most is None for o in later)
    assert sum(o.bought_usd for o in later) == expected / 2, "as last time"
    assert "How many calls toxicity_scores[books], toxicity_scores[web] will pay for shows only when" in told

    with dg.DagsterInstance.ephemeral() as instance:
        again = Mill(load_profile(folder / "profile.yaml", other), instance)
        result = again.run("toxicity_scores")
    assert result.success, reason(result)
    assert paid(again) == before + expected


# -- lost never ------------------------------------------------------------------------------------------------------


@pytest.fixture
def make_mill(tmp_path: Path):
    yield from mills(tmp_path)


def test_every_call_of_a_step_that_is_killed_is_in_the_ledger_once(make_mill) -> None:
    """Given a step that is killed while it waits for an answer."""
    with serving() as service:
        mill: CommandMill = make_mill("mill", toxicity=toxicity(service, connections=1))
        mill.run("--select", "*unique_documents")
        service.first[:] = [None] * 7 + [60.0]
        run = mill.start("--select", "toxicity_scores")
        run.reaches(lambda: len(service.asked) == 8, "the eighth call")
        opened = mill.open_attempt(run, "toxicity_scores", "books")
        with contextlib.suppress(ProcessLookupError):
            os.kill(opened.payload["owner"]["pid"], signal.SIGKILL)
        assert run.end() != 0

        assert paid(mill) == 8 * CENT
        [killed] = [a for a in mill.account().attempts if a.asset == "toxicity_scores"]
        assert killed.status == "killed"
        assert mill.account().wasted_usd(killed) == killed.charge.usd

        mill.run("--select", "toxicity_scores")

        assert paid(mill) == len(service.asked) * CENT
        # Seven answers were of use in the end, the eighth nobody heard.
        account = mill.account()
        [killed] = [a for a in account.attempts if a.status == "killed"]
        assert 7 * CENT <= account.salvaged_usd(killed) < 8 * CENT
        assert CENT <= account.wasted_usd(killed) < 2 * CENT
        made = mill.attempt("toxicity_scores", "books")
        assert 7 * CENT <= account.saved_usd(made) < 8 * CENT
        scored = mill.store.version(mill.ledger.current("toxicity_scores", "books").version)["stats"]["scored_by"]
        assert scored == {"remote": 16}
        assert not list(mill.store.scratch_path(JOURNALS).iterdir())
