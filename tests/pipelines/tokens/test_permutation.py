"""A shuffle worked out on the spot: one number for each place, pinned, and even."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.tokens.permutation import key_of, permuted


def order(count, key):
    return [int(permuted(place, count, key)) for place in range(count)]


@settings(deadline=None)
@given(st.integers(1, 3000), st.integers(0, 2**64 - 1))
def test_every_number_stands_at_one_place(count, key):
    assert sorted(order(count, np.uint64(key))) == list(range(count))


@settings(deadline=None)
@given(st.integers(1, 2**62), st.integers(0, 2**64 - 1), st.data())
def test_two_places_of_any_count_never_meet(count, key, data):
    one, other = (data.draw(st.integers(0, count - 1)) for _ in range(2))
    found = [int(permuted(place, count, np.uint64(key))) for place in (one, other)]
    assert all(0 <= number < count for number in found)
    assert (found[0] == found[1]) == (one == other)


def test_an_order_is_pinned():
    # Any machine and any later version must give the same: a training resumes on it
    assert order(10, key_of(0, "web", 0)) == [6, 9, 5, 2, 3, 0, 1, 8, 7, 4]
    assert order(10, key_of(0, "web", 1)) != order(10, key_of(0, "web", 0)) != order(10, key_of(1, "web", 0))
    assert int(permuted(10**12, 3 * 10**12, key_of("x"))) == PINNED


PINNED = 2_083_664_301_826


def test_all_orders_of_a_few_come_up_alike():
    counts = Counter(tuple(order(4, key_of("few", number))) for number in range(24 * 200))
    assert len(counts) == 24
    chi_squared = sum((count - 200) ** 2 / 200 for count in counts.values())
    assert chi_squared < 49.7  # 99.9 % of fair draws, 23 degrees of freedom


@pytest.mark.parametrize("count", [1000, 4097])
def test_neighbours_go_anywhere(count):
    steps = np.diff(order(count, key_of("apart")))
    assert abs(np.mean(np.abs(steps)) / (count / 3) - 1) < 0.1  # as of two independent draws
    assert len(set(steps.tolist())) > count / 3
