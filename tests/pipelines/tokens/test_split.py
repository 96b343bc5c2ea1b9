"""The validation split: a document stays on its side, copies are on the same side, and no group is emptied."""

import numpy as np

from pipelines.tokens.split import Side, Split, merged, rank_contents, to_hold, to_keep


def ranks(count, seed=0):
    return rank_contents((f"document {number}".encode() for number in range(count)), seed)


def held(split, some):
    return set(np.flatnonzero(split.held(some)).tolist())


def test_about_the_share_is_held_out():
    assert 400 < len(held(Split(0.05, 0), ranks(10_000))) < 600
    assert held(Split(0.0, 0), ranks(100)) == set()


def test_a_document_stays_on_its_side_whatever_stands_beside_it():
    some = ranks(1_000)
    assert held(Split(0.1, 0), some[:500]) == {place for place in held(Split(0.1, 0), some) if place < 500}


def test_a_larger_share_holds_out_the_same_documents_and_more():
    assert held(Split(0.05, 0), ranks(500)) < held(Split(0.2, 0), ranks(500))


def test_another_seed_holds_out_others():
    assert held(Split(0.1, 0), ranks(500, 0)) != held(Split(0.1, 1), ranks(500, 1))


def test_the_same_content_has_the_same_rank_wherever_it_stands():
    first, other, copy = rank_contents([b"a b c", b"a b d", memoryview(b"a b c")], 3).tolist()
    assert first == copy != other


def side(*ranks, trained):
    return Side(trained, 10 * trained, min(ranks), max(ranks))


def test_a_group_keeps_its_last_document_for_training():
    groups = merged([("one", side(3, trained=0)), ("two", side(1, 2, trained=0)), ("two", side(5, trained=0))])
    assert groups["two"] == Side(0, 0, 1, 5)
    assert to_keep(groups) == {3, 5}
    assert to_keep({"one": side(3, 9, trained=1)}) == set()
    assert held(Split(0.5, 0).keeping([3, 5]), np.array([1, 3, 5], np.uint64)) == {0}


def test_a_small_corpus_gives_a_document_that_empties_no_group():
    # 'one' has but this document, and a copy of it stands in 'copies', so that of 'two' is next
    groups = {"one": side(1, trained=1), "copies": side(1, 8, trained=2), "two": side(4, 6, trained=2)}
    assert to_hold(groups) == {4}
    assert to_hold({"one": side(1, trained=1)}) == set()
    assert held(Split(0.0, 0).holding([4]), np.array([1, 4, 6], np.uint64)) == {1}
