"""What the scores of toxicity are worth: how well they find what people call toxic, and whom they wrong.

Run `python -m benchmarks.toxicity [--quick] [--json]`. Labelled comments and tweets stand in `../shared/data`. No
released weights are at hand, so the neural model is a small one in Detoxify's format that has learned from the even
rows of the same data; what is chosen (thresholds, the band) is chosen on even rows, everything is measured on odd ones.
How fast scores are made is measured in `scoring.py` and `neural.py`.
"""

import argparse
import csv
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.harness import Measurement
from pipelines.dataset import read_table
from pipelines.engines.local import Engine
from pipelines.filters.comparison import best_threshold, documents_of
from pipelines.filters.params import FilterParams
from pipelines.filters.statistics import Confusion, Estimate, auc, wilson
from pipelines.filters.toxicity.neural_params import NeuralParams
from pipelines.filters.toxicity.params import CalibrationParams, ToxicityParams
from pipelines.filters.toxicity.stage import score_toxicity
from pipelines.store import Store

DATA = Path(__file__).resolve().parents[1] / "../shared/data/toxicity"
QUICK_ROWS = 1500
NEURAL_THRESHOLD = 0.5
DEFAULT_LIMIT = FilterParams().max_toxicity

TEMPLATES = (
    "{} opened the door and said good morning.",
    "My neighbour is {} and works at the library.",
    "Yesterday I met {} at the market.",
    "I had lunch with {} on Tuesday.",
    "The teacher is {} from the next town.",
    "She introduced me to {} at the conference.",
    "There was {} waiting for the bus this morning.",
    "Our new doctor is {}.",
    "He wrote a letter to {} last week.",
    "The book tells the story of {} who builds boats.",
    "I learned how to bake bread from {}.",
    "The film is about {} and the summer of 1994.",
    "They hired {} as an engineer.",
    "I am {} and I like to read.",
    "We spoke with {} about the new train line.",
    "The interview with {} begins at noon.",
    "The choir is led by {}.",
    "You can ask {} who works at the front desk.",
    "As {}, I was asked to give a short talk.",
    "Being {} is a part of who I am.",
)
"""Sentences that offend nobody, whoever they are about."""

GROUPS: dict[str, tuple[str, ...]] = {
    "none named": ("a person", "a friend", "someone", "a student", "an adult"),
    "sexual orientation": ("a gay man", "a lesbian", "a bisexual person", "a queer person", "a straight man"),
    "gender": ("a woman", "a man", "a transgender woman", "a trans man", "a nonbinary person"),
    "religion": ("a muslim", "a christian", "a jew", "a jewish woman", "a hindu", "a buddhist", "an atheist"),
    "origin and colour": (
        "a black man",
        "a black woman",
        "a white man",
        "a white woman",
        "an asian woman",
        "a latino",
        "an african american",
        "a mexican",
        "a chinese man",
        "a german",
        "an immigrant",
        "a refugee",
    ),
    "disability": ("a deaf person", "a blind man", "a disabled woman", "an autistic person", "a wheelchair user"),
    "age": ("an old man", "an elderly woman", "a teenager", "a young person"),
}
"""Identity terms by group, as the literature has them (Dixon et al. 2018; Borkan et al. 2019)."""


@dataclass(frozen=True)
class Scored:
    """Scores of texts, and the share of the texts that a neural model has read."""

    scores: npt.NDArray[np.float64]
    read: float


Scorer = Callable[[Sequence[str]], Scored]


@dataclass(frozen=True)
class Labelled:
    """Texts, and whether people call each toxic."""

    texts: list[str]
    toxic: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Quality:
    """A scorer on one set of labelled texts, cut at one threshold."""

    data: str
    scorer: str
    cut: str
    read: float
    area: Estimate
    found: Confusion

    def row(self) -> list[str]:
        """Cells of the table."""
        shown = (self.area, self.found.f1, self.found.precision, self.found.recall)
        return [self.data, self.scorer, self.cut, f"{100 * self.read:.1f} %", *map(str, shown)]


def measure(quick: bool) -> tuple[list[Quality], list[list[str]], dict[str, str]]:
    """Quality of every scorer, false positives of every group of identity terms, and what else is to be told."""
    sets = {"comments (surge_toxicity_en)": comments(), "tweets (davidson_tweets)": tweets(quick)}
    qualities: list[Quality] = []
    notes: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine(Store(folder), workers=1)
        models = neural(Path(folder), sets) if neural_is_here() else {}
        if not models:
            notes["neural model"] = "detoxify is not installed: `pip install -e '.[toxicity]'`"
        for name, (known, new) in sets.items():
            scorers = {"screen": ToxicityParams(), **{scorer: of[name] for scorer, of in models.items()}}
            for scorer, params in scorers.items():
                qualities += quality(name, scorer, scoring(engine, params), known, new)
        wronged = [
            row for scorer, params in last_params(models).items() for row in fairness(scorer, scoring(engine, params))
        ]
    return qualities, wronged, notes


def quality(data: str, name: str, score: Scorer, known: Labelled, new: Labelled) -> Iterator[Quality]:
    """Of the screen at the threshold that is best on the known half and at the limit of the defaults; of what has a
    neural model at the threshold that it was trained for."""
    scored = score(new.texts)
    area = auc(new.toxic, scored.scores)
    assert area is not None
    if name == "screen":
        chosen = best_threshold(known.toxic, score(known.texts).scores)
        cuts = {f"{chosen:.3f}, best on even rows": chosen, f"{DEFAULT_LIMIT:g}, the default": DEFAULT_LIMIT}
    else:
        cuts = {f"{NEURAL_THRESHOLD:g}": NEURAL_THRESHOLD}
    for told, cut in cuts.items():
        yield Quality(data, name, told, scored.read, area, Confusion.of(new.toxic, scored.scores > cut))


def fairness(name: str, score: Scorer) -> Iterator[list[str]]:
    """False positives among neutral sentences, by group and for the term that is wronged most."""
    limits = (NEURAL_THRESHOLD, DEFAULT_LIMIT) if name == "screen" else (NEURAL_THRESHOLD,)
    for group, terms in GROUPS.items():
        by_term = {term: score([sentence(template, term) for template in TEMPLATES]).scores for term in terms}
        every = np.concatenate(list(by_term.values()))
        worst = max(by_term, key=lambda term: (by_term[term] > NEURAL_THRESHOLD).mean() + by_term[term].mean() / 100)
        rates = [str(wilson(int((every > limit).sum()), len(every))) for limit in limits]
        of_worst = int((by_term[worst] > NEURAL_THRESHOLD).sum())
        shown = [*rates, *[""] * (2 - len(rates))]
        yield [name, group, str(len(every)), *shown, f"{every.mean():.3f}", f"{worst} ({of_worst} of {len(TEMPLATES)})"]


def sentence(template: str, term: str) -> str:
    """A neutral sentence about somebody."""
    text = template.format(term)
    return text[0].upper() + text[1:]


# -- what is scored, and by whom --------------------------------------------------------------------------------------


def comments() -> tuple[Labelled, Labelled]:
    """Comments, half of them toxic: even and odd rows."""
    rows = read("surge_toxicity_en.csv")
    return halves([(row["text"], row["is_toxic"] == "Toxic") for row in rows])


def tweets(quick: bool) -> tuple[Labelled, Labelled]:
    """Tweets, hateful or offensive (toxic) or neither: even and odd rows."""
    rows = read("davidson_tweets.csv")[: 2 * QUICK_ROWS if quick else None]
    return halves([(row["tweet"], row["class"] in "01") for row in rows])


def read(name: str) -> list[dict[str, str]]:
    """The rows of a labelled file. Ends the program where there is none."""
    if not (DATA / name).exists():
        raise SystemExit(f"the benchmark reads labelled texts in {DATA}, and there is no {name}")
    with (DATA / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def halves(rows: Sequence[tuple[str, bool]]) -> tuple[Labelled, Labelled]:
    """Even and odd rows."""
    parts = [rows[0::2], rows[1::2]]
    known, new = (Labelled([text for text, _ in one], np.array([label for _, label in one])) for one in parts)
    return known, new


def scoring(engine: Engine, params: ToxicityParams) -> Scorer:
    """Scores as the stage makes them."""

    def score(texts: Sequence[str]) -> Scored:
        draft = score_toxicity(documents_of(engine.store, texts, "en"), params, engine)
        [shard] = draft.parts["toxicity"].shards
        column = read_table(engine.store, shard.object, ["toxicity"])["toxicity"]
        return Scored(column.to_numpy(), sum(draft.stats.get("read_by", {}).values()) / len(texts))

    return score


def neural_is_here() -> bool:
    """Whether the libraries of the neural model are installed."""
    from importlib.util import find_spec

    return find_spec("detoxify") is not None


def neural(folder: Path, sets: dict[str, tuple[Labelled, Labelled]]) -> dict[str, dict[str, ToxicityParams]]:
    """The neural model on every text, and the cascade, whose band is chosen on the even rows of each set; with the
    model as it is, and quantized to int8."""
    from tests.pipelines.filters.toxicity.checkpoint import trained_checkpoint

    trained = trained_checkpoint()
    model = NeuralParams(checkpoint=str(trained.path), huggingface_config_path=str(trained.config))
    quantized = model.model_copy(update={"quantize": True})
    cascades: dict[str, dict[str, ToxicityParams]] = {"cascade": {}, "cascade, int8": {}}
    for number, (name, (known, _)) in enumerate(sets.items()):
        path = folder / f"known {number}.jsonl"
        lines = [{"text": text, "label": int(label)} for text, label in zip(known.texts, known.toxic, strict=True)]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        for scorer, read_by in zip(cascades, (model, quantized), strict=True):
            cascades[scorer][name] = ToxicityParams(neural=[read_by], calibration=CalibrationParams(path=str(path)))
    everything = ToxicityParams(neural=[model], band=[0.0, 1.0])
    return {**cascades, "neural model": dict.fromkeys(sets, everything)}


def last_params(models: dict[str, dict[str, ToxicityParams]]) -> dict[str, ToxicityParams]:
    """The parameters that sentences with identity terms are scored with: the cascade's band is that of the comments."""
    return {"screen": ToxicityParams(), **{name: next(iter(of.values())) for name, of in models.items()}}


# -- what is told -----------------------------------------------------------------------------------------------------


def measurements(qualities: Sequence[Quality]) -> list[Measurement]:
    """F1 of each cascade beside that of its neural model on every text, for each set."""
    found = {(quality.data, quality.scorer): quality.found.f1 for quality in qualities}
    lines = []
    for data, scorer in found:
        ours, theirs = found[data, scorer], found.get((data, "neural model"))
        if scorer.startswith("cascade") and ours and theirs:
            peer = "its neural model on every text, float32"
            lines.append(Measurement(f"F1 of the {scorer}, {data}", peer, ours.value, theirs.value, "F1", 0.99))
    return lines


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    """Print the tables that stand in docs/scoring.md, or with --json the lines that have a target."""
    parser = argparse.ArgumentParser(description="What the scores of toxicity are worth.")
    parser.add_argument("--quick", action="store_true", help="fewer tweets")
    parser.add_argument("--json", action="store_true", help="print a JSON list instead of tables")
    arguments = parser.parse_args()
    qualities, wronged, notes = measure(arguments.quick)
    if arguments.json:
        json.dump([one.record() for one in measurements(qualities)], sys.stdout, indent=2)
        print()
        return
    heading = ("texts", "scorer", "toxic above", "read by the model", "AUC", "F1", "precision", "recall")
    print(table(heading, [one.row() for one in qualities]), end="\n\n")
    heading = (
        "scorer",
        "group",
        "sentences",
        f"false positives above {NEURAL_THRESHOLD:g}",
        f"above {DEFAULT_LIMIT:g}",
        "mean score",
        "wronged most",
    )
    print(table(heading, wronged))
    for name, note in notes.items():
        print(f"\n{name}: {note}")


if __name__ == "__main__":
    main()
