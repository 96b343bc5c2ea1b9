"""The order of groups: within one sample of the wanted share at every point."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.tokens import schedule
from pipelines.tokens.schedule import BLOCK, LONGEST_ROUND, GroupSchedule


def order(samples):
    found = GroupSchedule(samples)
    return [found.locate(index) for index in range(len(found))]


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
    found = GroupSchedule(samples)
    for index in [len(found) - 1, 0, 2 * BLOCK, BLOCK - 1, BLOCK, len(found) // 2]:
        assert found.locate(index) == walked[index]


def test_outside_is_an_index_error_and_no_samples_are_fine():
    assert len(GroupSchedule([])) == len(GroupSchedule([0, 0])) == 0
    for index in (-1, 3):
        with pytest.raises(IndexError, match="of 3"):
            GroupSchedule([3]).locate(index)


@settings(deadline=None)
@given(st.lists(st.integers(0, 300), min_size=1, max_size=8), st.integers(50, 1000))
def test_several_rounds_lose_no_sample_and_keep_the_shares_to_within_three(samples, longest):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schedule, "LONGEST_ROUND", longest)
        found = order(samples)
    given_so_far = np.zeros(len(samples), int)
    for index, (group, _) in enumerate(found):
        given_so_far[group] += 1
        assert (abs(given_so_far * len(found) - (index + 1) * np.array(samples)) < 3 * len(found)).all()
    assert sorted(found) == [(group, ordinal) for group, count in enumerate(samples) for ordinal in range(count)]


def test_of_ten_to_the_nine_samples_any_is_found_and_the_smallest_group_has_its_own():
    samples = [600_000_000, 200_000_001, 199_999_999, 5]
    found = GroupSchedule(samples)
    assert found.samples == samples
    assert len(found._states) * BLOCK < LONGEST_ROUND + BLOCK
    outside = sum(count % found.rounds for count in samples)  # of all rounds, evenly spread
    places = [-(-len(found) * (number + 1) // outside) - 1 for number in range(outside)]
    assert [found.locate(place) for place in places if found.locate(place)[0] == 3] == [(3, k) for k in range(5)]


def test_counts_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="fewer than 0 samples"):
        GroupSchedule([-1, 2])
