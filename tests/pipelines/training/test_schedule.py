"""The learning rate of every step, and how many steps there are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.training.params import PretrainParams
from pipelines.training.schedule import learning_rate, step_count
from pipelines.training.work import TrainingError


def rates(steps, **values):
    config = PretrainParams(**values)
    return [learning_rate(step, steps, config) for step in range(steps)]


def test_it_rises_evenly_then_falls_along_half_a_cosine():
    given = rates(9, learning_rate=0.8, warmup_share=4 / 9, final_learning_rate_share=0.5)
    falling = [0.8, 0.8 * (0.75 + 0.25 * 2**-0.5), 0.6, 0.8 * (0.75 - 0.25 * 2**-0.5), 0.4]
    assert given == pytest.approx([0.2, 0.4, 0.6, 0.8, *falling])


@given(
    steps=st.integers(1, 300),
    warmup=st.floats(0, 1),
    final=st.floats(0, 1),
    highest=st.floats(1e-6, 1, exclude_min=True),
)
def test_it_never_leaves_its_bounds_and_ends_where_asked(steps, warmup, final, highest):
    given = rates(steps, learning_rate=highest, warmup_share=warmup, final_learning_rate_share=final)
    assert all(0 <= rate <= highest * (1 + 1e-9) for rate in given)
    if warmup == 0 and steps > 1:
        assert given[0] == pytest.approx(highest)
        assert given[-1] == pytest.approx(highest * final)


@pytest.mark.parametrize(
    ("sequences", "max_steps", "steps"),
    [(8, 0, 2), (9, 0, 3), (1, 0, 1), (9, 2, 2), (9, 100, 3)],
    ids=["whole batches", "a short last batch", "less than a batch", "fewer asked for", "more asked for than there is"],
)
def test_steps_are_one_pass_at_most(sequences, max_steps, steps):
    assert step_count(sequences, PretrainParams(batch_size=4, max_steps=max_steps)) == steps


def test_a_blend_without_a_sequence_is_refused_in_words():
    with pytest.raises(TrainingError, match=r"no training sequence of 129 tokens; shorten training\.sequence_length"):
        step_count(0, PretrainParams())
