"""The big list of naughty strings and texts of nothing, through every scorer: each gets a number or null, never NaN."""

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pipelines.dataset import Dataset
from pipelines.engines.local import Engine
from pipelines.filters.perplexity.params import PerplexityParams
from pipelines.filters.perplexity.stage import score_perplexity, train_perplexity
from pipelines.filters.toxicity import experts
from pipelines.filters.toxicity.neural_runtime import torch_threads
from pipelines.filters.toxicity.params import ToxicityParams
from pipelines.filters.toxicity.stage import score_toxicity
from pipelines.store import Store
from tests.pipelines.filters.corpus import PROSE, documents, published, real
from tests.pipelines.filters.perplexity.causal_model import make_model
from tests.pipelines.filters.toxicity.stand_in import StandIn, identity

ARPA = "\\data\\\nngram 1=4\nngram 2=1\n\n\\1-grams:\n-1\t<unk>\n-99\t<s>\t-0.5\n-1\t</s>\n-0.6\tthe\t-0.3\n\n"
ARPA += "\\2-grams:\n-0.1\t<s> the\n\n\\end\\\n"


@pytest.fixture
def naughty(store: Store) -> Dataset:
    strings = json.loads(real("unicode/blns.json").read_text(encoding="utf-8"))
    texts = [*strings, "", " ", "\n", "a", "\x00", "\ufeff", "\u200b", "!" * 500, "笨" * 500]
    languages = [("en", "zh", None, "tlh")[number % 4] for number in range(len(texts))]
    return documents(store, texts, language=languages, shard_rows=200)


def numbers(data: Dataset, part: str) -> list[np.ndarray]:
    """The columns of numbers, without nulls; rows are all there."""
    table = data.table(part)
    return [column.drop_null().to_numpy() for column in table.columns if pa.types.is_floating(column.type)]


def test_toxicity(store: Store, engine: Engine, naughty: Dataset, tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(experts, "_opened", lambda *_: StandIn("the"))
    monkeypatch.setattr(experts.neural, "identity", identity)
    (tmp_path / "zh.txt").write_text("笨\n我们\n", encoding="utf-8")
    wanted = ToxicityParams.model_validate(
        {
            "lexicons": {"zh": str(tmp_path / "zh.txt")},
            "neural": [{"checkpoint": "the", "batch_tokens": 1000}],
            "band": [0.05, 0.9],
            "sentences_from": 0,
        }
    )
    data = published(store, score_toxicity(naughty, wanted, engine), "toxicity_scores")
    assert data.table("toxicity").num_rows == naughty.table("documents").num_rows
    for part in ("toxicity", "toxicity_screen", "toxicity_labels", "toxicity_sentences"):
        for column in numbers(data, part):
            assert ((column >= 0) & (column <= 1)).all(), part  # false for NaN
    scorers = data.table("toxicity")["scorer"].to_pylist()
    told = zip(naughty.table("documents")["language"].to_pylist(), scorers, strict=True)
    assert {(language, scorer) for language, scorer in told} == {
        ("en", "screen"), ("en", "neural"), ("zh", "lexicon"), (None, None), ("tlh", None),
    }  # fmt: skip


@pytest.mark.parametrize("model", ["ngram", "kenlm", "causal"])
def test_perplexity(store: Store, engine: Engine, naughty: Dataset, tmp_path: Path, model: str) -> None:
    asked: dict[str, Any] = {"model": model, "min_tokens": 10}
    if model == "kenlm":
        (tmp_path / "small.arpa").write_text(ARPA)
        asked["kenlm"] = {"path": str(tmp_path / "small.arpa")}
    if model == "causal":
        asked["causal"] = {"path": str(make_model(tmp_path / "model")), "window": 32, "stride": 16, "device": "cpu"}
    wanted = PerplexityParams.model_validate(asked)
    reference = documents(store, [f"{PROSE} {number}" for number in range(20)], source="reference")
    trained = published(store, train_perplexity(reference, wanted, engine), "perplexity_model")
    with torch_threads(1) if model == "causal" else nullcontext():  # it is so small that a second would wait
        draft = score_perplexity(naughty, trained, wanted, engine)
    data = published(store, draft, "perplexity_scores")
    assert data.table("perplexity").num_rows == naughty.table("documents").num_rows
    for column in numbers(data, "perplexity"):
        assert len(column) > 300
        assert (np.isfinite(column) & (column >= 0)).all()
    assert draft.stats["too_short"] + draft.stats["not_finite"] == data.table("perplexity")["perplexity"].null_count
    assert draft.stats["not_finite"] == 0
