"""The files that training reads beside the token files: `blend.json`, one `.order` and one `.packed` per token shard.

Their layout, for those who make them (`blend.py`, `order.py`, `packing.py`) and for `mapped.py`, which maps them.
Imports little: every worker of a data loader does.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

BLEND_FORMAT = 2
"""Version of `blend.json` and of the files that it names."""


@dataclass(frozen=True)
class Run:
    """Consecutive documents of an order file, all of one group or all of validation."""

    first: int
    count: int
    tokens: int


@dataclass(frozen=True)
class Packed:
    """Packed samples, each of pieces one after the other.

    firsts: first piece of each sample, and the number of pieces, int64. begins: where pieces begin in the `.bin`,
    int64. lengths: their tokens, int32.
    """

    firsts: npt.NDArray[np.int64]
    begins: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int32]


def order_bytes(starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> bytes:
    """An order file: where each document begins in the `.bin`, then where it ends in its run; int64, tokens."""
    return starts.astype("<i8").tobytes() + ends.astype("<i8").tobytes()


def order_size(documents: int) -> int:
    """Bytes of an order file."""
    return 16 * documents


def map_order(path: Path, documents: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(starts, ends) of an order file, memory-mapped."""
    both = np.asarray(np.memmap(path, "<i8", mode="r", shape=(2, documents)))
    return both[0], both[1]


def packed_bytes(packs: Iterable[Packed]) -> bytes:
    """A packed file: `firsts`, `begins` and `lengths` of all runs, each numbering pieces on from the run before."""
    packs = list(packs)
    before = np.cumsum([0, *(len(packed.begins) for packed in packs)])
    firsts = [packed.firsts[:-1] + shift for packed, shift in zip(packs, before[:-1], strict=True)]
    return b"".join(
        (
            np.concatenate([*firsts, before[-1:]]).astype("<i8").tobytes(),
            np.concatenate([packed.begins for packed in packs]).astype("<i8").tobytes(),
            np.concatenate([packed.lengths for packed in packs]).astype("<i4").tobytes(),
        )
    )


def packed_size(samples: int, pieces: int) -> int:
    """Bytes of a packed file."""
    return 8 * (samples + 1) + 12 * pieces


def map_packed(path: Path, samples: int, pieces: int) -> Packed:
    """The samples of a packed file, memory-mapped."""
    data = np.asarray(np.memmap(path, np.uint8, mode="r"))
    firsts, begins = 8 * (samples + 1), 8 * (samples + 1 + pieces)
    return Packed(data[:firsts].view("<i8"), data[firsts:begins].view("<i8"), data[begins:].view("<i4"))
