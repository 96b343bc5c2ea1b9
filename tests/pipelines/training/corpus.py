"""A small corpus, tokenized and blended by the real stages, and work folders laid out from it."""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

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
from pipelines.tokens.shards import tokenize
from pipelines.tokens.tokenize_params import TokenizeParams
from pipelines.tokens.tokenizer import make_tokenizer
from pipelines.tokens.tokenizer_params import TokenizerParams
from pipelines.training.params import PretrainParams
from pipelines.training.work import WorkFolder

TINY = PretrainParams(
    hidden_size=32,
    layers=2,
    heads=4,
    kv_heads=2,
    intermediate_size=64,
    sequence_length=32,
    batch_size=4,
    micro_batch_size=4,
    max_steps=12,
    learning_rate=1e-2,
    evaluate_every_steps=4,
    validation_sequences=6,
    checkpoint_every_steps=3,
    keep_checkpoints=2,
    report_every_steps=1,
    device="cpu",
)


@dataclass(frozen=True)
class Corpus:
    """What the training stage is given."""

    store: Store
    training_blend: Dataset
    token_shards: Dataset
    tokenizer: Dataset

    def work(self, root: Path, config: PretrainParams = TINY) -> WorkFolder:
        """A work folder, as the stage lays it out."""
        work = WorkFolder(root)
        self.training_blend.folder("blend", work.data)
        self.token_shards.folder("tokens", work.data)
        self.tokenizer.folder("tokenizer", work.tokenizer)
        work.write_job(config)
        return work


def make_corpus(root: Path, documents: int = 200, **blending: Any) -> Corpus:
    """Sentences that repeat themselves enough to be learnt in a dozen steps."""
    store = Store(str(root))
    engine = Engine(store, workers=1)
    words = random.Random(0)
    nouns, verbs = ("cat", "dog", "miller", "river", "wheel"), ("sees", "turns", "feeds", "likes")
    rows = [
        {
            "doc_id": f"{number:032x}",
            "source": "tales",
            "uri": f"tales.txt#{number}",
            "text": " ".join(
                f"The {words.choice(nouns)} {words.choice(verbs)} the {words.choice(nouns)}." for _ in range(12)
            ),
        }
        for number in range(documents)
    ]
    shard = write_shard(store, "documents", pa.Table.from_pylist(rows, schema=DOCUMENTS))
    filtered = _dataset(store, Draft({"documents": Part("table", (shard,))}), "filtered_documents", "tales")
    tokenizer = _dataset(store, make_tokenizer(filtered, TokenizerParams(vocabulary=300), engine), "tokenizer")
    shards = _dataset(store, tokenize(filtered, tokenizer, TokenizeParams(), engine), "token_shards", "tales")
    mixture = _dataset(store, plan_mixture(filtered, MixtureParams(max_epochs=1), engine), "training_mixture")
    blended = blend(mixture, shards, filtered, BlendParams(validation_share=0.1, **blending), engine, replan, Grouping)
    return Corpus(store, _dataset(store, blended, "training_blend"), shards, tokenizer)


def _dataset(store: Store, draft: Draft, asset: str, partition: str = "") -> Dataset:
    return Dataset(asset, (seal(store, draft, asset=asset, partition=partition),), store)
