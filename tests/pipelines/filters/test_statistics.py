"""Shares, F1, area under the curve and kappa, against scikit-learn, scipy and published examples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn.metrics import cohen_kappa_score, f1_score, precision_score, recall_score, roc_auc_score

from pipelines.filters.statistics import Confusion, Stratum, auc, cohen_kappa, fleiss_kappa, of_all, wilson

DIAGNOSES = """
0 0 0 6 0, 0 3 0 0 3, 0 1 4 0 1, 0 0 0 0 6, 0 3 0 3 0, 2 0 4 0 0, 0 0 4 0 2, 2 0 3 1 0, 2 0 0 4 0, 0 0 0 0 6,
1 0 0 5 0, 1 1 0 4 0, 0 3 3 0 0, 1 0 0 5 0, 0 2 0 3 1, 0 0 5 0 1, 3 0 0 1 2, 5 1 0 0 0, 0 2 0 4 0, 1 0 2 0 3,
0 0 0 0 6, 0 1 0 5 0, 0 2 0 1 3, 2 0 0 4 0, 1 0 0 4 1, 0 5 0 1 0, 4 0 0 0 2, 0 2 0 4 0, 1 0 5 0 0, 0 0 0 0 6
"""
"""Fleiss (1971), table 1: 30 patients, six psychiatrists each; depression, personality disorder, schizophrenia,
neurosis, other."""

BOOLEANS = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40)
SCORED = st.lists(st.tuples(st.booleans(), st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0])), min_size=2, max_size=40)


@given(st.integers(1, 300), st.data())
def test_a_share_has_the_interval_of_wilson(trials: int, data: st.DataObject) -> None:
    successes = data.draw(st.integers(0, trials))

    found = wilson(successes, trials)

    expected = binomtest(successes, trials).proportion_ci(method="wilson")
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-9)
    assert 0 <= found.low <= found.value == successes / trials <= found.high <= 1


@given(BOOLEANS)
def test_precision_recall_and_f1_are_those_of_scikit_learn(pairs: list[tuple[bool, bool]]) -> None:
    actual, predicted = map(np.array, zip(*pairs, strict=True))

    found = Confusion.of(actual, predicted)

    for estimate, score in ((found.precision, precision_score), (found.recall, recall_score), (found.f1, f1_score)):
        expected = score(actual, predicted, zero_division=np.nan)
        assert (np.nan if estimate is None else estimate.value) == pytest.approx(expected, nan_ok=True)


def test_the_interval_of_f1_holds_the_truth_as_often_as_it_says() -> None:
    draw = np.random.default_rng(1)
    actual = draw.random((2000, 120)) < 0.3
    predicted = draw.random(actual.shape) < np.where(actual, 0.8, 0.1)
    truth = 2 * 0.3 * 0.8 / (0.3 + 0.3 * 0.8 + 0.7 * 0.1)

    intervals = [Confusion.of(a, p).f1 for a, p in zip(actual, predicted, strict=True)]

    assert np.mean([one.low <= truth <= one.high for one in intervals]) == pytest.approx(0.95, abs=0.015)


@given(SCORED)
def test_the_area_under_the_curve_is_that_of_scikit_learn(pairs: list[tuple[bool, float]]) -> None:
    actual, scores = map(np.array, zip(*pairs, strict=True))

    found = auc(actual, scores)

    if actual.all() or not actual.any():
        assert found is None
    else:
        assert found.value == pytest.approx(roc_auc_score(actual, scores))
        assert 0 <= found.low <= found.value <= found.high <= 1


def test_the_interval_of_the_area_holds_the_truth_as_often_as_it_says() -> None:
    draw = np.random.default_rng(2)
    actual = np.arange(90) < 30
    truth = 0.8413447  # normal scores whose means are √2 standard deviations apart: Φ(√2/√2)

    intervals = [auc(actual, draw.normal(size=90) + np.sqrt(2) * actual) for _ in range(1500)]

    assert np.mean([one.low <= truth <= one.high for one in intervals]) == pytest.approx(0.95, abs=0.02)


def test_the_variance_of_the_area_is_that_of_delongs_definition() -> None:
    positive, negative = np.array([0.9, 0.8, 0.4, 0.6]), np.array([0.7, 0.4, 0.1])
    wins = (positive[:, None] > negative) + 0.5 * (positive[:, None] == negative)
    variance = wins.mean(axis=1).var(ddof=1) / 4 + wins.mean(axis=0).var(ddof=1) / 3
    value = wins.mean()

    found = auc(np.arange(7) < 4, np.concatenate([positive, negative]))

    reach = 1.959964 * np.sqrt(variance) / (value * (1 - value))
    assert np.log(found.high / (1 - found.high)) - np.log(value / (1 - value)) == pytest.approx(reach, rel=1e-6)


def test_kinds_that_are_wholly_apart_are_no_proof_of_perfection() -> None:
    found = auc(np.arange(30) < 20, np.arange(30, 0, -1.0))

    assert (found.value, found.high) == (1, 1)
    assert found.low == pytest.approx(wilson(10, 10).low)


def test_a_missing_score_is_the_lowest() -> None:
    assert auc(np.array([True, True, False, False]), np.array([0.5, np.nan, 0.2, np.nan])).value == 0.625


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=1, max_size=40))
def test_cohens_kappa_is_that_of_scikit_learn(pairs: list[tuple[str, str]]) -> None:
    first, second = zip(*pairs, strict=True)

    found = cohen_kappa(first, second)

    if found is None:
        assert len({*first, *second}) == 1
    else:
        assert found == pytest.approx(cohen_kappa_score(first, second))


def test_cohens_kappa_of_fifty_grant_proposals() -> None:
    """The example of Wikipedia's article: 20 times both yes, 15 times both no, 5 and 10 times not the same."""
    pairs = [("yes", "yes")] * 20 + [("yes", "no")] * 5 + [("no", "yes")] * 10 + [("no", "no")] * 15

    assert cohen_kappa(*zip(*pairs, strict=True)) == pytest.approx(0.4)


def test_fleiss_kappa_of_the_diagnoses() -> None:
    counts = [[int(n) for n in patient.split()] for patient in DIAGNOSES.replace("\n", " ").split(",")]

    assert fleiss_kappa(counts) == pytest.approx(0.430, abs=5e-4)


def test_fleiss_kappa_of_fourteen_raters() -> None:
    """The example of Wikipedia's article: ten subjects, five categories."""
    counts = [[0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1]]
    counts += [[7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7]]

    assert fleiss_kappa(counts) == pytest.approx(0.210, abs=5e-4)


def test_documents_with_one_label_say_nothing_about_agreement() -> None:
    assert fleiss_kappa([[2, 0], [0, 3], [1, 1], [1, 0], [0, 0]]) == fleiss_kappa([[2, 0], [0, 3], [1, 1]])
    assert fleiss_kappa([[1, 0]]) is None
    assert fleiss_kappa([[2, 0], [3, 0]]) is None


def test_a_stratum_counts_as_often_as_it_has_documents() -> None:
    strata = [Stratum(900, 10, 1, False), Stratum(100, 20, 15, True)]  # 90 positive kept, 75 positive dropped

    found = of_all(strata)

    assert found["precision"].value == 0.75
    assert found["recall"].value == pytest.approx(75 / 165)
    assert found["f1"].value == pytest.approx(2 * 75 / (100 + 165))


def test_of_strata_labelled_whole_nothing_is_uncertain() -> None:
    found = of_all([Stratum(10, 10, 2, False), Stratum(8, 8, 6, True)])

    assert {(e.low, e.high) for e in found.values()} == {(e.value, e.value) for e in found.values()}


def test_a_large_stratum_without_a_positive_label_leaves_recall_open() -> None:
    found = of_all([Stratum(1_000_000, 50, 0, False), Stratum(1000, 50, 50, True)])["recall"]

    assert found.value == found.high == 1
    assert found.low < 0.1  # one in a hundred of the million may be positive


def test_the_interval_of_a_stratified_sample_holds_the_truth_as_often_as_it_says() -> None:
    draw = np.random.default_rng(3)
    sizes, shares, dropped = [20_000, 3_000, 600], [0.02, 0.4, 0.9], [False, False, True]
    positive = [round(n * share) for n, share in zip(sizes, shares, strict=True)]
    truth = {"precision": positive[2] / 600, "recall": positive[2] / sum(positive)}
    truth["f1"] = 2 * positive[2] / (600 + sum(positive))

    held = dict.fromkeys(truth, 0)
    for _ in range(150):
        strata = [
            Stratum(n, 60, int(draw.hypergeometric(k, n - k, 60)), d)
            for n, k, d in zip(sizes, positive, dropped, strict=True)
        ]
        for name, found in of_all(strata).items():
            held[name] += found.low <= truth[name] <= found.high

    assert all(0.89 <= count / 150 <= 1 for count in held.values()), held


def test_without_labels_nothing_is_known() -> None:
    assert set(of_all([Stratum(10, 0, 0, True)]).values()) == {None}
    assert set(of_all([Stratum(10, 5, 0, False)]).values()) == {None}
