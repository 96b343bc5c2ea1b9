"""Training parameters: sizes that fit each other, and what of them is part of the model's key."""

import pytest
from pydantic import ValidationError

from pipelines.training.params import PretrainParams, SampleParams


@pytest.mark.parametrize(
    ("sizes", "told"),
    [
        ({"hidden_size": 100, "heads": 6}, "hidden_size 100 is not a multiple of heads 6"),
        ({"hidden_size": 96, "heads": 6, "kv_heads": 4}, "heads 6 is not a multiple of kv_heads 4"),
        ({"hidden_size": 18, "heads": 6, "kv_heads": 2}, "rotary positions need an even head size"),
        ({"publish": "best", "validation_sequences": 0}, "set validation_sequences above 0"),
        ({"learning_rate": 0.0}, "greater than 0"),
        ({"learning_rate": float("nan")}, "finite"),
    ],
)
def test_parameters_that_cannot_train_are_refused_in_words(sizes, told):
    with pytest.raises(ValidationError, match=told):
        PretrainParams(**sizes)


@pytest.mark.parametrize(
    "change",
    [
        {"micro_batch_size": 1},
        {"checkpoint_every_steps": 7},
        {"keep_checkpoints": 9},
        {"report_every_steps": 9},
        {"device_peak_teraflops": 100.0},
        {"samples": SampleParams(prompts=["Hello"])},
    ],
)
def test_what_only_decides_memory_disk_and_reports_is_not_part_of_the_model(change):
    assert PretrainParams(**change).result_params() == PretrainParams().result_params()


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 9},
        {"learning_rate": 1e-4},
        {"batch_size": 3},
        {"max_steps": 5},
        {"publish": "best"},
        {"rope_theta": 5e5},
    ],
)
def test_what_decides_the_weights_is(change):
    assert PretrainParams(**change).result_params() != PretrainParams().result_params()
