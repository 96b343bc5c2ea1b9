"""Which documents are held out for validation: by a hash of what they say, so that copies are on the same side.

Adding or removing other documents moves nothing. Two exceptions keep small corpora usable, see `to_keep` and `to_hold`:
the ranks that they give are in the key of every shard, for a copy may stand in any.
Who asks this of every document is `order.py`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

SALT = xxhash.xxh3_64_intdigest(b"validation")
"""Keeps this hash apart from other uses of the same content and seed."""


@dataclass(frozen=True)
class Split:
    """What decides which documents are held out: those whose rank is below the share of 2^64.

    keep, hold: ranks of documents that are on the training and on the validation side in any case.
    """

    validation_share: float
    seed: int
    keep: tuple[int, ...] = ()
    hold: tuple[int, ...] = ()

    def held(self, ranks: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Which documents of these ranks are held out."""
        below = ranks < np.uint64(int(self.validation_share * 2**64))
        kept = np.isin(ranks, np.array(self.keep, np.uint64))
        return below & ~kept | np.isin(ranks, np.array(self.hold, np.uint64))

    def keeping(self, ranks: Iterable[int]) -> "Split":
        """The same split with these on the training side."""
        return replace(self, keep=tuple(sorted(ranks)))

    def holding(self, ranks: Iterable[int]) -> "Split":
        """The same split with these on the validation side."""
        return replace(self, hold=tuple(sorted(ranks)))

    @property
    def key(self) -> dict[str, Any]:
        """The part of it that belongs in a task's key: all of it."""
        return asdict(self)


@dataclass(frozen=True)
class Side:
    """What a group has, of one shard or of all: documents and tokens for training, and the ranks at its ends.

    lowest, highest: ranks of the document nearest to and farthest from being held out, held out or not.
    """

    documents: int
    tokens: int
    lowest: int
    highest: int


def rank_contents(contents: Iterable[memoryview | bytes], seed: int) -> npt.NDArray[np.uint64]:
    """The rank of each document, uint64: the same for the same content, wherever it stands."""
    start = (SALT + seed) % 2**64
    return np.array([xxhash.xxh3_64_intdigest(content, start) for content in contents], np.uint64)


def merged(sides: Iterable[tuple[str, Side]]) -> dict[str, Side]:
    """The groups of all shards."""
    found: dict[str, Side] = {}
    for name, side in sides:
        other = found.get(name)
        found[name] = side if other is None else _together(side, other)
    return found


def to_keep(groups: Mapping[str, Side]) -> set[int]:
    """Ranks to keep for training: the highest one of each group whose documents would all be held out."""
    return {side.highest for side in groups.values() if not side.documents}


def to_hold(groups: Mapping[str, Side]) -> set[int]:
    """A rank to hold out where no document at all would be: the lowest one that empties no group."""
    last = {side.highest for side in groups.values()}
    candidates: Sequence[int] = [side.lowest for side in groups.values() if side.lowest not in last]
    return {min(candidates)} if candidates else set()


def _together(one: Side, other: Side) -> Side:
    return Side(
        one.documents + other.documents,
        one.tokens + other.tokens,
        min(one.lowest, other.lowest),
        max(one.highest, other.highest),
    )
