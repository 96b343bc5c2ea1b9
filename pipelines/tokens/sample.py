"""The text that a tokenizer learns from and is measured on: the documents with the smallest hash, up to so many bytes.

One pass over the documents, in any order; memory holds the sample and no more. Training is `tokenizer.py`'s business.
"""

import heapq
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa
import xxhash


class Sampled(NamedTuple):
    """A document of the sample. language: empty where it is not known."""

    doc_id: str
    source: str
    language: str
    text: str


@dataclass
class Sample:
    """Documents in ascending order of their hash until `limit_bytes` are reached; the last one is cut there.

    Which documents are in it depends on their ids and the seed alone, not on the order in which they are offered or
    how they are spread over shards.
    """

    limit_bytes: int
    seed: int
    offered_documents: int = 0
    offered_bytes: int = 0
    _heap: list[tuple[int, str, str, str, bytes]] = field(default_factory=list)
    _bytes: int = 0

    def offer(self, source: str, doc_id: str, language: str, text: pa.Scalar) -> None:
        """Consider one document; its text is copied only if it is taken. Empty texts are passed over."""
        size = text.as_buffer().size if text.is_valid else 0
        if not size:
            return
        self.offered_documents += 1
        self.offered_bytes += size
        rank = xxhash.xxh3_64_intdigest(doc_id.encode(), seed=self.seed)
        if self._bytes >= self.limit_bytes and rank >= -self._heap[0][0]:
            return
        heapq.heappush(self._heap, (-rank, doc_id, source, language, text.as_buffer().to_pybytes()))
        self._bytes += size
        while self._bytes - len(self._heap[0][-1]) >= self.limit_bytes:
            self._bytes -= len(heapq.heappop(self._heap)[-1])

    def documents(self) -> list[Sampled]:
        """The sample, smallest hash first. A character cut in two at the limit is left out."""
        chosen: list[Sampled] = []
        left = self.limit_bytes
        for _, doc_id, source, language, content in sorted(self._heap, key=lambda entry: (-entry[0], entry[1])):
            chosen.append(Sampled(doc_id, source, language, content[:left].decode("utf-8", errors="ignore")))
            left -= min(left, len(content))
        return chosen
