"""The order of groups: within one sample of the wanted share at every point."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.tokens.schedule import BLOCK, LONGEST_ROUND, GroupSchedule


def order(samples):
    schedule = GroupSchedule(samples)
    return [schedule.locate(index) for index in range(len(schedule))]


def test_two_groups_in_a_ratio_of_two_to_one():
    assert [group for group, _ in order([4, 2])] == [0, 0, 1, 0, 0, 1]


@settings(deadline=None)
@given(st.lists(st.integers(0, 60), min_size=1, max_size=12))
def test_every_prefix_keeps_the_shares_to_within_one_sample(samples):
    total = sum(samples)
    given_so_far = np.zeros(len(samples), int)
    for index, (group, ordinal) in enumerate(order(samples)):
        assert ordinal == given_so_far[group]
        given_so_far[group] += 1
        assert all(
            abs(count * total - (index + 1) * wanted) < total
            for count, wanted in zip(given_so_far.tolist(), samples, strict=True)
        )
    assert given_so_far.tolist() == samples


def test_any_index_can_be_asked_for_in_any_order():
    samples = [3 * BLOCK, 1, 977]
    walked = order(samples)
    schedule = GroupSchedule(samples)
    for index in [len(schedule) - 1, 0, 2 * BLOCK, BLOCK - 1, BLOCK, len(schedule) // 2]:
        assert schedule.locate(index) == walked[index]


def test_outside_is_an_index_error_and_no_samples_are_fine():
    assert len(GroupSchedule([])) == len(GroupSchedule([0, 0])) == 0
    for index in (-1, 3):
        with pytest.raises(IndexError, match="of 3"):
            GroupSchedule([3]).locate(index)


def test_more_than_a_round_are_equal_rounds_found_as_soon_as_the_first():
    schedule = GroupSchedule([600_000_000, 200_000_001, 199_999_999, 5])
    assert schedule.rounds == -(-1_000_000_005 // LONGEST_ROUND)
    assert len(schedule) == sum(schedule.samples)
    wanted = (600_000_000, 200_000_001, 199_999_999, 5)
    assert all(0 <= a - b < schedule.rounds for a, b in zip(wanted, schedule.samples, strict=True))
    assert len(schedule._states) * BLOCK < LONGEST_ROUND + BLOCK
    size = len(schedule) // schedule.rounds
    for index in (0, 12_345, size - 1):
        (group, ordinal), (later, further) = schedule.locate(index), schedule.locate(index + 200 * size)
        assert group == later
        assert further - ordinal == 200 * schedule.samples[group] // schedule.rounds
    # and where the last sample is given, all are
    group, ordinal = schedule.locate(len(schedule) - 1)
    assert ordinal == schedule.samples[group] - 1


def test_counts_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="fewer than 0 samples"):
        GroupSchedule([-1, 2])
