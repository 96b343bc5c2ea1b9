"""The cascade with checkpoints in Detoxify's format, opened by Detoxify: its numbers, and what the cascade keeps."""

import csv
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.engines.local import Engine
from pipelines.filters.statistics import Confusion
from pipelines.filters.toxicity import experts
from pipelines.filters.toxicity.experts import NeuralExpert, neural_experts
from pipelines.filters.toxicity.params import ToxicityParams
from pipelines.filters.toxicity.stage import score_toxicity
from pipelines.pretrained import ModelError
from pipelines.store import Store
from tests.pipelines.filters import corpus
from tests.pipelines.filters.corpus import document_table, documents, published
from tests.pipelines.filters.toxicity import checkpoint


def neural(made: checkpoint.Checkpoint, **more: Any) -> dict[str, Any]:
    return {"checkpoint": str(made.path), "huggingface_config_path": str(made.config), **more}


def scores(store: Store, engine: Engine, texts: list[str], **said: Any) -> tuple[np.ndarray, dict[str, Any]]:
    draft = score_toxicity(documents(store, texts, shard_rows=2000), ToxicityParams.model_validate(said), engine)
    found = published(store, draft, "toxicity_scores").table("toxicity")["toxicity"]
    return found.to_numpy(), draft.stats


def test_a_document_that_the_model_reads_scores_as_detoxify_says(store: Store, engine: Engine) -> None:
    from detoxify import Detoxify

    made = checkpoint.small_checkpoint()
    texts = [*checkpoint.RUDE, *checkpoint.KIND, ""]
    draft = score_toxicity(
        documents(store, texts), ToxicityParams.model_validate({"neural": [neural(made)], "band": [0, 1]}), engine
    )
    data = published(store, draft, "toxicity_scores")
    theirs = Detoxify(checkpoint=str(made.path), huggingface_config_path=str(made.config)).predict(texts)
    assert data.table("toxicity")["toxicity"].to_pylist() == pytest.approx(theirs["toxicity"], abs=1e-5)
    labels = data.table("toxicity_labels")
    assert labels["label"].to_pylist() == list(made.labels) * len(texts)
    for label in made.labels:
        rows = labels.filter(np.array(labels["label"].to_pylist()) == label)
        assert rows["max"].to_pylist() == pytest.approx(theirs[label], abs=1e-5)
    assert draft.stats["neural"]["neural:checkpoint"]["windows"] == len(texts)


@pytest.mark.slow
def test_workers_make_the_same_bytes_as_one_process(tmp_path: Path) -> None:
    said = ToxicityParams.model_validate(
        {"neural": [neural(checkpoint.small_checkpoint())], "band": [0, 1], "sentences_from": 0.0}
    )
    texts = [f"{one}. {two}" for one in checkpoint.RUDE for two in checkpoint.KIND]
    made = []
    for workers in (1, 2):
        store = Store(str(tmp_path / str(workers)))
        engine = Engine(store, workers, attempt="test", alone_seconds=0.0)
        made.append(score_toxicity(documents(store, texts, shard_rows=4), said, engine).parts)
    assert made[0] == made[1]


def test_a_checkpoint_that_is_replaced_is_another_model(tmp_path: Path) -> None:
    """Given one path: under the key of the old checkpoint the new one is not read, nor the other way."""
    import torch

    path = tmp_path / "own.ckpt"
    made = checkpoint.small_checkpoint()
    shutil.copy(made.path, path)
    asked = {**neural(made), "checkpoint": str(path)}
    texts = document_table(["you are a stupid idiot"])

    def expert() -> NeuralExpert:
        [found] = neural_experts(ToxicityParams.model_validate({"neural": [asked], "band": [0, 1]}))
        return found

    known = expert()
    before = known.read(texts)[0]
    loaded = torch.load(made.path, weights_only=False)
    loaded["state_dict"]["classifier.bias"].fill_(3)
    torch.save(loaded, path)
    assert not expert().read(texts)[0].equals(before)
    assert known.halved().read(texts)[0].equals(before), "what is open stays open"
    experts._opened.cache_clear()
    with pytest.raises(ModelError, match="changed while it was read"):
        known.read(texts)


@pytest.mark.slow
def test_the_cascade_is_as_good_as_the_model_and_reads_a_fraction(store: Store, engine: Engine, tmp_path: Path) -> None:
    """Given tweets that the model did not learn from, half of them to choose the band by, half to judge it."""
    texts, labels = corpus.tweets(12_000)
    sample = tmp_path / "sample.csv"
    with sample.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        writer.writerows(zip(texts[1::4], map(int, labels[1::4]), strict=True))
    held_out, toxic = texts[3::4], np.array(labels[3::4])
    model = neural(checkpoint.trained_checkpoint())

    alone, _ = scores(store, engine, held_out, neural=[model], band=[0, 1])
    cascade, stats = scores(store, engine, held_out, neural=[model], calibration={"path": str(sample)})

    both = ((alone > 0.5) & (cascade > 0.5)).sum() / (alone > 0.5).sum()
    assert both >= stats["band_on_sample"]["recall"]["low"]
    f1, best = Confusion.of(toxic, cascade > 0.5).f1, Confusion.of(toxic, alone > 0.5).f1
    assert f1 is not None and best is not None and f1.value >= 0.99 * best.value
    read = sum(stats["read_by"].values()) / len(held_out)
    expected = stats["band_on_sample"]["in_band"]
    assert expected["low"] - 0.02 < read < expected["high"] + 0.02 < 0.5
