"""What every threshold would keep, counted beside the decisions: always what deciding again with it would keep."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.filters.thresholds import CANDIDATES, Ruled, kept_at, threshold_counts, without_rule
from pipelines.histograms import added

NONE = float("nan")
SCORES = st.sampled_from([NONE, 0.0, 0.05, 0.1, 0.3, 0.9, 0.95, 1.0])
PERPLEXITIES = st.sampled_from([NONE, 1.5, 5.0, 30.0, 100.0, 777.0, 60_000.0])
DOCUMENTS = st.lists(st.tuples(SCORES, PERPLEXITIES, st.booleans(), st.integers(0, 9000)), min_size=1, max_size=30)


def ruled(toxicity: np.ndarray, perplexity: np.ndarray, limit: float, low: float | None) -> dict[str, Ruled]:
    return {
        "toxicity": Ruled.above(toxicity, limit),
        "perplexity_high": Ruled.above(perplexity, 777.0),
        "perplexity_low": Ruled.below(perplexity, low),
    }


def counts_of(documents: list[tuple], limit: float = 0.9, low: float | None = 5.0) -> dict:
    toxicity, perplexity, otherwise, sizes = map(np.array, zip(*documents, strict=True))
    other = Ruled(np.full(len(sizes), NONE), otherwise, None)
    return threshold_counts(ruled(toxicity, perplexity, limit, low) | {"toxicity_unknown": other}, sizes)


@given(DOCUMENTS)
def test_a_threshold_keeps_what_deciding_with_it_keeps(documents: list[tuple]) -> None:
    counts = counts_of(documents)

    toxicity, perplexity, otherwise, sizes = map(np.array, zip(*documents, strict=True))
    for name in counts:
        for edge, kept, kept_bytes in kept_at(name, counts[name]):
            changed = ruled(toxicity, perplexity, 0.9, 5.0)
            score = changed[name].score
            changed[name] = Ruled.below(score, edge) if name == "perplexity_low" else Ruled.above(score, edge)
            stays = ~np.any([rule.objects for rule in changed.values()], axis=0) & ~otherwise
            assert (kept, kept_bytes) == (stays.sum(), sizes[stays].sum())


@given(DOCUMENTS)
def test_counts_of_shards_add_up(documents: list[tuple]) -> None:
    whole = counts_of(documents)

    assert added(counts_of([document]) for document in documents) == whole


def test_the_threshold_in_force_is_among_those_looked_at() -> None:
    counts = counts_of([(0.94, 30.0, False, 10)], limit=0.93)

    edges = counts["toxicity"]["edges"]
    assert set(edges) == {*CANDIDATES["toxicity"], 0.93} and edges == sorted(edges)
    kept = {edge: documents for edge, documents, _ in kept_at("toxicity", counts["toxicity"])}
    assert (kept[0.93], kept[0.95]) == (0, 1)


def test_what_another_rule_drops_is_kept_by_no_threshold() -> None:
    counts = counts_of([(0.2, 60_000.0, False, 10), (0.2, 30.0, True, 10), (0.2, 30.0, False, 7)])

    assert without_rule(counts["toxicity"]) == (1, 7)


def test_documents_without_a_score_are_kept_by_every_threshold() -> None:
    counts = counts_of([(NONE, NONE, False, 5)])["toxicity"]

    assert counts["unscored"] == {"documents": 1, "bytes": 5}
    assert {(n, size) for _, n, size in kept_at("toxicity", counts)} == {(1, 5)}


@pytest.mark.parametrize(("limit", "expected"), [(None, 2), (30.0, 1)])
def test_a_rule_that_is_not_applied_objects_to_nothing(limit: float | None, expected: int) -> None:
    documents = [(0.2, 5.0, False, 5), (0.2, 30.0, False, 5)]

    counts = counts_of(documents, low=limit)

    assert without_rule(counts["toxicity"])[0] == expected


def test_nothing_is_counted_of_no_documents() -> None:
    nobody = np.zeros(0)

    counts = threshold_counts({"toxicity": Ruled.above(nobody, 0.5)}, np.zeros(0, np.int64))

    assert without_rule(counts["toxicity"]) == (0, 0)
