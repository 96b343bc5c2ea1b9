"""Training out of core: the same model whatever the memory, and no more memory for more text."""

import gc
import itertools
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.filters.perplexity.arpa import read_arpa, write_arpa
from pipelines.filters.perplexity.ngram_model import FILE_NAMES, NgramModel
from pipelines.filters.perplexity.ngram_training import NgramTrainer
from tests.pipelines.filters.corpus import paragraphs


def trained(texts: list[str], memory_megabytes: float, order: int = 5, max_vocabulary: int = 1000) -> NgramModel:
    trainer = NgramTrainer(order, max_vocabulary, 2, memory_megabytes)
    trainer.add(pa.array(texts, pa.large_string()))
    return trainer.estimate()


def test_a_tiny_memory_gives_the_same_bytes() -> None:
    """Blocks of 64 rows or one block for all: 3,000 words of a book, half of the different ones unknown."""
    texts = paragraphs("alice_11.txt")[:8]
    model = trained(texts, memory_megabytes=100, max_vocabulary=400)
    assert model.facts["tokens"] > 3000
    assert model.facts["unknown_tokens"] > 100
    assert trained(texts, memory_megabytes=0.001, max_vocabulary=400).files() == model.files()
    assert trained(texts, memory_megabytes=0.1, max_vocabulary=400).files() == model.files()


@pytest.mark.parametrize("bits", [13, 16, 17, 21, 25])
def test_where_words_lie_in_a_key_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bits: int) -> None:
    """Keys have two halves of 64 bits; 5-grams of 9 bits fit into the first, longer words reach into the second."""
    texts = paragraphs("alice_11.txt")[:4]
    model = trained(texts, 10, max_vocabulary=400)
    write_arpa(model, tmp_path / "short.arpa")
    for module in ("ngram_estimates", "ngram_table", "arpa"):
        monkeypatch.setattr(f"pipelines.filters.perplexity.{module}.word_bits", lambda _: bits)
    for memory in (10, 0.02):
        assert trained(texts, memory, max_vocabulary=400).table.tobytes() == model.table.tobytes()
    write_arpa(trained(texts, 10, max_vocabulary=400), tmp_path / "long.arpa")
    write_arpa(read_arpa(tmp_path / "short.arpa"), tmp_path / "again.arpa")
    assert (tmp_path / "short.arpa").read_bytes() == (tmp_path / "long.arpa").read_bytes()
    assert (tmp_path / "short.arpa").stat().st_size == (tmp_path / "again.arpa").stat().st_size


@settings(max_examples=10)
@given(st.lists(st.text("ab c", min_size=30, max_size=300), min_size=1, max_size=5), st.integers(2, 5))
def test_block_size_changes_nothing_where_text_repeats(texts: list[str], order: int) -> None:
    texts = [*texts, "a b"]
    assert trained(texts, 0.001, order, 2).files() == trained(texts, 10, order, 2).files()


LETTERS = "abcdefghijklmnopqrst"
WORDS = pa.array(["".join(letters) for letters in itertools.product(LETTERS, LETTERS)])
"""400 words."""


def words_at_random(draw: np.random.Generator, tokens: int) -> pa.Array:
    """A document."""
    words = WORDS.take(pa.array(draw.integers(0, len(WORDS), tokens)))
    return pc.binary_join(pa.ListArray.from_arrays(pa.array([0, tokens], pa.int32()), words), " ")


def peak_megabytes(tokens: int, folder: Path) -> float:
    """Most memory that numpy held at once, 10^6 bytes, while a model was trained with 0.2 MB for sorting."""
    draw = np.random.default_rng(1)
    gc.collect()
    tracemalloc.start()
    trainer = NgramTrainer(5, 2000, 1, memory_megabytes=0.2, folder=folder)
    for _ in range(0, tokens, 5000):
        trainer.add(words_at_random(draw, 5000))
    trainer.estimate()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def test_four_times_as_much_text_takes_no_more_memory(tmp_path: Path) -> None:
    """Of 400 words, so that hardly a 5-gram of 40,000 words repeats: held at once, all would take 4 MB."""
    peak_megabytes(5000, tmp_path)  # tables of the alphabet are made once
    little, much = peak_megabytes(10_000, tmp_path), peak_megabytes(40_000, tmp_path)
    assert much < 1.1 * little < 1.5


def test_files_of_the_model_stay_in_a_folder_that_was_given_and_nothing_else(tmp_path: Path) -> None:
    trainer = NgramTrainer(3, 100, 1, folder=tmp_path)
    trainer.add(pa.array(["a b c a b"]))
    model = trainer.estimate()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FILE_NAMES)
    assert NgramModel.open([tmp_path / name for name in FILE_NAMES]).files() == model.files()


def test_a_trainer_that_is_dropped_leaves_nothing(tmp_path: Path) -> None:
    trainer = NgramTrainer(3, 100, 1, folder=tmp_path)
    trainer.add(pa.array(["a b c a b"]))
    assert list(tmp_path.iterdir())
    del trainer
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_more_words_than_keys_can_tell_apart_are_refused() -> None:
    words = ["".join(letters) for letters in itertools.product(LETTERS, repeat=3)]
    with pytest.raises(ValueError, match=r"10-grams of 8,003 different words.*lower the order or max_vocabulary"):
        trained([" ".join(words)], 10, order=10, max_vocabulary=10_000)


def test_words_longer_than_all_before_and_documents_in_pieces_are_read_whole() -> None:
    """Given 100,000 words, more than are numbered at once, a word of as many letters among them."""
    long = "x" * 100_000
    text = " ".join(["a b"] * 40_000 + [long] + ["c"] * 20_000)
    trainer = NgramTrainer(2, 100, 1)
    trainer.add(pa.array([text, "", long]))
    model = trainer.estimate()
    assert (model.facts["tokens"], model.facts["documents"]) == (100_002, 2)
    assert model.vocabulary == ["<unk>", "<s>", "</s>", *sorted("ab", key=model.vocabulary.index), "c", long]
