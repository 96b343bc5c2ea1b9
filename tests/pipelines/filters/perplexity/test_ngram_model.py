"""The language model: its probabilities by hand, by a naive implementation of the formulas, and by kenlm."""

import math
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.filters.perplexity.arpa import write_arpa
from pipelines.filters.perplexity.ngram_estimates import FALLBACK_DISCOUNTS, Discounts, discounts_of
from pipelines.filters.perplexity.ngram_model import NgramModel
from pipelines.filters.perplexity.ngram_scoring import BEGIN, SPECIAL_WORDS, UNKNOWN
from pipelines.filters.perplexity.ngram_training import NgramTrainer
from pipelines.filters.words import folded_words, language_model_alphabet
from tests.pipelines.filters.corpus import paragraphs, shuffled


def trained(texts: list[str], order: int = 5, max_vocabulary: int = 10**6, min_count: int = 1) -> NgramModel:
    trainer = NgramTrainer(order, max_vocabulary, min_count)
    trainer.add(pa.array(texts, pa.large_string()))
    return trainer.estimate()


def after(model: NgramModel, *words: str) -> dict[str, float]:
    """Probability of every word after these, from the beginning of a document."""
    read = [word if word in model.vocabulary else SPECIAL_WORDS[UNKNOWN] for word in words]
    follows = {word: model.word_log_probabilities([*read, word])[-1][1] for word in model.vocabulary}
    return {word: math.exp(said) for word, said in (follows | {SPECIAL_WORDS[BEGIN]: -math.inf}).items()}


def discounts(adjusted: np.ndarray) -> Discounts:
    """Of the (adjusted) counts of all n-grams of one length."""
    return discounts_of([int(np.count_nonzero(adjusted == count)) for count in range(1, 5)])


def test_a_bigram_model_computed_by_hand() -> None:
    """<s> a b a b a c </s>. Too little text for discounts of its own, so 0.5 and 1 are taken from counts of 1 and 2.

    Without context: a stands after two different words, b, c and </s> after one; of these 5, 1 + 3 × 0.5 = 2.5 are
    taken, half of all, and spread over 5 words: p(a) = 1/5 + 0.1, p(b) = p(c) = p(</s>) = 0.5/5 + 0.1, p(<unk>) = 0.1.
    After a: b twice, c once; of the 3, 1.5 are taken: p(b|a) = 1/3 + 0.5 × 0.2.
    """
    model = trained(["a b a b a c"], order=2)
    assert after(model, "a") == pytest.approx(
        {"<unk>": 0.05, "<s>": 0, "</s>": 0.1, "a": 0.15, "b": 1 / 3 + 0.1, "c": 0.5 / 3 + 0.1}, abs=1e-6
    )
    assert after(model, "zebra") == pytest.approx(
        {"<unk>": 0.1, "<s>": 0, "</s>": 0.2, "a": 0.3, "b": 0.2, "c": 0.2}, abs=1e-6
    )


def test_discounts_follow_chen_and_goodman_equation_26() -> None:
    counts = np.repeat([1, 2, 3, 4, 9], [10, 5, 3, 2, 1])
    assert discounts(counts) == pytest.approx((0.5, 2 - 3 * 0.5 * 3 / 5, 3 - 4 * 0.5 * 2 / 3))
    assert discounts(np.array([1, 1, 2])) == FALLBACK_DISCOUNTS


def naive(texts: list[str], order: int) -> tuple[set[str], dict[tuple[str, ...], int], dict[int, tuple[float, ...]]]:
    """Vocabulary, adjusted counts of all n-grams, discounts, from the definitions."""
    counts: dict[tuple[str, ...], int] = defaultdict(int)
    for text in texts:
        words = ["<s>", *text.split(), "</s>"]
        for n in range(1, order + 1):
            for at in range(len(words) - n + 1):
                counts[tuple(words[at : at + n])] += 1
    adjusted = {}
    for gram, count in counts.items():
        left = {longer[0] for longer in counts if len(longer) == len(gram) + 1 and longer[1:] == gram}
        adjusted[gram] = count if len(gram) == order or gram[0] == "<s>" else len(left)
    adjusted.pop(("<s>",))
    of_length = {
        n: discounts(np.array([a for gram, a in adjusted.items() if len(gram) == n], np.int64))
        for n in range(1, order + 1)
    }
    return {word for gram in counts for word in gram} | {"<unk>"}, adjusted, of_length


def naive_probability(word: str, context: tuple[str, ...], vocabulary, adjusted, discounts) -> float:  # type: ignore[no-untyped-def]
    n = len(context) + 1
    lower = (
        naive_probability(word, context[1:], vocabulary, adjusted, discounts) if context else 1 / (len(vocabulary) - 1)
    )
    followers = {gram: a for gram, a in adjusted.items() if len(gram) == n and gram[:-1] == context}
    if not followers:
        return lower
    taken = {gram: discounts[n][min(a, 3) - 1] for gram, a in followers.items()}
    total = sum(followers.values())
    gram = (*context, word)
    return (followers.get(gram, 0) - taken.get(gram, 0)) / total + sum(taken.values()) / total * lower


documents_of_letters = st.lists(
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=12).map(" ".join), min_size=1, max_size=4
)


@settings(max_examples=25, deadline=None)
@given(documents_of_letters, st.lists(st.sampled_from("abcd"), max_size=4), st.integers(2, 4))
def test_probabilities_are_those_of_the_formulas(texts: list[str], words: list[str], order: int) -> None:
    model = trained(texts, order)
    vocabulary, adjusted, discounts = naive(texts, order)
    words = [word for word in words if word in vocabulary]
    context = tuple(["<s>", *words][-(order - 1) :])
    found = after(model, *words)
    assert set(found) == vocabulary
    for word in vocabulary - {"<s>"}:
        expected = naive_probability(word, context, vocabulary, adjusted, discounts)
        assert found[word] == pytest.approx(expected, rel=1e-5), (word, context)


@settings(max_examples=25, deadline=None)
@given(
    documents_of_letters,
    st.lists(st.sampled_from("abcde"), max_size=5),
    st.integers(2, 5),
    st.integers(1, 3),
    st.integers(1, 4),
)
def test_probabilities_sum_to_one_also_when_pruned_and_with_unknown_words(
    texts: list[str], words: list[str], order: int, min_count: int, max_vocabulary: int
) -> None:
    model = trained(texts, order, max_vocabulary, min_count)
    assert sum(after(model, *words).values()) == pytest.approx(1, abs=1e-5)


def test_an_unknown_word_is_never_learned_as_if_it_were_one_word() -> None:
    """Given a vocabulary of two words, the other words of the training text stay improbable after one another."""
    model = trained(["the the the of of the of ant bee cat dog eel fox gnu hen the of"] * 3, order=3, max_vocabulary=2)
    assert model.facts["unknown_tokens"] == 24
    assert after(model, "ant", "bee")["<unk>"] < after(model, "ant", "bee")["the"]


def test_kenlm_gives_the_same_scores_from_the_arpa_file(tmp_path: Path) -> None:
    kenlm = pytest.importorskip("kenlm", reason="the kenlm module is not installed")
    pieces = paragraphs("alice_11.txt")
    model = trained(pieces[::2], order=5, max_vocabulary=2000, min_count=2)
    write_arpa(model, tmp_path / "model.arpa")
    theirs = kenlm.Model(str(tmp_path / "model.arpa"))
    for piece in pieces[1:20:2]:
        cut = " ".join(folded_words(piece.encode(), language_model_alphabet()))
        ours = [score / math.log(10) for _, score in model.word_log_probabilities(piece, end=True)]
        assert ours == pytest.approx([score for score, _, _ in theirs.full_scores(cut)], abs=1e-4)
        (total,), (tokens,) = model.score(pa.array([piece]), 10**6)
        assert tokens == len(cut.split())
        assert total / math.log(10) == pytest.approx(theirs.score(cut, bos=True, eos=False), abs=1e-4 * tokens)


def test_prose_is_more_probable_than_its_words_shuffled() -> None:
    pieces = paragraphs("tinyshakespeare.txt")[:200]
    model = trained(pieces[::2])
    prose, tokens = model.score(pa.array(pieces[1::2]), 10**6)
    salad, same_tokens = model.score(pa.array([shuffled(piece) for piece in pieces[1::2]]), 10**6)
    assert abs(int(tokens.sum()) - int(same_tokens.sum())) < 0.01 * tokens.sum()
    assert (prose > salad).mean() > 0.98


def test_a_model_read_back_from_its_files_is_the_same(tmp_path: Path) -> None:
    model = trained(["it was the best of times , it was the worst of times"], order=3)
    for name, content in model.files():
        (tmp_path / name).write_bytes(content)
    again = NgramModel.open([tmp_path / name for name, _ in model.files()])
    assert again.vocabulary == model.vocabulary
    assert again.facts == model.facts
    texts = pa.array(["it was the age of wisdom", "", "times"])
    assert [a.tolist() for a in again.score(texts, 100)] == [a.tolist() for a in model.score(texts, 100)]


def test_texts_are_scored_up_to_the_token_limit_and_empty_ones_not_at_all() -> None:
    model = trained(["a b c d"], order=2)
    scores, tokens = model.score(pa.array(["a b c d", "", " \n", None]), 2)
    assert tokens.tolist() == [2, 0, 0, 0]
    assert scores[0] == pytest.approx(math.log(after(model)["a"]) + math.log(after(model, "a")["b"]), abs=1e-6)


@pytest.mark.parametrize(("max_tokens", "end"), [(10**6, False), (10**6, True), (7, False), (7, True)])
def test_each_text_scores_as_it_does_alone(max_tokens: int, end: bool) -> None:
    """Words are scored in batches that go on from text to text: short texts, empty ones, one of many batches."""
    pieces = paragraphs("alice_11.txt", 300)
    model = trained(pieces[:50], max_vocabulary=300)
    texts = [*pieces[50:60], "", "alice", "".join(pieces[60:100]), "", *pieces[100:110]]
    together = model.score(pa.array(texts), max_tokens, end=end)
    alone = [model.score(pa.array([text]), max_tokens, end=end) for text in texts]
    assert [pair.tolist() for pair in together] == [[pair[i][0] for pair in alone] for i in (0, 1)]
    by_word = [sum(p for _, p in model.word_log_probabilities(text, end=end)) for text in texts]
    if max_tokens > 7:
        assert together[0].tolist() == pytest.approx(by_word)


def test_the_order_in_which_tables_arrive_changes_nothing_that_matters() -> None:
    """Two tables or one: the same counts, so the same bytes."""
    texts = ["one fish two fish", "red fish blue fish", "one two three"]
    split = NgramTrainer(3, 100, 1)
    for text in texts:
        split.add(pa.array([text]))
    assert split.estimate().files() == trained(texts, 3, 100).files()


def test_text_without_words_cannot_be_trained_on() -> None:
    with pytest.raises(ValueError, match="without a single word"):
        trained(["", "  "])


def test_begin_is_never_predicted() -> None:
    model = trained(["a b", "a c"])
    assert after(model, "a")[model.vocabulary[BEGIN]] == 0
