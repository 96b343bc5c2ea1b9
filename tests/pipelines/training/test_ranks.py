"""Every sequence of a batch belongs to exactly one rank."""

from hypothesis import given
from hypothesis import strategies as st

from pipelines.training.ranks import Ranks


@given(items=st.integers(0, 50), world_size=st.integers(1, 9))
def test_shares_are_even_and_make_the_whole_batch(items, world_size):
    shares = [Ranks(rank, world_size).share(range(items)) for rank in range(world_size)]
    assert [item for share in shares for item in share] == list(range(items))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
