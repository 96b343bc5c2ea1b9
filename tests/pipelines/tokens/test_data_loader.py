"""`torch.utils.data.DataLoader` over a blend: workers of any start method read what one process reads, and resume."""

import itertools

import pytest

from pipelines.tokens.rank_sampler import RankSampler
from pipelines.tokens.training_dataset import BlendDataset, document_boundaries
from tests.pipelines.tokens.laid_out import lay_out


@pytest.fixture
def data(tmp_path):
    lay_out(tmp_path / "c", {"a": [5, 7, 2, 9] * 5, "b": [4, 4]}, {"a": 300, "b": 80})
    return BlendDataset(tmp_path / "c", "train", 6, attention="document")


def loader(data, **how):
    torch_data = pytest.importorskip("torch.utils.data")
    return torch_data.DataLoader(data, batch_size=4, **how)


def rows(batches):
    """(input ids, labels, positions) of every sample, in the order in which they came."""
    return [
        [values[row].tolist() for values in batch.values()] for batch in batches for row in range(len(batch["labels"]))
    ]


def test_batches_are_samples_stacked(data):
    batch = next(iter(loader(data)))
    assert {name: tuple(values.shape) for name, values in batch.items()} == dict.fromkeys(
        ("input_ids", "labels", "position_ids"), (4, 6)
    )
    assert rows([batch]) == [[ids.tolist() for ids in data[index].values()] for index in range(4)]


def test_boundaries_of_a_batch_are_those_of_its_samples_one_after_the_other(data):
    torch = pytest.importorskip("torch")
    masking = pytest.importorskip("transformers.masking_utils")
    positions = next(iter(loader(data)))["position_ids"]
    edges = document_boundaries(positions.numpy())
    assert edges.tolist() == [
        *(row * 6 + edge for row in range(4) for edge in data.read(row).cu_seqlens[:-1].tolist()), 24
    ]  # fmt: skip
    # and transformers finds the same documents in the positions
    found = masking.find_packed_sequence_indices(positions.reshape(1, -1))[0]
    assert [0, *(torch.diff(found).nonzero()[:, 0] + 1).tolist(), 24] == edges.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("start", ["fork", "spawn", "forkserver"])
def test_workers_read_what_one_process_reads(data, start):
    data.read(0)  # files are open: workers must open their own
    expected = [[ids.tolist() for ids in item.values()] for item in data]
    assert rows(loader(data, num_workers=2, multiprocessing_context=start)) == expected


def test_ranks_resume_in_another_number_where_others_stopped(data):
    seen, consumed = [], 0
    for ranks, batches in ((2, 3), (3, 2), (1, 100)):
        loaders = [loader(data, sampler=RankSampler(len(data), consumed, rank, ranks)) for rank in range(ranks)]
        some = [rows(itertools.islice(iter(one), batches)) for one in loaders]
        # the order in which ranks take them: one each in turn
        seen += [row for turn in itertools.zip_longest(*some) for row in turn if row is not None]
        consumed += sum(map(len, some))
    assert seen == [[ids.tolist() for ids in item.values()] for item in data]
