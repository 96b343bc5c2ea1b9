"""Documents to deduplicate: text of the installed packages, and text composed of real sentences with known variation.

What is measured on them stands in `dedup.py`, `growth.py` and `peers/`.
"""

import random
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from benchmarks.harness import installed_texts
from pipelines.dataset import Dataset, Draft, Part, seal, write_shard
from pipelines.schemas import DOCUMENTS
from pipelines.store import Store

SHARED = Path(__file__).resolve().parents[1] / "../shared/data"
SOURCE = "benchmark"
DOCUMENT_CHARACTERS = 10_000
NEAR_DUPLICATES = 0.2
MOST_LINES_LOST = 0.15


@dataclass(frozen=True)
class Corpus:
    """Texts under a name. language: en, zh or ja; the last two are written without spaces."""

    name: str
    language: str
    texts: pa.Array

    @property
    def megabytes(self) -> float:
        """10^6 bytes of UTF-8."""
        return pc.sum(pc.binary_length(self.texts)).as_py() / 1e6

    @property
    def documents(self) -> pa.Table:
        """The texts with ids and the other columns of documents."""
        numbers = range(len(self.texts))
        columns = {
            "doc_id": pa.array([xxhash.xxh3_128_hexdigest(b"%d" % n) for n in numbers], pa.large_string()),
            "source": pa.array([SOURCE] * len(self.texts), pa.large_string()),
            "uri": pa.array([str(n) for n in numbers], pa.large_string()),
            "text": self.texts,
            "language": pa.array([self.language] * len(self.texts), pa.large_string()),
        }
        absent = pa.nulls(len(self.texts), pa.large_string())
        return pa.table([columns.get(name, absent) for name in DOCUMENTS.names], schema=DOCUMENTS)

    def stored(self, store: Store, shards: int) -> Dataset:
        """The documents as a dataset of so many shards of equal length, as the stage is handed it."""
        documents = self.documents
        rows = -(-len(documents) // shards)
        pieces = [documents.slice(start, rows) for start in range(0, len(documents), rows)]
        draft = Draft({"documents": Part("table", tuple(write_shard(store, "documents", piece) for piece in pieces))})
        return Dataset("clean_documents", (seal(store, draft, asset="clean_documents", partition=SOURCE),), store)


def packages(megabytes: float) -> Corpus:
    """Sources and notes of the installed packages, in documents of some 10 kB, in random but fixed order.

    Some near duplicates are there by nature: licences, generated code, copies of one module in several packages. Since
    these are few, one document in five is an edited copy of one of the others.
    """
    draw = random.Random(1)
    texts: list[str] = []
    for text in installed_texts(megabytes * (1 - NEAR_DUPLICATES)):
        texts += pieces(text, DOCUMENT_CHARACTERS)
    copies = round(len(texts) * NEAR_DUPLICATES / (1 - NEAR_DUPLICATES))
    texts += [edited(text, draw) for text in draw.choices(texts, k=copies)]
    draw.shuffle(texts)
    return Corpus("packages", "en", pa.array(texts, pa.large_string()))


def edited(text: str, draw: random.Random) -> str:
    """A text without some of its lines: any share of them up to MOST_LINES_LOST, drawn evenly."""
    share = draw.uniform(0, MOST_LINES_LOST)
    return "".join(line for line in text.splitlines(keepends=True) if draw.random() >= share)


def pieces(text: str, characters: int) -> list[str]:
    """A text cut after lines into pieces of at least so many characters; the last one is shorter."""
    found, lines, size = [], [], 0
    for line in text.splitlines(keepends=True):
        lines.append(line)
        size += len(line)
        if size >= characters:
            found.append("".join(lines))
            lines, size = [], 0
    return [*found, "".join(lines)] if lines else found


def japanese(megabytes: float) -> Corpus:
    """Sentences of a novel, some 300 characters to a document. Raises `FileNotFoundError` without ../shared."""
    text = (SHARED / "multilingual/wagahaiwa_nekodearu_ja.txt").read_text(encoding="utf-8")
    sentences = [s for s in re.split(r"(?<=[。！？])|\s", text) if len(s) > 9]
    return Corpus("Japanese", "ja", composed(sentences, int(megabytes * 1e6 / 800), 300, ""))


def chinese(megabytes: float) -> Corpus:
    """Clauses of the declaration of human rights, some 300 characters to a document; there are few, so that any two
    documents have some in common. Raises `FileNotFoundError` without ../shared."""
    markup = (SHARED / "multilingual/udhr_cmn_hans.xml").read_text(encoding="utf-8")
    text = re.sub(r"<[^>]*>", " ", markup)
    clauses = sorted({s for s in re.split(r"(?<=[。；，])|\s", text) if len(s) > 4 and not s.isascii()})
    return Corpus("Chinese", "zh", composed(clauses, int(megabytes * 1e6 / 800), 300, ""))


def short_english(documents: int, times_as_long: int = 1) -> Corpus:
    """Documents of 60 to 150 words, or of so many times as many, composed of lines of the installed packages."""
    return Corpus(
        f"{documents:,} documents", "en", composed(package_lines(), documents, 700 * times_as_long, "\n", times_as_long)
    )


@cache
def package_lines() -> list[str]:
    """Distinct lines of 5 to 20 words from the installed packages."""
    lines = (line.strip() for text in installed_texts(10) for line in text.splitlines())
    return sorted({line for line in lines if 5 <= len(line.split()) <= 20})


def composed(sentences: list[str], documents: int, characters: int, separator: str, edits: int = 1) -> pa.Array:
    """Texts of sentences drawn at random, within a third of so many characters; one in five is a near duplicate.

    A near duplicate repeats an earlier text with up to two sentences exchanged for others and up to three changed in
    one place, so similarities lie on both sides of a usual threshold; with `edits` so many times as many. The same
    arguments give the same texts.
    """
    draw = np.random.default_rng(3)
    changed = [sentence[: len(sentence) // 2] + sentence[len(sentence) // 2 + 1 :] for sentence in sentences]
    pool = pa.array(sentences + changed, pa.string())
    average = sum(map(len, sentences)) / len(sentences) + len(separator)
    most = max(4, round(characters * 4 / 3 / average))
    lengths = draw.integers(max(3, most // 2), most + 1, documents)
    chosen = draw.integers(0, len(sentences), (documents, most))
    copies = 1 + np.flatnonzero(draw.random(documents - 1) < NEAR_DUPLICATES)
    for copy, original in zip(copies, draw.integers(0, copies), strict=True):
        lengths[copy], chosen[copy] = lengths[original], chosen[original]
        exchanged, altered = edits * draw.integers(0, 3), edits * draw.integers(0, 4)
        places = draw.permutation(lengths[copy])
        chosen[copy, places[:exchanged]] = draw.integers(0, len(sentences), len(places[:exchanged]))
        chosen[copy, places[exchanged : exchanged + altered]] %= len(sentences)
        chosen[copy, places[exchanged : exchanged + altered]] += len(sentences)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    picked = pool.take(pa.array(chosen[np.arange(most) < lengths[:, None]]))
    texts = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), picked), separator)
    return texts.cast(pa.large_string())
