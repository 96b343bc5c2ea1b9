"""A file that a profile names beside its sources: known by its content, wherever it lies."""

import hashlib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class KnownFile:
    """what: in words, after "the". key: of the profile, which names it."""

    path: str
    what: str
    key: str

    def content(self, known: str | None = None) -> bytes:
        """The bytes of the file. known: the `sha256` that they must have.

        Raises `ValueError` where it cannot be read, or has changed.
        """
        section = self.key.partition(".")[0]
        try:
            data = Path(self.path).read_bytes()
        except OSError as error:
            raise ValueError(
                f"{section}: the {self.what} cannot be read from {self.path} ({error.strerror}); correct {self.key}"
            ) from None
        if known not in (None, hashlib.sha256(data).hexdigest()):
            raise ValueError(f"{section}: the {self.what} changed while it was read; start the run again")
        return data

    def sha256(self) -> str:
        """What it is known by, hex. Raises as `content` does."""
        return hashlib.sha256(self.content()).hexdigest()
