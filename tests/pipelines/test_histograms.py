"""Histograms: every number is counted once, and shards add up to the whole."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pipelines.histograms import PERPLEXITY_EDGES, SIZE_EDGES, TOXICITY_EDGES, added, histogram, text_bytes


def test_a_bin_begins_with_its_edge_and_the_last_one_has_no_end() -> None:
    drawn = histogram([0.0, 1.0, 2.0], scores=np.array([-1.0, 0.5, 1.0, 1.9, 2.0, 1e9, np.nan]))

    assert drawn == {"edges": [0.0, 1.0, 2.0], "scores": [2, 2, 2]}


def test_sizes_fall_between_powers_of_two() -> None:
    counts = histogram(SIZE_EDGES, texts=np.array([0, 1, 2, 3, 4, 7, 8, 2**40]))["texts"]

    assert (counts[:5], counts[-1], sum(counts)) == ([1, 1, 2, 2, 1], 1, 8)


def test_edges_rise() -> None:
    for edges in (SIZE_EDGES, TOXICITY_EDGES, PERPLEXITY_EDGES):
        assert edges == sorted(set(edges))


@given(st.lists(st.integers(0, 2**40)), st.integers(0, 20))
def test_shards_add_up_to_the_whole(sizes: list[int], cut: int) -> None:
    def drawn(values: list[int]) -> dict:
        return {"documents": len(values), "histograms": {"bytes": histogram(SIZE_EDGES, all=np.array(values, int))}}

    assert added([drawn(sizes[:cut]), drawn(sizes[cut:])]) == drawn(sizes)


def test_adding_changes_no_summand_and_takes_what_only_one_of_them_has() -> None:
    first, second = {"a": {"x": 1}}, {"a": {"x": 2, "y": 3}, "b": 4}

    assert added([first, second]) == {"a": {"x": 3, "y": 3}, "b": 4}
    assert first == {"a": {"x": 1}}


def test_text_bytes_are_those_of_utf8_and_no_text_has_none() -> None:
    assert text_bytes(pa.chunked_array([["abc", "é"], ["", None]])).tolist() == [3, 2, 0, 0]
    assert text_bytes(pa.chunked_array([], pa.large_string())).tolist() == []
