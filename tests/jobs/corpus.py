"""A corpus of a few dozen documents, and where each of them ends."""

import json
import random
from pathlib import Path
from typing import Any

from resources.settings import Profile, load_profile

PEOPLE = ["the miller", "her brother", "an old farmer", "the baker", "my neighbour", "the teacher", "a young sailor"]
DEEDS = [
    "carried the grain",
    "opened the gate",
    "read a letter",
    "counted the coins",
    "mended the wheel",
    "told a story",
]
PLACES = ["by the river", "in the village", "near the church", "on the hill", "at the market", "behind the old house"]
TIMES = [
    "in the morning",
    "after the rain",
    "before winter came",
    "on a quiet evening",
    "when the bells rang",
    "last year",
]


def prose(seed: int, sentences: int = 12) -> str:
    """English of a small world, different for every seed."""
    choice = random.Random(seed).choice
    told = (f"{choice(PEOPLE)} {choice(DEEDS)} {choice(PLACES)} {choice(TIMES)}." for _ in range(sentences))
    return " ".join(sentence[0].upper() + sentence[1:] for sentence in told)


FOREIGN = (
    "Electrons that scatter from a crystal surface reveal how its atoms vibrate, because each quantum of sound takes a "
    "little energy with it. Physicists compare such spectra with calculations, and argue about whatever disagrees. "
    "Nobody expected superconductivity to survive these pressures, yet recent measurements suggest that it does."
)
INSULT = "You are a fucking idiot, you stupid piece of shit, go to hell you worthless bitch. " * 3
ORIGINAL = prose(1000, 30)

BOOKS = [{"id": f"b{number}", "text": prose(number)} for number in range(16)]
WEB = [
    {"id": "w0", "text": prose(100)},
    {"id": "w0", "text": "A second record with an id that is taken already, in the same file."},
    *({"id": f"w{number}", "text": prose(100 + number)} for number in range(1, 10)),
    {"id": "copy", "text": BOOKS[3]["text"]},
    {"id": "original", "text": ORIGINAL},
    {"id": "near-copy", "text": ORIGINAL.rsplit(" ", 3)[0]},
    {"id": "short", "text": "Too short."},
    {"id": "empty", "text": ""},
    {"id": "off topic", "text": FOREIGN},
    {"id": "insult", "text": INSULT},
    {"id": "no text"},
]

EXAM = {"exam": {"path": "exam.jsonl", "fields": ["question", "answer"], "id": "name"}}
"""An evaluation set, as a profile names it; one of its examples stands in a document of the corpus."""

FATES = {
    "web": {
        "raw_documents": {"empty_text": 1, "duplicate_id": 1, "missing_field": 1, "invalid_json": 1},
        "clean_documents": {"too_short": 1},
        "unique_documents": {"exact": 1, "minhash": 1},
        "filtered_documents": {"toxicity": 1, "perplexity_high": 1},
    },
    "books": {"raw_documents": {}, "clean_documents": {}, "unique_documents": {}, "filtered_documents": {}},
}
"""Documents dropped by source, stage and reason; all others go through."""

PROFILE = """
name: test
store: {folder}/store
ledger: {folder}/ledger.db
engine: {{workers: {workers}}}
sources:
  - {{name: books, path: books, fields: {{id: id}}}}
  - {{name: web, path: web, fields: {{id: id}}}}
reference_sources: [books]
ingest: {{shard_megabytes: 0.004}}
perplexity: {{min_tokens: 100}}
checks: {{damage_share: 0.2}}
filters: {{min_perplexity: null}}
tokenizer: {{vocabulary: 512}}
blend: {{validation_share: 0.2}}
training: {{hidden_size: 16, layers: 1, heads: 2, kv_heads: 1, intermediate_size: 32, sequence_length: 16,
            batch_size: 4, max_steps: 6, evaluate_every_steps: 3, validation_sequences: 4}}
"""


def write_corpus(folder: Path) -> None:
    """The corpus as JSONL files, one of them with a broken line."""
    for name, records, tail in (("books", BOOKS, ""), ("web", WEB, '{"id": "broken", "te\n')):
        (folder / name).mkdir(parents=True)
        lines = [json.dumps(record) + "\n" for record in records]
        half = len(lines) // 2
        (folder / name / "part 1.jsonl").write_text("".join(lines[:half]))
        (folder / name / "part 2.jsonl").write_text("".join(lines[half:]) + tail)


def write_exam(folder: Path) -> None:
    """The file of the evaluation set."""
    words = WEB[5]["text"].split()
    examples = [
        {"name": "found", "question": " ".join(words[5:25]).upper(), "answer": " ".join(words[25:40])},
        {"name": "elsewhere", "question": "Who was it that opened the window of the tower", "answer": "the old king"},
    ]
    (folder / "exam.jsonl").write_text("".join(json.dumps(example) + "\n" for example in examples))


def write_profile(folder: Path, *, workers: int = 1, **more: Any) -> Path:
    """A profile for the corpus, its store and ledger in the same folder. more: whole sections instead of these."""
    import yaml

    content = yaml.safe_load(PROFILE.format(folder=folder, workers=workers)) | more
    path = folder / "profile.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def make_profile(folder: Path, *, workers: int = 1, **more: Any) -> Profile:
    """Corpus and profile in a folder; returns the profile."""
    if not (folder / "books").exists():
        write_corpus(folder)
    return load_profile(write_profile(folder, workers=workers, **more))
