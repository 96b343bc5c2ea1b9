"""The training loop: what it minimises, that it resumes bit for bit, and when it refuses to go on."""

import json
import math
import shutil

import numpy as np
import pytest

from pipelines.tokens.training_dataset import BlendDataset
from pipelines.training.owner import StopRequest
from pipelines.training.pretrain import Pretraining, pretrain
from pipelines.training.ranks import Ranks
from pipelines.training.work import TrainingError
from tests.pipelines.training.corpus import TINY
from tests.pipelines.training.runs import losses, run, tiny, weights


@pytest.fixture(scope="module")
def uninterrupted(corpus, tmp_path_factory):
    """A work folder trained in one go, and its reports."""
    import torch

    torch.set_num_threads(1)
    work = corpus.work(tmp_path_factory.mktemp("uninterrupted"))
    finished, events = run(work)
    assert finished
    return work, events


# -- what it does -----------------------------------------------------------------------------------------------


def test_it_learns(uninterrupted):
    _, events = uninterrupted
    curve = losses(events)
    assert curve[1] == pytest.approx(math.log(300), rel=0.02)  # random weights know nothing
    assert curve[12] < 0.6 * curve[1]
    assert list(losses(events, "validation")) == [4, 8, 12]


def test_the_model_folder_is_what_transformers_loads(uninterrupted):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    work, events = uninterrupted
    model = AutoModelForCausalLM.from_pretrained(work.model)
    tokenizer = AutoTokenizer.from_pretrained(work.model)
    assert len(tokenizer) == model.config.vocab_size == 300
    assert model.config.eos_token_id == tokenizer.eos_token_id != tokenizer.pad_token_id == model.config.pad_token_id

    # and it has the validation loss that was reported, by transformers' own loss
    import torch

    data = BlendDataset(work.data, "validation", 32, TINY.seed)
    ids = torch.from_numpy(np.stack([data.sample(index) for index in range(6)]))
    with torch.no_grad():
        loss = model(input_ids=ids, labels=ids).loss.item()
    assert loss == pytest.approx(losses(events, "validation")[12], rel=1e-5)


def test_the_summary_says_what_was_done(uninterrupted):
    work, events = uninterrupted
    summary = work.read_summary()
    assert summary == events[-1]["summary"]
    assert (summary["steps"], summary["tokens"], summary["sequences_trained"]) == (12, 12 * 4 * 32, 48)
    assert summary["flops"] == (6 * summary["parameters"] + 12 * 2 * 32 * 32) * summary["tokens"]
    assert summary["model_flops_utilisation"] == "N/A"
    assert [step for step, *_ in summary["curve"]] == list(range(1, 13))
    assert summary["published_step"] == 12
    assert 0 < summary["cut_tokens"]["tales"] <= 32
    assert summary["padding_share"] == 0


def test_utilisation_is_told_where_the_peak_is_known(work):
    run(work, tiny(device_peak_teraflops=1.0, max_steps=2))
    summary = work.read_summary()
    assert summary["model_flops_utilisation"] == pytest.approx(summary["flops"] / summary["train_seconds"] / 1e12)


@pytest.mark.parametrize("micro_batch_size", [1, 3])
def test_the_micro_batch_decides_memory_only(work, uninterrupted, micro_batch_size):
    _, events = run(work, tiny(micro_batch_size=micro_batch_size, max_steps=12))
    assert losses(events) == pytest.approx(losses(uninterrupted[1]), rel=1e-4)


def test_a_short_last_batch_weighs_each_token_alike(work):
    # Given a batch size that leaves a rest: the last batch holds fewer sequences than the others
    sequences = len(BlendDataset(work.data, "train", 32, TINY.seed))
    config = tiny(batch_size=sequences - 1, micro_batch_size=64, max_steps=0, learning_rate=1e-9)
    _, events = run(work, config)
    assert [event["tokens"] for event in events if event["event"] == "step"] == [(sequences - 1) * 32, sequences * 32]
    # then its loss is a mean over its own tokens, not over those of a full batch
    assert losses(events)[2] == pytest.approx(math.log(300), rel=0.05)


def test_every_sequence_of_the_blend_is_trained_on_once(work, monkeypatch):
    seen = []
    read = BlendDataset.read

    def noted(self, index):
        if self.split == "train":
            seen.append(index)
        return read(self, index)

    monkeypatch.setattr(BlendDataset, "read", noted)
    run(work, tiny(max_steps=0, batch_size=64, micro_batch_size=64))
    assert seen == list(range(len(BlendDataset(work.data, "train", 32, TINY.seed))))


def test_the_curve_does_not_grow_with_the_steps(work):
    run(work, tiny(max_steps=250, batch_size=1, sequence_length=8, validation_sequences=0, checkpoint_every_steps=1000))
    curve = work.read_summary()["curve"]
    assert len(curve) == 125
    assert curve[-1][0] == 250


# -- resuming ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "stop_when",
    [
        lambda event: event["event"] == "started",
        lambda event: event["event"] == "step" and event["step"] == 1,
        lambda event: event["event"] == "step" and event["step"] == 5,
        lambda event: event["event"] == "validation" and event["step"] == 8,
        lambda event: event["event"] == "step" and event["step"] == 12,
    ],
    ids=["before the first step", "in the warm-up", "between checkpoints", "after an evaluation", "at the last step"],
)
def test_stopped_and_resumed_is_bit_for_bit_uninterrupted(work, uninterrupted, stop_when):
    finished, before = run(work, stop_when=stop_when)
    assert not finished
    assert before[-1]["event"] == "stopped"
    assert not work.model.exists()
    finished, after = run(work)
    assert finished
    assert after[0]["step"] == before[-1]["step"]
    assert losses(before) | losses(after) == losses(uninterrupted[1])
    assert losses(before, "validation") | losses(after, "validation") == losses(uninterrupted[1], "validation")
    assert weights(work) == weights(uninterrupted[0])
    assert work.read_summary()["curve"] == uninterrupted[0].read_summary()["curve"]


def test_a_stop_in_the_middle_of_an_evaluation_saves_and_the_evaluation_is_made_up_for(
    work, uninterrupted, monkeypatch
):
    stop, events = StopRequest(), []
    read = BlendDataset.read

    def asked(self, index):
        if self.split == "validation":
            stop.ask()  # SIGTERM comes while the first of two batches is evaluated
        return read(self, index)

    monkeypatch.setattr(BlendDataset, "read", asked)
    assert not pretrain(work, events.append, stop)
    monkeypatch.undo()
    assert [event["event"] for event in events[-2:]] == ["checkpoint", "stopped"]
    assert events[-1]["step"] == 4
    assert losses(events, "validation") == {}
    finished, after = run(work)
    assert finished
    assert losses(after, "validation") == losses(uninterrupted[1], "validation")
    assert weights(work) == weights(uninterrupted[0])


def test_a_damaged_checkpoint_costs_its_steps_only(work, uninterrupted):
    run(work, stop_when=lambda event: event["event"] == "step" and event["step"] == 8)
    (work.checkpoints / "step-00000008" / "tensors.pt").write_bytes(b"half writ")
    finished, events = run(work)
    assert events[0] == {
        "event": "damaged_checkpoint",
        "checkpoint": "step-00000008",
        "reason": "tensors.pt does not have the hash of the manifest",
    }
    assert finished
    assert events[1]["step"] == 6
    assert weights(work) == weights(uninterrupted[0])


def test_a_finished_training_is_not_done_again(work):
    run(work)
    _, events = run(work)
    assert [event["event"] for event in events] == ["started", "finished"]


def test_other_data_does_not_resume(work):
    run(work, stop_when=lambda event: event["event"] == "step")
    blend = work.data / "blend.json"
    content = json.loads(blend.read_text())
    blend.unlink()  # a hard link into the store
    blend.write_text(json.dumps({**content, "seed": content["seed"] + 1}))
    with pytest.raises(TrainingError, match="was written with data = "):
        run(work)


def test_a_checkpoint_serves_any_number_of_ranks(work):
    # The state is the same on all ranks, so nothing in a checkpoint depends on how many there were
    run(work, stop_when=lambda event: event["event"] == "step" and event["step"] == 3)
    manifest = json.loads((work.checkpoints / "step-00000003" / "manifest.json").read_text())
    assert not {"ranks", "world_size", "micro_batch_size"} & manifest["identity"].keys()


# -- which weights are published --------------------------------------------------------------------------------


def test_the_best_weights_are_published_where_asked(work):
    # Given a learning rate that rises until it ruins the model
    config = tiny(
        publish="best", learning_rate=1.0, final_learning_rate_share=1, warmup_share=1, evaluate_every_steps=1,
        checkpoint_every_steps=100, keep_checkpoints=1,
    )  # fmt: skip
    _, events = run(work, config)
    found = losses(events, "validation")
    best = min(found, key=lambda step: found[step])
    summary = work.read_summary()
    assert best < 12
    assert (summary["published_step"], summary["validation_loss"]) == (best, found[best])

    from transformers import AutoModelForCausalLM

    learned = AutoModelForCausalLM.from_pretrained(work.model).state_dict()
    import torch

    saved = torch.load(work.checkpoints / f"step-{best:08d}" / "tensors.pt", weights_only=True)["model"]
    assert all(torch.equal(learned[name], saved[name]) for name in saved)


# -- refusals ---------------------------------------------------------------------------------------------------


def test_a_loss_that_is_not_finite_stops_before_it_spoils_the_weights(work):
    import torch

    training = Pretraining(work, TINY, Ranks(), lambda event: None)
    weight = training.learner.parameters[0]
    with torch.no_grad():
        weight[0, 0] = math.inf
        others = training.learner.parameters[1].clone()
    with pytest.raises(TrainingError, match=r"step 1 of 12: the loss is nan.*lower training.learning_rate \(0.01\)"):
        training.run(StopRequest())
    assert torch.equal(training.learner.parameters[1], others)
    assert not work.checkpoints.exists()


def test_token_ids_of_another_tokenizer_are_refused(work, monkeypatch):
    monkeypatch.setattr("pipelines.training.pretrain.read_tokenizer", lambda folder: (260, {"eos_token_id": 0}))
    with pytest.raises(TrainingError, match="the tokenizer ends at 259: the token shards were made with another"):
        run(work)


def test_a_missing_job_is_told(work):
    work.job.unlink()
    with pytest.raises(TrainingError, match="lay the work folder out before launching"):
        pretrain(work, lambda event: None, StopRequest())


def test_a_blend_shorter_than_a_sequence_is_told(work):
    with pytest.raises(TrainingError, match="holds no training sequence of 100001 tokens"):
        run(work, tiny(sequence_length=100_000))


def test_a_model_folder_that_is_not_whole_is_told(work, uninterrupted):
    shutil.copytree(uninterrupted[0].model, work.model)
    (work.model / "model.safetensors").unlink()
    with pytest.raises(TrainingError, match="without leaving weights"):
        work.read_summary()
