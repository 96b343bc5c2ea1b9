"""A stand-in for a neural model, that knows one word; and texts of which the screen is sure, or not."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pipelines.dataset import Dataset
from pipelines.engines.local import Engine
from pipelines.filters.toxicity.neural import BatchTooLarge
from pipelines.filters.toxicity.neural_params import NeuralParams
from pipelines.filters.toxicity.params import ToxicityParams
from pipelines.filters.toxicity.stage import score_toxicity
from pipelines.store import Store
from tests.pipelines.filters.corpus import published

KIND, RUDE = "a lovely day in the garden", "you stupid fucking idiot"
OPEN = "what a damn cold morning"
"""The screen is not sure of it."""


@dataclass
class Scores:
    """What it says, as a classifier would."""

    max: np.ndarray
    mean: np.ndarray
    facts: dict[str, Any]


@dataclass
class StandIn:
    """Calls a text with its word toxic. memory: tokens of a batch that it has room for. read, budgets: the texts that
    it read, and the batches that it was asked for."""

    word: str
    read: list[str] = field(default_factory=list)
    labels = ["insult", "toxicity"]
    memory: int = 1000
    budgets: list[int] = field(default_factory=list)

    def score(self, texts: list[str], batch_tokens: int) -> Scores:
        self.budgets.append(batch_tokens)
        if batch_tokens > self.memory:
            raise BatchTooLarge
        self.read += texts
        toxicity = np.array([0.9 if self.word in text else 0.1 for text in texts], np.float32)
        both = np.stack([np.zeros_like(toxicity), toxicity], axis=1)
        return Scores(both, both / 2, {"documents": len(texts), "windows": len(texts)})


def identity(params: NeuralParams) -> dict[str, Any]:
    """Its identity, in place of that of a checkpoint."""
    return {"checkpoint": params.checkpoint, "batch_tokens": params.batch_tokens, "device": "cpu"}


def config(*words: str, languages: tuple[str, ...] = ("en",), **more: Any) -> ToxicityParams:
    neural = [{"checkpoint": word, "languages": list(languages), "batch_tokens": 1000} for word in words]
    return ToxicityParams.model_validate({"neural": neural, "band": [0.3, 0.9], **more})


def scored(store: Store, engine: Engine, given: Dataset, wanted: ToxicityParams) -> tuple[dict[str, Any], Dataset]:
    draft = score_toxicity(given, wanted, engine)
    return draft.stats, published(store, draft, "toxicity_scores")


def rows(data: Dataset, part: str = "toxicity") -> list[tuple[Any, ...]]:
    return [tuple(row.values())[1:] for row in data.table(part).to_pylist()]
