"""The tokenizer: what it learns from, what it gives back, and that others can load it."""

import json
import os
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tokenizers import Tokenizer

from pipelines.engines.local import Engine
from pipelines.tokens.params import END_OF_TEXT, PADDING, TokenizerParams
from pipelines.tokens.tokenizer import HOSTILE_TEXTS, train, train_tokenizer
from tests.pipelines.tokens.corpus import documents, shared

SENTENCE = "the cat sat on the mat and the dog sat on the cat. "
SPECIAL = ["<|endoftext|>", "<|pad|>"]


def files(store, draft):
    return {shard.name: store.get(shard.object) for shard in draft.parts["tokenizer"].shards}


@pytest.fixture(scope="module")
def small():
    return train([SENTENCE * 20], TokenizerParams(vocabulary=300), SPECIAL)


def test_special_tokens_come_first_and_padding_is_not_the_end(small):
    assert [small.token_to_id(token) for token in SPECIAL] == [0, 1]
    assert small.get_vocab_size() <= 300


def test_digits_stand_alone(small):
    assert small.encode("2024").tokens == ["2", "0", "2", "4"]


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text())
def test_any_text_comes_back_unchanged(small, text):
    small.encode_special_tokens = True
    assert small.decode(small.encode(text).ids, skip_special_tokens=False) == text


def test_naughty_strings_come_back_unchanged(small):
    small.encode_special_tokens = True
    for text in [*json.loads(shared("unicode/blns.json").read_text(encoding="utf-8")), *HOSTILE_TEXTS]:
        assert small.decode(small.encode(text).ids, skip_special_tokens=False) == text


def test_transformers_loads_the_folder(store, engine, tmp_path):
    transformers = pytest.importorskip("transformers")
    data = documents(store, {"web": [{"a": SENTENCE * 10}]})
    config = TokenizerParams(vocabulary=300, reserved_tokens=["<|user|>"])
    for name, content in files(store, train_tokenizer(data, config, engine)).items():
        (tmp_path / name).write_bytes(content)
    loaded = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert (loaded.eos_token, loaded.eos_token_id) == ("<|endoftext|>", 0)
    assert (loaded.pad_token, loaded.pad_token_id) == ("<|pad|>", 1)
    assert (loaded.bos_token_id, loaded.unk_token) == (0, None)
    assert loaded.convert_tokens_to_ids("<|user|>") == 2
    text = "the cat , the dog 's mat .  Don 't !\n"
    ids = loaded(text)["input_ids"]
    assert ids == Tokenizer.from_file(str(tmp_path / "tokenizer.json")).encode(text).ids
    assert loaded.decode(ids) == text
    assert len(loaded) == Tokenizer.from_file(str(tmp_path / "tokenizer.json")).get_vocab_size()


def test_the_number_of_threads_does_not_change_a_byte(tmp_path):
    book = shared("books/botchan_en.txt")
    program = (
        "import sys, pathlib; from pipelines.tokens.tokenizer import train; "
        "from pipelines.tokens.params import END_OF_TEXT, PADDING, TokenizerParams; "
        "texts = pathlib.Path(sys.argv[1]).read_text(encoding='utf-8').split('\\n\\n'); "
        f"print(train(texts, TokenizerParams(vocabulary=2000), {SPECIAL}).to_str(pretty=True))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program, str(book)],
            env=os.environ | {"RAYON_NUM_THREADS": threads, "TOKENIZERS_PARALLELISM": parallel},
            check=True,
            capture_output=True,
        ).stdout
        for threads, parallel in [("1", "false"), ("2", "true"), ("5", "true")]
    }
    assert len(outputs) == 1


def test_only_the_named_sources_enter_the_key(store):
    config = TokenizerParams(vocabulary=300, sources=["web"])
    first, second = Engine(store, 1, attempt="1"), Engine(store, 1, attempt="2")
    train_tokenizer(documents(store, {"web": [{"a": SENTENCE}], "books": [{"b": "one"}]}), config, first)
    train_tokenizer(documents(store, {"web": [{"a": SENTENCE}], "books": [{"b": "other"}]}), config, second)
    assert second.results[0].reused


def test_the_spread_over_shards_does_not_change_the_tokenizer(store, engine):
    texts = {f"d{i}": f"{SENTENCE} number {i}" for i in range(20)}
    halves = [dict(list(texts.items())[:7]), dict(list(texts.items())[7:]), {}]
    config = TokenizerParams(vocabulary=300, sample_megabytes=0.001)
    one = train_tokenizer(documents(store, {"web": [texts]}), config, engine)
    several = train_tokenizer(documents(store, {"web": halves}), config, engine)
    assert files(store, one) == files(store, several)
    assert one.stats["sample_bytes"] == {"web": 1000}


def test_weights_set_how_much_each_source_gives(store, engine):
    data = documents(
        store, {"big": [{f"b{i}": "x" * 100 for i in range(90)}], "small": [{f"s{i}": "y" * 100 for i in range(20)}]}
    )
    config = TokenizerParams(vocabulary=258, sample_megabytes=0.002, weights={"big": 1, "small": 3})
    assert train_tokenizer(data, config, engine).stats["sample_bytes"] == {"big": 500, "small": 1500}


def test_bytes_per_token_are_measured_by_source(store, engine):
    data = documents(store, {"english": [{"a": SENTENCE * 20}], "japanese": [{"b": "吾輩は猫である。" * 3}]})
    measured = train_tokenizer(data, TokenizerParams(vocabulary=300, min_frequency=10), engine).stats["bytes_per_token"]
    assert measured["english"] > 2 > measured["japanese"] > 0.9


def test_nothing_to_learn_from_is_told(store, engine):
    with pytest.raises(ValueError, match=r"nothing to learn from: its sources \(web\) hold no text"):
        train_tokenizer(documents(store, {"web": [{"a": ""}, {}]}), TokenizerParams(), engine)


def test_an_unknown_source_is_told(store, engine):
    data = documents(store, {"web": [{"a": "text"}]})
    with pytest.raises(ValueError, match="'books', which is not among the sources: web"):
        train_tokenizer(data, TokenizerParams(sources=["books"]), engine)


def test_a_tiny_sample_makes_a_small_vocabulary(store, engine):
    draft = train_tokenizer(documents(store, {"web": [{"a": "x"}]}), TokenizerParams(), engine)
    assert (draft.stats["vocabulary_size"], draft.stats["vocabulary_wanted"]) == (258, 8192)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"vocabulary": 257}, "vocabulary"),
        ({"vocabulary": 258, "reserved_tokens": ["<|user|>"]}, "cannot hold 256 bytes and 3 special"),
        ({"reserved_tokens": ["<|pad|>"]}, "one twice"),
        ({"weights": {"web": 0}}, "must be above 0"),
        ({"sources": ["web"], "weights": {"books": 1}}, "'books' is not among"),
    ],
)
def test_params_refuse_what_cannot_be(values, message):
    with pytest.raises(ValidationError, match=message):
        TokenizerParams(**values)


def test_a_word_without_end_is_learnt_from_in_pieces_and_encoded_whole() -> None:
    texts = ["x" * 200_000, "plain words " * 50]

    tokenizer = train(texts, TokenizerParams(vocabulary=300), [END_OF_TEXT, PADDING])

    assert tokenizer.decode(tokenizer.encode(texts[0]).ids) == texts[0]
    assert "Split" not in tokenizer.to_str()
