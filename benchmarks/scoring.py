"""How fast documents are scored: the language model beside kenlm on the same model and text, the toxicity screen beside
alt-profanity-check on the same comments; and how fast and in how much memory a language model is trained, beside lmplz.

Run `python -m benchmarks.scoring [--quick] [--json]`, after `python -m benchmarks.peers` built lmplz. The text is
`../shared/data`: books, with every eighth word replaced by another one so that n-grams don't just repeat. Correctness
is tested in tests/pipelines/filters/; here, the two trainers' models are compared.
"""

import csv
import os
import random
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import kenlm
import numpy as np
import pyarrow as pa

from benchmarks.harness import REPEATS, Measurement, cpu_seconds, main
from benchmarks.peers import lmplz
from pipelines.filters.perplexity.arpa import read_arpa, write_arpa
from pipelines.filters.perplexity.ngram_model import FILE_NAMES, NgramModel
from pipelines.filters.perplexity.ngram_training import NgramTrainer
from pipelines.filters.toxicity.screen import extract_screen
from pipelines.filters.words import folded_words, language_model_alphabet

DATA = Path(__file__).resolve().parents[1] / "../shared/data"
SORTING_MEGABYTES = 200
QUICK_SORTING_MEGABYTES = 40
"""Less than all n-grams of the text take, so that both trainers sort in files."""
AGREEMENT = 1e-5
"""Largest difference per word of two models that are the same, natural logarithms."""


def measure(quick: bool) -> list[Measurement]:
    """Training, scoring and screening; CPU seconds, since other work may share the machine."""
    texts = woven_books(megabytes=6 if quick else 30)
    held_out = pa.array(texts[::10], pa.large_string())
    megabytes = sum(len(text.encode()) for text in texts[::10]) / 1e6
    training = pa.array([text for index, text in enumerate(texts) if index % 10], pa.large_string())
    train(pa.array(texts[:3], pa.large_string())).score(held_out[:3], 10**9)
    found = training_beside_lmplz(training, held_out, quick)
    ours, theirs = scoring_seconds(train(training), held_out)
    found.append(
        Measurement("perplexity, 5-grams", "kenlm on cut words", megabytes / ours, megabytes / theirs, "MB/CPU s", 1.0)
    )
    short = tweets(5000 if quick else 24_783)
    comments = [" ".join(short[at : at + 4])[:300] for at in range(0, len(short), 4)]
    books = [text for text in texts if len(text) > 500][:500]
    for name, batch in (("tweets", short), ("comments of 300 characters", comments), ("books", books)):
        ours, theirs = screening_seconds(batch)
        peer = "profanity_check.predict_prob"
        found.append(
            Measurement(f"toxicity, {name}", peer, len(batch) / ours, len(batch) / theirs, "documents/CPU s", 4.0)
        )
    return found


def training_beside_lmplz(texts: pa.Array, held_out: pa.Array, quick: bool) -> list[Measurement]:
    """CPU seconds and peak memory, both with the same memory for sorting, on a file of cut and folded words."""
    if not lmplz.PROGRAM.exists():
        print(f"training is left out: build {lmplz.NAME} with python -m benchmarks.peers", file=sys.stderr)
        return []
    sorting = QUICK_SORTING_MEGABYTES if quick else SORTING_MEGABYTES
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text, arpa = folder / "text", folder / "model.arpa"
        text.write_text("\n".join(cut_texts(texts)) + "\n", encoding="utf-8")
        megabytes = text.stat().st_size / 1e6
        runs = [
            (lmplz.ours(text, folder, sorting), lmplz.theirs(text, arpa, sorting))
            for _ in range(1 if quick else REPEATS)
        ]
        agree(NgramModel.open([folder / file for file in FILE_NAMES]), read_arpa(arpa, "folded"), held_out)
    rates = [statistics.median(megabytes / run[side].cpu_seconds for run in runs) for side in (0, 1)]
    peaks = [statistics.median(run[side].megabytes for run in runs) for side in (0, 1)]
    title = f"5-grams, {megabytes:.0f} MB, {sorting} MB for sorting"
    return [
        Measurement(f"training, {title}", lmplz.NAME, *rates, "MB/CPU s", 1.0),
        Measurement(f"training, peak memory, {title}", lmplz.NAME, *peaks, "MB", 1.0, lower_is_better=True),
    ]


def agree(ours: NgramModel, theirs: NgramModel, texts: pa.Array) -> None:
    """Stop where two models of the same text differ."""
    (one, tokens), (other, _) = (model.score(texts, 10**9) for model in (ours, theirs))
    if (worst := float(np.abs((one - other) / np.maximum(tokens, 1)).max())) > AGREEMENT:
        raise SystemExit(f"our model and that of {lmplz.NAME} differ by {worst} per word")


def train(texts: pa.Array) -> NgramModel:
    """A model as the stage trains it by default."""
    trainer = NgramTrainer(order=5, max_vocabulary=500_000, min_count=2)
    trainer.add(texts)
    return trainer.estimate()


def scoring_seconds(model: NgramModel, texts: pa.Array) -> tuple[float, float]:
    """CPU seconds of ours, from raw text, and of kenlm, from words that were cut and folded for it beforehand."""
    cut = cut_texts(texts)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.arpa"
        write_arpa(model, path)
        theirs = quietly(lambda: kenlm.Model(str(path)))
    return in_turns(
        lambda: model.score(texts, 10**9),
        lambda: [theirs.score(text, bos=True, eos=False) for text in cut],
    )


def cut_texts(texts: pa.Array) -> list[str]:
    """The texts as words that are cut and folded, with a space between them."""
    return [" ".join(folded_words(text.as_py().encode(), language_model_alphabet())) for text in texts]


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
