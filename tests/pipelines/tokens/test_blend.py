"""The blend: exact from counted tokens, made in tasks that shares don't touch, the same after any kill."""

import itertools
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pipelines.dataset import Dataset, Draft, Part, seal, write_shard
from pipelines.engines.local import Engine
from pipelines.mixture.groups import Grouping
from pipelines.mixture.params import MixtureParams
from pipelines.mixture.plan import replan
from pipelines.mixture.stage import plan_mixture
from pipelines.schemas import DOCUMENTS
from pipelines.store import Store
from pipelines.tokens.blend import blend
from pipelines.tokens.blend_params import BlendParams
from pipelines.tokens.layout import map_order
from pipelines.tokens.shards import tokenize
from pipelines.tokens.tokenize_params import TokenizeParams
from pipelines.tokens.training_dataset import BlendDataset
from tests.pipelines.tokens.corpus import documents, sealed

SOURCES = {
    "web": [{f"w{i}{j}": f"the cat sat on mat {i} {j}" for j in range(20)} for i in range(3)],
    "books": [{f"b{i}": f"the dog {i}" for i in range(10)}],
}


def tokenized(data, tokenizer, engine, **config):
    drafts = {name: tokenize(data.of(name), tokenizer, TokenizeParams(**config), engine) for name in data.partitions}
    versions = (seal(data.store, draft, asset="token_shards", partition=name) for name, draft in drafts.items())
    return Dataset("token_shards", tuple(versions), data.store)


def blended(data, shards, engine, mixture=None, **config):
    asked = sealed(data.store, plan_mixture(data, mixture or MixtureParams(), engine), "training_mixture")
    draft = blend(asked, shards, data, BlendParams(**config), engine, replan, Grouping)
    return sealed(data.store, draft, "training_blend")


def make(store, tokenizer, engine, sources, mixture=None, **config):
    """(blend, token shards) of source → shards → id → text."""
    data = documents(store, sources)
    shards = tokenized(data, tokenizer, engine)
    return blended(data, shards, engine, mixture, **config), shards


def content(made):
    return json.loads(made.store.get(made.shards("blend")[0].object))


def laid_out(made, shards, folder):
    return shards.folder("tokens", made.folder("blend", folder))


# -- exact, and honest about it ---------------------------------------------------------------------------------


def test_the_blend_counts_what_the_plan_estimated(store, engine, tokenizer):
    made, shards = make(store, tokenizer, engine, SOURCES, MixtureParams(shares={"web": 1, "books": 1}))
    mixture = made.table("mixture").to_pydict()
    stats = made.version.stats
    counted = [version.stats["tokens"] for version in shards.versions]
    assert sum(mixture["available_tokens"]) == sum(counted) - stats["validation_tokens"]
    assert abs(mixture["planned_tokens"][0] - mixture["planned_tokens"][1]) <= 1
    assert [group["planned_tokens"] for group in content(made)["groups"]] == mixture["planned_tokens"]
    assert [shard["bin"] for shard in content(made)["shards"]] == [
        shard.name for shard in shards.shards("tokens") if shard.name.endswith(".bin")
    ]
    assert stats["realised_shares"] == {
        "web": pytest.approx(0.5, abs=0.01),
        "books": pytest.approx(0.5, abs=0.01),
    }
    assert stats["tokens_by_source"] == dict(zip(SOURCES, counted, strict=True))


def test_shares_that_are_off_are_told(store, engine, tokenizer):
    asked = MixtureParams(shares={"web": 0.1, "books": 0.9}, token_budget=2_000, max_epochs=1)
    made, _ = make(store, tokenizer, engine, SOURCES, asked)
    assert made.version.stats["shares_off"].keys() == {"web", "books"}
    assert "books can supply" in made.version.stats["notes"]["books"]


def test_a_small_group_that_gives_nothing_is_told_however_small_its_share(store, engine, tokenizer):
    asked = MixtureParams(shares={"web": 0.999, "books": 0.001}, token_budget=400)
    made, _ = make(store, tokenizer, engine, SOURCES, asked)
    planned = {row["group"]: row["planned_tokens"] for row in made.table("mixture").to_pylist()}
    assert planned == {"web": 400, "books": 0}
    assert made.version.stats["shares_off"] == {"books": "wanted 0.0010, realised 0.0000"}
    enough, _ = make(store, tokenizer, engine, SOURCES, asked.model_copy(update={"token_budget": 1000}))
    assert enough.version.stats["shares_off"] == {}


def test_sources_tokenized_differently_are_refused(store, engine, tokenizer):
    data = documents(store, SOURCES)
    shards = tokenized(data, tokenizer, engine)
    other = Draft(shards.versions[1].parts, shards.versions[1].stats | {"tokenizer": "another"})
    books = seal(store, other, asset="token_shards", partition="books", code_version="2")
    with pytest.raises(ValueError, match="web and books were tokenized with different tokenizers"):
        blended(data, Dataset("token_shards", (shards.versions[0], books), store), engine)


def test_token_shards_that_cannot_be_blended_are_told_with_a_way_out(store, engine, tokenizer):
    data = documents(store, {"web": SOURCES["web"]})
    (made,) = tokenized(data, tokenizer, engine).versions
    tokens, described = made.parts["tokens"], made.parts["token_documents"]
    harmed = {
        r"has 3 token shards and 2 tables about them: materialize token_shards\[web\] again": {
            "token_documents": replace(described, shards=described.shards[1:])
        },
        r"not pairs of \.bin and \.idx: materialize token_shards\[web\] again": {
            "tokens": replace(tokens, shards=tokens.shards[1:])
        },
        r"\(of web and of web\): the same .* leave one of them out of the sources, or turn on dedup\.exact": {
            "tokens": replace(tokens, shards=tokens.shards[:2] * 2),
            "token_documents": replace(described, shards=described.shards[:2]),
        },
    }
    for number, (message, parts) in enumerate(harmed.items()):
        draft = Draft(made.parts | parts, made.stats)
        one = seal(store, draft, asset="token_shards", partition="web", code_version=f"harmed {number}")
        with pytest.raises(ValueError, match=message):
            blended(data, Dataset("token_shards", (one,), store), engine)


def test_empty_sources_and_one_document_sources_go_through(store, engine, tokenizer, tmp_path):
    sources = {"none": [], "blank": [{"e": ""}], "one": [{"e1": "", "o": "the cat sat on the mat " * 5}]}
    made, shards = make(store, tokenizer, engine, sources)
    data = BlendDataset(laid_out(made, shards, tmp_path / "corpus"), "train", 4)
    assert len(data) == data.samples["one"] > 0
    assert len(BlendDataset(tmp_path / "corpus", "validation", 4)) == 0


# -- what is made again, and what is not ------------------------------------------------------------------------


@pytest.mark.parametrize("packing", [{}, {"packing": "best_fit", "sequence_length": 8}])
def test_changed_shares_tokenize_order_and_pack_nothing_again(store, tokenizer, packing):
    make(store, tokenizer, Engine(store, 1, attempt="1"), SOURCES, **packing)
    again = Engine(store, 1, attempt="2")
    shares = MixtureParams(shares={"web": 0.5, "books": 0.5}, token_budget=300, max_epochs=9)
    made, _ = make(store, tokenizer, again, SOURCES, shares, **packing)
    done = [result for result in again.results if not result.reused]
    assert {part for result in done for part in result.parts} == {"mixture", "blend"}
    assert [shard.name for result in done for shard in result.parts.get("blend", Part("files", ())).shards] == [
        "blend.json"
    ]
    assert made.version.stats["tokens"] == 300


def test_a_source_more_orders_that_source_only(store, tokenizer):
    make(store, tokenizer, Engine(store, 1, attempt="1"), SOURCES, validation_share=0.3)
    again = Engine(store, 1, attempt="2")
    more = {**SOURCES, "notes": [{f"n{i}": f"cat and dog {i}" for i in range(10)}]}
    make(store, tokenizer, again, more, validation_share=0.3)
    files = [s.name for r in again.results if not r.reused for s in r.parts.get("blend", Part("files", ())).shards]
    assert sorted(name.split(".")[1] for name in files) == ["json", "order"]


class Killed(BaseException):
    """The end of the process, as far as the stage is concerned."""


def test_killed_at_any_point_and_run_again_gives_the_same_bytes(store, tokenizer, tmp_path, monkeypatch):
    other = Store(str(tmp_path / "other"))
    for shard in tokenizer.shards("tokenizer"):
        other.put(store.get(shard.object))
    learnt = sealed(other, Draft(tokenizer.version.parts, tokenizer.version.stats), "tokenizer")
    places = []
    for where, trained in ((store, tokenizer), (other, learnt)):
        data = documents(where, SOURCES)
        places.append((data, tokenized(data, trained, Engine(where, 1)), Engine(where, 1)))
    write, written = Store._write_local, []
    blended(*places[0])  # the mixture is planned, which no seed changes

    def killed_at(point):
        written.clear()

        def killed(self, path, **content):
            if len(written) == point:
                raise Killed
            written.append(Path(path).relative_to(self.root).parts[0])
            return write(self, path, **content)

        return killed

    for point in itertools.count():
        how = {"packing": "best_fit", "sequence_length": 8, "validation_share": 0.2, "seed": point + 1}
        with monkeypatch.context() as patch:
            patch.setattr(Store, "_write_local", killed_at(point))
            try:
                blended(*places[0], **how)
                break
            except Killed:
                pass
        made = blended(*places[0], **how).version
        whole = blended(*places[1], **how).version
        assert (made.id, made.parts) == (whole.id, whole.parts)
    # four shards put in order and four packed, each a file and its record; the blend, and its record
    assert written[1:17] == ["objects", "actions"] * 8
    assert written[-3:] == ["objects", "actions", "versions"]
    assert list((tmp_path / "store" / "work").iterdir()) == []


# -- groups that are not sources --------------------------------------------------------------------------------


def in_languages(store, sources):
    """Documents whose language is the first word of their text."""
    versions = []
    for source, shards in sources.items():
        tables = [
            pa.Table.from_pylist(
                [
                    {"doc_id": n, "source": source, "uri": f"f#{n}", "text": t, "language": t.split()[0]}
                    for n, t in some
                ],
                schema=DOCUMENTS,
            )
            for some in shards
        ]
        part = Part("table", tuple(write_shard(store, "documents", table) for table in tables))
        versions.append(seal(store, Draft({"documents": part}), asset="filtered_documents", partition=source))
    return Dataset("filtered_documents", tuple(versions), store)


def test_shares_by_language_mix_documents_of_all_sources(store, engine, tokenizer, tmp_path):
    data = in_languages(
        store,
        {
            "web": [
                [(f"w{i}", f"{'en' if i % 3 else 'de'} the cat sat {i}") for i in range(30)],
                [(f"v{i}", f"en the dog {i}") for i in range(9)],
            ],
            "books": [[(f"b{i}", f"de and the mat {i}") for i in range(12)]],
        },
    )
    shards = tokenized(data, tokenizer, engine)
    mixture = MixtureParams(by="language", shares={"en": 0.25, "de": 0.75}, token_budget=400)
    made = blended(data, shards, engine, mixture, validation_share=0.1)
    assert {group["name"] for group in content(made)["groups"]} == {"de", "en"}
    assert [sorted(shard["groups"]) for shard in content(made)["shards"]] == [["de", "en"], ["en"], ["de"]]
    train = BlendDataset(laid_out(made, shards, tmp_path / "corpus"), "train", 5)
    counts = Counter(train.group(index) for index in range(len(train)))
    assert counts["de"] == pytest.approx(3 * counts["en"], abs=2)
    # every sample is of documents of its own language
    first = {name: tokens_of(store, tokenizer, name) for name in ("de", "en")}
    for index in range(len(train)):
        sample = train.read(index)
        for start in sample.starts[1:].tolist():
            words = sample.ids[start : start + 2].tolist()
            assert words[: len(first[train.group(index)])] == first[train.group(index)][: len(words)]


def tokens_of(store, tokenizer, text):
    from tokenizers import Tokenizer

    names = {shard.name: shard.object for shard in tokenizer.shards("tokenizer")}
    return Tokenizer.from_file(str(store.path(names["tokenizer.json"]))).encode(text).ids


# -- validation -------------------------------------------------------------------------------------------------


def sides(made, shards, folder):
    """{'train', 'validation'} → texts of documents, as tuples of ids, from order files and token files."""
    laid_out(made, shards, folder)
    found = {"train": [], "validation": []}
    for shard in content(made)["shards"]:
        starts, ends = map_order(folder / shard["order"], shard["documents"])
        tokens = np.fromfile(folder / shard["bin"], "<u2")
        for name, (first, count, total) in [*shard["groups"].items(), ("validation", shard["validation"])]:
            lengths = np.diff(ends[first : first + count], prepend=0).tolist()
            assert sum(lengths) == total
            for start, length in zip(starts[first : first + count].tolist(), lengths, strict=True):
                found["validation" if name == "validation" else "train"].append(tuple(tokens[start : start + length]))
    return found


def test_every_document_is_on_one_side_and_copies_are_on_the_same(store, engine, tokenizer, tmp_path):
    # Given copies in two sources and within one, as they stay where dedup.exact is off
    texts = {f"d{i:03}": f"{i % 100:02} cat" for i in range(300)}
    sources = {"web": [texts], "books": [{f"b{i}": f"{i:02} cat" for i in range(100)}]}
    made, shards = make(store, tokenizer, engine, sources, validation_share=0.2)
    found = sides(made, shards, tmp_path / "c")
    assert len(found["train"]) + len(found["validation"]) == 400
    assert not set(found["train"]) & set(found["validation"])
    assert 8 < len(set(found["validation"])) < 35
    assert Counter(found["validation"]).most_common()[-1][1] == 4
    stats = made.version.stats
    assert (stats["training_documents"], stats["validation_documents"]) == tuple(map(len, found.values()))


def test_documents_are_counted_and_pieces_of_them_called_so(store, engine, tokenizer, tmp_path):
    data = documents(store, SOURCES)
    shards = tokenized(data, tokenizer, engine, longest_document=4)
    made = blended(data, shards, engine, validation_share=0.2)
    stats, rows = made.version.stats, shards.rows("token_documents")
    assert rows > 70 == stats["documents_in"] == stats["documents_out"]
    assert stats["pieces"] == rows == sum(map(len, sides(made, shards, tmp_path / "c").values()))
    assert stats["training_documents"] + stats["validation_documents"] == 70
    whole, _ = make(store, tokenizer, engine, SOURCES, validation_share=0.2)
    assert {**stats, "pieces": 70, "histograms": 0} == {**whole.version.stats, "histograms": 0}


def test_another_order_of_shards_holds_out_the_same_documents(store, engine, tokenizer, tmp_path):
    made, shards = make(store, tokenizer, engine, SOURCES, validation_share=0.2)
    turned = {"books": SOURCES["books"], "web": SOURCES["web"][::-1]}
    other, others = make(store, tokenizer, engine, turned, validation_share=0.2)
    one, two = sides(made, shards, tmp_path / "a"), sides(other, others, tmp_path / "b")
    assert {name: sorted(some) for name, some in one.items()} == {name: sorted(some) for name, some in two.items()}


def test_nothing_at_all_is_a_blend_without_samples(store, engine, tokenizer, tmp_path):
    made, shards = make(store, tokenizer, engine, {"none": [], "blank": [{"e": ""}]})
    folder = laid_out(made, shards, tmp_path / "c")
    assert [len(BlendDataset(folder, split, 4)) for split in ("train", "validation")] == [0, 0]


def test_no_source_is_emptied_by_its_split(store, engine, tokenizer, tmp_path):
    # Given sources of one document, half of which would be held out
    sources = {f"s{i}": [{f"d{i}": f"cat {i}"}] for i in range(12)}
    made, _ = make(store, tokenizer, engine, sources, validation_share=0.5)
    assert min(made.table("mixture")["available_tokens"].to_pylist()) > 0


def test_a_small_corpus_has_a_validation_document(store, engine, tokenizer, tmp_path):
    made, shards = make(store, tokenizer, engine, {"one": [{"a": "the cat"}], "two": [{"b": "a dog", "c": "the mat"}]},
                        validation_share=1e-9)  # fmt: skip
    found = sides(made, shards, tmp_path / "c")
    assert [len(found["train"]), len(found["validation"])] == [2, 1]


# -- packing ----------------------------------------------------------------------------------------------------


def test_packing_tells_what_it_wastes(store, engine, tokenizer, tmp_path):
    made, shards = make(store, tokenizer, engine, SOURCES, packing="best_fit", sequence_length=16, validation_share=0.1)
    waste = made.version.stats["waste"]
    assert waste.keys() == {"web", "books"}
    data = BlendDataset(laid_out(made, shards, tmp_path / "c"), "train", 16)
    for name in SOURCES:
        samples = [data.read(index) for index in range(len(data)) if data.group(index) == name]
        assert waste[name]["samples"] == len(samples)  # of one epoch
        assert waste[name]["padding_tokens"] == sum(17 - sample.filled for sample in samples)
        assert waste[name]["pieces"] == sum(len(sample.starts) for sample in samples)
    assert waste["web"]["documents_cut"] == 0
    assert waste["web"]["documents_cut_if_concatenated"] > 0


def test_a_group_may_have_any_name_also_that_of_the_split(store, engine, tokenizer, tmp_path):
    # Given groups such as a field of the metadata may make
    names = ("validation", "unknown", "ä/✓")
    some = [(f"{name}{i}", f"{name} the cat sat on the mat {i}") for name in names for i in range(30)]
    data = in_languages(store, {"web": [some]})
    shards = tokenized(data, tokenizer, engine)
    made = blended(data, shards, engine, MixtureParams(by="language"), packing="best_fit", sequence_length=16,
                   validation_share=0.2)  # fmt: skip
    folder = laid_out(made, shards, tmp_path / "c")
    train, held = (BlendDataset(folder, split, 16) for split in ("train", "validation"))
    stats = made.version.stats
    assert {name: told["samples"] for name, told in stats["waste"].items()} == train.samples
    assert {"validation": stats["validation_waste"]["samples"]} == held.samples
    assert train.samples.keys() == set(names)
    assert stats["validation_documents"] > 0


def test_a_packing_length_stands_where_it_is_needed_and_only_there():
    with pytest.raises(ValueError, match="needs sequence_length"):
        BlendParams(packing="best_fit")
    with pytest.raises(ValueError, match="has no effect with packing 'concatenate'"):
        BlendParams(sequence_length=64)
