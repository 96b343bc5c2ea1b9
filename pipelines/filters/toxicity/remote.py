"""A remote scorer: asks a service that speaks as Google's Perspective does, no faster than it is allowed to.

A request is a text with its language and the attributes wanted; the answer holds a probability for each attribute:
`{"comment": {"text": …}, "languages": [code], "requestedAttributes": {name: {}}, "doNotStore": true}` gives
`{"attributeScores": {name: {"summaryScore": {"value": 0.9}}}}`. Only this module of the stages uses the network.
"""

import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import requests

from pipelines.filters.toxicity.params import RemoteParams

LONGEST_WAIT_SECONDS = 600.0
"""A service that asks for more patience than this is not waited for."""

ALL_REFUSED = 10
"""From so many texts on, a service that refuses every one of them was asked wrongly."""

UNDETERMINED = "und"
"""Language of a text whose language is left for the service to find out."""

_OF_THE_TEXT = {400, 413, 422}
"""Statuses that refuse this text: too long, or a language that the attribute is not made for."""

_PASSING = {408, 425, 429}
"""Statuses, beside those from 500 on, that another try may mend."""


class RemoteError(RuntimeError):
    """The service cannot be used; the message names it, what it said, and the way out. It never holds the key."""


@dataclass
class Pace:
    """When the next request may be sent, on the clock of those who share it."""

    free_at: float = -math.inf
    lock: threading.Lock = field(default_factory=threading.Lock)


@lru_cache
def pace_of(url: str) -> Pace:
    """The pace of a service, the same for all who ask it from this process, whichever shards they are at."""
    return Pace()


class RemoteScorer:
    """Asks one service. Texts may be asked for from several threads; the pace is kept over all of them, and over all
    scorers that share it.

    count: called before every request that is sent, retries too, since they are paid for.
    """

    def __init__(
        self,
        params: RemoteParams,
        count: Callable[[], None],
        sleep: Callable[[float], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
        pace: Pace | None = None,
    ) -> None:
        if params.url is None:
            raise ValueError("toxicity: no remote scorer is set; give toxicity.remote.url")
        self._params, self._count, self._clock = params, count, clock
        self._ended = threading.Event()
        """Set when one text has failed, or the work is interrupted: who sleeps wakes, and nothing more is sent."""
        self._sleep = sleep or self._ended.wait
        self._url: str = params.url
        self._headers: dict[str, str] = {}
        if params.key_variable is not None:
            key = os.environ.get(params.key_variable)
            if not key:
                raise RemoteError(
                    f"the remote scorer needs its key in the environment variable {params.key_variable}, which is not "
                    "set; export it where the step runs, or set toxicity.remote.key_variable"
                )
            self._headers["X-Goog-Api-Key"] = key
        self._pace = pace or Pace()
        self._local = threading.local()

    def score(
        self, texts: Sequence[str], languages: Sequence[str], keep: Callable[[int, list[float]], None] | None = None
    ) -> npt.NDArray[np.float64]:
        """float64[n, attributes]: probabilities of each text; NaN where the service refuses to score it.

        keep: called with a text's number and its probabilities as soon as they are there, from several threads.
        Raises `RemoteError` when the service does not answer after all tries, refuses the key, or refuses every text.
        """
        self.refusals: list[str] = []
        self._ended.clear()
        self._failure: Exception | None = None
        with ThreadPoolExecutor(self._params.connections, thread_name_prefix="remote") as pool:
            try:
                rows = list(pool.map(partial(self._kept, keep), range(len(texts)), texts, languages))
            except BaseException:
                self._ended.set()
                pool.shutdown(wait=True, cancel_futures=True)
                raise
        if len(texts) >= ALL_REFUSED and len(self.refusals) == len(texts):
            raise RemoteError(
                f"{self._url} refuses each of {len(texts)} texts ({self.refusals[0]}); check "
                "toxicity.remote.attributes and toxicity.remote.languages"
            )
        return np.array(rows, np.float64).reshape(len(rows), len(self._params.attributes))

    def _kept(
        self, keep: Callable[[int, list[float]], None] | None, number: int, text: str, language: str
    ) -> list[float]:
        try:
            row = self._ask(text, language)
        except Exception as error:
            self._failure = self._failure or error
            self._ended.set()
            raise
        if keep is not None:
            keep(number, row)
        return row

    def _ask(self, text: str, language: str) -> list[float]:
        problem = ""
        for number in range(self._params.tries):
            if number:
                self._sleep(self._pause)
            self._keep_pace()
            if self._ended.is_set():
                raise self._failure or RemoteError("the work was interrupted")
            self._pause = self._params.backoff_seconds * 2**number
            try:
                answer = self._post(text, language)
            except requests.RequestException as error:
                problem = type(error).__name__  # the whole error would tell the address, and headers with some proxies
                continue
            if answer.status_code == 200:
                try:
                    return [_probability(answer.json(), name) for name in self._params.attributes]
                except (ValueError, KeyError, TypeError) as error:
                    problem = f"an answer that cannot be read: {type(error).__name__} {error}"
            elif answer.status_code in _OF_THE_TEXT:
                self.refusals.append(f"{answer.status_code}: {' '.join(answer.text.split())[:200]}")
                return [float("nan")] * len(self._params.attributes)
            elif answer.status_code in _PASSING or answer.status_code >= 500:
                problem = f"status {answer.status_code}"
                self._pause = max(self._pause, self._asked_to_wait(answer))
            else:
                raise RemoteError(
                    f"{self._url} answers {answer.status_code} ({' '.join(answer.text.split())[:200]}); check "
                    "toxicity.remote.url and the key"
                )
        raise RemoteError(
            f"{self._url} gave no score in {self._params.tries} tries, at last: {problem}; run the step again later "
            "(what was scored whole is kept), or raise toxicity.remote.tries"
        )

    @property
    def _pause(self) -> float:
        return float(self._local.pause)

    @_pause.setter
    def _pause(self, seconds: float) -> None:
        self._local.pause = min(seconds, LONGEST_WAIT_SECONDS)

    def _post(self, text: str, language: str) -> requests.Response:
        session: requests.Session | None = getattr(self._local, "session", None)
        if session is None:
            session = self._local.session = requests.Session()
        body: dict[str, Any] = {
            "comment": {"text": text},
            **({} if language == UNDETERMINED else {"languages": [language]}),
            "requestedAttributes": {name: {} for name in self._params.attributes},
            "doNotStore": True,
        }
        self._count()
        return session.post(
            self._url,
            json=body,
            headers=self._headers,
            timeout=self._params.timeout_seconds,
            allow_redirects=False,
        )

    def _keep_pace(self) -> None:
        """Wait for this request's turn: turns are 1 / requests_per_second apart."""
        with self._pace.lock:
            turn = max(self._pace.free_at, self._clock())
            self._pace.free_at = turn + 1 / self._params.requests_per_second
        wait = turn - self._clock()
        if wait > 0:
            self._sleep(wait)

    def _asked_to_wait(self, answer: requests.Response) -> float:
        """Seconds of the header Retry-After (RFC 9110, section 10.2.3): a number, or a date; 0 without one."""
        told = answer.headers.get("Retry-After", "").strip()
        if not told:
            return 0.0
        try:
            seconds = (
                float(told) if told.isdigit() else (parsedate_to_datetime(told) - datetime.now(UTC)).total_seconds()
            )
        except ValueError:
            return 0.0
        if seconds > LONGEST_WAIT_SECONDS:
            raise RemoteError(f"{self._url} asks to wait {seconds:.0f} seconds; run the step again after that")
        return max(seconds, 0.0)


def _probability(answer: Any, attribute: str) -> float:
    value = float(answer["attributeScores"][attribute]["summaryScore"]["value"])
    if not 0 <= value <= 1:
        raise ValueError(f"{attribute} is {value}")
    return value
