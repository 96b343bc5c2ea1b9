"""Which documents are held out for validation: by a hash of their id, so that a document stays on its side.

Adding or removing other documents moves nothing. Two exceptions keep small corpora usable, see `settle`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xxhash

from pipelines.engines.task import Inputs, Made, Stats

VERSION = 1

SALT = "validation/"
"""Keeps this hash apart from other uses of the same id and seed."""


@dataclass(frozen=True)
class SplitWork:
    """What decides which documents are held out."""

    validation_share: float
    seed: int


@dataclass(frozen=True)
class HeldOut:
    """One shard's documents: how many, their tokens, and the places of those held out, ascending.

    lowest, highest: (hash, place) of the document nearest to and farthest from being held out.
    """

    documents: int
    tokens: int
    places: tuple[int, ...]
    lengths: tuple[int, ...]
    lowest: tuple[int, int, int]
    highest: tuple[int, int, int]

    def holding(self, places: Mapping[int, int]) -> "HeldOut":
        """The same shard with other documents held out: place → tokens."""
        chosen = sorted(places)
        return HeldOut(
            self.documents, self.tokens, tuple(chosen), tuple(places[p] for p in chosen), self.lowest, self.highest
        )


def run_split(inputs: Inputs, work: SplitWork) -> Iterable[Made]:
    """Hold out documents of one shard of token documents."""
    table = inputs.table(0, ["doc_id", "tokens"])
    tokens = table["tokens"].to_numpy()
    ranks = np.array(
        [xxhash.xxh3_64_intdigest(f"{SALT}{name}".encode(), seed=work.seed) for name in table["doc_id"].to_pylist()],
        np.uint64,
    )
    held = np.flatnonzero(ranks < np.uint64(int(work.validation_share * 2**64)))
    lowest, highest = int(ranks.argmin()), int(ranks.argmax())
    yield Stats(
        {
            "documents": len(ranks),
            "tokens": int(tokens.sum()),
            "places": held.tolist(),
            "lengths": tokens[held].tolist(),
            "lowest": [int(ranks[lowest]), lowest, int(tokens[lowest])],
            "highest": [int(ranks[highest]), highest, int(tokens[highest])],
        }
    )


def held_out(stats: Mapping[str, Any]) -> HeldOut:
    """The result of `run_split`, read back."""
    return HeldOut(
        stats["documents"],
        stats["tokens"],
        tuple(stats["places"]),
        tuple(stats["lengths"]),
        tuple(stats["lowest"]),
        tuple(stats["highest"]),
    )


def settle(sources: Mapping[str, Sequence[HeldOut]], validation_share: float) -> dict[str, list[HeldOut]]:
    """The split of all sources, made usable.

    A source whose every document was held out keeps one for training (the one with the highest hash). Where no
    document at all was held out though a share was asked for, one is: the lowest hash among sources with several
    documents.
    """
    settled = {name: list(shards) for name, shards in sources.items()}
    for shards in settled.values():
        if shards and all(len(shard.places) == shard.documents for shard in shards):
            where = max(range(len(shards)), key=lambda index: shards[index].highest)
            chosen = dict(zip(shards[where].places, shards[where].lengths, strict=True))
            del chosen[shards[where].highest[1]]
            shards[where] = shards[where].holding(chosen)
    if validation_share and not any(shard.places for shards in settled.values() for shard in shards):
        several = [name for name, shards in settled.items() if sum(shard.documents for shard in shards) > 1]
        candidates = [
            (settled[name][index].lowest, name, index) for name in several for index in range(len(settled[name]))
        ]
        if candidates:
            (_, place, tokens), name, index = min(candidates)
            settled[name][index] = settled[name][index].holding({place: tokens})
    return settled
