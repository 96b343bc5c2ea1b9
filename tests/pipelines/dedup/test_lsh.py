"""Bands and rows, and who stands for whom."""

import math

import datasketch
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.dedup.lsh import KEPT, Banding, Leaders, banding_for, equal_values_needed, find_leaders


@pytest.mark.parametrize(("threshold", "permutations"), [(0.5, 128), (0.7, 256), (0.8, 112), (0.9, 128), (0.95, 64)])
def test_equal_weights_give_the_banding_of_datasketch(threshold: float, permutations: int) -> None:
    oracle = datasketch.MinHashLSH(threshold=threshold, num_perm=permutations, weights=(0.5, 0.5))
    assert banding_for(threshold, permutations, 0.5) == Banding(bands=oracle.b, rows=oracle.r)


@pytest.mark.parametrize("weight", [0.1, 0.8])
def test_other_weights_give_the_banding_of_datasketch(weight: float) -> None:
    oracle = datasketch.MinHashLSH(threshold=0.75, num_perm=112, weights=(1 - weight, weight))
    assert banding_for(0.75, 112, weight) == Banding(bands=oracle.b, rows=oracle.r)


def test_the_s_curve_of_fourteen_bands_of_eight_rows() -> None:
    # By hand: 1 - (1 - 0.8^8)^14 = 1 - (1 - 0.16777216)^14 = 1 - 0.07645
    fourteen_by_eight = Banding(bands=14, rows=8)
    assert fourteen_by_eight.candidate_probability(0.8) == pytest.approx(0.92355, abs=5e-6)
    assert fourteen_by_eight.candidate_probability(0.5) == pytest.approx(0.0533, abs=5e-5)
    assert fourteen_by_eight.candidate_probability(0.0) == 0
    assert fourteen_by_eight.candidate_probability(1.0) == 1
    assert Banding(bands=8, rows=14).candidate_probability(0.8) < 0.5  # swapped, it is another curve


def test_the_default_banding_finds_what_its_curve_says() -> None:
    banding, trials = Banding(16, 7), 4000
    random = np.random.default_rng(3)
    for similarity in (0.6, 0.75, 0.85):
        equal = random.random((trials, 112)) < similarity
        found = equal.reshape(trials, 16, 7).all(axis=2).any(axis=1).mean()
        expected = banding.candidate_probability(similarity)
        assert abs(found - expected) < 4 * math.sqrt(expected * (1 - expected) / trials)


def test_the_estimate_must_reach_the_threshold() -> None:
    assert equal_values_needed(0.75, 112) == 84
    assert equal_values_needed(0.7, 10) == 7
    assert equal_values_needed(0.71, 10) == 8
    assert equal_values_needed(1.0, 112) == 112


def leaders_of(signatures: list[list[int]], banding: Banding, threshold: float) -> Leaders:
    matrix = np.array(signatures, np.uint32).reshape(len(signatures), -1)
    return find_leaders(matrix, np.arange(len(signatures)), banding, threshold)


def slow_leaders(signatures: list[list[int]], banding: Banding, needed: int) -> list[tuple[int, int]]:
    """(leader, equal values) of every document, pair by pair."""
    result: list[tuple[int, int]] = []
    for document, signature in enumerate(signatures):
        best = (0, KEPT)
        for other in range(document):
            theirs = signatures[other]
            cut = range(0, banding.bands * banding.rows, banding.rows)
            share_a_band = any(signature[i : i + banding.rows] == theirs[i : i + banding.rows] for i in cut)
            equal = sum(a == b for a, b in zip(signature, theirs, strict=True))
            if result[other][0] == KEPT and share_a_band and equal >= needed and equal > best[0]:
                best = (equal, other)
        result.append((best[1], best[0]))
    return result


@given(st.lists(st.lists(st.integers(0, 2), min_size=9, max_size=9), min_size=1, max_size=30), st.integers(1, 9))
def test_the_kernel_decides_like_a_loop_over_pairs(signatures: list[list[int]], needed: int) -> None:
    banding = Banding(bands=4, rows=2)
    found = leaders_of(signatures, banding, needed / 9)
    expected = slow_leaders(signatures, banding, needed)
    assert found.leader.tolist() == [leader for leader, _ in expected]
    assert found.similarity.tolist() == [equal / 9 if leader != KEPT else 1 for leader, equal in expected]


def test_a_chain_does_not_lose_the_end_that_resembles_nothing_kept() -> None:
    a, b, c = [1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 2, 2], [3, 3, 1, 1, 2, 2]
    found = leaders_of([a, b, c], Banding(bands=3, rows=2), 4 / 6)
    assert found.leader.tolist() == [KEPT, 0, KEPT]


def test_two_pairs_joined_by_a_shared_band_stay_two_clusters() -> None:
    one, two = [1, 1, 1, 1, 9, 9], [1, 1, 1, 2, 9, 9]
    three, four = [5, 5, 5, 5, 9, 9], [5, 5, 5, 6, 9, 9]
    found = leaders_of([one, three, two, four], Banding(bands=3, rows=2), 5 / 6)
    assert found.leader.tolist() == [KEPT, KEPT, 0, 1]
    assert found.compared > found.similar == 2


def test_the_most_similar_kept_document_is_named() -> None:
    far, near = [1, 1, 1, 1, 5, 5, 5, 5], [1, 1, 6, 6, 1, 1, 1, 1]
    document = [1, 1, 1, 1, 1, 1, 1, 5]
    found = leaders_of([far, near, document], Banding(bands=4, rows=2), 5 / 8)
    assert found.leader.tolist() == [KEPT, KEPT, 0]  # 5 of 8 values against 5 of 8: the earlier one
    found = leaders_of([far, near, [*document[:7], 1]], Banding(bands=4, rows=2), 4 / 8)
    assert found.leader.tolist() == [KEPT, KEPT, 1]  # 4 of 8 values against 6 of 8


def test_copies_are_compared_with_the_one_that_stays_only() -> None:
    copies = [[7] * 8] * 5000
    found = leaders_of(copies, Banding(bands=4, rows=2), 0.75)
    assert found.leader.tolist() == [KEPT] + [0] * 4999
    assert found.compared == 4999


def test_no_documents_have_no_leaders() -> None:
    found = find_leaders(np.zeros((0, 16), np.uint32), np.zeros(0, np.int64), Banding(2, 8), 0.75)
    assert len(found.leader) == found.compared == 0
