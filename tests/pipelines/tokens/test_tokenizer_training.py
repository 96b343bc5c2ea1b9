"""Learning a vocabulary: our own trainer against that of `tokenizers`, merge by merge, and unigram by SentencePiece."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from pipelines.tokens import tokenizer_training as training
from pipelines.tokens.hostile import HOSTILE_TEXTS
from pipelines.tokens.tokenizer_params import END_OF_TEXT, PADDING, TokenizerParams
from pipelines.tokens.tokenizer_training import (
    LIBRARY,
    OWN,
    byte_symbols,
    skeleton,
    train,
    train_bpe,
    train_bpe_by_library,
)
from pipelines.tokens.tokenizer_words import LONGEST_WORD, count_words
from tests.pipelines.tokens.corpus import shared

PATTERNS = [("gpt2", "single"), ("gpt2", "whole"), ("gpt4", "single"), ("gpt4", "three"), ("gpt4", "whole")]
SCRIPTS = ("arb", "cmn_hans", "deu_1996", "heb", "hin", "jpn", "kor", "rus", "tha", "vie")
SHORT = st.text(alphabet=st.sampled_from("aabbcd' \n\r\t1२é吾!\u3000\u017f"), max_size=40)
"""Texts of few characters: with many equal counts, and tokens that are spelt alike."""


def words_by_library(texts, config):
    """The words as `tokenizers` cuts them, in bytes."""
    cut = skeleton(config, training.models.BPE()).pre_tokenizer
    byte = {symbol: number for number, symbol in enumerate(byte_symbols())}
    found = Counter()
    for text in texts:
        for word, _ in cut.pre_tokenize_str(text):
            content = bytes(map(byte.__getitem__, word))
            found.update(content[i : i + LONGEST_WORD] for i in range(0, len(content), LONGEST_WORD))
    return found


def counted(texts, pattern, digits):
    found = count_words(texts, pattern, digits)
    return dict(zip(found.words(), found.counts.tolist(), strict=True))


def merges(tokenizer):
    return json.loads(tokenizer.to_str())["model"]["merges"]


@pytest.mark.parametrize(("pattern", "digits"), PATTERNS)
def test_words_are_those_of_the_library(pattern, digits):
    naughty = json.loads(shared("unicode/blns.json").read_text(encoding="utf-8"))
    scripts = [shared(f"multilingual/udhr_{name}.xml").read_text(encoding="utf-8")[:4000] for name in SCRIPTS]
    code = [Path(training.__file__).read_text(encoding="utf-8")]
    texts = [*HOSTILE_TEXTS, *naughty, *scripts, *code]
    assert counted(texts, pattern, digits) == words_by_library(texts, TokenizerParams(pattern=pattern, digits=digits))


@pytest.mark.parametrize(("pattern", "digits"), PATTERNS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.one_of(SHORT, st.text(max_size=30)), max_size=3))
def test_words_of_any_text_are_those_of_the_library(pattern, digits, texts):
    assert counted(texts, pattern, digits) == words_by_library(texts, TokenizerParams(pattern=pattern, digits=digits))


def test_words_that_need_a_larger_table_are_counted_once_each():
    words = [f"{number:x}".translate(str.maketrans("0123456789", "ghijklmnop")) for number in range(70_000)]
    found = counted([" ".join(words)] * 2, "gpt4", "single")
    assert found == {word.encode() if word == "g" else b" " + word.encode(): 2 for word in words}


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(st.text(alphabet="ab ", max_size=60), min_size=1, max_size=6),
    few=st.integers(0, 60),
    least=st.integers(1, 3),
)
def test_ties_are_decided_as_the_library_decides_them(texts, few, least):
    config = TokenizerParams(vocabulary=258 + few, min_frequency=least)
    assert train_bpe(texts, config).to_str() == train_bpe_by_library(texts, config).to_str()


@pytest.mark.parametrize(("pattern", "digits"), [("gpt2", "single"), ("gpt4", "three")])
@pytest.mark.parametrize(("vocabulary", "least"), [(700, 2), (4000, 1)])
def test_merges_of_books_and_code_are_those_of_the_library(pattern, digits, vocabulary, least):
    book = shared("books/alice30.txt").read_text(encoding="utf-8").split("\n\n")
    japanese = shared("multilingual/wagahaiwa_nekodearu_ja.txt").read_text(encoding="utf-8")[:30_000]
    texts = [*book, japanese, Path(training.__file__).read_text(encoding="utf-8"), *HOSTILE_TEXTS]
    config = TokenizerParams(pattern=pattern, digits=digits, vocabulary=vocabulary, min_frequency=least)
    assert train_bpe(texts, config).to_str() == train_bpe_by_library(texts, config).to_str()


@pytest.mark.parametrize("reserved", [["--", "-"], ["Ġ--"], ["!", "<|user|>"], [" -- cat"]])
def test_special_tokens_that_are_spelt_like_learnt_ones_are_handled_as_by_the_library(reserved):
    config = TokenizerParams(vocabulary=300, reserved_tokens=reserved, nfc=True)
    texts = ["the cat -- and the café -- cat -- sat at the mat, a cat! " * 5]
    assert train_bpe(texts, config).to_str() == train_bpe_by_library(texts, config).to_str()


@pytest.mark.parametrize("token", ["the", "the cat", " ", "Ġthe", "é", "42"])
def test_a_reserved_token_without_signs_is_refused(token):
    with pytest.raises(ValidationError, match=f"reserved_tokens: '{token}' is ordinary text"):
        TokenizerParams(reserved_tokens=[token])


@pytest.mark.parametrize("token", ["--", "Ġ--", "!"])
def test_a_special_token_that_text_would_be_cut_into_is_refused(token):
    config = TokenizerParams(vocabulary=300, reserved_tokens=[token, "<|the|>"])
    with pytest.raises(ValueError, match=f"special token '{token}' is also what text is cut into"):
        train(["the cat -- and the dog -- the mat! " * 5], config)


def test_our_own_trainer_is_used_where_it_agrees(monkeypatch):
    texts, config = ["the cat sat on the mat"], TokenizerParams(vocabulary=264, min_frequency=1)
    assert train(texts, config)[1] == OWN
    monkeypatch.setattr(training, "learn_merges", lambda words, byte_ids, *_: [(byte_ids[0], byte_ids[1], 258)])
    tokenizer, made_by = train(texts, config)
    assert made_by == LIBRARY
    assert merges(tokenizer) == merges(train_bpe_by_library(texts, config)) != []


def test_characters_that_the_library_takes_for_two_things_are_left_to_it(monkeypatch):
    never = SimpleNamespace(Digits=lambda individual_digits: SimpleNamespace(pre_tokenize_str=lambda text: [text]))
    monkeypatch.setattr("pipelines.tokens.tokenizer_words.pre_tokenizers", never)
    assert train(["cat 7"], TokenizerParams(vocabulary=300))[1] == LIBRARY


def test_byte_symbols_are_those_of_the_library():
    assert sorted(byte_symbols()) == sorted(training.pre_tokenizers.ByteLevel.alphabet())


def test_a_word_without_end_is_learnt_from_in_pieces_and_encoded_whole():
    texts = ["x" * 200_000, "plain words " * 50]
    for make in (train_bpe, train_bpe_by_library):
        tokenizer = make(texts, TokenizerParams(vocabulary=300))
        assert tokenizer.decode(tokenizer.encode(texts[0]).ids) == texts[0]
        assert str(LONGEST_WORD) not in json.dumps(json.loads(tokenizer.to_str())["pre_tokenizer"])


def test_composed_characters_are_learnt_composed_where_that_is_asked():
    texts = ["cafe\u0301 " * 20]
    config = TokenizerParams(vocabulary=270, nfc=True)
    tokenizer, _ = train(texts, config)
    assert tokenizer.decode(tokenizer.encode(texts[0]).ids) == "caf\u00e9 " * 20
    assert tokenizer.to_str() == train_bpe_by_library(texts, config).to_str()


@pytest.mark.slow
def test_neither_threads_nor_the_hour_change_a_byte():
    pytest.importorskip("sentencepiece")
    program = (
        "import sys, pathlib; from pipelines.tokens.tokenizer_training import train; "
        "from pipelines.tokens.tokenizer_params import TokenizerParams; "
        "texts = pathlib.Path(sys.argv[1]).read_text(encoding='utf-8').split('\\n\\n')[:200]; "
        "print(*(train(texts, TokenizerParams(kind=kind, vocabulary=600))[0].to_str() for kind in ('bpe', 'unigram')))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program, str(shared("books/alice30.txt"))],
            env=os.environ | {"RAYON_NUM_THREADS": threads, "TOKENIZERS_PARALLELISM": parallel},
            check=True,
            capture_output=True,
        ).stdout
        for threads, parallel in [("1", "false"), ("3", "true")]
    }
    assert len(outputs) == 1


@pytest.fixture(scope="module")
def unigram():
    pytest.importorskip("sentencepiece")
    book = shared("books/alice30.txt").read_text(encoding="utf-8")[:40_000].split("\n\n")
    return book, train(book, TokenizerParams(kind="unigram", vocabulary=700, reserved_tokens=["<Alice>"]))[0]


def test_a_unigram_vocabulary_has_the_size_and_the_ids_that_were_asked_for(unigram):
    _, tokenizer = unigram
    assert tokenizer.get_vocab_size() == 700
    assert [tokenizer.token_to_id(token) for token in (END_OF_TEXT, PADDING, "<Alice>")] == [0, 1, 2]
    assert set(byte_symbols()) <= tokenizer.get_vocab().keys()


def test_a_unigram_vocabulary_cuts_text_into_the_likeliest_pieces_and_special_tokens_are_none(unigram):
    book, tokenizer = unigram
    tokenizer.encode_special_tokens = True
    encoded = [tokenizer.encode(text) for text in book]
    assert 0.5 * sum(map(len, book)) > sum(len(one.ids) for one in encoded)
    assert not any({0, 1, 2} & set(one.ids) for one in encoded)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text())
def test_a_unigram_vocabulary_gives_any_text_back(unigram, text):
    _, tokenizer = unigram
    tokenizer.encode_special_tokens = True
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


def test_unigram_without_its_library_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(ValueError, match=r"pip install -e '.\[unigram\]'"):
        train(["text"], TokenizerParams(kind="unigram"))
