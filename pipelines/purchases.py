"""What work buys of paid services: told before, and written down before it is paid for.

What was bought is a `Usage` that holds nothing else. Who is charged with it stands in `pipelines/costs/`.
"""

import json
import os
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from pipelines.store import StoreError
from pipelines.usage import Usage

JOURNALS = "purchases"
"""The folder of a store's scratch for the journals of those who work on it."""


@dataclass(frozen=True)
class Quote:
    """What work is going to buy. expected: where all goes well; most: where everything is tried as often as it may."""

    expected: Usage = field(default_factory=Usage)
    most: Usage = field(default_factory=Usage)

    def __add__(self, other: "Quote") -> "Quote":
        return Quote(self.expected + other.expected, self.most + other.most)

    @property
    def expected_usd(self) -> Decimal:
        """Dollars, where all goes well."""
        return sum(self.expected.bought_usd.values(), Decimal(0))

    @property
    def most_usd(self) -> Decimal:
        """Dollars at most."""
        return sum(self.most.bought_usd.values(), Decimal(0))


class Journal:
    """The purchases of one attempt in a file, a line for each, so that a process that is killed loses none of them.

    The file and its folder appear with the first line. The ledger reads it where the attempt could not close itself.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None

    def note(self, what: Usage) -> None:
        """Append what is about to be bought. Raises `StoreError` where that fails: then it must not be bought."""
        for item, units in what.bought.items():
            # A line begins with its line break, so that one that was not written whole spoils no other.
            line = b"\n" + json.dumps([item, units, str(what.bought_usd[item])]).encode()
            try:
                if self._file is None:
                    self.path.parent.mkdir(parents=True, exist_ok=True)
                    self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
                whole = os.write(self._file, line) == len(line)
            except OSError as error:
                raise self._full(error.strerror) from error
            if not whole:
                raise self._full("there is no space left")

    def _full(self, reason: str | None) -> StoreError:
        return StoreError(
            f"{self.path} cannot be written ({reason}), and nothing is bought that cannot be noted there; make space, "
            "or let this user write there, and start the same again"
        )

    def total(self) -> Usage | None:
        """All that was noted, by this process or another; None where there is no file. Raises `OSError` where there is
        one that cannot be read."""
        try:
            lines = self.path.read_text(encoding="utf-8").split("\n")
        except (FileNotFoundError, NotADirectoryError):
            return None
        bought: dict[str, float] = defaultdict(float)
        bought_usd: dict[str, Decimal] = defaultdict(Decimal)
        for line in lines:
            with suppress(ValueError):
                item, units, usd = json.loads(line)
                bought[item] += units
                bought_usd[item] += Decimal(usd)
        return Usage(bought=dict(bought), bought_usd=dict(bought_usd))

    def added_to(self, usage: dict[str, Any]) -> dict[str, Any]:
        """A usage record with all that was noted. Of each item the larger number counts: heartbeats know of fewer, but
        what was noted last is not in the file when the power fails. Raises `OSError` as `total` does."""
        noted = self.total() or Usage()
        record = noted.record()
        more = [item for item, units in noted.bought.items() if units > usage.get("bought", {}).get(item, 0)]
        return usage | {
            name: usage.get(name, {}) | {item: record[name][item] for item in more} for name in ("bought", "bought_usd")
        }

    def remove(self) -> None:
        """Remove the file, once the ledger has what stands in it; where it can't be, it lies there and is not read."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        with suppress(OSError):
            self.path.unlink()
