"""The remote scorer in the stage: what it is asked, what its calls cost, and what is not asked for again."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from pipelines.engines.local import Engine
from pipelines.engines.task import Task
from pipelines.filters.toxicity.params import ToxicityParams
from pipelines.filters.toxicity.remote import RemoteError
from pipelines.filters.toxicity.stage import score_toxicity
from pipelines.purchases import Quote
from pipelines.store import Store
from tests.pipelines.filters.corpus import documents
from tests.pipelines.filters.toxicity.perspective import serving
from tests.pipelines.filters.toxicity.stand_in import KIND, rows, scored


def remote(url: str, **more: Any) -> ToxicityParams:
    said = {"url": url, "languages": ["ko", "de"], "usd_per_call": "0.002", "requests_per_second": 1e4}
    return ToxicityParams.model_validate({"remote": {**said, "backoff_seconds": 0, **more}})


def bought_by(engine: Engine) -> dict[str, Decimal]:
    """What results bought, by the last word of their stage."""
    bought = {engine.store.action(result.key)["stage"]: result.bought_usd for result in engine.results}
    return {stage.rpartition(".")[2]: usd for stage, usd in bought.items() if usd}


def test_a_quote_is_a_call_for_each_passage_and_for_each_try_at_most(store: Store, engine: Engine) -> None:
    given = documents(store, ["bad", "good " * 1000, KIND], language=["ko", "de", "en"])  # two passages of 3,000 bytes
    with serving() as service:
        wanted = remote(service.url, tries=5)
        tasks: list[Task] = []
        run = engine.run
        engine.run = lambda task: tasks.append(task) or run(task)
        score_toxicity(given, wanted, engine)
        asked = len(service.asked)
        total = sum((task.quoted(store) for task in tasks), Quote())
        assert len(service.asked) == asked, "a quote asks nobody"
    assert total.expected.bought == {"calls of 127.0.0.1": asked} == {"calls of 127.0.0.1": 3}
    assert (total.expected_usd, total.most_usd) == (Decimal("0.006"), Decimal("0.030"))


def test_the_remote_scorer_reads_what_no_model_knows_and_its_calls_are_charged(store: Store, engine: Engine) -> None:
    long = "good " * 900 + "bad " * 100  # two passages of 3,000 bytes at most
    given = documents(store, [KIND, "bad good", long, "今日は"], language=["en", "ko", "de", "ja"])
    with serving((429, {})) as service:
        stats, data = scored(store, engine, given, remote(service.url, connections=1))
        assert [row[2] for row in rows(data)] == ["screen", "remote", "remote", None]
        assert rows(data)[1] == (0.5, 0.5, "remote", None)
        worst, mean = rows(data)[2][:2]
        assert 0 < mean < worst < 0.5
        assert sorted(asked["languages"] for asked in service.asked) == [["de"]] * 2 + [["ko"]] * 2
        assert stats["remote_calls"] == len(service.asked) == 4
        bought = engine.progress.bought
        assert bought.bought == {"calls of 127.0.0.1": 4}
        assert bought.bought_usd == {"calls of 127.0.0.1": Decimal("0.008")}
        again = engine.charged_to("later")
        score_toxicity(given, remote(service.url, usd_per_call="0.004"), again)
        assert (len(service.asked), again.progress.bought.bought) == (4, {})
        assert bought_by(again) == {"remote": Decimal("0.008")}, "what it cost when it was bought"


def test_calls_of_work_that_fails_are_charged_too(store: Store, engine: Engine) -> None:
    given = documents(store, ["bad"], language="ko")
    with serving(*[(500, {})] * 9) as service, pytest.raises(RemoteError):
        score_toxicity(given, remote(service.url, tries=3), engine)
    assert engine.progress.bought.bought == {"calls of 127.0.0.1": 3}


def test_an_answer_that_was_paid_for_is_not_asked_for_again_after_a_failure(store: Store, engine: Engine) -> None:
    given = documents(store, [f"{'bad ' * number}good" for number in range(6)], language="ko")
    with serving(*[None] * 3, *[(500, {})] * 9) as service:
        wanted = remote(service.url, tries=1, connections=1)
        with pytest.raises(RemoteError):
            score_toxicity(given, wanted, engine)
        assert len(service.asked) == 4
        service.first.clear()
        later = engine.charged_to("later")
        _, data = scored(store, later, given, remote(service.url, tries=1, connections=1, usd_per_call="0.004"))
        assert [row[0] for row in rows(data)] == pytest.approx([number / (number + 1) for number in range(6)])
        assert len(service.asked) == 4 + 3
        [result] = [one for one in later.results if one.bought_usd]
        assert (result.bought_usd, result.kept_usd) == (Decimal("0.012"), {"test": Decimal("0.006")})
        assert list((Path(store.root) / "work").iterdir()) == [], "what was kept meanwhile is gone"


def test_what_the_remote_scorer_refuses_has_no_score(store: Store, engine: Engine) -> None:
    given = documents(store, ["bad", "bad"], language="ko")
    with serving((400, {})) as service:
        stats, data = scored(store, engine, given, remote(service.url, connections=1))
    assert [row[0] for row in rows(data)] == [None, 1.0]
    assert (stats["remote_refused"], stats["unknown_language"]) == (1, {"ko": 1})


def test_texts_that_were_all_refused_are_asked_for_again(store: Store, engine: Engine) -> None:
    """Given a service that refuses whatever it is asked, is mended then, and fails once more."""
    given = documents(store, [f"{'bad ' * number}good" for number in range(10)], language="ko")
    with serving(*[(400, {})] * 10) as service:
        wanted = remote(service.url, tries=1, connections=1)
        with pytest.raises(RemoteError, match="refuses each of 10 texts"):
            score_toxicity(given, wanted, engine)
        service.first += [None] * 4 + [(500, {})]
        with pytest.raises(RemoteError, match="gave no score"):
            score_toxicity(given, wanted, engine)
        _, data = scored(store, engine, given, wanted)
        assert len(service.asked) == 10 + 5 + 6
    assert [row[0] for row in rows(data)] == pytest.approx([number / (number + 1) for number in range(10)])
