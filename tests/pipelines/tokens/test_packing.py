"""Best-fit packing: only long documents are cut, no token is lost, and sequences are as few as an oracle's."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.tokens.layout import map_packed, packed_bytes, packed_size
from pipelines.tokens.packing import pack

LENGTHS = st.lists(st.integers(1, 90), max_size=60)


def packed(lengths, sequence_length):
    sizes = np.array(lengths, np.int64)
    return pack(np.cumsum(sizes) - sizes, sizes, sequence_length)


def samples(made):
    """(begin, length) of the pieces of each sample."""
    pieces = list(zip(made.begins.tolist(), made.lengths.tolist(), strict=True))
    edges = made.firsts.tolist()
    return [pieces[first:after] for first, after in itertools.pairwise(edges)]


def test_short_documents_stay_whole_and_fill_what_others_leave():
    # Ding et al. 2024, figure 2: concatenation would cut two of these, best fit cuts none
    assert samples(packed([6, 3, 5, 2], 7)) == [[(0, 6), (14, 2)], [(9, 5), (6, 3)]]


def test_a_long_document_is_cut_where_a_sequence_is_full():
    assert samples(packed([10], 4)) == [[(0, 5)], [(4, 5)], [(8, 2)]]


def test_a_document_of_one_token_predicts_nothing_and_is_left_out():
    assert samples(packed([1, 3, 1], 4)) == [[(1, 3)]]
    assert samples(packed([1, 1], 4)) == samples(packed([], 4)) == []


@settings(deadline=None)
@given(LENGTHS, st.integers(1, 80))
def test_every_prediction_stands_in_one_sample(lengths, sequence_length):
    found = samples(packed(lengths, sequence_length))
    predicted = sorted(token for pieces in found for begin, size in pieces for token in range(begin + 1, begin + size))
    starts = np.cumsum([0, *lengths])
    assert predicted == sorted(set(range(sum(lengths))) - set(starts.tolist()))
    assert all(0 < sum(size for _, size in pieces) <= sequence_length + 1 for pieces in found)
    whole = {(int(start), length) for start, length in zip(starts, lengths, strict=False)}
    for pieces in found:
        for begin, size in pieces:
            document = int(np.searchsorted(starts, begin, side="right")) - 1
            assert (begin, size) in whole or lengths[document] > sequence_length + 1


@settings(deadline=None)
@given(LENGTHS, st.integers(1, 80))
def test_sequences_are_as_few_as_a_plain_best_fit_finds(lengths, sequence_length):
    sizes = sorted(packed(lengths, sequence_length).lengths.tolist(), reverse=True)
    rooms = []
    for size in sizes:
        fitting = [room for room in rooms if room >= size]
        if fitting:
            rooms.remove(min(fitting))
        rooms.append((min(fitting) if fitting else sequence_length + 1) - size)
    assert len(rooms) == len(samples(packed(lengths, sequence_length)))


def test_long_sequences_pack_as_well():
    lengths = np.random.default_rng(0).integers(2, 60_000, 2_000).tolist()
    made = packed(lengths, 131_072)
    assert made.lengths.sum() > 0.99 * (len(made.firsts) - 1) * 131_073


@settings(deadline=None)
@given(st.lists(LENGTHS, min_size=1, max_size=4), st.integers(1, 80))
def test_a_packed_file_holds_its_runs_one_after_the_other(tmp_path_factory, runs, sequence_length):
    packs = [packed(lengths, sequence_length) for lengths in runs]
    path = tmp_path_factory.mktemp("packed") / "a.packed"
    path.write_bytes(packed_bytes(packs))
    count, pieces = sum(len(made.firsts) - 1 for made in packs), sum(len(made.begins) for made in packs)
    assert path.stat().st_size == packed_size(count, pieces)
    assert samples(map_packed(path, count, pieces)) == [sample for made in packs for sample in samples(made)]
