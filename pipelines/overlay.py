"""A store on top of another one: it reads from both and writes only to itself.

For making datasets again without touching what stands: cached results below are not seen, objects are.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.dataset import Parts, Shard, Version
from pipelines.store import Store


@dataclass(frozen=True)
class Bytes:
    """What a store holds of some objects: bytes that are whole, and the objects that are damaged or gone."""

    whole: int
    damaged: tuple[str, ...]
    gone: tuple[str, ...]


class Overlay(Store):
    """A store in a local folder, empty at first, on top of another store.

    Objects that it does not hold itself come from below; actions and versions are its own only. Nothing is written
    below, but `hold` renews leases there.
    """

    def __init__(self, folder: Path, below: Store) -> None:
        super().__init__(str(folder))
        self.below = below

    def get(self, name: str) -> bytes:
        """The bytes of an object. Raises `StoreError` when neither store has it whole."""
        return super().get(name) if self._size(name) >= 0 else self.below.get(name)

    def path(self, name: str) -> Path:
        """A local file with the object's bytes."""
        return super().path(name) if self._size(name) >= 0 else self.below.path(name)

    def hold(self, version: Version) -> None:
        """Start the leases of a version's objects below again, so that `gc` spares them while they are read."""
        for shard in shards_of(version.parts):
            self.below._renew(shard.object, shard.bytes)

    def look_below(self, parts: Parts) -> Bytes:
        """Read every object of these parts in the store below, and hash it."""
        whole, damaged, gone = 0, [], []
        for shard in shards_of(parts):
            try:
                if _sha256(self.below, shard.object) == shard.object:
                    whole += shard.bytes
                else:
                    damaged.append(shard.object)
            except FileNotFoundError:
                gone.append(shard.object)
        return Bytes(whole, tuple(damaged), tuple(gone))


def shards_of(parts: Parts) -> list[Shard]:
    """The shards of all parts, in order."""
    return [shard for part in parts.values() for shard in part.shards]


def _sha256(store: Store, name: str) -> str:
    hashed = hashlib.sha256()
    content: Any
    with store.fs.open(store._object(name), "rb") as content:
        while block := content.read(1 << 22):
            hashed.update(block)
    return hashed.hexdigest()
