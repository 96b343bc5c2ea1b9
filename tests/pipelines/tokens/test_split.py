"""The validation split: a document stays on its side, and no source is emptied."""

import pyarrow as pa

from pipelines.dataset import write_shard
from pipelines.engines.task import Inputs
from pipelines.tokens.split import SplitWork, held_out, run_split, settle


def split(store, doc_ids, share, seed=0):
    table = pa.table({"doc_id": doc_ids, "tokens": [10] * len(doc_ids), "bytes": [40] * len(doc_ids)})
    inputs = Inputs(store, [write_shard(store, "token_documents", table).object], [])
    (stats,) = run_split(inputs, SplitWork(share, seed))
    return held_out(stats.values)


def names(shard, doc_ids):
    return {doc_ids[place] for place in shard.places}


def test_about_the_share_is_held_out(store):
    shard = split(store, [f"{i:032x}" for i in range(10_000)], 0.05)
    assert 400 < len(shard.places) < 600
    assert (shard.documents, shard.tokens, sum(shard.lengths)) == (10_000, 100_000, 10 * len(shard.places))


def test_a_document_stays_on_its_side_whatever_stands_beside_it(store):
    ids = [f"{i:032x}" for i in range(1_000)]
    alone = names(split(store, ids[:500], 0.1), ids)
    more = ids[500:] + ids[:500]
    assert names(split(store, more, 0.1), more) & set(ids[:500]) == alone


def test_a_larger_share_holds_out_the_same_documents_and_more(store):
    ids = [f"{i:032x}" for i in range(500)]
    assert names(split(store, ids, 0.05), ids) < names(split(store, ids, 0.2), ids)


def test_another_seed_holds_out_others(store):
    ids = [f"{i:032x}" for i in range(500)]
    assert split(store, ids, 0.1).places != split(store, ids, 0.1, seed=1).places


def test_a_source_keeps_its_last_document_for_training(store):
    unlucky = next(name for name in map(str, range(100)) if split(store, [name], 0.5).places)
    settled = settle({"one": [split(store, [unlucky], 0.5)], "many": [split(store, list("abcdefgh"), 0.5)]}, 0.5)
    assert settled["one"][0].places == ()
    assert settled["many"][0].places


def test_a_small_corpus_gives_one_document_of_a_source_with_several(store):
    shards = {"one": [split(store, ["x"], 1e-9)], "two": [split(store, ["a", "b"], 1e-9), split(store, ["c"], 1e-9)]}
    settled = settle(shards, 1e-9)
    assert settled["one"][0].places == ()
    assert sum(len(shard.places) for shard in settled["two"]) == 1
    assert sum(sum(shard.lengths) for shard in settled["two"]) == 10


def test_no_share_holds_out_nothing(store):
    assert settle({"two": [split(store, ["a", "b"], 0.0)]}, 0.0)["two"][0].places == ()
    assert settle({"none": [], "one": [split(store, ["a"], 0.1)]}, 0.1)["one"][0].places == ()
