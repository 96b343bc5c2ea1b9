"""How fast documents are scored: the language model beside kenlm on the same model and text, the toxicity screen beside
alt-profanity-check on the same comments, and how fast a language model is trained.

Run `python -m benchmarks.scoring [--quick] [--json]`. The text is `../shared/data`: books, with every eighth word
replaced by another one so that n-grams don't just repeat. Correctness is tested in tests/pipelines/filters/.
"""

import csv
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import kenlm
import pyarrow as pa

from benchmarks.harness import Measurement, main
from pipelines.filters.arpa import write_arpa
from pipelines.filters.ngram_model import NgramModel
from pipelines.filters.ngram_training import NgramTrainer
from pipelines.filters.screen import extract_screen
from pipelines.filters.words import folded_words, language_model_alphabet

DATA = Path(__file__).resolve().parents[1] / "../shared/data"
TRAINING_TARGET = 0.5
"""MB per CPU-second: 30 MB in a minute on one core."""


def measure(quick: bool) -> list[Measurement]:
    """Training, scoring and screening; CPU seconds of this process, since other work may share the machine."""
    texts = woven_books(megabytes=6 if quick else 30)
    held_out = pa.array(texts[::10], pa.large_string())
    megabytes = sum(len(text.encode()) for text in texts[::10]) / 1e6
    training = pa.array([text for index, text in enumerate(texts) if index % 10], pa.large_string())
    training_megabytes = sum(len(text.as_py().encode()) for text in training) / 1e6
    warm_up = train(pa.array(texts[:3], pa.large_string()))
    warm_up.score(held_out[:3], 10**9)

    trained: list[NgramModel] = []
    training_seconds = cpu_seconds(lambda: trained.append(train(training)))
    found = [
        Measurement(
            f"training, 5-grams, {training_megabytes:.0f} MB",
            "our target",
            training_megabytes / training_seconds,
            TRAINING_TARGET,
            "MB/CPU s",
            1.0,
        )
    ]
    ours, theirs = scoring_seconds(trained[0], held_out)
    found.append(
        Measurement("perplexity, 5-grams", "kenlm on cut words", megabytes / ours, megabytes / theirs, "MB/CPU s", 1.0)
    )
    comments = tweets(5000 if quick else 24_783)
    for name, batch in (("comments", comments), ("books", [text for text in texts if len(text) > 500][:500])):
        ours, theirs = screening_seconds(batch)
        peer = "profanity_check.predict_prob"
        found.append(
            Measurement(f"toxicity, {name}", peer, len(batch) / ours, len(batch) / theirs, "documents/CPU s", 4.0)
        )
    return found


def train(texts: pa.Array) -> NgramModel:
    """A model as the stage trains it by default."""
    trainer = NgramTrainer(order=5, max_vocabulary=500_000, min_count=2)
    trainer.add(texts)
    return trainer.estimate()


def scoring_seconds(model: NgramModel, texts: pa.Array) -> tuple[float, float]:
    """CPU seconds of ours, from raw text, and of kenlm, from words that were cut and folded for it beforehand."""
    cut = [" ".join(folded_words(text.as_py().encode(), language_model_alphabet())) for text in texts]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.arpa"
        write_arpa(model, path)
        theirs = quietly(lambda: kenlm.Model(str(path)))
    return in_turns(
        lambda: model.score(texts, 10**9),
        lambda: [theirs.score(text, bos=True, eos=False) for text in cut],
    )


def screening_seconds(texts: list[str]) -> tuple[float, float]:
    """CPU seconds of the screen, by passages of 500 bytes, and of the package itself, which sees whole texts."""
    from profanity_check import predict_prob

    screen, column = extract_screen(), pa.array(texts, pa.large_string())
    screen.score(column[:2], 500)
    return in_turns(lambda: screen.score(column, 500), lambda: predict_prob(texts))


def in_turns(ours: Callable[[], object], theirs: Callable[[], object]) -> tuple[float, float]:
    """Medians of three, taken in turns."""
    turns = [(cpu_seconds(ours), cpu_seconds(theirs)) for _ in range(3)]
    return statistics.median(a for a, _ in turns), statistics.median(b for _, b in turns)


def cpu_seconds(run: Callable[[], object]) -> float:
    """CPU seconds of one call, in this process."""
    begin = time.process_time()
    run()
    return time.process_time() - begin


def quietly(load: Callable[[], object]) -> kenlm.Model:
    """Call with standard error closed: kenlm draws a progress bar there."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
            return load()
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def woven_books(megabytes: float) -> list[str]:
    """Documents of about 4 kB from the books, in random but fixed order, with every eighth word replaced by one drawn
    from all words of the books or, one time in twenty, by a made-up one."""
    if not (DATA / "books").exists():
        raise SystemExit(f"the benchmark reads books in {DATA / 'books'}, and there is no such folder")
    draw = random.Random(7)
    words = " \n ".join(path.read_text(encoding="utf-8") for path in sorted((DATA / "books").glob("*.txt"))).split(" ")
    texts: list[str] = []
    size = 0.0
    while size < megabytes * 1e6:
        start = draw.randrange(len(words) - 700)
        piece = words[start : start + 700]
        for at in range(draw.randrange(8), len(piece), 8):
            made_up = draw.random() < 0.05
            piece[at] = f"{draw.choice(words)}{draw.choice(words)}" if made_up else draw.choice(words)
        texts.append(" ".join(piece))
        size += len(texts[-1].encode())
    return texts


def tweets(count: int) -> list[str]:
    """The first so many labelled tweets."""
    with (DATA / "toxicity/davidson_tweets.csv").open(encoding="utf-8") as file:
        return [row["tweet"] for row in csv.DictReader(file)][:count]


if __name__ == "__main__":
    main(measure, "How fast documents are scored.")
