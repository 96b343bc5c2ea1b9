"""The model's size and cost against counts by hand, and the tokenizer that it must go with."""

import json

import pytest

from pipelines.training.model import build_model, flops_per_token, parameter_counts, read_tokenizer
from pipelines.training.work import TrainingError
from tests.pipelines.training.corpus import TINY

SPECIAL = {"bos_token_id": None, "eos_token_id": 0, "pad_token_id": 1}


@pytest.mark.parametrize("tied", [True, False])
def test_parameters_are_those_counted_by_hand(tied):
    model = build_model(TINY.model_copy(update={"tied_embeddings": tied}), 300, SPECIAL)
    attention = 32 * 32 + 2 * 32 * 16 + 32 * 32  # queries; keys and values of half the heads; output
    blocks = 2 * (attention + 3 * 32 * 64 + 2 * 32)  # SwiGLU, two norms
    multiplying = 300 * 32 + blocks + 32  # output layer, last norm
    assert parameter_counts(model) == (multiplying + (0 if tied else 300 * 32), multiplying)


def test_flops_follow_the_stated_convention():
    # Given a model of 10 million parameters, 4 layers, width 256, sequences of 512
    assert flops_per_token(10_000_000, 4, 256, 512) == 60_000_000 + 12 * 4 * 256 * 512


def test_the_seed_decides_the_weights():
    import torch

    def weights(seed):
        model = build_model(TINY.model_copy(update={"seed": seed}), 300, SPECIAL)
        return torch.cat([parameter.flatten() for parameter in model.parameters()])

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))


@pytest.mark.parametrize("change", [{"pad_token": "<|endoftext|>"}, {"pad_token": None}, {"eos_token": None}])
def test_a_tokenizer_that_cannot_tell_padding_from_the_end_is_refused(work, change):
    path = work.tokenizer / "tokenizer_config.json"
    config = {**json.loads(path.read_text()), **change}
    path.unlink()  # a hard link into the store
    path.write_text(json.dumps({name: value for name, value in config.items() if value is not None}))
    (work.tokenizer / "special_tokens_map.json").unlink(missing_ok=True)
    with pytest.raises(TrainingError, match="needs an end-of-text token and another one for padding"):
        read_tokenizer(work.tokenizer)
