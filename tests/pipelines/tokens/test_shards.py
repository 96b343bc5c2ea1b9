"""Token shards: what goes into files and tables, what is dropped, what is reused."""

import numpy as np
import pytest
from tokenizers import Tokenizer

from pipelines.engines.local import Engine
from pipelines.tokens.indexed import IndexedTokens
from pipelines.tokens.params import TokenizeParams
from pipelines.tokens.shards import tokenize, with_end_token
from tests.pipelines.tokens.corpus import documents, sealed, shared, tokenizer_from


def read(dataset, folder):
    """The documents of every token shard, as lists of ids."""
    dataset.folder("tokens", folder)
    names = [shard.name for shard in dataset.shards("tokens") if shard.name.endswith(".bin")]
    shards = [IndexedTokens(folder / name, (folder / name).with_suffix(".idx")) for name in names]
    return [[shard.document(i).tolist() for i in range(len(shard))] for shard in shards]


def run(store, tokenizer, shards, engine, **params):
    data = documents(store, {"web": shards})
    return sealed(store, tokenize(data, tokenizer, TokenizeParams(**params), engine), "token_shards", "web")


def test_every_document_ends_with_the_end_token(store, engine, tokenizer, tmp_path):
    shards = run(store, tokenizer, [{"a": "the cat", "b": "dog"}, {"c": "mat"}], engine)
    oracle = Tokenizer.from_file(str(store.path(tokenizer.shards("tokenizer")[0].object)))
    expected = [[[*oracle.encode(t).ids, 0] for t in texts] for texts in (["the cat", "dog"], ["mat"])]
    assert read(shards, tmp_path) == expected
    assert shards.rows("tokens") == 3
    assert shards.table("token_documents").to_pydict() == {
        "doc_id": ["a", "b", "c"],
        "tokens": [len(ids) for shard in expected for ids in shard],
        "bytes": [7, 3, 3],
    }


def test_without_the_end_token_documents_are_bare(store, engine, tokenizer, tmp_path):
    shards = run(store, tokenizer, [{"a": "the cat"}], engine, append_eos=False)
    assert 0 not in read(shards, tmp_path)[0][0]


def test_empty_documents_are_dropped_and_counted_also_the_first(store, engine, tokenizer, tmp_path):
    shards = run(store, tokenizer, [{"a": "", "b": "cat", "c": "", "d": " \n"}], engine)
    stats = shards.version.stats
    assert (stats["documents_in"], stats["documents_out"]) == (4, 2)
    assert stats["dropped"] == {"empty": 2, "invalid_utf8": 0, "no_tokens": 0}
    assert sum(stats["histograms"]["tokens per document"]["documents"]) == 2
    assert shards.table("token_documents")["doc_id"].to_pylist() == ["b", "d"]
    assert [ids[-1] for ids in read(shards, tmp_path)[0]] == [0, 0]


def test_shards_without_tokens_and_sources_without_shards_make_no_files(store, engine, tokenizer):
    assert run(store, tokenizer, [{"a": ""}, {}], engine).rows("tokens") == 0
    nothing = run(store, tokenizer, [], engine)
    assert nothing.shards("tokens") == nothing.shards("token_documents") == []
    assert nothing.version.stats["tokens"] == 0


def test_a_new_shard_renames_and_repeats_nothing(store, tokenizer):
    first = run(store, tokenizer, [{"a": "cat"}, {"b": "dog"}], Engine(store, 1, attempt="1"))
    engine = Engine(store, 1, attempt="2")
    second = run(store, tokenizer, [{"n": "new"}, {"a": "cat"}, {"b": "dog"}], engine)
    assert [result.reused for result in engine.results] == [True, True, False]
    assert second.shards("tokens")[2:] == first.shards("tokens")


def test_workers_do_not_change_a_byte(store, tokenizer, tmp_path):
    shards = [{f"{i}{j}": f"the cat {i} sat on {j} mats" for j in range(5)} for i in range(4)]
    alone = run(store, tokenizer, shards, Engine(store, 1))
    for path in (tmp_path / "store" / "actions").rglob("*.json"):
        path.unlink()
    engine = Engine(store, 2)
    pooled = run(store, tokenizer, shards, engine)
    assert not any(result.reused for result in engine.results)
    assert pooled.version.id == alone.version.id


def test_a_ready_made_tokenizer_works(store, engine, tmp_path):
    path = shared("tokenizers/gpt_neo_tokenizer.json")
    oracle = Tokenizer.from_file(str(path))
    end = oracle.token_to_id("<|endoftext|>")
    shards = run(store, tokenizer_from(store, path, "<|endoftext|>"), [{"a": "Hello world"}], engine)
    stats = shards.version.stats
    assert (stats["dtype"], stats["vocabulary_size"], stats["eos_id"]) == ("uint16", 50_280, end)
    assert read(shards, tmp_path) == [[[*oracle.encode("Hello world").ids, end]]]


def test_an_end_token_that_does_not_exist_is_told(store, engine):
    ready = tokenizer_from(store, shared("tokenizers/gpt_neo_tokenizer.json"), "</s>")
    with pytest.raises(ValueError, match=r"'</s>', which tokenizer\.json lacks"):
        run(store, ready, [], engine)


def test_real_text_comes_back_from_the_files(store, engine, tokenizer, tmp_path):
    paragraphs = shared("books/alice30.txt").read_text(encoding="utf-8").split("\n\n")[:200]
    kept = [text for text in paragraphs if text]
    shards = run(store, tokenizer, [{f"{i:04}": text for i, text in enumerate(paragraphs)}], engine)
    oracle = Tokenizer.from_file(str(store.path(tokenizer.shards("tokenizer")[0].object)))
    assert [oracle.decode(ids[:-1], skip_special_tokens=False) for ids in read(shards, tmp_path)[0]] == kept
    assert shards.version.stats["bytes_out"] == sum(len(text.encode()) for text in kept)


def test_end_tokens_are_put_after_each_length():
    assert with_end_token(np.array([1, 2, 3]), np.array([2, 1]), 9).tolist() == [1, 2, 9, 3, 9]
    assert with_end_token(np.array([], np.uint16), np.array([], np.int64), 9).tolist() == []
