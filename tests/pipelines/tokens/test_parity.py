"""The guard before the fast engine: it agrees, or it is not used, and nothing of it is stored."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.engines.local import Engine
from pipelines.tokens import engines, parity
from pipelines.tokens.engines import FastokensEncoder, TokenizersEncoder, opened, reference
from pipelines.tokens.hostile import HOSTILE_TEXTS, hostile_texts
from pipelines.tokens.parity import SAMPLE_CHARACTERS, SAMPLE_TEXTS, first_difference, sample
from pipelines.tokens.shards import tokenize
from pipelines.tokens.tokenize_params import TokenizeParams
from tests.pipelines.tokens.corpus import documents, shared
from tests.pipelines.tokens.tokenizers import dataset_like, like

SHARDS = [{"a": "to be", "b": "or not"}, {"c": "to be wrong"}, {"d": "that is"}]


@pytest.fixture(autouse=True)
def nothing_loaded():
    """Engines are loaded once in a process: not here, where they are exchanged."""
    opened.cache_clear()
    yield
    opened.cache_clear()


@pytest.fixture
def wrong(monkeypatch):
    """Makes the fast engine give other ids for texts that hold a word."""
    right = FastokensEncoder.encode

    def make(word):
        def encode(self, texts):
            ids, counts = right(self, texts)
            ends = np.cumsum(counts)
            changed = np.concatenate([np.full(n, word in t) for t, n in zip(texts, counts, strict=True)] or [[]])
            return np.where(changed.astype(bool), 7, ids).astype(np.uint32), np.diff(ends, prepend=0)

        monkeypatch.setattr(FastokensEncoder, "encode", encode)

    return make


def run(store, tokenizer, worker, **params):
    return tokenize(documents(store, {"web": SHARDS}), tokenizer, TokenizeParams(**params), worker)


@pytest.mark.parametrize("kind", ["neox", "llama3", "llama"])
def test_an_engine_that_agrees_writes_the_bytes_that_the_reference_writes(store, engine, kind):
    tokenizer = dataset_like(store, kind)
    fast = run(store, tokenizer, engine)
    slow = run(store, tokenizer, engine, engine="tokenizers")
    assert fast.stats["engine"] == f"fastokens {engines.engine_version('fastokens')}"
    assert slow.stats["engine"] == f"tokenizers {engines.engine_version('tokenizers')}"
    assert fast.parts == slow.parts
    assert "attention" not in fast.stats


def test_the_engine_is_in_the_key(store, tokenizer):
    first, second = Engine(store, 1), Engine(store, 1)
    run(store, tokenizer, first)
    run(store, tokenizer, second, engine="tokenizers")
    assert not any(result.reused for result in second.results)


def test_a_tokenizer_is_looked_at_once(store):
    tokenizer = dataset_like(store, "neox")
    first, second = Engine(store, 1), Engine(store, 1)
    tokenize(documents(store, {"web": SHARDS}), tokenizer, TokenizeParams(), first)
    tokenize(documents(store, {"books": [{"z": "a book"}]}), tokenizer, TokenizeParams(), second)
    assert [result.reused for result in second.results] == [True, False]


def test_other_ids_for_a_hostile_text_and_the_engine_is_not_used(store, engine, wrong):
    wrong("吾輩は猫である")
    stats = run(store, dataset_like(store, "neox"), engine).stats
    assert stats["engine"].startswith("tokenizers ")
    assert "and tokenizers" in stats["engine_because"]
    assert "differ in the ids of '吾輩は猫である" in stats["attention"]


def test_other_ids_in_one_shard_and_no_shard_is_taken_from_the_engine(store, engine, wrong):
    tokenizer = dataset_like(store, "neox")
    right = run(store, tokenizer, engine, engine="tokenizers")
    held = {name for name, _ in store.objects()}
    wrong("to be wrong")
    found = run(store, tokenizer, engine)
    assert found.parts == right.parts
    assert "differ in the ids of document c in filtered_documents[web]" in found.stats["attention"]
    assert "wrong" not in found.stats["attention"]  # nobody's text stands in notes and pages
    assert {name for name, _ in store.objects()} == held  # no wrong id was ever stored: the other shards are the same


def test_what_one_source_finds_holds_for_all_others_with_this_tokenizer(store, engine, wrong):
    tokenizer, other = dataset_like(store, "neox"), dataset_like(store, "llama3")
    good = documents(store, {"books": [{"a": "to be", "b": "or not"}]})
    assert "attention" not in tokenize(good, tokenizer, TokenizeParams(), engine).stats
    wrong("wrong")
    found = run(store, tokenizer, engine)

    told = tokenize(good, tokenizer, TokenizeParams(), engine).stats

    assert told["engine"].startswith("tokenizers ")
    assert told["attention"] == found.stats["attention"]
    assert "document c in filtered_documents[web]" in told["engine_because"]
    assert tokenize(good, other, TokenizeParams(), engine).stats["engine"].startswith("fastokens ")


def test_an_engine_that_fails_in_the_middle_is_not_used(store, engine, monkeypatch):
    tokenizer = dataset_like(store, "neox")
    right = FastokensEncoder.encode

    def encode(self, texts):
        if "that is" in texts:
            return engines._call(lambda: 1 // 0)
        return right(self, texts)

    monkeypatch.setattr(FastokensEncoder, "encode", encode)
    stats = run(store, tokenizer, engine).stats
    assert "fastokens fails: integer division" in stats["attention"]
    assert stats["engine"].startswith("tokenizers ")


def test_lack_of_memory_is_no_fault_of_the_engine(store, engine, monkeypatch):
    tokenizer = dataset_like(store, "neox")
    right = FastokensEncoder.encode

    def encode(self, texts):
        if "that is" in texts:
            return engines._call(lambda: bytes(1 << 62))
        return right(self, texts)

    with monkeypatch.context() as patch:
        patch.setattr(FastokensEncoder, "encode", encode)
        with pytest.raises(MemoryError):
            run(store, tokenizer, engine)
    assert run(store, tokenizer, engine).stats["engine"].startswith("fastokens ")


def test_an_engine_that_does_not_know_the_tokenizer_is_no_reason_for_alarm(store, engine):
    stats = run(store, dataset_like(store, "metaspace"), engine).stats
    assert stats["engine"].startswith("tokenizers ")
    assert "Metaspace" in stats["engine_because"]
    assert "attention" not in stats


def test_without_the_engine_the_reference_does_it(store, engine, tokenizer, monkeypatch):
    with_it = run(store, tokenizer, engine)
    installed = engines.engine_version
    monkeypatch.setattr(parity, "engine_version", lambda name: None if name == "fastokens" else installed(name))
    without = run(store, tokenizer, engine)
    assert without.stats["engine_because"] == "fastokens is not installed"
    assert without.parts == with_it.parts


def test_who_insists_on_the_engine_is_told(store, engine, wrong):
    with pytest.raises(ValueError, match=r"tokenize\.engine is fastokens, but .*Metaspace.*; set it to auto"):
        run(store, dataset_like(store, "metaspace"), engine, engine="fastokens")
    wrong("to be wrong")
    with pytest.raises(ValueError, match="differ in the ids of document c in"):
        run(store, dataset_like(store, "neox"), engine, engine="fastokens")


def test_the_first_difference_is_named(wrong):
    wrong("be")
    fast, slow = FastokensEncoder(like("neox")), TokenizersEncoder(like("neox"))
    assert first_difference(["or not", ""], fast, slow) is None
    assert first_difference(["or not", "", "to be", "be"], fast, slow) == 2


def test_the_sample_is_spread_over_a_shard_whatever_the_batches():
    texts = [f"{number} " * 9 for number in range(100)]
    whole = sample(texts, 100, 0)
    assert len(whole) <= SAMPLE_TEXTS
    assert min(whole) < 7
    assert max(whole) >= 90
    assert all(texts[number] == text for number, text in whole.items())
    batches = [(first, sample(texts[first : first + 9], 100, first)) for first in range(0, 100, 9)]
    assert {first + number: text for first, found in batches for number, text in found.items()} == whole


def test_of_long_documents_every_part_is_looked_at():
    long = "".join(chr(0x4E00 + number) for number in range(20_000))
    chosen = list(sample([long] * 16, 16, 0).values())
    assert {len(text) for text in chosen} == {SAMPLE_CHARACTERS}
    assert [long.index(text) for text in chosen] == sorted({long.index(text) for text in chosen})
    assert sample([], 0, 0) == {}


def test_hostile_texts_are_text_and_the_same_every_time():
    texts = hostile_texts(["<s>"])
    assert texts == hostile_texts(["<s>"])
    assert len("".join(texts).encode()) < 250_000
    assert {"<s>", "a<s>b", "<s", "s>"} <= set(texts)
    assert set(HOSTILE_TEXTS) <= set(texts)


@functools.cache
def both(kind):
    return FastokensEncoder(like(kind)), TokenizersEncoder(like(kind))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text()), st.sampled_from(["neox", "llama3", "llama"]))
def test_any_text_has_the_ids_of_the_reference(texts, kind):
    fast, slow = both(kind)
    assert first_difference(texts, fast, slow) is None
    assert first_difference(texts, fast.continuing, slow.continuing) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt_neo_tokenizer.json", "llama_tokenizer.json"])
def test_the_engine_knows_every_code_point(name):
    path = shared(f"tokenizers/{name}")
    points = [chr(point) for point in range(0x110000) if not 0xD800 <= point < 0xE000]
    runs = [points[start : start + 400] for start in range(0, len(points), 400)]
    for joint in ("", " ", "a", "\u0301"):
        assert (
            first_difference([joint.join(letters) for letters in runs], opened("fastokens", path), reference(path))
            is None
        )


def test_the_hostile_texts_find_an_engine_that_forgets_the_normaliser():
    bare = like("neox").replace('"normalizer":{"type":"NFC"}', '"normalizer":null')
    assert bare != like("neox")
    assert first_difference(hostile_texts([]), FastokensEncoder(bare), TokenizersEncoder(like("neox"))) is not None
