"""How fast documents are scored by a neural classifier: our batches beside one call of `Detoxify.predict` with the same
list of comments, which pads every text to the longest; and the whole cascade beside a call of `predict` for each tweet.

Run `python -m benchmarks.neural [--quick] [--json]`. The model has BERT-base's shape, a WordPiece vocabulary of its
size learned from the shared data, and random weights, because none can be had without a download: time does not depend
on them. The cascade reads tweets as they come; its band is the one that the small trained model of `toxicity.py` needs,
which also measures what the cascade finds, so this model reads the share of the tweets that a useful one would. Figures
are CPU seconds on one thread, since other work may share the machine. That the numbers are Detoxify's is tested in
tests/pipelines/filters/toxicity/test_neural.py.
"""

import random
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from detoxify import Detoxify

from benchmarks import toxicity
from benchmarks.harness import Measurement, cpu_seconds, main
from pipelines.engines.local import Engine
from pipelines.filters.comparison import documents_of
from pipelines.filters.toxicity.neural import open_classifier
from pipelines.filters.toxicity.neural_params import NeuralParams
from pipelines.filters.toxicity.params import ToxicityParams
from pipelines.filters.toxicity.stage import score_toxicity
from pipelines.store import Store
from tests.pipelines.filters.toxicity.checkpoint import Checkpoint, untrained_bert, write

DATA = Path(__file__).resolve().parents[1] / "../shared/data"
PEER = "Detoxify.predict, one call"
ONE_BY_ONE = "Detoxify.predict, a call each"
CLASSES = ("toxic", "severe_toxic", "obscene", "threat", "insult", "identity_hate")
FORMS = {
    "float32": {},
    "bfloat16": {"precision": "bfloat16"},
    "int8": {"quantize": True},
    "ONNX Runtime": {"runtime": "onnx"},
    "ONNX Runtime, int8": {"runtime": "onnx", "quantize": True},
}


def measure(quick: bool) -> list[Measurement]:
    """Each way to run the model, on comments and in the cascade."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = bert_base(folder, quick)
        settings = {"checkpoint": str(made.path), "huggingface_config_path": str(made.config), "threads": 1}
        forms = {form: FORMS[form] for form in ("float32", "int8")} if quick else FORMS
        models = {form: NeuralParams.model_validate(settings | own) for form, own in forms.items()}
        theirs = Detoxify(checkpoint=str(made.path), huggingface_config_path=str(made.config))
        found = batches(models, theirs, 32 if quick else 200)
        return found if quick else [*found, *cascades(folder, models, theirs)]


def batches(models: dict[str, NeuralParams], theirs: Detoxify, count: int) -> list[Measurement]:
    """Every text read by the model; ratios to Detoxify in the same rounds."""
    texts = comments(count)
    ours = {form: open_classifier(model) for form, model in models.items()}
    for classifier in ours.values():
        classifier.score(texts[:2])
    theirs.predict(texts[:2])
    spent: dict[str, list[float]] = {}
    for _ in range(3):
        spent.setdefault(PEER, []).append(cpu_seconds(lambda: theirs.predict(texts)))
        for form, classifier in ours.items():
            spent.setdefault(form, []).append(cpu_seconds(lambda own=classifier: own.score(texts)))
    rate = {form: len(texts) / statistics.median(seconds) for form, seconds in spent.items()}
    return [
        Measurement(f"neural classifier, {form}", PEER, rate[form], rate[PEER], "documents/CPU s", 2.5) for form in ours
    ]


def cascades(folder: Path, models: dict[str, NeuralParams], theirs: Detoxify) -> list[Measurement]:
    """The stage as it stands, on tweets that chose nothing, in three rounds of different ones."""
    known, new = toxicity.tweets(quick=False)
    engine = Engine(Store(folder / "store"), workers=1)

    def stage(params: ToxicityParams, texts: Sequence[str]) -> dict[str, Any]:
        return score_toxicity(documents_of(engine.store, texts, "en"), params, engine).stats

    small = toxicity.neural(folder, {"tweets": (known, new)})["cascade"]["tweets"]
    band = stage(small, known.texts[:1])["band"]
    ours = {
        form: ToxicityParams(neural=[model], band=[band["low"], band["high"]], neural_threshold=band["threshold"])
        for form, model in models.items()
    }
    for params in ours.values():
        stage(params.model_copy(update={"band": [0.0, 1.0]}), known.texts[:2])
    share = 500
    spent: dict[str, list[float]] = {}
    read = 0
    for texts in (new.texts[at : at + share] for at in range(0, 3 * share, share)):
        spent.setdefault(ONE_BY_ONE, []).append(cpu_seconds(lambda own=texts: [theirs.predict(text) for text in own]))
        for form, params in ours.items():
            spent.setdefault(form, []).append(cpu_seconds(lambda own=params, given=texts: stage(own, given)))
        read += sum(stage(next(iter(ours.values())), texts).get("read_by", {}).values())
    rate = {form: share / statistics.median(seconds) for form, seconds in spent.items()}
    title = f"cascade, {100 * read / (3 * share):.0f} % of tweets read in"
    return [
        Measurement(f"{title} {form}", ONE_BY_ONE, rate[form], rate[ONE_BY_ONE], "documents/CPU s", 15.0)
        for form in ours
    ]


def bert_base(folder: Path, quick: bool) -> Checkpoint:
    """A checkpoint of BERT-base's shape."""
    books = [path.read_text(encoding="utf-8") for path in sorted((DATA / "books").glob("*.txt"))][
        : 2 if quick else None
    ]
    model, tokenizer = untrained_bert(
        folder, [*books, *comments(10**9)], hidden=768, layers=12, vocabulary=30_522, classes=len(CLASSES)
    )
    return write(folder, model, tokenizer, CLASSES)


def comments(count: int) -> list[str]:
    """Comments and tweets, half and half, drawn with a fixed seed; at most so many."""
    texts: list[str] = []
    for name, column in (("surge_toxicity_en.csv", "text"), ("davidson_tweets.csv", "tweet")):
        found = [row[column] for row in toxicity.read(name)]
        texts += random.Random(0).sample(found, min(len(found), count // 2))
    random.Random(1).shuffle(texts)
    return texts


if __name__ == "__main__":
    main(measure, "How fast the neural classifier scores.")
