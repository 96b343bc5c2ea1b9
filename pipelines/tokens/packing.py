"""Best-fit packing: documents cut to the sequence length, and the pieces put where they leave the least room.

Ding et al. 2024, "Fewer Truncations Improve Language Modeling": best-fit-decreasing, so that only documents longer
than a sequence are ever cut. One `.packed` file per token shard, made by one task from the shard's order file.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt

from pipelines.engines.task import File, Inputs, Made, Stats
from pipelines.tokens.layout import Packed, Run, map_order, packed_bytes

VERSION = 1


@dataclass(frozen=True)
class PackingWork:
    """How a shard is packed. runs: of its order file, validation last. The one input is the order file."""

    name: str
    sequence_length: int
    documents: int
    runs: tuple[Run, ...]


def run_packing(inputs: Inputs, work: PackingWork) -> Iterable[Made]:
    """The packed file of one shard; for each run its samples and what they waste."""
    starts, ends = map_order(inputs.path(0), work.documents)
    packs, told = [], []
    for run in work.runs:
        some = slice(run.first, run.first + run.count)
        lengths = np.diff(ends[some], prepend=0)
        packed = pack(starts[some], lengths, work.sequence_length)
        packs.append(packed)
        samples, capacity = len(packed.firsts) - 1, work.sequence_length + 1
        likely_cut = np.clip((lengths - 2) / work.sequence_length, 0, 1)  # where sequences begin anywhere
        told.append(
            {
                "samples": samples,
                "pieces": len(packed.begins),
                "padding_tokens": samples * capacity - int(packed.lengths.sum(dtype=np.int64)),
                "documents_cut": int(np.count_nonzero(lengths > capacity)),
                "documents_cut_if_concatenated": round(float(likely_cut.sum())),
                "documents_left_out": int(np.count_nonzero(lengths < 2)),
            }
        )
    yield "blend", File(f"{work.name}.packed", packed_bytes(packs))
    yield Stats({"runs": told})


def pack(starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], sequence_length: int) -> Packed:
    """Documents of these starts and lengths in samples of up to `sequence_length` + 1 tokens.

    A longer document is cut into pieces that share a token, the last of one being the first of the next, so every
    token of a document but its first is predicted exactly once. A document of a single token predicts nothing and is
    left out.
    """
    begins, sizes = _cut(starts, lengths, sequence_length)
    order = np.argsort(-sizes, kind="stable")
    begins, sizes = begins[order], sizes[order]
    samples, count = _best_fit(sizes, sequence_length + 1)
    by_sample = np.argsort(samples, kind="stable")
    firsts = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(samples, minlength=count), out=firsts[1:])
    return Packed(firsts, begins[by_sample], sizes[by_sample])


@numba.njit(cache=True, nogil=True)
def _cut(
    starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], sequence_length: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """(begin, tokens) of every piece; see `pack`."""
    pieces = 0
    for document in range(len(lengths)):
        pieces += (lengths[document] - 1 + sequence_length - 1) // sequence_length
    begins, sizes = np.empty(pieces, np.int64), np.empty(pieces, np.int32)
    piece = 0
    for document in range(len(lengths)):
        at = 0
        while at + 1 < lengths[document]:
            begins[piece] = starts[document] + at
            sizes[piece] = min(sequence_length + 1, lengths[document] - at)
            at += sequence_length
            piece += 1
    return begins, sizes


@numba.njit(cache=True, nogil=True)
def _best_fit(sizes: npt.NDArray[np.int32], capacity: int) -> tuple[npt.NDArray[np.int64], int]:
    """(sample of each piece, number of samples). sizes: descending. Of equally full samples the newest is taken.

    Samples with the same room left are a linked list; a set bit says that a list holds something.
    """
    samples = np.empty(len(sizes), np.int64)
    newest = np.full(capacity + 1, -1, np.int64)
    older = np.empty(len(sizes), np.int64)
    filled = np.zeros(capacity // 64 + 1, np.uint64)
    count = 0
    for piece in range(len(sizes)):
        size = sizes[piece]
        room = _first_from(filled, size)
        if room < 0:
            sample, room = count, capacity
            count += 1
        else:
            sample = newest[room]
            newest[room] = older[sample]
            if newest[room] < 0:
                filled[room // 64] ^= np.uint64(1) << np.uint64(room % 64)
        samples[piece] = sample
        left = room - size
        if newest[left] < 0:
            filled[left // 64] |= np.uint64(1) << np.uint64(left % 64)
        older[sample] = newest[left]
        newest[left] = sample
    return samples, count


@numba.njit(cache=True, nogil=True)
def _first_from(bits: npt.NDArray[np.uint64], least: int) -> int:
    """The first set bit at `least` or above, -1 where there is none."""
    word = least // 64
    found = bits[word] & (~np.uint64(0) << np.uint64(least % 64))
    while not found:
        word += 1
        if word == len(bits):
            return -1
        found = bits[word]
    at = word * 64
    while not found & np.uint64(1):
        found >>= np.uint64(1)
        at += 1
    return at
