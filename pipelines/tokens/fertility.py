"""How finely a tokenizer cuts text, by source and language: bytes per token, and fertility, which is tokens per word.

A word is a run of letters, digits and marks, and every character of a script that is written without spaces
(`pipelines/text/words.py`); signs are no words, but the tokens that they become count. Measured on a sample, on
documents that are decoded again at the same time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from tokenizers import Tokenizer

from pipelines.text.words import split_words
from pipelines.tokens.sample import Sampled
from pipelines.tokens.tokenizer_checks import there_and_back

MEASURED_BYTES = 500_000
"""Text that is measured of each source and language, and of one document at most."""

UNKNOWN = "unknown"


@dataclass
class Measured:
    """Counts of some texts. equivalent, changed: texts that came back composed otherwise, and as something else."""

    documents: int = 0
    bytes: int = 0
    words: int = 0
    tokens: int = 0
    equivalent: int = 0
    changed: int = 0

    def row(self, source: str, language: str) -> dict[str, Any]:
        """For people: the counts, and what is made of them."""
        return {
            "source": source,
            "language": language,
            "documents": self.documents,
            "bytes": self.bytes,
            "words": self.words,
            "tokens": self.tokens,
            "bytes_per_token": self.bytes / max(1, self.tokens),
            "tokens_per_word": self.tokens / self.words if self.words else 0.0,
            "changed": self.changed,
        }


@dataclass(frozen=True)
class Measurement:
    """What was measured, by (source, language). first_changed: ids of the first documents that came back changed."""

    groups: dict[tuple[str, str], Measured]
    first_changed: list[str]

    @property
    def total(self) -> Measured:
        """All groups together."""
        return _sum(list(self.groups.values()))

    def rows(self) -> list[dict[str, Any]]:
        """A row per source and language, by name."""
        return [self.groups[group].row(*group) for group in sorted(self.groups)]

    def bytes_per_token(self) -> dict[str, float]:
        """Of each source, all languages together."""
        found = {}
        for name in sorted({source for source, _ in self.groups}):
            total = _sum([one for (source, _), one in self.groups.items() if source == name])
            found[name] = total.bytes / max(1, total.tokens)
        return found


def measure(tokenizer: Tokenizer, documents: Sequence[Sampled]) -> Measurement:
    """Up to `MEASURED_BYTES` of each source and language, from the sample's beginning."""
    groups: dict[tuple[str, str], Measured] = {}
    chosen: list[tuple[Sampled, Measured, str]] = []
    for document in documents:
        found = groups.setdefault((document.source, document.language or UNKNOWN), Measured())
        if found.bytes < MEASURED_BYTES and document.text:
            text = document.text.encode()[:MEASURED_BYTES].decode(errors="ignore")
            found.bytes += len(text.encode())
            found.documents += 1
            chosen.append((document, found, text))
    first_changed: list[str] = []
    encoded = there_and_back(tokenizer, (text for *_, text in chosen))
    words = split_words(pa.array([text for *_, text in chosen], pa.large_string())).counts
    for (document, found, _), one, count in zip(chosen, encoded, words.tolist(), strict=True):
        found.tokens += one.tokens
        found.words += count
        found.equivalent += not one.same and one.equivalent
        found.changed += not one.equivalent
        if not one.equivalent and len(first_changed) < 3:
            first_changed.append(document.doc_id)
    return Measurement({group: found for group, found in groups.items() if found.documents}, first_changed)


def _sum(parts: Sequence[Measured]) -> Measured:
    names = vars(Measured()).keys()
    return Measured(**{name: sum(getattr(one, name) for one in parts) for name in names})
