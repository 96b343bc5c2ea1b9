"""Parameters of toxicity: what is refused, what is recorded, which label decides."""

import json
from typing import Any

import numpy as np
import pytest
import yaml
from pydantic import ValidationError

from pipelines.filters.params import FilterParams
from pipelines.filters.toxicity import experts
from pipelines.filters.toxicity.experts import verdict_of
from pipelines.filters.toxicity.params import ToxicityParams
from resources.settings import HOME
from tests.pipelines.filters.toxicity.stand_in import config


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"neural": [{"checkpoint": "x"}]}, "neural needs to know what the screen leaves open"),
        ({"neural": [{"checkpoint": "x"}], "band": [0.9, 0.1]}, "band must be two scores"),
        ({"band": [0.1, 0.9]}, "there is none"),
        ({"neural": [{"checkpoint": "x"}], "band": [0, 1], "calibration": {"path": "x"}}, "not both"),
        ({"calibration": {"path": "x"}}, "neural names none"),
        ({"unknown_languages": "remote"}, "unknown_languages is remote, which is not set"),
        ({"remote": {"url": "https://x"}}, "remote.usd_per_call is missing"),
        ({"remote": {"url": "https://x?key=s3cret", "usd_per_call": "0"}}, "remote.url"),  # it would be recorded
        ({"remote": {"url": "https:///x", "usd_per_call": "0"}}, "a host that can be asked"),
        ({"remote": {"url": "http://x:99999/y", "usd_per_call": "0"}}, "a host that can be asked"),
        ({"remote": {"url": "http://[::1", "usd_per_call": "0"}}, "a host that can be asked"),
        ({"remote": {"attributes": ["TOXICITY", "TOXICITY"]}}, "each attribute once"),
        ({"languages": ["EN"]}, "ISO 639 code in small letters"),  # it would match no document
        ({"lexicons": {"german": "x"}}, "ISO 639 code in small letters"),
        ({"neural": [{"checkpoint": "x", "languages": ["zh-CN"]}], "band": [0, 1]}, "ISO 639 code in small letters"),
        (
            {"neural": [{"checkpoint": "x"}], "calibration": {"path": "x", "language": "fr"}},
            "calibration.language fr is not among languages",
        ),
    ],
)
def test_a_cascade_that_is_not_whole_is_refused(wrong: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        ToxicityParams.model_validate(wrong)


@pytest.mark.parametrize(
    ("said", "buys"),
    [
        ({}, False),
        ({"url": "https://x", "usd_per_call": "0"}, False),
        ({"url": "https://x", "usd_per_call": "0.1"}, True),
    ],
)
def test_who_asks_a_service_that_costs_something_buys(said: dict[str, Any], buys: bool) -> None:
    assert ToxicityParams.model_validate({"remote": said}).buys == buys


def test_paths_are_not_recorded_and_come_back() -> None:
    here = config("/data/a.ckpt", lexicons={"de": "/data/de.txt"})
    assert "/data" not in json.dumps(here.recorded)
    assert ToxicityParams.model_validate(ToxicityParams.restored(here.recorded, here)) == here
    sampled = config("/data/a.ckpt", band=None, calibration={"path": "/data/s.csv"})
    assert "/data" not in json.dumps(sampled.recorded)
    assert ToxicityParams.model_validate(ToxicityParams.restored(sampled.recorded, sampled)) == sampled


def test_the_verdict_is_the_label_that_says_toxic_or_the_only_one() -> None:
    def said(*labels: str) -> list[float]:
        table = experts.labels_table(
            "neural:x",
            documents_ids(2),
            list(labels),
            np.arange(2 * len(labels)).reshape(2, -1),
            np.zeros((2, len(labels))),
        )
        return verdict_of(table, experts.VERDICTS)[0].tolist()

    def documents_ids(count: int) -> Any:
        import pyarrow as pa

        return pa.chunked_array([[f"{number:032x}" for number in range(count)]], pa.large_string())

    assert said("insult", "toxicity", "toxic") == [1, 4]
    assert said("insult", "toxic") == [1, 3]
    assert said("rude") == [0, 1]
    with pytest.raises(ValueError, match=r"neural:x \(insult, threat\) none is toxicity or toxic"):
        said("insult", "threat")


def test_the_example_in_the_docs_is_a_profile() -> None:
    page = (HOME / "docs" / "scoring.md").read_text(encoding="utf-8")
    section = page.split("\n## Toxicity\n")[1]
    said = yaml.safe_load(section.split("```yaml\n")[1].split("```")[0])
    assert ToxicityParams.model_validate(said["toxicity"]).neural_threshold == said["filters"]["max_toxicity"]
    assert FilterParams.model_validate(said["filters"]).unknown_languages == "drop"
