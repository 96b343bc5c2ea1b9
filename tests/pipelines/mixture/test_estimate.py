"""Tokens estimated from text, beside what tokenizers make of it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from pipelines.mixture.estimate import estimated_tokens
from tests.pipelines.tokens.corpus import shared


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("cat", 1),
        ("the cat sat", 3),
        ("abcdefgh", 1 + 3 * 0.3),
        ("2026", 4),
        ("a = b;", 2 + 2 * 0.5),
        ("one\n\n    two", 2 + 1),
        ("дом", 3 * 0.5),
        ("猫", 0.7),
        ("🦙", 0.7),
    ],
)
def test_words_digits_signs_and_letters_have_their_tokens(text, tokens):
    assert estimated_tokens(text.encode()) == pytest.approx(tokens)


@given(st.text(), st.text())
def test_texts_side_by_side_have_the_tokens_of_both_to_within_two(one, other):
    together = estimated_tokens((one + other).encode())
    assert abs(together - estimated_tokens(one.encode()) - estimated_tokens(other.encode())) <= 2.5


def test_any_bytes_have_an_estimate():
    assert estimated_tokens(bytes(range(256))) > 0


@pytest.mark.parametrize("name", ["gpt_neo_tokenizer.json", "llama_tokenizer.json"])
def test_english_and_code_are_nearer_to_the_estimate_than_to_a_constant(name):
    tokenizer = Tokenizer.from_file(str(shared(f"tokenizers/{name}")))
    tokenizer.no_truncation()
    texts = [
        *(shared(f"books/{book}.txt") for book in ("alice_11", "botchan_en", "tinyshakespeare")),
        shared("benchmarks/gsm8k_test.jsonl"),
        shared("toxicity/davidson_tweets.csv"),
        Path(estimated_tokens.__code__.co_filename),
    ]
    counted, estimated, constant = [], [], []
    for path in texts:
        text = path.read_text(encoding="utf-8", errors="replace")[:30_000]
        counted.append(len(tokenizer.encode(text, add_special_tokens=False).ids))
        estimated.append(estimated_tokens(text.encode()))
        constant.append(len(text.encode()) / 4)
    assert spread(estimated, counted) < 0.1
    assert spread(estimated, counted) < 0.75 * spread(constant, counted)


def spread(estimated, counted):
    """How far the ratios are from the mean ratio, in the mean."""
    ratios = [a / b for a, b in zip(estimated, counted, strict=True)]
    mean = sum(ratios) / len(ratios)
    return sum(abs(ratio / mean - 1) for ratio in ratios) / len(ratios)
