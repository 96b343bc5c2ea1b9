"""From token shards through the blend to training samples: exact shares, every token once, any index at once."""

import itertools
import json
import pickle
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.dataset import Dataset, Draft, seal
from pipelines.engines.local import Engine
from pipelines.mixture.params import MixtureParams
from pipelines.mixture.plan import plan
from pipelines.mixture.stage import plan_mixture
from pipelines.tokens.blend import blend
from pipelines.tokens.indexed import TokenFileError, index_bytes
from pipelines.tokens.params import BlendParams, TokenizeParams
from pipelines.tokens.shards import tokenize
from pipelines.tokens.stream import shuffled
from pipelines.tokens.training_dataset import BlendDataset
from tests.pipelines.tokens.corpus import documents, sealed


def make(store, tokenizer, engine, sources, mixture=None, config=None):
    """(blend, token shards) of source → shards → id → text."""
    data = documents(store, sources)
    asked = sealed(store, plan_mixture(data, mixture or MixtureParams(), engine), "training_mixture")
    drafts = {name: tokenize(data.of(name), tokenizer, TokenizeParams(), engine) for name in data.partitions}
    shards = Dataset(
        "token_shards",
        tuple(seal(store, draft, asset="token_shards", partition=name) for name, draft in drafts.items()),
        store,
    )
    return sealed(store, blend(asked, shards, config or BlendParams(), engine, plan), "training_blend"), shards


SOURCES = {
    "web": [{f"w{i}{j}": f"the cat sat on mat {i} {j}" for j in range(20)} for i in range(3)],
    "books": [{f"b{i}": f"the dog {i}" for i in range(10)}],
}


def test_the_blend_counts_what_the_plan_estimated(store, engine, tokenizer):
    made, shards = make(store, tokenizer, engine, SOURCES, MixtureParams(shares={"web": 1, "books": 1}))
    mixture = made.table("mixture").to_pydict()
    content = json.loads(store.get(made.shards("blend")[0].object))
    held = made.version.stats["validation_tokens"]
    counted = [version.stats["tokens"] for version in shards.versions]
    assert sum(mixture["available_tokens"]) == sum(counted) - held
    assert abs(mixture["planned_tokens"][0] - mixture["planned_tokens"][1]) <= 1
    assert [source["planned_tokens"] for source in content["sources"]] == mixture["planned_tokens"]
    assert [shard["bin"] for source in content["sources"] for shard in source["shards"]] == [
        shard.name for shard in shards.shards("tokens") if shard.name.endswith(".bin")
    ]
    assert made.version.stats["realised_shares"] == {
        "web": pytest.approx(0.5, abs=0.01),
        "books": pytest.approx(0.5, abs=0.01),
    }


def test_shares_that_are_off_are_told(store, engine, tokenizer):
    asked = MixtureParams(shares={"web": 0.1, "books": 0.9}, token_budget=2_000, max_epochs=1)
    made, _ = make(store, tokenizer, engine, SOURCES, asked)
    assert made.version.stats["shares_off"].keys() == {"web", "books"}
    assert "books can supply" in made.version.stats["notes"]["books"]


def test_changed_shares_tokenize_and_split_nothing_again(store, tokenizer):
    make(store, tokenizer, Engine(store, 1, attempt="1"), SOURCES)
    again = Engine(store, 1, attempt="2")
    make(store, tokenizer, again, SOURCES, MixtureParams(shares={"web": 0.5, "books": 0.5}))
    assert sum(not result.reused for result in again.results) == 2  # the plan and the blend


def test_sources_tokenized_differently_are_refused(store, engine, tokenizer):
    _, shards = make(store, tokenizer, engine, SOURCES)
    other = Draft(shards.versions[1].parts, shards.versions[1].stats | {"tokenizer": "another"})
    books = seal(store, other, asset="token_shards", partition="books", code_version="2")
    mixed = Dataset("token_shards", (shards.versions[0], books), store)
    asked = sealed(store, plan_mixture(documents(store, SOURCES), MixtureParams(), engine), "training_mixture")
    with pytest.raises(ValueError, match="web and books were tokenized with different tokenizers"):
        blend(asked, mixed, BlendParams(), engine, plan)


def test_empty_sources_and_one_document_sources_go_through(store, engine, tokenizer, tmp_path):
    sources = {"none": [], "blank": [{"e": ""}], "one": [{"o": "the cat sat on the mat " * 5}]}
    made, shards = make(store, tokenizer, engine, sources)
    folder = shards.folder("tokens", made.folder("blend", tmp_path / "corpus"))
    data = BlendDataset(folder, "train", 4)
    assert len(data) == data.samples["one"] > 0
    assert len(BlendDataset(folder, "validation", 4)) == 0


def test_validation_and_training_share_no_document(store, engine, tokenizer, tmp_path):
    sources = {"web": [{f"d{i:03}": f"{i:03} cat" for i in range(300)}]}
    made, shards = make(store, tokenizer, engine, sources, config=BlendParams(validation_share=0.2))
    folder = shards.folder("tokens", made.folder("blend", tmp_path / "corpus"))
    seen = {}
    for split in ("train", "validation"):
        data = BlendDataset(folder, split, 1)
        ids = [int(data.sample(i)[0]) for i in range(len(data))]
        seen[split] = {tuple(part) for part in _cut(ids, data.eos_id)[:-1]}
        assert len(seen[split]) >= made.version.stats[f"{'training' if split == 'train' else split}_documents"] - 1
    assert not seen["train"] & seen["validation"]


def _cut(ids, end):
    parts = [[]]
    for token in ids:
        if token == end:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def corpus(folder, sources, planned, held=(), shard_documents=3):
    """A corpus whose tokens are all different. sources: name → lengths of documents. Returns name → documents."""
    folder.mkdir(parents=True)
    told, made, token = [], {}, 0
    for name, lengths in sources.items():
        shards = []
        made[name] = []
        for start in range(0, len(lengths), shard_documents):
            some = lengths[start : start + shard_documents]
            docs = [list(range(token + sum(some[:i]), token + sum(some[: i + 1]))) for i in range(len(some))]
            token += sum(some)
            stem = f"{name}{start}"
            (folder / f"{stem}.bin").write_bytes(np.concatenate(docs).astype("<i4").tobytes())
            (folder / f"{stem}.idx").write_bytes(index_bytes(np.array(some), np.dtype("<i4")))
            places = [i - start for n, i in held if n == name and start <= i < start + len(some)]
            shards.append(
                {
                    "bin": f"{stem}.bin",
                    "idx": f"{stem}.idx",
                    "documents": len(some),
                    "tokens": sum(some),
                    "validation_documents": places,
                }
            )
            made[name] += [doc for i, doc in enumerate(docs) if i not in places]
        told.append({"name": name, "planned_tokens": planned[name], "shards": shards})
    blend_file = {"version": 1, "dtype": "int32", "vocabulary_size": token + 1, "eos_id": 0, "seed": 7, "sources": told}
    (folder / "blend.json").write_text(json.dumps(blend_file))
    return made


@settings(max_examples=30, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=12),
    epochs=st.integers(1, 3),
    sequence_length=st.integers(1, 11),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_token_of_an_epoch_is_an_input_exactly_once(tmp_path_factory, lengths, epochs, sequence_length, seed):
    folder = tmp_path_factory.mktemp("corpus") / "c"
    tokens = epochs * sum(lengths)
    made = corpus(folder, {"a": lengths}, {"a": tokens})
    data = BlendDataset(folder, "train", sequence_length, seed)
    samples = [data.sample(i) for i in range(len(data))]
    stream = [int(token) for sample in samples for token in sample[:-1]]
    assert len(stream) + data.cut_tokens["a"] == tokens
    assert 1 <= data.cut_tokens["a"] <= sequence_length
    for epoch in range(epochs):
        part = stream[epoch * sum(lengths) : (epoch + 1) * sum(lengths)]
        assert max(Counter(part).values(), default=1) == 1
        if len(part) == sum(lengths):
            assert sorted(part) == list(range(sum(lengths)))
            firsts = {doc[0]: doc for doc in made["a"]}
            while part:
                doc = firsts[part[0]]
                assert part[: len(doc)] == doc
                part = part[len(doc) :]
    for earlier, later in itertools.pairwise(samples):
        assert earlier[-1] == later[0]


@settings(max_examples=15, deadline=None)
@given(planned=st.lists(st.integers(0, 400), min_size=2, max_size=5), sequence_length=st.integers(1, 7))
def test_every_prefix_of_training_holds_the_mixture(tmp_path_factory, planned, sequence_length):
    folder = tmp_path_factory.mktemp("corpus") / "c"
    names = [f"s{i}" for i in range(len(planned))]
    corpus(folder, {name: [5, 3, 8, 1] for name in names}, dict(zip(names, planned, strict=True)))
    data = BlendDataset(folder, "train", sequence_length)
    counts = Counter()
    for index in range(len(data)):
        counts[data.source(index)] += 1
        for name in names:
            assert abs(counts[name] - (index + 1) * data.samples[name] / len(data)) < 1
    assert {name: counts[name] for name in names} == data.samples


def test_samples_do_not_depend_on_what_was_read_before(tmp_path):
    corpus(tmp_path / "c", {"a": [5, 7, 2, 9] * 5, "b": [4, 4]}, {"a": 300, "b": 80})
    walked = [s.tolist() for s in map(BlendDataset(tmp_path / "c", "train", 6).sample, range(62))]
    fresh = BlendDataset(tmp_path / "c", "train", 6)
    assert [fresh.sample(index).tolist() for index in reversed(range(62))] == walked[::-1]
    copied = pickle.loads(pickle.dumps(fresh))
    assert len(pickle.dumps(fresh)) < 200_000
    assert copied.sample(40).tolist() == walked[40]
    assert fresh.sample(0).dtype == np.int64


def test_epochs_and_seeds_have_orders_of_their_own(tmp_path):
    corpus(tmp_path / "c", {"a": [1] * 50}, {"a": 101})
    data = BlendDataset(tmp_path / "c", "train", 50)
    other = BlendDataset(tmp_path / "c", "train", 50, seed=8)
    orders = [tuple(sample[:-1].tolist()) for sample in (data.sample(0), data.sample(1), other.sample(0))]
    assert len(set(orders)) == 3
    assert all(sorted(order) == list(range(50)) for order in orders)


def test_validation_holds_the_held_out_documents_of_all_sources(tmp_path):
    corpus(tmp_path / "c", {"a": [3, 3], "b": [4, 4, 4, 4]}, {"a": 3, "b": 12}, held=[("a", 1), ("b", 3)])
    data = BlendDataset(tmp_path / "c", "validation", 1)
    inputs = {int(data.sample(i)[0]) for i in range(len(data))}
    assert inputs < {3, 4, 5, 18, 19, 20, 21}
    assert (len(data), data.cut_tokens) == (6, {"validation": 1})


def test_many_shards_need_few_open_files(tmp_path):
    corpus(tmp_path / "c", {"a": [2] * 400}, {"a": 800}, shard_documents=1)
    data = BlendDataset(tmp_path / "c", "train", 1)
    assert {int(data.sample(i)[0]) for i in range(len(data))} | {int(data.sample(798)[1])} == set(range(800))
    assert len(data.streams[0]._files._open) <= 128


def test_a_shuffle_is_pinned_and_complete():
    assert shuffled(8, "0/web/0").tolist() == shuffled(8, "0/web/0").tolist() != shuffled(8, "0/web/1").tolist()
    assert sorted(shuffled(1000, "x").tolist()) == list(range(1000))
    assert shuffled(0, "x").tolist() == []


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda c: (c / "blend.json").unlink(), "holds no blend.json"),
        (lambda c: (c / "blend.json").write_text("{"), "damaged"),
        (lambda c: (c / "blend.json").write_text('{"version": 9}'), "version 9; version 1 can be read"),
        (lambda c: (c / "a0.bin").unlink(), "lacks a0.bin"),
        (lambda c: (c / "a0.bin").write_bytes(b"\0\0"), "damaged"),
        (
            lambda c: (c / "blend.json").write_text(
                (c / "blend.json").read_text().replace('"tokens": 5', '"tokens": 6')
            ),
            "mixes two versions",
        ),
    ],
)
def test_a_folder_that_is_not_whole_is_told(tmp_path, harm, message):
    corpus(tmp_path / "c", {"a": [2, 3]}, {"a": 5})
    harm(tmp_path / "c")
    with pytest.raises(TokenFileError, match=message):
        BlendDataset(tmp_path / "c", "train", 2)


def test_bad_arguments_are_told(tmp_path):
    with pytest.raises(ValueError, match="at least 1 token"):
        BlendDataset(tmp_path, "train", 0)
    with pytest.raises(ValueError, match="'train' or 'validation'"):
        BlendDataset(tmp_path, "test", 4)
