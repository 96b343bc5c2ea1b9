"""The order of sources: within one sample of the wanted share at every point."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.tokens.schedule import BLOCK, SourceSchedule


def order(samples):
    schedule = SourceSchedule(samples)
    return [schedule.locate(index) for index in range(len(schedule))]


def test_two_sources_in_a_ratio_of_two_to_one():
    assert [source for source, _ in order([4, 2])] == [0, 0, 1, 0, 0, 1]


@settings(deadline=None)
@given(st.lists(st.integers(0, 60), min_size=1, max_size=12))
def test_every_prefix_keeps_the_shares_to_within_one_sample(samples):
    total = sum(samples)
    given_so_far = np.zeros(len(samples), int)
    for index, (source, ordinal) in enumerate(order(samples)):
        assert ordinal == given_so_far[source]
        given_so_far[source] += 1
        assert all(
            abs(count * total - (index + 1) * wanted) < total
            for count, wanted in zip(given_so_far.tolist(), samples, strict=True)
        )
    assert given_so_far.tolist() == samples


def test_any_index_can_be_asked_for_in_any_order():
    samples = [3 * BLOCK, 1, 977]
    walked = order(samples)
    schedule = SourceSchedule(samples)
    for index in [len(schedule) - 1, 0, 2 * BLOCK, BLOCK - 1, BLOCK, len(schedule) // 2]:
        assert schedule.locate(index) == walked[index]


def test_outside_is_an_index_error_and_no_samples_are_fine():
    assert len(SourceSchedule([])) == len(SourceSchedule([0, 0])) == 0
    for index in (-1, 3):
        with pytest.raises(IndexError, match="of 3"):
            SourceSchedule([3]).locate(index)


@pytest.mark.parametrize("samples", [[-1, 2], [4 * 10**9]])
def test_counts_that_cannot_be_are_refused(samples):
    with pytest.raises(ValueError, match="samples"):
        SourceSchedule(samples)
