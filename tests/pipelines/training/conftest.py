"""One corpus for all tests of training; one thread, so that sums are made in one order."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.training.work import WorkFolder
from tests.pipelines.training.corpus import Corpus, make_corpus


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return make_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture
def work(corpus: Corpus, tmp_path: Path) -> WorkFolder:
    return corpus.work(tmp_path / "work")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
