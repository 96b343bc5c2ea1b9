"""Passages in which two texts differ."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.text.passages import CONTEXT_WORDS, Passage, differing_passages

FOX = "the quick brown fox jumps over the lazy dog, then it rests under a tree until evening comes"


def words(count: int, vocabulary: int, seed: int) -> list[str]:
    return [f"w{number}" for number in random.Random(seed).choices(range(vocabulary), k=count)]


def rebuilt(left: str, right: str) -> str:
    """The right text's words, made from the left's by putting every passage in its place."""
    text, done = " ".join(left.split()), ""
    for passage in differing_passages(left, right).passages:
        found = " ".join(filter(None, [passage.before, passage.left, passage.after]))
        start = text.index(found)
        done += text[: start + len(passage.before)] + f" {passage.right} "
        text = text[start + len(" ".join(filter(None, [passage.before, passage.left]))) :]
    return " ".join((done + text).split())


def test_a_passage_is_told_with_the_words_around_it() -> None:
    found = differing_passages(FOX, FOX.replace("lazy dog", "sleeping old dog"))

    assert found.passages == (Passage("fox jumps over the", "lazy", "sleeping old", "dog, then it rests"),)
    assert not found.whole


def test_what_only_one_text_has_stands_alone() -> None:
    longer = FOX + " and the moon rises"

    assert differing_passages(FOX, longer).passages == (
        Passage("tree until evening comes", "", "and the moon rises", ""),
    )
    assert differing_passages(longer, FOX).passages[0].left == "and the moon rises"


def test_the_same_words_with_other_white_space_do_not_differ() -> None:
    assert differing_passages(FOX, FOX.replace(" ", "\n  ")).passages == ()
    assert differing_passages("", "  ").passages == ()


def test_case_and_punctuation_do() -> None:
    assert [p.right for p in differing_passages(FOX, FOX.replace("dog,", "Dog")).passages] == ["Dog"]


def test_differences_close_to_one_another_are_one_passage_and_those_apart_are_several() -> None:
    assert len(differing_passages(FOX, FOX.replace("quick", "slow").replace("jumps", "leaps")).passages) == 1
    assert len(differing_passages(FOX, FOX.replace("quick", "slow").replace("tree", "bush")).passages) == 2


def test_scripts_without_spaces_differ_by_characters() -> None:
    (passage,) = differing_passages(
        "今日は天気がいいです。散歩に行きましょう", "今日は天気が悪いです。散歩に行きましょう"
    ).passages

    assert (passage.left, passage.right) == ("い", "悪")


def test_each_of_many_edits_in_a_megabyte_is_found() -> None:
    left = words(180_000, 30_000, 1)
    right = list(left)
    edits = range(500, 180_000, 1_000)
    for position in edits:
        right[position] = "edited"

    found = differing_passages(" ".join(left), " ".join(right))

    assert [(p.left, p.right) for p in found.passages] == [(left[position], "edited") for position in edits]


@pytest.mark.parametrize("vocabulary", [2, 1_000])
def test_long_texts_without_anything_in_order_are_one_passage_and_that_is_said(vocabulary: int) -> None:
    found = differing_passages(" ".join(words(50_000, vocabulary, 1)), " ".join(words(50_000, vocabulary, 2)))

    assert found.whole
    assert len(found.passages) >= 1


@given(st.lists(st.sampled_from("abcdefgh"), max_size=40), st.lists(st.sampled_from("abcdefgh"), max_size=40))
def test_nothing_that_differs_is_left_out(left: list[str], right: list[str]) -> None:
    """Numbered words are unique, so that what stands outside the passages can be put together again."""
    numbered = [f"{word}{number}" for number, word in enumerate(left)]
    others = [f"{word}{number}" for number, word in enumerate(right)]

    assert rebuilt(" ".join(numbered), " ".join(others)) == " ".join(others)


@given(st.text("ab", max_size=60), st.text("ab", max_size=60))
def test_texts_of_repeated_words_differ_unless_they_are_the_same(left: str, right: str) -> None:
    found = differing_passages(" ".join(left), " ".join(right))

    assert (found.passages == ()) == (left == right)
    assert sum(len(p.right.split()) - len(p.left.split()) for p in found.passages) == len(right) - len(left)
    assert all(len(p.before.split()) <= CONTEXT_WORDS for p in found.passages)
