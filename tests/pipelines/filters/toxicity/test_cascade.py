"""The cascade's rules: which band a sample gives, who reads what, and how several scores become one."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.filters.toxicity.cascade import Band, Routes, agreement, choose_band, pooled

NAN = float("nan")
SCORES = st.integers(0, 20).map(lambda twentieths: twentieths / 20)
SAMPLE = st.lists(st.tuples(SCORES, st.booleans(), st.booleans()), min_size=1, max_size=30).filter(
    lambda rows: any(expert for _, expert, _ in rows)
)


def chosen(rows: list[tuple[float, bool, bool]], recall: float, precision: float):
    cheap, expert, toxic = (np.array(column) for column in zip(*rows, strict=True))
    return choose_band(cheap.astype(float), expert, toxic, recall, precision)


def test_the_band_begins_where_no_more_positives_may_be_lost_and_ends_where_the_screen_is_precise() -> None:
    rows = [
        (0.1, False, False),
        (0.2, True, True),  # one of ten positives may be lost: this one
        (0.3, True, False),
        (0.4, False, False),
        *((0.5, True, True) for _ in range(4)),
        (0.8, True, False),  # above 0.8 four of four are toxic, above 0.5 four of five
        *((0.9, False, True) for _ in range(1)),
        *((0.95, True, True) for _ in range(3)),
    ]
    choice = chosen(rows, recall=0.9, precision=0.95)
    assert (choice.low, choice.high) == (0.3, 0.8)
    assert (choice.positives, choice.recall.value) == (10, 0.9)
    assert (choice.above, choice.precision.value) == (4, 1.0)
    assert choice.in_band.value == 7 / 13
    assert choice.recall.low < 0.9 < choice.recall.high
    assert chosen(rows, recall=0.9, precision=0.8).high == 0.3  # above it eight of ten


@given(SAMPLE, st.sampled_from([0.5, 0.8, 0.9, 0.99, 1.0]), st.sampled_from([0.5, 0.8, 1.0]))
def test_no_narrower_band_keeps_the_targets(
    rows: list[tuple[float, bool, bool]], recall: float, precision: float
) -> None:
    """Given any sample, trying every pair of its scores finds the same band."""
    choice = chosen(rows, recall, precision)
    positives = [score for score, expert, _ in rows if expert]
    values = sorted({score for score, _, _ in rows})

    def kept(low: float) -> float:
        return sum(score >= low for score in positives) / len(positives)

    def right(high: float) -> bool:
        above = [toxic for score, _, toxic in rows if score > high]
        return bool(above) and sum(above) >= precision * len(above) - 1e-9

    assert choice.low == max(low for low in values if kept(low) >= recall - 1e-9)
    assert choice.high == min((high for high in values if high >= choice.low and right(high)), default=1.0)
    assert choice.recall.value == kept(choice.low)
    assert choice.in_band.value == sum(choice.low <= score <= choice.high for score, _, _ in rows) / len(rows)


def test_a_sample_without_anything_toxic_gives_no_band() -> None:
    with pytest.raises(ValueError, match="call no text of the calibration sample toxic"):
        chosen([(0.5, False, True)], 0.99, 0.99)


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=20),
    st.tuples(st.floats(0, 1), st.floats(0, 1)).map(sorted),
    st.floats(0.01, 0.99),
)
def test_comparable_scores_lie_on_their_side_of_the_threshold_in_the_same_order(
    cheap: list[float], ends: list[float], threshold: float
) -> None:
    band = Band(*ends, threshold)
    scores = np.sort(np.array(cheap))
    mapped = band.comparable(scores)
    assert ((mapped >= 0) & (mapped <= 1)).all()
    assert (np.diff(mapped) >= 0).all()
    assert (mapped[scores < band.low] <= threshold).all()
    assert (mapped[band.holds(scores)] == threshold).all()
    assert (mapped[scores > band.high] > threshold).all()
    assert band.holds(scores).tolist() == [ends[0] <= score <= ends[1] for score in scores]


def test_no_score_is_in_no_band_and_stays_none() -> None:
    band = Band(0.2, 0.8, 0.5)
    assert not band.holds(np.array([NAN])).any()
    assert np.isnan(band.comparable(np.array([NAN]))).all()
    assert band.comparable(np.array([0.1, 0.2, 0.5, 0.8, 0.9, 1.0])) == pytest.approx([0.25, 0.5, 0.5, 0.5, 0.75, 1])
    assert Band(0, 1, 0.5).comparable(np.array([0.0, 0.5, 1.0])).tolist() == [0.5, 0.5, 0.5]


ROUTES = Routes(
    screen=frozenset({"en", "it"}),
    lexicon=frozenset({"de", "tr"}),
    neural={"original": frozenset({"en"}), "multilingual": frozenset({"en", "tr", "ru"})},
    remote=frozenset({"it", "ko", "ru"}),
)


@pytest.mark.parametrize(
    ("language", "cheap", "readers"),
    [
        ("en", 0.5, ["multilingual", "original"]),  # the screen leaves it open: both models know the language
        ("en", 0.1, []),
        ("en", 0.9, []),
        ("it", 0.5, ["remote"]),  # no model knows it, the remote scorer does
        ("it", 0.1, []),
        ("tr", 0.0, ["multilingual"]),  # a lexicon that finds nothing decides nothing where a model knows better
        ("ru", NAN, ["multilingual"]),  # before the remote scorer
        ("ko", NAN, ["remote"]),
        ("de", 0.5, []),  # the lexicon alone
        ("ja", NAN, []),
        (None, NAN, []),
    ],
)
def test_who_reads_a_document(language: str | None, cheap: float, readers: list[str]) -> None:
    rows = ROUTES.readers([language, "ja"], np.array([cheap, NAN]), Band(0.2, 0.8, 0.5))
    assert sorted(rows) == readers
    assert all(found.tolist() == [0] for found in rows.values())


def test_without_a_band_the_screen_decides_alone() -> None:
    rows = ROUTES.readers(["en", "it", "ko"], np.array([0.5, 0.5, NAN]), None)
    assert {name: found.tolist() for name, found in rows.items()} == {"remote": [2]}


@pytest.mark.parametrize(
    ("unknown_to", "readers"), [("nobody", []), ("neural", ["multilingual", "original"]), ("remote", ["remote"])]
)
def test_languages_that_nobody_knows_are_sent_where_the_rule_says(unknown_to: str, readers: list[str]) -> None:
    routes = Routes(ROUTES.screen, ROUTES.lexicon, ROUTES.neural, ROUTES.remote, unknown_to)
    assert sorted(routes.readers(["ja", "en"], np.array([NAN, 0.1]), Band(0.2, 0.8, 0.5))) == readers


def test_scores_are_made_comparable_only_where_both_kinds_stand_side_by_side() -> None:
    assert ROUTES.cascaded(["en", "it", "tr", "de", "ja", None]).tolist() == [True, True, False, False, False, False]


THREE = np.array([[0.9, 0.6, 0.1], [0.9, 0.2, NAN], [0.4, NAN, NAN], [NAN, NAN, NAN]])


@pytest.mark.parametrize(
    ("decision", "scores"),
    [
        ("mean", [1.6 / 3, 0.55, 0.4, NAN]),
        ("majority", [0.6, 0.2, 0.4, NAN]),  # of two, both have to say it
        ("any", [0.9, 0.9, 0.4, NAN]),
    ],
)
def test_several_models_give_one_score(decision: str, scores: list[float]) -> None:
    assert pooled(THREE, decision) == pytest.approx(scores, nan_ok=True)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6), st.floats(0, 1))
def test_the_majority_decides_at_every_limit(scores: list[float], limit: float) -> None:
    more_than_half = sum(score > limit for score in scores) > len(scores) / 2
    assert (pooled(np.array([scores]), "majority")[0] > limit) == more_than_half


def test_agreement_is_the_share_on_the_side_of_the_decision() -> None:
    decision = pooled(THREE, "mean")
    agreed = agreement(THREE, decision, 0.5)
    assert agreed[:2].tolist() == [pytest.approx(2 / 3), 0.5]
    assert all(map(math.isnan, agreed[2:]))
