"""Who stands for whom."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipelines.dedup.buckets import Buckets, band_keys, shared_buckets
from pipelines.dedup.leaders import KEPT, LEVELS, Leaders, Prints, Rules, equal_values_needed, find_leaders
from pipelines.dedup.lsh import Banding
from pipelines.dedup.simhash import table_masks


def test_the_estimate_must_reach_the_threshold() -> None:
    assert equal_values_needed(0.75, 112) == 84
    assert equal_values_needed(0.7, 10) == 7
    assert equal_values_needed(0.71, 10) == 8
    assert equal_values_needed(1.0, 112) == 112


def leaders_of(
    signatures: list[list[int]],
    banding: Banding,
    threshold: float,
    *,
    limit: int = 1000,
    fixed: int = 0,
    settled: int = 0,
) -> Leaders:
    """The decision on all documents, those without a bucket included."""
    matrix = np.array(signatures, np.uint32).reshape(len(signatures), -1)
    buckets = buckets_of(matrix, banding)
    rules = Rules(banding.bands, threshold, matrix.shape[1], bucket_limit=limit)
    addresses = matrix.ctypes.data + np.arange(len(matrix), dtype=np.uint64) * np.uint64(matrix.strides[0])
    below = np.searchsorted(buckets.members, [fixed, settled]).tolist()
    found = find_leaders(Prints(signatures=addresses[buckets.members]), buckets, rules, *below)
    return over_all(found, buckets, len(matrix))


def buckets_of(matrix: np.ndarray, banding: Banding) -> Buckets:
    def keys(start: int, stop: int) -> np.ndarray:
        found = np.empty((stop - start, len(matrix)), np.uint64)
        band_keys(matrix, banding, start, np.arange(len(matrix), dtype=np.int32), found)
        return found

    return shared_buckets(keys, banding.bands, len(matrix))


def over_all(found: Leaders, buckets: Buckets, documents: int) -> Leaders:
    leader, level = np.full(documents, KEPT, np.int32), np.zeros(documents, np.int8)
    similarity, gone = np.ones(documents), found.leader != KEPT
    leader[buckets.members[gone]] = buckets.members[found.leader[gone]]
    level[buckets.members], similarity[buckets.members] = found.level, found.similarity
    return Leaders(leader, level, similarity, found.compared, found.similar, found.cut)


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
    found = find_leaders(
        Prints(), shared_buckets(lambda start, stop: np.zeros((stop - start, 0), np.uint64), 2, 0), Rules(2, 0.75, 16)
    )
    assert len(found.leader) == found.compared == 0


def test_only_those_who_share_a_band_are_members() -> None:
    matrix = np.array([[1, 1, 2, 2], [1, 1, 3, 3], [4, 4, 5, 5], [9, 9, 3, 3]], np.uint32)
    buckets = buckets_of(matrix, Banding(2, 2))
    assert buckets.members.tolist() == [0, 1, 3]
    assert buckets.of.tolist() == [[0, -1], [0, 1], [-1, 1]]
    assert buckets.count == 2


def test_what_is_only_compared_with_stays_though_it_is_similar() -> None:
    same = [[7] * 4] * 4
    assert leaders_of(same, Banding(2, 2), 0.75, fixed=2, settled=2).leader.tolist() == [KEPT, KEPT, 0, 0]


def test_what_stayed_before_goes_only_in_favour_of_what_is_compared_with() -> None:
    same = [[7] * 4] * 4
    assert leaders_of(same, Banding(2, 2), 0.75, fixed=0, settled=3).leader.tolist() == [KEPT, KEPT, KEPT, 0]
    assert leaders_of(same, Banding(2, 2), 0.75, fixed=1, settled=3).leader.tolist() == [KEPT, 0, 0, 0]


def test_a_list_longer_than_the_limit_is_cut_and_counted() -> None:
    # All share the first band and nothing else: nobody is similar, and each is compared with the two before it.
    documents = [[1, 1, *[10 + n] * 6] for n in range(50)]
    found = leaders_of(documents, Banding(4, 2), 0.75, limit=2)
    assert set(found.leader.tolist()) == {KEPT}
    assert found.compared == 2 * 50 - 3
    assert found.cut == 47
    assert leaders_of(documents, Banding(4, 2), 0.75).compared == 50 * 49 / 2


def by_fingerprint(prints: list[int], distance: int, blocks: int) -> Leaders:
    array, masks = np.array(prints, np.uint64), table_masks(distance, blocks)
    buckets = shared_buckets(lambda start, stop: array & masks[start:stop, None], len(masks), len(array))
    rules = Rules(0, 1.0, 0, distance=distance, bucket_limit=1)  # the limit is not for fingerprints
    return over_all(find_leaders(Prints(simhash=array[buckets.members]), buckets, rules), buckets, len(array))


@given(
    st.lists(st.sets(st.integers(0, 11), max_size=4).map(lambda bits: sum(1 << (5 * b) for b in bits)), max_size=25),
    st.integers(0, 3),
    st.integers(1, 3),
)
def test_fingerprints_decide_like_a_loop_over_all_pairs(prints: list[int], distance: int, more: int) -> None:
    found = by_fingerprint(prints, distance, distance + more)
    expected: list[int] = []
    for document, mine in enumerate(prints):
        near = [(bin(mine ^ prints[o]).count("1"), o) for o in range(document) if expected[o] == KEPT]
        expected.append(min((n for n in near if n[0] <= distance), default=(0, KEPT))[1])
    assert found.leader.tolist() == expected
    assert {LEVELS[level] for level in found.level[found.leader != KEPT]} <= {"simhash"}
