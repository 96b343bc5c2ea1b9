"""Bands and rows, and how likely they find a pair."""

import math
from pathlib import Path

import datasketch
import numpy as np
import pytest

from pipelines.dedup.lsh import Banding, banding_for
from pipelines.dedup.params import DedupParams


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


def test_the_table_in_the_docs_is_the_curve() -> None:
    page = (Path(__file__).parents[3] / "docs" / "deduplication.md").read_text(encoding="utf-8")
    similarities = (0.3, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 0.95)
    for threshold in (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95):
        banding = DedupParams(threshold=threshold).banding
        assert banding is not None
        chances = " | ".join(f"{banding.candidate_probability(s):.3f}" for s in similarities)
        assert f"| {threshold:g} | {banding.bands} × {banding.rows} | {chances} |" in page
