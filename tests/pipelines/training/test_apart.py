"""Training on documents that do not see one another, and on packed ones."""

import itertools

import numpy as np
import pytest

from pipelines.tokens.training_dataset import IGNORED, BlendDataset
from pipelines.training.pretrain import Pretraining
from pipelines.training.ranks import Ranks
from pipelines.training.work import TrainingError
from tests.pipelines.training.corpus import TINY, make_corpus
from tests.pipelines.training.runs import losses, run, tiny, weights


def test_apart_a_token_depends_on_nothing_of_the_document_before(work):
    import torch

    config = tiny(attention="document")
    data = BlendDataset(work.data, "train", 32, TINY.seed, "document")
    index = next(i for i in range(len(data)) if len(data.read(i).starts) > 1 and data.read(i).starts[1] < 25)
    start = int(data.read(index).starts[1])
    batch = {name: torch.from_numpy(ids)[None] for name, ids in data[index].items()}
    changed = {**batch, "input_ids": batch["input_ids"].clone()}
    changed["input_ids"][0, :start] = (changed["input_ids"][0, :start] + 1) % 300
    logits = {}
    for attention in ("document", "sample"):
        learner = Pretraining(work, config.model_copy(update={"attention": attention}), Ranks(), print).learner
        seen = []
        learner.model.register_forward_hook(lambda _m, _i, out, seen=seen: seen.append(out.logits[0, start:].detach()))
        learner.loss_sum(batch)
        learner.loss_sum(changed)
        logits[attention] = seen
    assert torch.equal(*logits["document"])
    assert not torch.allclose(*logits["sample"])


def test_apart_the_loss_is_that_of_each_document_alone(work):
    import torch

    training = Pretraining(work, tiny(attention="document"), Ranks(), print)
    data = training.train_data
    index = next(i for i in range(len(data)) if len(data.read(i).starts) > 1)
    sample, learner = data.read(index), training.learner
    whole = learner.loss_sum({name: torch.from_numpy(ids)[None] for name, ids in data[index].items()}).item()
    edges = [*sample.starts.tolist(), 33]
    alone = 0.0
    for first, after in itertools.pairwise(edges):
        ids = torch.from_numpy(sample.ids[first:after])[None]
        if ids.shape[1] > 1:  # by transformers' own loss, a mean
            alone += learner.model(input_ids=ids, labels=ids).loss.item() * (ids.shape[1] - 1)
    assert whole == pytest.approx(alone, rel=1e-5)


def first_loss(work, config):
    """Mean loss, over the labels that count, of the first batch of a new model."""
    import torch

    training = Pretraining(work, config, Ranks(), print)
    items = [training.train_data[index] for index in range(config.batch_size)]
    batch = {name: torch.from_numpy(np.stack([item[name] for item in items])) for name in items[0]}
    counts = int((batch["labels"] != IGNORED).sum())
    assert counts < batch["labels"].numel()
    return training.learner.loss_sum(batch).item() / counts


def test_apart_it_trains_and_resumes_bit_for_bit(work, corpus, tmp_path):
    config = tiny(attention="document", max_steps=4)
    other = corpus.work(tmp_path / "other")
    first = first_loss(other, config)
    _, events = run(other, config)
    assert losses(events)[1] == pytest.approx(first, rel=1e-5)
    run(work, config, stop_when=lambda event: event["event"] == "step" and event["step"] == 2)
    run(work, config)
    assert weights(work) == weights(other)


def test_a_packed_blend_trains_on_real_tokens_only(tmp_path_factory):
    corpus = make_corpus(tmp_path_factory.mktemp("packed"), 60, packing="best_fit", sequence_length=32)
    work = corpus.work(tmp_path_factory.mktemp("packed") / "work")
    data = BlendDataset(work.data, "train", 32, TINY.seed)
    assert any((data[index]["labels"] == IGNORED).any() for index in range(len(data)))
    config = tiny(batch_size=len(data), micro_batch_size=16, max_steps=2)
    first = first_loss(work, config)
    _, events = run(work, config)
    assert losses(events)[1] == pytest.approx(first, rel=1e-5)
    # and its summary tells what of it is padding
    padding = sum(33 - data.read(index).filled for index in range(len(data)))
    assert work.read_summary()["padding_share"] == pytest.approx(padding / len(data) / 33)
    with pytest.raises(TrainingError, match=r"packed for sequences of 32 tokens .* read for 16"):
        run(work, tiny(sequence_length=16))


def test_ranks_count_the_labels_of_their_share_and_validation_is_counted_once(work, monkeypatch):
    config = tiny(attention="document")
    alone = Pretraining(work, config, Ranks(), print)
    asked, predictions = [], BlendDataset.predictions

    def counted(self, samples):
        asked.append((self.split, *samples))
        return predictions(self, samples)

    monkeypatch.setattr(BlendDataset, "predictions", counted)
    monkeypatch.setattr(Ranks, "sum", lambda self, tensor: tensor)  # what a rank hands over to be summed
    batch = range(8, 12)
    shares = [Pretraining(work, config, Ranks(rank, 2), print)._predictions(alone.train_data, batch) for rank in (0, 1)]
    assert asked == [("train", 8, 9), ("train", 10, 11)]
    assert sum(shares) == sum(int((alone.train_data[index]["labels"] != IGNORED).sum()) for index in batch) < 4 * 32
    asked.clear()
    run(work, config)
    assert [split for split, *_ in asked].count("validation") == 1
    assert asked.count(("validation", *range(6))) == 1


def test_where_every_label_counts_no_sample_is_looked_at_for_it(work, monkeypatch):
    training = Pretraining(work, tiny(), Ranks(1, 3), print)
    monkeypatch.setattr(BlendDataset, "read", None)
    monkeypatch.setattr(Ranks, "sum", None)
    assert training._predictions(training.train_data, range(4)) == 4 * 32
