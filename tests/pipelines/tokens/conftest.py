"""A store for every test, and one small tokenizer for all of them."""

import pytest

from pipelines.engines.local import Engine
from pipelines.store import Store
from pipelines.tokens.tokenizer import make_tokenizer
from pipelines.tokens.tokenizer_params import TokenizerParams
from tests.pipelines.tokens.corpus import documents, sealed


@pytest.fixture
def store(tmp_path):
    return Store(str(tmp_path / "store"))


@pytest.fixture
def engine(store):
    return Engine(store, 1)


@pytest.fixture
def tokenizer(store, engine):
    """300 tokens, learnt from one sentence."""
    data = documents(store, {"any": [{"d": "the cat sat on the mat and the dog sat on the cat. " * 20}]})
    return sealed(store, make_tokenizer(data, TokenizerParams(vocabulary=300), engine), "tokenizer")
