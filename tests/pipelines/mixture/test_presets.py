"""The mixtures to copy, in docs/examples/mixtures, do what their comments say."""

from pathlib import Path

import pytest
import yaml

from pipelines.engines.local import Engine
from pipelines.mixture.params import MixtureParams
from pipelines.mixture.plan import plan
from pipelines.mixture.stage import plan_mixture
from pipelines.store import Store
from tests.pipelines.mixture.corpus import documents

PRESETS = Path(__file__).parents[3] / "docs" / "examples" / "mixtures"

PLENTY = 10**10


def preset(name):
    return MixtureParams(**yaml.safe_load((PRESETS / f"{name}.yaml").read_text(encoding="utf-8"))["mixture"])


def column(table, name):
    return dict(zip(table["group"].to_pylist(), table[name].to_pylist(), strict=True))


def test_every_preset_is_tested_here():
    assert {path.stem for path in PRESETS.iterdir()} == {"60-20-10-10", "temperature", "quality"}


def test_sixty_twenty_ten_ten_are_shares_of_tokens_exactly():
    table = plan(dict.fromkeys(["books", "web", "code", "encyclopedia"], PLENTY), preset("60-20-10-10"))
    assert column(table, "planned_tokens") == {
        "web": 1_500_000_000,
        "books": 500_000_000,
        "code": 250_000_000,
        "encyclopedia": 250_000_000,
    }


def test_a_temperature_gives_small_languages_more_than_their_size_up_to_four_epochs():
    sizes = {"en": 4 * 10**9, "de": 4 * 10**8, "is": 10**7}
    table = plan(sizes, preset("temperature"))
    shares, epochs = column(table, "planned_share"), column(table, "epochs")
    assert sum(column(table, "planned_tokens").values()) == 2_500_000_000
    assert shares["en"] / shares["de"] == pytest.approx(10**0.3, rel=0.01)
    assert epochs["is"] == 4
    assert "is can supply 1.6 % at 4 epochs; asked" in column(table, "note")["is"]


def test_quality_repeats_the_best_and_not_the_worst():
    table = plan(dict.fromkeys(["head", "middle", "tail", "unknown"], 25 * 10**7), preset("quality"))
    assert column(table, "max_epochs") == {"head": 6, "middle": 4, "tail": 1, "unknown": 4}
    assert column(table, "epochs") == {"head": 6, "middle": 3, "tail": 0.5, "unknown": 0.5}


def test_quality_needs_no_document_of_every_bucket(tmp_path):
    store = Store(str(tmp_path / "store"))
    rows = [{"text": "one two three", "bucket": "head"}, {"text": "four five six", "bucket": "middle"}]
    draft = plan_mixture(documents(store, {"web": [rows]}), preset("quality"), Engine(store, 1))
    assert draft.stats["notes"]["tail"] == "has no tokens; asked 5 %"
    assert draft.stats["epochs"]["head"] == 6
