"""What training reads: every token once an epoch, exact shares at every prefix, any index at once, whole folders."""

import contextlib
import itertools
import json
import pickle
import resource
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.tokens import mapped
from pipelines.tokens.indexed import TokenFileError
from pipelines.tokens.layout import order_bytes
from pipelines.tokens.training_dataset import IGNORED, BlendDataset
from tests.pipelines.tokens.laid_out import lay_out


@settings(max_examples=40, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=12),
    epochs=st.integers(1, 3),
    sequence_length=st.integers(1, 40),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_token_is_an_input_once_in_every_epoch(tmp_path_factory, lengths, epochs, sequence_length, seed):
    folder = tmp_path_factory.mktemp("corpus") / "c"
    tokens = epochs * sum(lengths)
    made = lay_out(folder, {"a": lengths}, {"a": tokens})
    data = BlendDataset(folder, "train", sequence_length, seed)
    last = {document[-1] for document in made["a"]}
    firsts = {document[0] for document in made["a"]}
    seen = Counter()
    for index in range(len(data)):
        sample = data.read(index)
        seen.update(sample.inputs.tolist())
        # what follows a token is the document's next, or the first of another document, and starts say which
        begins = set(sample.starts.tolist())
        for place, (token, after) in enumerate(zip(sample.inputs.tolist(), sample.labels.tolist(), strict=True), 1):
            assert (after == token + 1 and place not in begins) or (token in last and after in firsts)
    assert max(seen.values(), default=0) <= epochs
    assert seen.total() + data.cut_tokens["a"] == tokens
    assert 1 <= data.cut_tokens["a"] <= sequence_length


@settings(max_examples=15, deadline=None)
@given(planned=st.lists(st.integers(0, 400), min_size=2, max_size=5), sequence_length=st.integers(1, 30))
def test_every_prefix_of_training_holds_the_mixture(tmp_path_factory, planned, sequence_length):
    folder = tmp_path_factory.mktemp("corpus") / "c"
    names = [f"s{i}" for i in range(len(planned))]
    lay_out(folder, {name: [5, 3, 8, 1] for name in names}, dict(zip(names, planned, strict=True)))
    data = BlendDataset(folder, "train", sequence_length)
    counts = Counter()
    for index in range(len(data)):
        counts[data.group(index)] += 1
        for name in names:
            assert abs(counts[name] - (index + 1) * data.samples[name] / len(data)) < 1
    assert {name: counts[name] for name in names} == data.samples


def test_a_thousandth_is_neither_lost_nor_overrun(tmp_path):
    lay_out(tmp_path / "c", {"most": [10] * 100, "little": [7]}, {"most": 999 * 8 + 1, "little": 9})
    data = BlendDataset(tmp_path / "c", "train", 8)
    assert data.samples == {"most": 999, "little": 1}
    assert Counter(data.group(index) for index in range(1000)) == data.samples


def test_a_group_smaller_than_a_sequence_runs_around(tmp_path):
    lay_out(tmp_path / "c", {"one": [3]}, {"one": 21})
    data = BlendDataset(tmp_path / "c", "train", 10, attention="document")
    sample = data.read(1)
    assert len(data) == 2
    assert set(sample.ids.tolist()) == {0, 1, 2}
    assert sample.position_ids.max() == 2
    assert data.predictions([1]) == np.count_nonzero(sample.labels != IGNORED) < 10


def test_samples_do_not_depend_on_what_was_read_before(tmp_path):
    lay_out(tmp_path / "c", {"a": [5, 7, 2, 9] * 5, "b": [4, 4]}, {"a": 300, "b": 80})
    walked = [s.tolist() for s in map(BlendDataset(tmp_path / "c", "train", 6).sample, range(62))]
    fresh = BlendDataset(tmp_path / "c", "train", 6)
    assert [fresh.sample(index).tolist() for index in reversed(range(62))] == walked[::-1]
    copied = pickle.loads(pickle.dumps(fresh))
    assert len(pickle.dumps(fresh)) < 200_000
    assert copied.sample(40).tolist() == walked[40]
    assert fresh.sample(0).dtype == np.int64


def test_samples_are_pinned(tmp_path):
    # Any machine and any later version must read the same: a training resumes on it
    lay_out(tmp_path / "c", {"a": [4, 3, 5], "b": [6]}, {"a": 25, "b": 13})
    data = BlendDataset(tmp_path / "c", "train", 4)
    assert [data.sample(index).tolist() for index in range(len(data))] == PINNED


PINNED = [
    [8, 9, 10, 11, 0],
    [4, 5, 6, 7, 8],
    [16, 17, 12, 13, 14],
    [0, 1, 2, 3, 4],
    [8, 9, 10, 11, 7],
    [12, 13, 14, 15, 16],
    [4, 5, 6, 7, 8],
    [0, 1, 2, 3, 4],
    [14, 15, 16, 17, 12],
]


def test_epochs_and_seeds_have_orders_and_cuts_of_their_own(tmp_path):
    lay_out(tmp_path / "c", {"a": [3] * 33 + [1]}, {"a": 201})
    data, other = BlendDataset(tmp_path / "c", "train", 10), BlendDataset(tmp_path / "c", "train", 10, seed=8)
    first, second, seeded = (
        [tuple(which.sample(index)[:-1].tolist()) for index in indices]
        for which, indices in ((data, range(10)), (data, range(10, 20)), (other, range(10)))
    )
    assert sorted(sum(first, ())) == sorted(sum(second, ())) == list(range(100))
    assert first != second != seeded != first
    assert set(first) != set(second)


def test_a_part_of_an_epoch_is_drawn_from_the_whole_of_it(tmp_path):
    lay_out(tmp_path / "c", {"a": [10] * 400}, {"a": 1001}, shard_documents=50)
    data = BlendDataset(tmp_path / "c", "train", 10)
    assert len(data) == 100
    eighths = Counter(int(data.sample(index)[0]) // 500 for index in range(100))
    assert set(eighths) == set(range(8))
    assert max(eighths.values()) < 30


def test_validation_holds_the_held_out_documents_of_all_groups(tmp_path):
    made = lay_out(tmp_path / "c", {"a": [3, 3], "b": [4, 4, 4, 4]}, {"a": 3, "b": 12}, held=[("a", 1), ("b", 3)])
    data = BlendDataset(tmp_path / "c", "validation", 1)
    inputs = {int(data.sample(i)[0]) for i in range(len(data))}
    assert inputs < set(itertools.chain(*made["validation"]))
    assert (len(data), data.cut_tokens) == (6, {"validation": 1})
    train = BlendDataset(tmp_path / "c", "train", 1)
    assert {int(token) for i in range(len(train)) for token in train.sample(i)} == set(
        itertools.chain(*made["a"], *made["b"])
    )


# -- documents of a sample --------------------------------------------------------------------------------------


def test_apart_positions_and_boundaries_restart_and_no_label_crosses(tmp_path):
    lay_out(tmp_path / "c", {"a": [3, 4, 2]}, {"a": 10})
    data = BlendDataset(tmp_path / "c", "train", 9, attention="document")
    sample = data.read(0)
    edges = [*sample.starts.tolist(), 10]
    lengths = [after - before for before, after in itertools.pairwise(edges)]
    assert len(sample.starts) == 4  # the last token is the first one of the next epoch
    assert sample.position_ids.tolist() == [place for length in lengths[:-1] for place in range(length)]
    assert sample.cu_seqlens.tolist() == edges[:-1]
    assert np.flatnonzero(sample.labels == IGNORED).tolist() == [start - 1 for start in edges[1:-1]]
    assert data.predictions([0]) == 6


def test_together_positions_run_through_and_every_label_counts(tmp_path):
    lay_out(tmp_path / "c", {"a": [3, 4, 2]}, {"a": 10})
    data = BlendDataset(tmp_path / "c", "train", 9)
    assert data[0]["position_ids"].tolist() == list(range(9))
    assert data.predictions([0]) == np.count_nonzero(data[0]["labels"] != IGNORED) == 9
    assert [item["input_ids"].tolist() for item in data] == [data[0]["input_ids"].tolist()]


@settings(max_examples=25, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=20),
    sequence_length=st.integers(1, 12),
    attention=st.sampled_from(["sample", "document"]),
)
def test_packed_every_token_but_a_documents_first_is_predicted_once_an_epoch(
    tmp_path_factory, lengths, sequence_length, attention
):
    folder = tmp_path_factory.mktemp("corpus") / "c"
    made = lay_out(folder, {"a": lengths}, {"a": 2 * sum(lengths)}, packed_for=sequence_length)
    data = BlendDataset(folder, "train", sequence_length, attention=attention)
    half = len(data) // 2
    for epoch in (range(half), range(half, 2 * half)):
        predicted = []
        for index in epoch:
            item, sample = data[index], data.read(index)
            counts = item["labels"] != IGNORED
            assert (item["labels"][counts] == item["input_ids"][counts] + 1).all()
            assert data.predictions([index]) == counts.sum()
            assert sample.cu_seqlens[-1] == sequence_length
            assert (item["position_ids"][sample.cu_seqlens[:-1]] == 0).all() or attention == "sample"
            predicted += item["labels"][counts].tolist()
        assert sorted(predicted) == sorted(token for document in made["a"] for token in document[1:])
    padding = sum(sequence_length + 1 - data.read(index).filled for index in range(half))
    assert data.padding_share == (pytest.approx(padding / half / (sequence_length + 1)) if half else 0.0)


def test_packed_samples_are_shuffled_anew_in_every_epoch(tmp_path):
    lay_out(tmp_path / "c", {"a": [4] * 40}, {"a": 320}, packed_for=3)
    data = BlendDataset(tmp_path / "c", "train", 3)
    first, second = ([int(data.sample(index)[0]) for index in epoch] for epoch in (range(40), range(40, 80)))
    assert sorted(first) == sorted(second) == list(range(0, 160, 4)) != first
    assert first != second != sorted(second)
    fewer = lay_out(tmp_path / "half", {"a": [4] * 40}, {"a": 81}, packed_for=3)
    assert len(fewer["a"]) == 40
    half = BlendDataset(tmp_path / "half", "train", 3)
    assert (len(half), half.cut_tokens) == (20, {"a": 1})
    assert max(int(half.sample(index)[0]) for index in range(20)) > 100  # drawn from the whole epoch


def test_packed_padding_comes_last_and_is_no_label(tmp_path):
    lay_out(tmp_path / "c", {"a": [4]}, {"a": 4}, packed_for=7)
    sample = BlendDataset(tmp_path / "c", "train", 7, attention="document").read(0)
    assert sample.ids.tolist() == [0, 1, 2, 3, 4, 4, 4, 4]  # 4 is the end-of-text token: there is no padding token
    assert sample.labels.tolist() == [1, 2, 3, *[IGNORED] * 4]
    assert sample.position_ids.tolist() == [0, 1, 2, 3, 0, 1, 2]
    assert sample.cu_seqlens.tolist() == [0, 4, 7]


# -- large, and not whole ---------------------------------------------------------------------------------------


@pytest.fixture
def open_files():
    """Set this process's limits on open files, until the test ends; the second is only told."""
    before, told = resource.getrlimit(resource.RLIMIT_NOFILE), pytest.MonkeyPatch()
    real = resource.setrlimit

    def limit(soft, hard):
        def set_limit(which, limits):
            if limits[0] > hard:
                raise ValueError("not allowed to raise maximum limit")
            real(which, (limits[0], before[1]))

        real(resource.RLIMIT_NOFILE, (soft, before[1]))
        current = resource.getrlimit
        told.setattr(mapped.resource, "getrlimit", lambda which: (current(which)[0], hard))
        told.setattr(mapped.resource, "setrlimit", set_limit)

    yield limit
    told.undo()
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def read_all(folder):
    """A dataset whose every sample has been read, of 400 shards of two tokens."""
    data = BlendDataset(folder, "train", 1)
    assert len({int(data.sample(i)[0]) for i in range(len(data))}) == 799
    return data


def test_all_shards_stay_mapped_where_the_limit_on_open_files_may_be_raised(tmp_path, open_files):
    lay_out(tmp_path / "c", {"a": [2] * 400}, {"a": 800}, shard_documents=1)
    used = mapped._next_number()
    open_files(used + 400, used + 4000)
    one, other = read_all(tmp_path / "c"), read_all(tmp_path / "c")
    assert [len(data._files._open) for data in (one, other)] == [800, 800]
    with contextlib.ExitStack() as others:
        for _ in range(250):
            others.enter_context((tmp_path / "c" / "blend.json").open())


@pytest.mark.parametrize("hard", [300, 900])
def test_many_shards_need_no_more_open_files_than_there_may_be(tmp_path, open_files, hard):
    lay_out(tmp_path / "c", {"a": [2] * 400}, {"a": 800}, shard_documents=1)
    used = mapped._next_number()
    open_files(used + 200, used + hard)
    one = read_all(tmp_path / "c")
    other = read_all(tmp_path / "c")  # of which some file is always mapped, whatever the first one holds
    assert 30 < len(one._files._open) < hard - 100
    assert len(other._files._open) > 0
    with contextlib.ExitStack() as others:
        for _ in range(120):
            others.enter_context((tmp_path / "c" / "blend.json").open())


def test_a_blend_maps_no_more_files_than_it_should(tmp_path, monkeypatch):
    monkeypatch.setattr(mapped, "MOST_MAPPED", 10)
    lay_out(tmp_path / "c", {"a": [2] * 400}, {"a": 800}, shard_documents=1)
    assert len(read_all(tmp_path / "c")._files._open) == 10


def test_three_times_300_million_tokens_are_read_without_being_there(tmp_path):
    # Given length tables of 3 shards of 300M tokens, and token files of that size that take no disk
    documents, tokens = 300_000, 300_000_000
    shards = []
    for number in range(3):
        stem = f"s{number}"
        with (tmp_path / f"{stem}.bin").open("wb") as file:
            file.truncate(2 * tokens)
        starts = np.arange(documents, dtype=np.int64) * 1000
        (tmp_path / f"{stem}.order").write_bytes(order_bytes(starts, starts + 1000))
        runs = {stem: [0, documents, tokens]}
        if number == 0:  # and a group of five documents
            runs = {stem: [0, documents - 5, tokens - 5000], "rare": [documents - 5, 5, 5000]}
            (tmp_path / f"{stem}.order").write_bytes(
                order_bytes(starts, np.concatenate([starts[:-5] + 1000, starts[:5] + 1000]))
            )
        shards.append(
            {"bin": f"{stem}.bin", "idx": "", "order": f"{stem}.order", "documents": documents, "tokens": tokens,
             "groups": runs, "validation": [documents, 0, 0]}
        )  # fmt: skip
    content = {
        "version": 2, "dtype": "uint16", "vocabulary_size": 9, "bos_id": None, "eos_id": 0, "pad_id": 1, "seed": 0,
        "packing": "concatenate", "sequence_length": None, "shards": shards,
        "groups": [
            *({"name": f"s{n}", "planned_tokens": share * 10**9 + 1} for n, share in enumerate((6, 2, 2))),
            {"name": "rare", "planned_tokens": 51},
        ],
    }  # fmt: skip
    (tmp_path / "blend.json").write_text(json.dumps(content))
    data = BlendDataset(tmp_path, "train", 10)
    # When training goes on at sample 10⁹, then it is there at once, and the mixture is what it is everywhere
    assert len(data) == 10**9 + 5
    assert data.samples["rare"] == 5
    assert data.cut_tokens == {"s0": 1, "s1": 1, "s2": 1, "rare": 1}
    assert data.sample(len(data) - 1).tolist() == [0] * 11
    some = range(len(data) - 1000, len(data))
    assert all(abs(count / 1000 - share) < 0.002 for count, share in zip(
        [Counter(map(data.group, some))[f"s{n}"] for n in range(3)], (0.6, 0.2, 0.2), strict=True))  # fmt: skip
    # and what a loader's worker is sent does not grow with the documents
    assert len(pickle.dumps(data)) < 400_000


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda c: (c / "blend.json").unlink(), "holds no blend.json"),
        (lambda c: (c / "blend.json").write_text("{"), "damaged"),
        (lambda c: (c / "blend.json").write_text('{"version": 1}'), "version 1; version 2 can be read"),
        (lambda c: (c / "a0.bin").unlink(), "lacks a0.bin"),
        (lambda c: (c / "a0.bin").write_bytes(b"\0\0"), "a0.bin has 2 bytes where blend.json tells of 20: it is dam"),
        (lambda c: (c / "a0.order").write_bytes(b""), "a0.order has 0 bytes where blend.json tells of 32"),
        (lambda c: (c / "a0.packed").write_bytes(b"x"), r"a0.packed has 1 bytes where blend.json tells of \d+"),
    ],
)
def test_a_folder_that_is_not_whole_is_told(tmp_path, harm, message):
    lay_out(tmp_path / "c", {"a": [2, 3]}, {"a": 5}, packed_for=2)
    harm(tmp_path / "c")
    with pytest.raises(TokenFileError, match=message):
        BlendDataset(tmp_path / "c", "train", 2)


def test_bad_arguments_are_told(tmp_path):
    with pytest.raises(ValueError, match="at least 1 token"):
        BlendDataset(tmp_path, "train", 0)
    with pytest.raises(ValueError, match="'train' or 'validation'"):
        BlendDataset(tmp_path, "test", 4)
    with pytest.raises(ValueError, match="'sample' or 'document'"):
        BlendDataset(tmp_path, "train", 4, attention="none")
    lay_out(tmp_path / "c", {"a": [2, 3]}, {"a": 5}, packed_for=2)
    with pytest.raises(ValueError, match=r"packed for sequences of 2 tokens \(blend.sequence_length\) and read for 4"):
        BlendDataset(tmp_path / "c", "train", 4)
    with pytest.raises(IndexError):
        BlendDataset(tmp_path / "c", "train", 2).read(-1)
