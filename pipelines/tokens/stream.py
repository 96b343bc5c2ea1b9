"""A stream of tokens: documents in a shuffled order, epoch after epoch, readable from any position.

`ShardFiles` reads the mapped token files; `TokenStream` knows the order. Which stream a sample comes from is
`schedule.py`'s business.
"""

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from pipelines.tokens.indexed import map_tokens

OPEN_FILES = 128
"""Token files mapped at once: below the usual limit of 1,024 open files, with room for a data loader's workers."""


class ShardFiles:
    """The tokens of many `.bin` files as if they were one array. Nothing is read until it is asked for.

    Copies for other processes open the files anew.
    """

    def __init__(self, paths: Sequence[Path], tokens: Sequence[int], kind: np.dtype) -> None:
        """paths: the files, in order. tokens: how many ids each holds. kind: their type."""
        self._paths = list(paths)
        self._starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.array(tokens, np.int64))])
        self._kind = kind
        self._open: OrderedDict[int, npt.NDArray[np.integer]] = OrderedDict()

    def read(self, start: int, count: int) -> npt.NDArray[np.integer]:
        """`count` ids from `start` on, of one file: a document never crosses files."""
        shard = int(np.searchsorted(self._starts, start, side="right")) - 1
        within = start - int(self._starts[shard])
        return self._map(shard)[within : within + count]

    def _map(self, shard: int) -> npt.NDArray[np.integer]:
        mapped = self._open.pop(shard, None)
        if mapped is None:
            mapped = map_tokens(self._paths[shard], self._kind)
            if len(self._open) >= OPEN_FILES:
                self._open.popitem(last=False)
        self._open[shard] = mapped
        return mapped

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_open": OrderedDict()}


class TokenStream:
    """Documents one after the other, each epoch in an order of its own; every epoch holds every token once.

    Memory: 12 bytes per document, and 12 more for each of up to two epochs in use.
    """

    def __init__(self, name: str, seed: int, starts: np.ndarray, lengths: np.ndarray, files: ShardFiles) -> None:
        """starts: where each document begins in `files`, tokens. lengths: tokens of each document, above 0."""
        self.name = name
        self._seed = seed
        self._starts = starts.astype(np.int64)
        self._lengths = lengths.astype(np.int32)
        self._files = files
        self.tokens = int(self._lengths.sum(dtype=np.int64))
        self._epochs: OrderedDict[int, tuple[np.ndarray, np.ndarray]] = OrderedDict()

    def window(self, position: int, count: int) -> npt.NDArray[np.int64]:
        """`count` ids from a position of the endless stream on; position // tokens is the epoch."""
        ids = np.empty(count, np.int64)
        filled = 0
        while filled < count:
            epoch, offset = divmod(position + filled, self.tokens)
            order, ends = self._epoch(epoch)
            place = int(np.searchsorted(ends, offset, side="right"))
            while filled < count and place < len(order):
                document = order[place]
                left = int(ends[place]) - offset
                begin = int(self._starts[document]) + int(self._lengths[document]) - left
                take = min(left, count - filled)
                ids[filled : filled + take] = self._files.read(begin, take)
                filled += take
                offset += take
                place += 1
        return ids

    def _epoch(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """(documents in the order of this epoch, int32; where each ends in it, tokens, int64)."""
        if epoch in self._epochs:
            return self._epochs[epoch]
        order = shuffled(len(self._lengths), f"{self._seed}/{self.name}/{epoch}")
        ends = np.cumsum(self._lengths[order], dtype=np.int64)
        if len(self._epochs) >= 2:
            self._epochs.popitem(last=False)
        self._epochs[epoch] = (order, ends)
        return order, ends

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_epochs": OrderedDict()}


def shuffled(count: int, key: str) -> npt.NDArray[np.int32]:
    """The numbers below `count` in an order that `key` alone decides, on any machine and any version of NumPy.

    Sorts by SplitMix64 (Steele et al. 2014), which maps distinct numbers to distinct ones: no ties.
    """
    start = np.uint64(xxhash.xxh3_64_intdigest(key.encode()))
    bits = (np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) + start
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.argsort(bits ^ (bits >> np.uint64(31)), kind="stable").astype(np.int32)
