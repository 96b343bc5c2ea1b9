"""The mapped files of a blend's token shards, as many at once as the process may keep open.

What stands in them is `layout.py`'s and `indexed.py`'s; who reads them is `stream.py`.
"""

import os
import resource
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pipelines.tokens.indexed import map_tokens
from pipelines.tokens.layout import Packed, map_order, map_packed

MOST_MAPPED = 1 << 14
"""Files of a blend that are mapped at once at most: Linux gives a process 65,530 mappings (vm.max_map_count)."""

LEFT_OPEN = 256
"""Open files that the process may still open for other purposes: a mapped file counts as an open one."""


@dataclass(frozen=True)
class ShardPaths:
    """The files of one token shard, and what they hold. packed: None where documents are concatenated."""

    tokens: Path
    order: Path
    documents: int
    packed: Path | None = None
    samples: int = 0
    pieces: int = 0


class ShardFiles:
    """The mapped files of many token shards. Nothing is read until it is asked for.

    Files stay mapped while the process may open so many; the limit is raised where it may be (`_room`), and beyond it
    the file that was read longest ago makes room. Copies for other processes open the files anew.
    """

    def __init__(self, shards: Sequence[ShardPaths], kind: np.dtype) -> None:
        """kind: type of the ids."""
        self._shards = list(shards)
        self._kind = kind
        self._open: OrderedDict[tuple[str, int], Any] = OrderedDict()

    def tokens(self, shard: int) -> npt.NDArray[np.integer]:
        """All ids of a shard."""
        paths = self._shards[shard]
        ids: npt.NDArray[np.integer] = self._mapped("tokens", shard, lambda: map_tokens(paths.tokens, self._kind))
        return ids

    def order(self, shard: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Where its documents begin, and where they end in their run; see `order.order_bytes`."""
        paths = self._shards[shard]
        both: tuple[np.ndarray, np.ndarray] = self._mapped(
            "order", shard, lambda: map_order(paths.order, paths.documents)
        )
        return both

    def packed(self, shard: int) -> Packed:
        """Its packed samples."""
        paths = self._shards[shard]
        if paths.packed is None:
            raise ValueError(f"{paths.tokens} was not packed")
        path = paths.packed
        packed: Packed = self._mapped("packed", shard, lambda: map_packed(path, paths.samples, paths.pieces))
        return packed

    def _mapped(self, what: str, shard: int, opened: Callable[[], Any]) -> Any:
        found = self._open.pop((what, shard), None)
        if found is None:
            if self._open and (len(self._open) >= MOST_MAPPED or not _room()):
                self._open.popitem(last=False)
            found = opened()
        self._open[what, shard] = found
        return found

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_open": OrderedDict()}


def _room() -> bool:
    """Whether one more file may stay open. Raises the process's own limit on open files where it must and may be: it
    doubles, up to what the administrator allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return True
    number = _next_number()
    if number < _reach(soft):
        return True
    more = 2 * soft if hard == resource.RLIM_INFINITY else min(2 * soft, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (more, hard))
    except (ValueError, OSError):  # the system's own limit is lower than what it tells
        return False
    return number < _reach(more)


def _next_number() -> int:
    """The number that the next mapped file gets: the lowest that is free beside the one that it is opened by, as
    Python's mmap keeps a duplicate. Those below are open files."""
    opened = os.open(os.devnull, os.O_RDONLY)
    kept = os.dup(opened)
    os.close(kept)
    os.close(opened)
    return kept


def _reach(limit: int) -> int:
    """How many files may be open, of so many at most, for the rest to be left to others."""
    return limit - min(LEFT_OPEN, limit // 2)
