"""The order of groups: within one sample of the wanted share at every point."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.tokens import schedule
from pipelines.tokens.schedule import BLOCK, GroupSchedule


def order(samples):
    found = GroupSchedule(samples)
    return [found.locate(index) for index in range(len(found))]


def test_two_groups_in_a_ratio_of_two_to_one():
    assert [group for group, _ in order([4, 2])] == [0, 0, 1, 0, 0, 1]


@settings(deadline=None)
@given(st.lists(st.integers(0, 60), min_size=1, max_size=12), st.integers(1, 40), st.integers(1, 80))
def test_every_prefix_keeps_the_shares_to_within_one_sample(samples, block, longest):
    """However long blocks and stretches are. Rare groups, whose samples are further apart than a stretch, to three."""
    total = sum(samples)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schedule, "BLOCK", block)
        patch.setattr(schedule, "LONGEST_STRETCH", longest)
        found = order(samples)
        rarest = {
            group
            for group, count in enumerate(samples)
            if count and total // count > max(longest, len(samples) + 2) - 2
        }
    given_so_far = np.zeros(len(samples), int)
    for index, (group, ordinal) in enumerate(found):
        assert ordinal == given_so_far[group]
        given_so_far[group] += 1
        off = np.abs(given_so_far * total - (index + 1) * np.array(samples))
        assert all(off[group] < total * (3 if group in rarest else 1) for group in range(len(samples)))
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


def test_a_place_far_on_is_found_without_what_lies_before_it():
    samples = [6 * 10**11, 2 * 10**11 + 1, 2 * 10**11 - 1, 10**9 + 7, 3, 1]  # products do not fit into 64 bits
    found = GroupSchedule(samples)
    total = sum(samples)
    first = (total - 20_000) // (2 * BLOCK) * (2 * BLOCK)
    given_so_far = found.given_before(first)
    for index in range(first, total):
        group, ordinal = found.locate(index)
        if group in (4, 5):  # the rare ones give their last sample long before
            continue
        assert ordinal == given_so_far[group]
        given_so_far[group] += 1
        assert abs(given_so_far[group] * total - (index + 1) * samples[group]) < total
    assert [given_so_far[group] for group in range(4)] == samples[:4]
    assert given_so_far[schedule.RARE] == 4


def test_samples_of_rare_groups_stand_in_the_stretches_that_they_fall_into_and_hold_nobody_up():
    samples = [600_000_000, 200_000_000, 3, 1]
    found = GroupSchedule(samples)
    middles = [(2 * number + 1) * found.total // 8 for number in range(4)]  # of what all rare ones give
    rare = []
    for middle in middles:
        stretch = middle // BLOCK * BLOCK
        rare += [place for place in map(found.locate, range(stretch, stretch + BLOCK)) if place[0] > 1]
    assert rare == [(2, 0), (2, 1), (2, 2), (3, 0)]


def test_counts_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="fewer than 0 samples"):
        GroupSchedule([-1, 2])
