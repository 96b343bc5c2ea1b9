"""Mixtures end to end: what a changed mixture or a further source costs, and what training is given."""

import json
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow.compute as pc
import pytest
import yaml

from jobs.command import main
from pipelines.tokens.training_dataset import BlendDataset
from resources.settings import load_profile
from tests.jobs.corpus import EXAM, write_profile
from tests.jobs.test_chain import Mill, reason

MIXING = 'key:"training_mixture" or key:"tokenizer" or key:"token_shards" or key:"training_blend"'

GERMAN = ["die Mühle am Bach", "ein alter Bauer", "das Korn im Sack", "der Müller und seine Tochter", "die Brücke"]
DEEDS = ["steht seit vielen Jahren dort", "wartet auf den Regen", "gehört niemandem mehr", "wird im Herbst verkauft"]


def german(seed: int) -> str:
    choice = random.Random(seed).choice
    return " ".join(f"Man erzählt, {choice(GERMAN)} {choice(DEEDS)}." for _ in range(14))


@dataclass
class Run:
    """A run as the meter saw it. made: by dataset, the results that were not at hand. told: why it failed. shown: by
    asset, what its page says."""

    made: dict[str, int]
    told: str
    shown: dict[str, dict[str, Any]]


class Mixer:
    """Profiles over one folder, run one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.content: dict[str, Any] = yaml.safe_load(
            write_profile(
                folder, contamination={"sets": EXAM}, tokenizer={"vocabulary": 512, "sources": ["books", "web"]}
            ).read_text()
        )

    def run(self, selection: str = MIXING, **sections: Any) -> Run:
        path = self.folder / "profile.yaml"
        path.write_text(yaml.safe_dump(self.content | sections))
        with dg.DagsterInstance.ephemeral() as instance:
            self.mill = Mill(load_profile(path), instance)
            result = self.mill.run(selection)
        account = self.mill.account()
        attempts = [a for a in account.attempts if a.run == result.run_id and a.asset]
        made: dict[str, int] = {}
        for attempt in attempts:
            name = f"{attempt.asset}[{attempt.partition}]" if attempt.partition else attempt.asset
            made[name] = len(account.made[attempt.id])
        events = [e.event_specific_data.materialization for e in result.get_asset_materialization_events()]
        return Run(
            {name: count for name, count in made.items() if count},
            "" if result.success else reason(result),
            {event.asset_key.to_user_string(): event.metadata for event in events},
        )

    def stats(self, asset: str) -> dict[str, Any]:
        return self.mill.dataset(asset).version.stats


@pytest.fixture(scope="module")
def mixer(milled: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mixer]:
    """A folder in which everything up to the blend has been made."""
    folder = tmp_path_factory.mktemp("mixed") / "copy"
    shutil.copytree(milled, folder)
    mixer = Mixer(folder)
    first = mixer.run()
    assert not first.told
    assert {"token_shards[books]", "token_shards[web]", "tokenizer"} <= first.made.keys()
    yield mixer


def test_other_shares_tokenize_nothing_and_order_nothing(mixer: Mixer) -> None:
    asked = {"shares": {"books": 0.7, "web": 0.3}, "token_budget": 3_000}

    run = mixer.run(mixture=asked)

    assert not run.told
    assert run.made == {"training_mixture": 1, "training_blend": 1}  # the plan, and blend.json
    stats = mixer.stats("training_blend")
    assert stats["realised_shares"] == {"books": 0.7, "web": 0.3}
    assert stats["tokens"] == 3_000
    shown = run.shown["training_blend"]
    assert {"mixture", "estimated and counted", "plot/shares of tokens", "plot/tokens per document"} <= shown.keys()
    counted = sum(stats["tokens_by_source"].values())
    usd = shown["cost/lineage_usd"].value / counted * 10**9
    assert shown["cost/usd_per_billion_tokens"].value == pytest.approx(usd)
    assert shown["cost/projected_usd"].value == shown["cost/lineage_usd"].value  # the budget is met
    assert mixer.run(mixture=asked).made == {}


def test_a_blend_is_exported_as_training_reads_it(
    mixer: Mixer, tmp_path: Path, own_environment: None, capsys: pytest.CaptureFixture
) -> None:
    assert not mixer.run().told
    arguments = ["export", "training_blend", str(tmp_path / "out"), "--profile", str(mixer.folder / "profile.yaml")]
    assert main(arguments) == 0
    assert "tokens of" in capsys.readouterr().out

    here = mixer.mill.dataset("training_blend").folder("blend", tmp_path / "here")
    mixer.mill.dataset("token_shards").folder("tokens", here)
    read, expected = BlendDataset(tmp_path / "out", "train", 10), BlendDataset(here, "train", 10)
    assert [read.sample(i).tolist() for i in range(50)] == [expected.sample(i).tolist() for i in range(50)]

    assert main(arguments) == 1
    assert "exists already; name a new folder" in capsys.readouterr().err
    assert main([*arguments, "--format", "arrow"]) == 1
    assert "--format is of token shards" in capsys.readouterr().err


@pytest.mark.slow  # the same of its parts: test_plan.py, test_stage.py
def test_what_cannot_be_had_is_planned_told_and_refused_if_that_is_asked_for(mixer: Mixer) -> None:
    asked = {"shares": {"books": 0.01, "web": 0.99}, "token_budget": 10**6}

    assert not mixer.run('key:"training_mixture"', mixture=asked).told
    assert "web can supply" in mixer.stats("training_mixture")["notes"]["web"]

    refused = mixer.run(mixture={**asked, "if_short": "refuse"})
    assert "the mixture cannot be had as it is asked for" in refused.told
    assert "training_blend" not in refused.made


def test_a_language_that_no_document_is_in_is_refused_with_those_that_there_are(mixer: Mixer) -> None:
    run = mixer.run('key:"training_mixture"', mixture={"by": "language", "shares": {"english": 1}})

    assert "mixture.shares names 'english', which is not a language of the documents; there are: en" in run.told


@pytest.mark.slow  # the same of its parts: test_blend.py, test_tokenizer.py
def test_a_further_source_is_tokenized_alone_and_languages_have_their_shares(mixer: Mixer, tmp_path: Path) -> None:
    (mixer.folder / "tales").mkdir()
    records = [{"id": f"t{number}", "text": german(number)} for number in range(12)]
    (mixer.folder / "tales" / "all.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    third = {"name": "tales", "path": "tales", "fields": {"id": "id"}}
    sources = [*mixer.content["sources"], third]

    run = mixer.run("*training_blend", sources=sources)

    assert not run.told
    assert {name for name in run.made if name.startswith("token")} == {"token_shards[tales]"}

    asked = {"by": "language", "shares": {"de": 0.25, "en": 0.75}, "token_budget": 4_000}
    run = mixer.run(sources=sources, mixture=asked)

    assert not run.told
    assert not any(name.startswith("token") for name in run.made)
    stats = mixer.stats("training_blend")
    assert stats["realised_shares"] == {"de": 0.25, "en": 0.75}
    assert stats["tokens_by_source"].keys() == {"books", "web", "tales"}
    assert mixer.mill.dataset("training_blend").table("mixture")["planned_tokens"].to_pylist() == [1_000, 3_000]

    folder = mixer.mill.dataset("training_blend").folder("blend", tmp_path / "blend")
    mixer.mill.dataset("token_shards").folder("tokens", folder)
    read = BlendDataset(folder, "train", 10)
    assert {read.group(index) for index in range(len(read))} == {"de", "en"}
    assert read.samples == {"de": 99, "en": 299}  # the last token of a group is a target only

    run = mixer.run(sources=sources, mixture={"by": "bucket"})

    assert not run.told
    assert not any(name.startswith("token") for name in run.made)
    buckets = mixer.mill.dataset("filtered_documents").table("buckets")
    kept = mixer.mill.dataset("filtered_documents").table("documents")["doc_id"]
    found = set(buckets.filter(pc.is_in(buckets["doc_id"], value_set=kept))["bucket"].to_pylist())
    assert mixer.stats("training_blend")["realised_shares"].keys() == {name or "unknown" for name in found}
