"""The remote scorer against a server on this machine: what it asks, how it waits, and what it does with bad answers."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import numpy as np
import pytest

from pipelines.filters.toxicity.params import RemoteParams
from pipelines.filters.toxicity.remote import Pace, RemoteError, RemoteScorer, pace_of
from tests.pipelines.filters.toxicity.perspective import Service, serving


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now, self.slept = 0.0, []

    def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 3))
        self.now += seconds

    def time(self) -> float:
        return self.now


class Asking:
    """A scorer of a service, its clock and the number of its calls."""

    def __init__(self, service: Service, **params: Any) -> None:
        said = {"requests_per_second": 1e4, "connections": 1, "backoff_seconds": 1, "usd_per_call": "0.001"}
        self.clock, self.calls = Clock(), 0
        self.scorer = RemoteScorer(
            RemoteParams(url=service.url, **{**said, **params}), self.count, self.clock.sleep, self.clock.time
        )

    def count(self) -> None:
        self.calls += 1

    def score(self, *texts: str) -> list[float]:
        return self.scorer.score(texts, ["en"] * len(texts))[:, 0].tolist()

    @property
    def pauses(self) -> list[float]:
        return [seconds for seconds in self.clock.slept if seconds >= 0.5]


def test_a_text_is_sent_with_its_language_and_the_key_stands_in_a_header(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCORER_KEY", "s3cret")
    with serving() as service:
        asking = Asking(service, attributes=["TOXICITY", "INSULT"], key_variable="SCORER_KEY")
        scores = asking.scorer.score(["bad day", "good day"], ["en", "und"])
    assert scores.tolist() == [[0.5, 0.5], [0.0, 0.0]]
    assert asking.calls == 2
    assert service.asked == [
        {
            "comment": {"text": "bad day"},
            "languages": ["en"],
            "requestedAttributes": {"TOXICITY": {}, "INSULT": {}},
            "doNotStore": True,
        },
        {
            "comment": {"text": "good day"},  # the service finds out the language itself
            "requestedAttributes": {"TOXICITY": {}, "INSULT": {}},
            "doNotStore": True,
        },
    ]
    assert service.headers[0]["X-Goog-Api-Key"] == "s3cret"


def test_the_pace_is_that_of_the_service_whoever_asks() -> None:
    clock, pace = Clock(), Pace()
    with serving() as service:
        for _ in range(3):  # a scorer for each shard
            params = RemoteParams(url=service.url, requests_per_second=0.5, usd_per_call="0")
            RemoteScorer(params, lambda: None, clock.sleep, clock.time, pace).score(["good day"], ["en"])
    assert clock.slept == [2.0, 2.0]
    assert pace_of(service.url) is pace_of(service.url)


def test_a_key_that_is_not_there_is_missed_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCORER_KEY", raising=False)
    with serving() as service, pytest.raises(RemoteError, match="environment variable SCORER_KEY, which is not set"):
        Asking(service, key_variable="SCORER_KEY")
    assert service.asked == []


def test_requests_keep_their_pace() -> None:
    with serving() as service:
        asking = Asking(service, requests_per_second=0.5)
        asking.score("one", "two", "three")
    assert asking.clock.slept == [2, 2]


@pytest.mark.parametrize(
    ("first", "pauses"),
    [
        ([(429, {}), (503, {}), (500, {})], [1, 2, 4]),  # twice as long each time
        ([(429, {"Retry-After": "7"}), (503, {})], [7, 2]),
        ([b"not json"], [1]),
        ([b'{"attributeScores": {}}'], [1]),
        ([b'{"attributeScores": {"TOXICITY": {"summaryScore": {"value": NaN}}}}'], [1]),
        ([b'{"attributeScores": {"TOXICITY": {"summaryScore": {"value": 1.5}}}}'], [1]),
        ([b"[]"], [1]),
    ],
)
def test_what_may_pass_is_tried_again_and_every_try_is_counted(first: list[Any], pauses: list[float]) -> None:
    with serving(*first) as service:
        asking = Asking(service)
        assert asking.score("bad") == [1.0]
    assert asking.pauses == pauses
    assert asking.calls == len(first) + 1


def test_a_date_to_wait_for_is_kept() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    with serving((429, {"Retry-After": later})) as service:
        asking = Asking(service)
        asking.score("bad")
    assert 85 < asking.pauses[0] <= 90


def test_who_asks_for_too_much_patience_is_not_waited_for() -> None:
    with serving((429, {"Retry-After": "86400"})) as service, pytest.raises(RemoteError, match="to wait 86400 seconds"):
        Asking(service).score("bad")


def test_silence_is_an_answer_that_failed() -> None:
    with serving(0.6) as service:
        asking = Asking(service, timeout_seconds=0.2)
        assert asking.score("bad") == [1.0]
    assert asking.calls == 2


def test_a_service_that_never_answers_ends_the_work_and_what_was_sent_is_counted() -> None:
    with serving(*[(500, {})] * 3) as service:
        asking = Asking(service, tries=3)
        with pytest.raises(RemoteError, match="gave no score in 3 tries, at last: status 500"):
            asking.score("bad")
    assert asking.calls == 3


def test_one_failure_ends_all_waiting_at_once() -> None:
    """Given one text that is refused for good while others wait a minute for their next try."""
    with serving(*[(429, {"Retry-After": "60"})] * 3, (403, {})) as service:
        scorer = RemoteScorer(
            RemoteParams(url=service.url, connections=4, requests_per_second=1e4, usd_per_call="0"), lambda: None
        )
        with pytest.raises(RemoteError, match="answers 403"):
            scorer.score(["bad"] * 8, ["en"] * 8)
    assert len(service.asked) == 4


def test_nobody_there() -> None:
    asking = Asking(Service(url="http://127.0.0.1:9/none"), tries=2)
    with pytest.raises(RemoteError, match="gave no score in 2 tries, at last: ConnectionError"):
        asking.score("bad")
    assert asking.calls == 2


@pytest.mark.parametrize("status", [401, 403, 404, 302])
def test_a_wrong_address_or_key_is_told_at_once(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCORER_KEY", "s3cret")
    with serving((status, {"Location": "http://127.0.0.1:9/"})) as service:
        asking = Asking(service, key_variable="SCORER_KEY")
        with pytest.raises(RemoteError, match=f"answers {status}") as raised:
            asking.score("bad")
    assert asking.calls == 1
    assert "s3cret" not in str(raised.value)


def test_a_text_that_the_service_refuses_gets_no_score() -> None:
    with serving((400, {})) as service:
        asking = Asking(service)
        scores = asking.score("one", "bad")
    assert np.isnan(scores[0])
    assert scores[1] == 1.0
    assert asking.calls == 2
    assert asking.scorer.refusals == ['400: {"error": {"message": "no"}}']


def test_a_service_that_refuses_everything_was_asked_wrongly() -> None:
    with serving(*[(400, {})] * 10) as service, pytest.raises(RemoteError, match="refuses each of 10 texts"):
        Asking(service).score(*["bad"] * 10)


def test_several_connections_give_answers_in_order() -> None:
    texts = ["bad " * number + "good " * (9 - number) for number in range(10)] * 3
    with serving() as service:
        scores = Asking(service, connections=8).score(*texts)
    assert scores == pytest.approx([number / 9 for number in range(10)] * 3)
