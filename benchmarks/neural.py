"""How fast the neural classifier scores real comments: our batches beside one call of `Detoxify.predict` with the same
list, which pads every text to the longest.

Run `python -m benchmarks.neural [--quick] [--json]`. The model has BERT-base's shape, a WordPiece vocabulary of its
size learned from the shared data, and random weights, because none can be had without a download: time does not depend
on them. Figures are CPU seconds on one thread, since other work may share the machine. That the numbers are Detoxify's
is tested in tests/pipelines/filters/toxicity/test_neural.py.
"""

import csv
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from detoxify import Detoxify

from benchmarks.harness import Measurement, main
from pipelines.filters.toxicity.neural import open_classifier
from pipelines.filters.toxicity.neural_params import NeuralParams
from tests.pipelines.filters.toxicity.checkpoint import Checkpoint, untrained_bert, write

DATA = Path(__file__).resolve().parents[1] / "../shared/data"
PEER = "Detoxify.predict, one call"
CLASSES = ("toxic", "severe_toxic", "obscene", "threat", "insult", "identity_hate")
FORMS = {
    "float32": {},
    "bfloat16": {"precision": "bfloat16"},
    "int8": {"quantize": True},
    "ONNX Runtime": {"runtime": "onnx"},
    "ONNX Runtime, int8": {"runtime": "onnx", "quantize": True},
}


def measure(quick: bool) -> list[Measurement]:
    """Each way to run the model on the same comments; ratios to Detoxify in the same rounds."""
    texts = comments(32 if quick else 200)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        made = bert_base(Path(name), quick)
        theirs = Detoxify(checkpoint=str(made.path), huggingface_config_path=str(made.config))
        settings = {"checkpoint": str(made.path), "huggingface_config_path": str(made.config), "threads": 1}
        forms = {"float32": {}, "int8": {"quantize": True}} if quick else FORMS
        ours = {form: open_classifier(NeuralParams.model_validate(settings | own)) for form, own in forms.items()}
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
        with (DATA / "toxicity" / name).open(encoding="utf-8") as file:
            found = [row[column] for row in csv.DictReader(file)]
        texts += random.Random(0).sample(found, min(len(found), count // 2))
    random.Random(1).shuffle(texts)
    return texts


def cpu_seconds(work: Callable[[], object]) -> float:
    """CPU time of one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


if __name__ == "__main__":
    main(measure, "How fast the neural classifier scores.")
