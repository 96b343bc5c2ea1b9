"""Which samples a rank takes: none twice, none left out, whatever the number of ranks before and after."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.tokens.rank_sampler import RankSampler


@given(st.integers(0, 200), st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), max_size=4), st.integers(1, 9))
def test_ranks_that_come_and_go_consume_every_sample_once_and_in_order(samples, stretches, last):
    taken, consumed = [], 0
    for ranks, rounds in [*stretches, (last, samples)]:
        shares = [list(RankSampler(samples, consumed, rank, ranks))[:rounds] for rank in range(ranks)]
        some = sorted(itertools.chain(*shares))
        assert some == list(range(consumed, consumed + len(some)))
        taken += some
        consumed += len(some)
    assert taken == list(range(samples))


def test_it_says_how_many_are_left():
    assert [len(RankSampler(10, 3, rank, 4)) for rank in range(4)] == [2, 2, 2, 1]
    assert len(RankSampler(10**12, 10**9, 1, 3)) == 333 * 10**9  # found without counting


@pytest.mark.parametrize(("given", "told"), [((9, 0, 2, 2), "rank 2 of 2"), ((9, 10), "10 samples consumed of 9")])
def test_what_cannot_be_is_told(given, told):
    with pytest.raises(ValueError, match=told):
        RankSampler(*given)
