"""Streams: the samples of one group, over all token shards, readable in any order from the mapped files.

`Concatenation` cuts the documents of a stream, one after the other, into sequences; `Packing` reads sequences that were
packed before (`packing.py`). Which stream a sample comes from is `schedule.py`'s business. Another order of samples is
another training: whoever changes what a sample is, or when it comes, raises the training stage's `VERSION`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numba
import numpy as np
import numpy.typing as npt

from pipelines.tokens.layout import Run
from pipelines.tokens.mapped import ShardFiles
from pipelines.tokens.permutation import key_of, permuted

KNOWN_TURNS = 64
"""Epochs of which a stream remembers where they begin: more than are usually read."""


@dataclass(frozen=True)
class Spans:
    """The tokens of one sample: stretches of `.bin` files, each of one document, one after the other.

    parts: (shard, where stretches of it begin, their tokens); the arrays are int64.
    """

    parts: list[tuple[int, npt.NDArray[np.int64], npt.NDArray[np.int64]]]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Tokens of each stretch."""
        return self.parts[0][2] if len(self.parts) == 1 else np.concatenate([lengths for _, _, lengths in self.parts])


class Stream(Protocol):
    """The samples of one group. name: of the group. planned: tokens to give in all. samples: how many that makes."""

    name: str
    planned: int
    samples: int

    def spans(self, ordinal: int) -> Spans:
        """Where the tokens of a sample are."""

    @property
    def tokens(self) -> int:
        """Tokens of the stream that its samples take up."""

    @property
    def padding(self) -> int:
        """Tokens of padding in its samples."""


class Concatenation:
    """Documents one after the other, epoch after epoch, cut into samples that share their last token with the next.

    In every epoch that is read to its end every token is an input exactly once. An epoch begins at a document that its
    key chooses and runs around, so each cuts documents elsewhere; its samples are visited in a shuffled order, so a
    part of an epoch is drawn from the whole of it. Memory: some bytes per shard, none per document.
    """

    def __init__(
        self, name: str, seed: int, runs: Sequence[tuple[int, Run]], files: ShardFiles, planned: int, length: int
    ) -> None:
        """runs: (shard, its run). planned: tokens to give in all. length: of a sequence, tokens."""
        self.name = name
        self.planned = planned
        self._key = (seed, name)
        self._runs = [(shard, run) for shard, run in runs if run.tokens]
        self._files = files
        self._length = length
        self._ends = np.cumsum([run.tokens for _, run in self._runs], dtype=np.int64)
        self._epoch = int(self._ends[-1]) if self._runs else 0
        self.samples = max(0, planned - 1) // length if self._epoch else 0
        epochs = -(-planned // self._epoch) if self._epoch else 0
        self._whole = max(0, epochs * self._epoch - 1) // length
        self._turns: dict[int, int] = {}

    def spans(self, ordinal: int) -> Spans:
        """Where the tokens of a sample are."""
        position, left = self._visited(ordinal) * self._length, self._length + 1
        found: list[tuple[int, npt.NDArray[np.int64], npt.NDArray[np.int64]]] = []
        while left:
            epoch, offset = divmod(position, self._epoch)
            place = (offset + self._turn(epoch)) % self._epoch
            number = int(self._ends.searchsorted(place, "right"))
            shard, run = self._runs[number]
            within = place - int(self._ends[number]) + run.tokens
            take = min(left, run.tokens - within, self._epoch - offset)
            starts, ends = self._files.order(shard)
            some = slice(run.first, run.first + run.count)
            begins, lengths = _walk(starts[some], ends[some], within, take)
            found.append((shard, begins, lengths))
            position += take
            left -= take
        return Spans(found)

    @property
    def tokens(self) -> int:
        """Tokens that are an input of its samples."""
        return self.samples * self._length

    @property
    def padding(self) -> int:
        """Tokens of padding in its samples: none."""
        return 0

    def _visited(self, ordinal: int) -> int:
        """The sample, counted along the stream, that is visited at this place."""
        epoch = ordinal * self._length // self._epoch
        first = -(-epoch * self._epoch // self._length)
        after = min(-(-(epoch + 1) * self._epoch // self._length), self._whole)
        return first + int(permuted(ordinal - first, after - first, key_of(*self._key, epoch)))

    def _turn(self, epoch: int) -> int:
        """Where an epoch begins in the stream: at a document's first token."""
        found = self._turns.get(epoch)
        if found is None:
            place = int(key_of(*self._key, epoch, "turn")) % self._epoch
            number = int(self._ends.searchsorted(place, "right"))
            shard, run = self._runs[number]
            before = int(self._ends[number]) - run.tokens
            ends = self._files.order(shard)[1][run.first : run.first + run.count]
            document = int(ends.searchsorted(place - before, "right"))
            found = before + (int(ends[document - 1]) if document else 0)
            if len(self._turns) == KNOWN_TURNS:
                self._turns.clear()
            self._turns[epoch] = found
        return found


class Packing:
    """Packed samples, each epoch in a shuffled order of its own. Memory: some bytes per shard, none per document."""

    def __init__(
        self,
        name: str,
        seed: int,
        runs: Sequence[tuple[int, Run, int, int]],
        files: ShardFiles,
        planned: int,
        length: int,
    ) -> None:
        """runs: (shard, its run, its first sample, samples). planned: tokens to give in all, padding not counted.
        length: of a sequence, tokens."""
        self.name = name
        self.planned = planned
        self._key = (seed, name)
        self._runs = [(shard, run, first, samples) for shard, run, first, samples in runs if samples]
        self._files = files
        self._length = length
        self._ends = np.cumsum([samples for _, _, _, samples in self._runs], dtype=np.int64)
        self._epoch = int(self._ends[-1]) if self._runs else 0
        self._tokens = sum(run.tokens for _, run, _, _ in runs)
        self.samples = planned * self._epoch // self._tokens if self._epoch else 0

    def spans(self, ordinal: int) -> Spans:
        """Where the tokens of a sample are."""
        epoch, place = divmod(ordinal, self._epoch)
        visited = int(permuted(place, self._epoch, key_of(*self._key, epoch)))
        number = int(self._ends.searchsorted(visited, "right"))
        shard, _, first, samples = self._runs[number]
        packed = self._files.packed(shard)
        sample = first + visited - int(self._ends[number]) + samples
        pieces = slice(int(packed.firsts[sample]), int(packed.firsts[sample + 1]))
        return Spans([(shard, packed.begins[pieces], packed.lengths[pieces].astype(np.int64))])

    @property
    def tokens(self) -> int:
        """Tokens that so many samples hold on average, padding not counted."""
        return self.samples * self._tokens // self._epoch if self._epoch else 0

    @property
    def padding(self) -> int:
        """Tokens of padding that so many samples hold on average. Maps the packed file of every shard."""
        filled = 0
        for shard, run, first, count in self._runs:
            firsts = self._files.packed(shard).firsts
            # Pieces of a document share a token with the next, so each but its first one adds one.
            filled += run.tokens + int(firsts[first + count] - firsts[first]) - run.count
        return self.samples * (self._epoch * (self._length + 1) - filled) // self._epoch if self._epoch else 0


def read_spans(spans: Spans, files: ShardFiles, ids: npt.NDArray[np.int64]) -> None:
    """Fill the beginning of `ids` with the tokens of a sample."""
    at = 0
    for shard, begins, lengths in spans.parts:
        at = _gather(files.tokens(shard), begins, lengths, ids, at)


@numba.njit(cache=True, nogil=True)
def _walk(
    starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], offset: int, count: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(begin in the `.bin`, tokens) of the documents that hold `count` tokens of a run from `offset` on."""
    document = np.searchsorted(ends, offset, side="right")
    first, stop = document, offset + count
    last = first
    while ends[last] < stop:
        last += 1
    begins, lengths = np.empty(last - first + 1, np.int64), np.empty(last - first + 1, np.int64)
    while document <= last:
        before = ends[document - 1] if document else 0
        within = max(offset, before)
        begins[document - first] = starts[document] + within - before
        lengths[document - first] = min(stop, ends[document]) - within
        document += 1
    return begins, lengths


@numba.njit(cache=True, nogil=True)
def _gather(
    tokens: npt.NDArray[np.integer],
    begins: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    ids: npt.NDArray[np.int64],
    at: int,
) -> int:
    """Copy stretches of a file one after the other into `ids` from `at` on; gives where it ended."""
    for span in range(len(begins)):
        begin = begins[span]
        for step in range(lengths[span]):
            ids[at] = tokens[begin + step]
            at += 1
    return at
