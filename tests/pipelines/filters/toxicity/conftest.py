"""Small checkpoints, made once for a module."""

from collections.abc import Iterator

import pytest

from pipelines.filters.toxicity import neural_runtime
from pipelines.filters.toxicity.neural import Classifier, open_classifier
from tests.pipelines.filters.toxicity import checkpoint
from tests.pipelines.filters.toxicity.checkpoint import Checkpoint, of


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Models this small are done before a second thread has begun."""
    with neural_runtime.torch_threads(1):
        yield


@pytest.fixture(scope="module")
def made() -> Checkpoint:
    return checkpoint.small_checkpoint()


@pytest.fixture(scope="module")
def classifier(made: Checkpoint) -> Classifier:
    return open_classifier(of(made))
