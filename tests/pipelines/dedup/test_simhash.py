"""Fingerprints and the tables in which near ones meet."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.dedup.simhash import fingerprints, hamming, table_masks

hashes = st.integers(0, 2**64 - 1)


def slow_fingerprint(shingles: list[int]) -> int:
    """Charikar's sum over features, bit by bit."""
    sums = [sum(1 if shingle >> bit & 1 else -1 for shingle in shingles) for bit in range(64)]
    return sum(1 << bit for bit, total in enumerate(sums) if total > 0)


@given(st.lists(st.lists(hashes, max_size=9), max_size=6))
def test_a_bit_is_set_where_most_features_have_it(documents: list[list[int]]) -> None:
    offsets = np.cumsum([0, *map(len, documents)]).astype(np.int64)
    flat = np.array(list(itertools.chain(*documents)), np.uint64)
    assert fingerprints(flat, offsets).tolist() == [slow_fingerprint(document) for document in documents]


def test_a_feature_weighs_as_often_as_it_occurs() -> None:
    [print_] = fingerprints(np.array([0b01, 0b01, 0b10], np.uint64), np.array([0, 3])).tolist()
    assert print_ == 0b01


@given(hashes, hashes)
def test_the_distance_is_the_number_of_differing_bits(left: int, right: int) -> None:
    assert hamming(np.uint64(left), np.uint64(right)) == bin(left ^ right).count("1")


@pytest.mark.parametrize(("distance", "blocks", "tables"), [(3, 4, 4), (3, 6, 20), (4, 5, 5), (0, 1, 1), (2, 3, 3)])
def test_no_pair_within_the_distance_is_missed(distance: int, blocks: int, tables: int) -> None:
    masks = table_masks(distance, blocks)
    assert len(masks) == tables
    random = np.random.default_rng(distance)
    for _ in range(2000):
        flipped = random.choice(64, distance, replace=False)
        difference = np.uint64(sum(1 << int(bit) for bit in flipped))
        assert ((difference & masks) == 0).any()


def test_too_few_blocks_are_refused() -> None:
    with pytest.raises(ValueError, match="distance = 3 needs more blocks"):
        table_masks(3, 3)
