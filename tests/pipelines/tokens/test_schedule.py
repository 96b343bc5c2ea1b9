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
@given(st.lists(st.integers(0, 60), min_size=1, max_size=12), st.integers(1, 40))
def test_every_prefix_keeps_the_shares_to_within_one_sample_however_long_the_blocks_are(samples, block):
    total = sum(samples)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schedule, "BLOCK", block)
        found = order(samples)
    given_so_far = np.zeros(len(samples), int)
    for index, (group, ordinal) in enumerate(found):
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


def test_a_place_far_on_is_found_without_what_lies_before_it():
    samples = [6 * 10**11, 2 * 10**11 + 1, 2 * 10**11 - 1, 10**9 + 7]  # products with places do not fit into 64 bits
    found = GroupSchedule(samples)
    total = sum(samples)
    first = (total - 20_000) // (2 * BLOCK) * (2 * BLOCK)
    given_so_far = found.given_before(first)
    for index in range(first, total):
        group, ordinal = found.locate(index)
        assert ordinal == given_so_far[group]
        given_so_far[group] += 1
        assert all(
            abs(count * total - (index + 1) * wanted) < total
            for count, wanted in zip(given_so_far, samples, strict=True)
        )
    assert given_so_far == samples


def test_states_within_a_long_stretch_are_few_and_the_order_is_that_of_many(monkeypatch):
    samples = [20_000, 3, 10_000]
    many = order(samples)
    monkeypatch.setattr(schedule, "MOST_STATES", 4)
    found = GroupSchedule(samples)
    assert [found.locate(index) for index in range(len(found))] == many
    assert len(found._stretch._states) == 4
    for number in range(3):
        (place,) = [place for place, (group, ordinal) in enumerate(many) if (group, ordinal) == (1, number)]
        assert number * found.total // 3 <= place < (number + 1) * found.total // 3 + 1


def test_counts_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="fewer than 0 samples"):
        GroupSchedule([-1, 2])
