"""What duplicates would have cost further down."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from assets.savings import savings_metadata, usd_per_byte
from pipelines.dataset import Dataset, Draft, Version, seal
from pipelines.store import Store
from tests.pipelines.costs.test_account import Diary


class Chain(Diary):
    """A diary whose versions are in a store, too. A second costs a cent."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.store = Store(str(path / "store"))

    def make(self, asset: str, partition: str, seconds: float, *inputs: Version, **stats: Any) -> Version:
        given = [Dataset(version.asset, (version,), self.store) for version in inputs]
        version = seal(self.store, Draft({}, stats), asset=asset, partition=partition, inputs=given)
        key = f"{asset} {partition}"
        pins = list(version.inputs)
        attempt = self.attempt(asset, seconds, partition=partition, version=version.id, made={key: seconds}, pins=pins)
        self.publish(attempt, asset, version.id, partition)
        return version


@pytest.fixture
def chain(tmp_path: Path) -> Chain:
    return Chain(tmp_path)


def test_a_byte_costs_what_all_later_stages_spent_on_it(chain: Chain) -> None:
    clusters = chain.make("duplicate_clusters", "", 50, bytes_dropped_by_source={"web": 300, "books": 100})
    for source, seconds, size in (("web", 6, 1500), ("books", 2, 500)):
        unique = chain.make("unique_documents", source, 99, clusters, bytes_out=size)
        scores = chain.make("toxicity_scores", source, seconds, unique)
        chain.make("filtered_documents", source, seconds / 2, unique, scores)

    account = chain.account()
    assert usd_per_byte(account, chain.ledger, chain.store) == (Decimal("0.08") + Decimal("0.04")) / 2000
    told = savings_metadata(clusters, account, chain.ledger, chain.store)
    assert told["dedup/bytes_saved"] == 400
    assert told["dedup/usd_saved_downstream"].value == pytest.approx(0.024)
    assert "$0.0240" in told["dedup/summary"]


def test_before_the_later_stages_have_run_nothing_is_said_of_dollars(chain: Chain) -> None:
    clusters = chain.make("duplicate_clusters", "", 50, bytes_dropped_by_source={"web": 300})
    chain.make("unique_documents", "web", 99, clusters, bytes_out=1000)

    assert savings_metadata(clusters, chain.account(), chain.ledger, chain.store) == {"dedup/bytes_saved": 300}


def test_other_datasets_save_nothing(chain: Chain) -> None:
    made = chain.make("clean_documents", "web", 1)

    assert savings_metadata(made, chain.account(), chain.ledger, chain.store) == {}
