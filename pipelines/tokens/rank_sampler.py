"""Which samples a rank takes, from a count of what all ranks have consumed: the whole state of a data loader.

For trainers that read a blend through torch's `DataLoader`. Our own divides every batch itself (`Ranks.share`).
"""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class RankSampler:
    """The indices of one rank from a point of training on, for `torch.utils.data.DataLoader(sampler=...)`.

    samples: of the dataset. consumed: samples that all ranks together have taken before, in any number of ranks. Rank r
    of w takes sample consumed + r, then every w-th after it, so that after each round of all ranks exactly the first
    samples are consumed, and another number of ranks goes on from there. The last round may be short.
    """

    samples: int
    consumed: int = 0
    rank: int = 0
    ranks: int = 1

    def __post_init__(self) -> None:
        """Raises `ValueError` for a rank that there is not, or more consumed than there is."""
        if not 0 <= self.rank < self.ranks:
            raise ValueError(f"rank {self.rank} of {self.ranks}: ranks are counted from 0")
        if not 0 <= self.consumed <= self.samples:
            raise ValueError(f"{self.consumed:,} samples consumed of {self.samples:,}")

    @property
    def _indices(self) -> range:
        return range(self.consumed + self.rank, self.samples, self.ranks)

    def __len__(self) -> int:
        """Samples that are left for this rank."""
        return len(self._indices)

    def __iter__(self) -> Iterator[int]:
        """Their indices, in order."""
        return iter(self._indices)
