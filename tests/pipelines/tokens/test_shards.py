"""Token shards: what goes into files and tables, what is dropped, what is reused."""

import hashlib
import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

import pipelines.tokens.shards as shards_module
from pipelines.engines.local import Engine
from pipelines.health import ROWS_BALANCE, CheckParams
from pipelines.store import Store
from pipelines.tokens import parity
from pipelines.tokens.indexed import IndexedTokens
from pipelines.tokens.shards import tokenize
from pipelines.tokens.tokenize_params import TokenizeParams
from tests.pipelines.tokens.corpus import documents, sealed, shared
from tests.pipelines.tokens.tokenizers import dataset_like, dataset_of


def read(dataset, folder):
    """The documents of every token shard, as lists of ids."""
    dataset.folder("tokens", folder)
    names = [shard.name for shard in dataset.shards("tokens") if shard.name.endswith(".bin")]
    shards = [IndexedTokens(folder / name, (folder / name).with_suffix(".idx")) for name in names]
    return [[shard.document(i).tolist() for i in range(len(shard))] for shard in shards]


def loaded(tokenizer):
    """A tokenizer dataset, as the library loads it."""
    objects = {shard.name: shard.object for shard in tokenizer.shards("tokenizer")}
    return Tokenizer.from_file(str(tokenizer.store.path(objects["tokenizer.json"])))


def run(store, tokenizer, shards, worker, **params):
    data = documents(store, {"web": shards})
    return sealed(store, tokenize(data, tokenizer, TokenizeParams(**params), worker), "token_shards", "web")


def test_every_document_ends_with_the_end_token(store, engine, tokenizer, tmp_path):
    shards = run(store, tokenizer, [{"a": "the cat", "b": "dog"}, {"c": "mat"}], engine)
    oracle = loaded(tokenizer)
    expected = [[[*oracle.encode(t).ids, 0] for t in texts] for texts in (["the cat", "dog"], ["mat"])]
    assert read(shards, tmp_path) == expected
    assert shards.rows("tokens") == 3
    assert shards.table("token_documents").to_pydict() == {
        "doc_id": ["a", "b", "c"],
        "tokens": [len(ids) for shard in expected for ids in shard],
        "bytes": [7, 3, 3],
    }


def test_without_the_end_token_documents_are_bare(store, engine, tokenizer, tmp_path):
    shards = run(store, tokenizer, [{"a": "the cat"}], engine, eos="never")
    assert 0 not in read(shards, tmp_path)[0][0]


def test_empty_documents_are_dropped_and_counted_also_the_first(store, engine, tokenizer, tmp_path):
    shards = run(store, tokenizer, [{"a": "", "b": "cat", "c": "", "d": " \n"}], engine)
    stats = shards.version.stats
    assert (stats["documents_in"], stats["documents_out"]) == (4, 2)
    assert stats["dropped"] == {"empty": 2, "invalid_utf8": 0, "no_tokens": 0, "too_long": 0}
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
    assert [result.reused for result in engine.results] == [True, True, True, False]  # the first: the guard
    assert second.shards("tokens")[2:] == first.shards("tokens")


@pytest.mark.parametrize(
    ("threads", "choice"),
    [
        (16, "fastokens"),
        pytest.param(0, "fastokens", marks=pytest.mark.slow),  # in processes
        pytest.param(0, "tokenizers", marks=pytest.mark.slow),
    ],
)
def test_workers_do_not_change_a_byte(store, tokenizer, tmp_path, monkeypatch, threads, choice):
    monkeypatch.setattr(shards_module, "THREADS", threads)
    shards = [{f"{i}{j}": f"the cat {i} sat on {j} mats" for j in range(5)} for i in range(4)]
    alone = run(store, tokenizer, shards, Engine(store, 1), engine=choice)
    for path in (tmp_path / "store" / "actions").rglob("*.json"):
        path.unlink()
    engine = Engine(store, 2, alone_seconds=0)
    pooled = run(store, tokenizer, shards, engine, engine=choice)
    assert not any(result.reused for result in engine.results)
    assert pooled.version.id == alone.version.id


def test_a_ready_made_tokenizer_works(store, engine, tmp_path):
    path = shared("tokenizers/gpt_neo_tokenizer.json")
    oracle = Tokenizer.from_file(str(path))
    end = oracle.token_to_id("<|endoftext|>")
    shards = run(store, dataset_of(store, path, {"eos_token": "<|endoftext|>"}), [{"a": "Hello world"}], engine)
    stats = shards.version.stats
    assert (stats["dtype"], stats["vocabulary_size"], stats["eos_id"]) == ("uint16", 50_280, end)
    assert read(shards, tmp_path) == [[[*oracle.encode("Hello world").ids, end]]]


def test_an_end_token_that_does_not_exist_is_told(store, engine):
    ready = dataset_of(store, shared("tokenizers/gpt_neo_tokenizer.json"), {"eos_token": "</s>"})
    with pytest.raises(ValueError, match=r"'</s>', which tokenizer\.json lacks"):
        run(store, ready, [], engine)


def test_real_text_comes_back_from_the_files(store, engine, tokenizer, tmp_path):
    paragraphs = shared("books/alice30.txt").read_text(encoding="utf-8").split("\n\n")[:200]
    kept = [text for text in paragraphs if text]
    shards = run(store, tokenizer, [{f"{i:04}": text for i, text in enumerate(paragraphs)}], engine)
    oracle = loaded(tokenizer)
    assert [oracle.decode(ids[:-1], skip_special_tokens=False) for ids in read(shards, tmp_path)[0]] == kept
    assert shards.version.stats["bytes_out"] == sum(len(text.encode()) for text in kept)


@pytest.mark.parametrize(
    ("kind", "bos", "around"),
    [
        ("llama", "auto", (1, 2)),
        ("llama3", "auto", (0, 1)),
        ("llama3", "never", (None, 1)),
        ("neox", "auto", (None, 0)),
    ],
)
def test_exactly_one_token_stands_at_either_end_of_a_document(store, engine, tmp_path, kind, bos, around):
    # Given tokenizers whose own template puts a beginning-of-text token, or none, and texts that spell these tokens
    tokenizer = dataset_like(store, kind)
    spelled = "<s>to be</s> <|begin_of_text|> or<|end_of_text|><|endoftext|>"
    shards = run(store, tokenizer, [{"a": "to be", "b": spelled, "c": "be"}], engine, bos=bos)
    before, after = around
    special = {token for token in (0, 1, 2) if token in around}
    for ids in read(shards, tmp_path)[0]:
        text = ids[before is not None : -1]
        assert ids == [*[before] * (before is not None), *text, after]
        assert not special & set(text)
    assert (shards.version.stats["bos"], shards.version.stats["eos"]) == (before is not None, True)


def test_too_long_a_document_is_cut_into_consecutive_ones(store, engine, tokenizer, tmp_path):
    texts = {"a": "cat", "b": "the cat sat on the mat", "c": "mat"}
    whole = read(run(store, tokenizer, [texts], engine), tmp_path / "whole")[0]
    shards = run(store, tokenizer, [texts], engine, longest_document=4)
    found, table = read(shards, tmp_path / "cut")[0], shards.table("token_documents").to_pydict()
    assert max(map(len, found)) == 4
    groups = itertools.groupby(zip(table["doc_id"], found, strict=True), key=lambda pair: pair[0])
    together = [(name, [token for _, ids in group for token in ids]) for name, group in groups]
    assert together == list(zip("abc", whole, strict=True))
    assert [size for size in table["bytes"] if size] == [3, 22, 3]
    assert table["tokens"] == [len(ids) for ids in found]
    stats = shards.version.stats
    assert (stats["documents_out"], stats["pieces"]) == (3, len(found)) == (3, shards.rows("tokens"))
    assert ROWS_BALANCE.look(shards.version, None, CheckParams()).passed


def test_too_long_a_document_is_dropped_and_counted(store, engine, tokenizer, tmp_path):
    texts = {"a": "cat", "b": "the cat sat on the mat", "c": "mat"}
    shards = run(store, tokenizer, [texts], engine, longest_document=4, long_documents="drop")
    assert shards.version.stats["dropped"]["too_long"] == 1
    assert shards.table("token_documents")["doc_id"].to_pylist() == ["a", "c"]
    assert read(shards, tmp_path) == read(run(store, tokenizer, [{"a": "cat", "c": "mat"}], engine), tmp_path / "b")


def test_small_batches_make_the_same_bytes(store, engine, tokenizer, monkeypatch):
    texts = {f"{i}": f"the cat {i} sat on the mat " * (i % 7) for i in range(60)}
    whole = run(store, tokenizer, [texts], engine)
    monkeypatch.setattr(shards_module, "BATCH_BYTES", 500)
    other = Store(f"{store.url}-other")
    for shard in tokenizer.shards("tokenizer"):
        other.put(store.get(shard.object))
    again = sealed(other, tokenize_again(other, tokenizer, texts), "token_shards", "web")
    assert again.version.parts == whole.version.parts
    assert again.version.stats == whole.version.stats


def tokenize_again(store, tokenizer, texts, **params):
    """The same in another store, which has the tokenizer's files."""
    moved = type(tokenizer)(tokenizer.asset, tokenizer.versions, store)
    return tokenize(documents(store, {"web": [texts]}), moved, TokenizeParams(**params), Engine(store, 1))


def test_the_hash_of_every_file_is_on_record(store, engine, tokenizer, tmp_path):
    shards = run(store, tokenizer, [{"a": "the cat"}, {"b": "the mat"}], engine)
    shards.folder("tokens", tmp_path)
    for shard in shards.shards("tokens"):
        assert hashlib.sha256((tmp_path / shard.name).read_bytes()).hexdigest() == shard.object
        assert shard.bytes == (tmp_path / shard.name).stat().st_size


@pytest.fixture(scope="module", params=["neox", "llama3", "llama"])
def like_known(request, tmp_path_factory):
    """A tokenizer built like a known one, in a store of its own."""
    return dataset_like(Store(str(tmp_path_factory.mktemp("store"))), request.param)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shards=st.lists(st.lists(st.text(), max_size=4), max_size=3), longest=st.sampled_from([3, 2**31 - 1]))
def test_any_documents_come_back_from_their_shards(tmp_path, like_known, shards, longest):
    tokenizer, store = like_known, like_known.store
    named = [{f"{i}.{j}": text for j, text in enumerate(texts)} for i, texts in enumerate(shards)]
    made = run(store, tokenizer, named, Engine(store, 1), longest_document=longest)
    back: dict[str, list[int]] = {}
    rows = made.table("token_documents")["doc_id"].to_pylist()
    files = (ids for shard in read(made, tmp_path) for ids in shard)
    for name, ids in zip(rows, files, strict=True):
        back.setdefault(name, []).extend(ids)
    oracle = loaded(tokenizer)
    expected = {name: oracle.decode(oracle.encode(text).ids) for shard in named for name, text in shard.items() if text}
    assert {name: oracle.decode(ids) for name, ids in back.items()} == expected
    if oracle.normalizer is None:
        assert expected == {name: text for shard in named for name, text in shard.items() if text}


class Killed(BaseException):
    """The end of the process, as far as the stage is concerned."""


def test_killed_at_any_point_the_same_bytes_are_made_in_the_end(store, tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(parity, "hostile_texts", lambda special: ["the cat", *special])
    shards = [{"a": "the cat"}, {"b": "the mat", "c": ""}]
    whole = run(store, tokenizer, shards, Engine(store, 1)).version
    write, left = Store._write_local, itertools.count()

    def killed_at(point):
        count = itertools.count()

        def written(self, *arguments, **named):
            if next(count) == point:
                raise Killed
            return write(self, *arguments, **named)

        return written

    for point in range(99):
        fresh = Store(str(tmp_path / f"store{point}"))
        for shard in tokenizer.shards("tokenizer"):
            fresh.put(store.get(shard.object))
        data, moved = documents(fresh, {"web": shards}), type(tokenizer)(tokenizer.asset, tokenizer.versions, fresh)
        monkeypatch.setattr(Store, "_write_local", killed_at(point))
        try:
            tokenize(data, moved, TokenizeParams(), Engine(fresh, 1))
            break
        except Killed:
            next(left)
        finally:
            monkeypatch.setattr(Store, "_write_local", write)
        made = sealed(fresh, tokenize(data, moved, TokenizeParams(), Engine(fresh, 1)), "token_shards", "web").version
        assert (made.id, made.parts) == (whole.id, whole.parts)
        assert list((tmp_path / f"store{point}" / "work").iterdir()) == []
    assert next(left) >= 8  # the guard's result; three files and a result of every shard
