"""The tokenizer: what it learns from, what it gives back, and that others can load it."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tokenizers import Tokenizer

from pipelines.engines.local import Engine
from pipelines.tokens.hostile import HOSTILE_TEXTS
from pipelines.tokens.tokenizer import make_tokenizer
from pipelines.tokens.tokenizer_params import TokenizerParams
from pipelines.tokens.tokenizer_training import train
from tests.pipelines.tokens.corpus import documents, shared

SENTENCE = "the cat sat on the mat and the dog sat on the cat. "


def files(store, draft):
    return {shard.name: store.get(shard.object) for shard in draft.parts["tokenizer"].shards}


@pytest.fixture(scope="module")
def small():
    return train([SENTENCE * 20], TokenizerParams(vocabulary=300))[0]


def test_special_tokens_come_first_and_padding_is_not_the_end(small):
    assert [small.token_to_id(token) for token in ("<|endoftext|>", "<|pad|>")] == [0, 1]
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
    for name, content in files(store, make_tokenizer(data, config, engine)).items():
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


def test_only_the_named_sources_enter_the_key(store):
    config = TokenizerParams(vocabulary=300, sources=["web"])
    first, second = Engine(store, 1, attempt="1"), Engine(store, 1, attempt="2")
    make_tokenizer(documents(store, {"web": [{"a": SENTENCE}], "books": [{"b": "one"}]}), config, first)
    make_tokenizer(documents(store, {"web": [{"a": SENTENCE}], "books": [{"b": "other"}]}), config, second)
    assert second.results[0].reused


def test_the_spread_over_shards_does_not_change_the_tokenizer(store, engine):
    texts = {f"d{i}": f"{SENTENCE} number {i}" for i in range(20)}
    halves = [dict(list(texts.items())[:7]), dict(list(texts.items())[7:]), {}]
    config = TokenizerParams(vocabulary=300, sample_megabytes=0.001)
    one = make_tokenizer(documents(store, {"web": [texts]}), config, engine)
    several = make_tokenizer(documents(store, {"web": halves}), config, engine)
    assert files(store, one) == files(store, several)
    assert one.stats["sample_bytes"] == {"web": 1000}


def test_weights_set_how_much_each_source_gives(store, engine):
    data = documents(
        store, {"big": [{f"b{i}": "x" * 100 for i in range(90)}], "small": [{f"s{i}": "y" * 100 for i in range(20)}]}
    )
    config = TokenizerParams(vocabulary=258, sample_megabytes=0.002, weights={"big": 1, "small": 3})
    assert make_tokenizer(data, config, engine).stats["sample_bytes"] == {"big": 500, "small": 1500}


def test_weights_name_the_sources_and_their_order_is_none(store, engine):
    texts = {"web": [{"a": SENTENCE}], "books": [{"b": "one and two and three"}], "new": [{"c": "unheard of"}]}
    one = TokenizerParams(vocabulary=300, weights={"web": 1, "books": 2})
    other = TokenizerParams(vocabulary=300, weights={"books": 2, "web": 1})
    first, second, third = (Engine(store, 1, attempt=f"{number}") for number in range(3))
    made = make_tokenizer(documents(store, texts), one, first)
    assert files(store, made) == files(store, make_tokenizer(documents(store, texts), other, second))
    make_tokenizer(documents(store, texts | {"new": [{"c": "heard of"}]}), one, third)
    assert third.results[0].reused
    assert made.stats["attention"].startswith(
        "The sample is not in proportion to tokenizer.weights: books gives 21 of 42"
    )


def test_bytes_per_token_are_measured_by_source(store, engine):
    data = documents(store, {"english": [{"a": SENTENCE * 20}], "japanese": [{"b": "吾輩は猫である。" * 3}]})
    measured = make_tokenizer(data, TokenizerParams(vocabulary=300, min_frequency=10), engine).stats["bytes_per_token"]
    assert measured["english"] > 2 > measured["japanese"] > 0.9


def test_nothing_to_learn_from_is_told(store, engine):
    with pytest.raises(ValueError, match=r"nothing to learn from: its sources \(web\) hold no text"):
        make_tokenizer(documents(store, {"web": [{"a": ""}, {}]}), TokenizerParams(), engine)


def test_an_unknown_source_is_told(store, engine):
    data = documents(store, {"web": [{"a": "text"}]})
    with pytest.raises(ValueError, match="'books', which is not among the sources: web"):
        make_tokenizer(data, TokenizerParams(sources=["books"]), engine)


def test_a_tiny_sample_makes_a_small_vocabulary(store, engine):
    draft = make_tokenizer(documents(store, {"web": [{"a": "x"}]}), TokenizerParams(), engine)
    assert (draft.stats["vocabulary_size"], draft.stats["vocabulary_wanted"]) == (258, 8192)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"vocabulary": 257}, "vocabulary"),
        ({"vocabulary": 258, "reserved_tokens": ["<|user|>"]}, "cannot hold 256 bytes and 3 special"),
        ({"reserved_tokens": ["<|user|>", "<|user|>"]}, "one twice"),
        ({"weights": {"web": 0}}, "must be above 0"),
        ({"sources": ["web"], "weights": {"books": 1}}, "'books' is not among"),
        ({"pad_token": "<|endoftext|>"}, "is the end-of-text token too"),
        ({"eos_token": "</s>", "pad_token": "</s>"}, "is the end-of-text token too"),
        ({"digits": "three", "pattern": "gpt2"}, "part of pattern 'gpt4'"),
    ],
)
def test_params_refuse_what_cannot_be(values, message):
    with pytest.raises(ValidationError, match=message):
        TokenizerParams(**values)


def test_roles_are_named_in_the_profile(store, engine):
    config = TokenizerParams(vocabulary=270, bos_token="<s>", eos_token="</s>", reserved_tokens=["<|user|>"])
    draft = make_tokenizer(documents(store, {"web": [{"a": SENTENCE}]}), config, engine)
    said = json.loads(files(store, draft)["tokenizer_config.json"])
    assert (draft.stats["bos_id"], draft.stats["eos_id"], draft.stats["pad_id"]) == (0, 1, 2)
    assert (said["bos_token"], said["eos_token"], said["pad_token"]) == ("<s>", "</s>", "<|pad|>")
    assert said["additional_special_tokens"] == ["<|user|>"]


def test_a_unigram_tokenizer_is_trained_and_loads(store, engine):
    pytest.importorskip("sentencepiece")
    verbs = [stem + end for stem in ("walk", "talk", "jump", "look", "play") for end in ("", "s", "ed", "ing", "er")]
    data = documents(store, {"web": [{"a": " ".join(verbs * 3)}]})
    draft = make_tokenizer(data, TokenizerParams(kind="unigram", vocabulary=290), engine)
    loaded = Tokenizer.from_buffer(files(store, draft)["tokenizer.json"])
    assert draft.stats["made_by"] == "sentencepiece"
    assert loaded.decode(loaded.encode(SENTENCE).ids) == SENTENCE
    assert draft.stats["bytes_per_token"]["web"] > 1.5


def test_fertility_is_measured_by_source_and_language(store, engine):
    cat, neko = "the cat sat. ", "吾輩は猫である。"
    data = documents(store, {"web": [{"a": (cat * 20, "en"), "b": (neko, "ja")}], "books": [{"c": cat}]})
    draft = make_tokenizer(data, TokenizerParams(vocabulary=270, min_frequency=30), engine)
    found = {(row["source"], row["language"]): row for row in draft.stats["fertility"]}
    assert set(found) == {("web", "en"), ("web", "ja"), ("books", "unknown")}
    loaded = Tokenizer.from_buffer(files(store, draft)["tokenizer.json"])
    japanese = found["web", "ja"]
    tokens = len(loaded.encode(neko).ids)
    assert (japanese["documents"], japanese["bytes"], japanese["words"], japanese["tokens"]) == (1, 24, 7, tokens)
    assert japanese["tokens_per_word"] == tokens / 7 and japanese["bytes_per_token"] == 24 / tokens
    assert found["web", "en"]["words"] == 3 * 20
    tokens, words = (sum(row[name] for row in found.values()) for name in ("tokens", "words"))
    assert draft.stats["tokens_per_word"] == tokens / words


def test_a_language_beyond_what_is_measured_is_measured_on_its_beginning(store, engine, monkeypatch):
    monkeypatch.setattr("pipelines.tokens.fertility.MEASURED_BYTES", 100)
    data = documents(store, {"web": [{f"d{i}": "x" * 60 for i in range(9)} | {"long": "y" * 1000}]})
    rows = make_tokenizer(data, TokenizerParams(vocabulary=258), engine).stats["fertility"]
    assert len(rows) == 1 and rows[0]["documents"] == 2 and 100 <= rows[0]["bytes"] <= 160
