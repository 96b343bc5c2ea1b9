"""Rows sorted through files: as Python sorts them, whatever the memory."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.filters.perplexity.sorted_rows import KEY_BITS, Rows, Sorter, in_step

keys = st.lists(
    st.one_of(st.integers(0, 7), st.integers(0, 2**KEY_BITS - 1), st.integers(0, 3).map(lambda n: n << 126))
)


def rows_of(numbers: list[int], first_payload: int = 0) -> Rows:
    """A row per key; payloads count up."""
    rows = [(key >> 64, key % 2**64, payload) for payload, key in enumerate(numbers, start=first_payload)]
    return np.array(rows, np.uint64).reshape(-1, 3)


def pairs(rows: Rows) -> list[tuple[int, int]]:
    """(key, payload) of each row."""
    return [(first << 64 | second, payload) for first, second, payload in rows.tolist()]


def in_pieces(rows: Rows, length: int) -> list[Rows]:
    return [rows[at : at + length] for at in range(0, len(rows), length)]


@pytest.mark.parametrize("bits", [1, 11, 64, 70, KEY_BITS])
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(numbers=keys.map(lambda some: some * 9), piece=st.integers(1, 300))
def test_rows_come_in_the_order_of_their_leading_bits_and_else_as_before(
    tmp_path: Path, numbers: list[int], piece: int, bits: int
) -> None:
    rows = rows_of(numbers)
    expected = sorted(pairs(rows), key=lambda pair: pair[0] >> (KEY_BITS - bits))
    for memory in (0, 10_000, 10**6):
        stream = Sorter(tmp_path, memory).sorted(in_pieces(rows, piece), bits)
        assert [pair for part in stream for pair in pairs(part)] == expected
    assert not list(tmp_path.iterdir())


def test_equal_keys_of_all_blocks_pass_together_where_they_are_combined(tmp_path: Path) -> None:
    """Given 1,000 rows of 10 keys and room for 64, each key is left once."""

    def first_of_each(rows: Rows) -> Rows:
        return rows[np.unique(rows[:, 1], return_index=True)[1]]

    stream = Sorter(tmp_path, 0).sorted(
        [rows_of([number % 10 for number in range(1000)])], KEY_BITS, combine=first_of_each
    )
    assert [pair for part in stream for pair in pairs(part)] == [(key, key) for key in range(10)]


@given(st.lists(keys, min_size=1, max_size=4), st.integers(1, 5), st.sampled_from([3, 126, KEY_BITS]))
def test_streams_are_read_in_step_with_all_rows_of_one_key_in_one_round(
    lists: list[list[int]], piece: int, bits: int
) -> None:
    streams = [iter(in_pieces(rows_of(sorted(numbers)), piece)) for numbers in lists]
    seen: list[set[int]] = []
    read: list[list[int]] = [[] for _ in lists]
    for parts in in_step(streams, bits):
        assert any(map(len, parts))
        seen.append({key >> (KEY_BITS - bits) for part in parts for key, _ in pairs(part)})
        for part, so_far in zip(parts, read, strict=True):
            so_far += [key for key, _ in pairs(part)]
    assert read == [sorted(numbers) for numbers in lists]
    assert all(max(before) < min(after) for before, after in itertools.pairwise(seen))
