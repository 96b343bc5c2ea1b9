"""Which source the next sample comes from: exact shares at every point of training, found at any index.

A quota schedule: after m samples, a source that has n of all N samples has given ⌊m·n/N⌋ or ⌈m·n/N⌉. Such a schedule
always exists (Tijdeman 1980, "The chairman assignment problem"); taking the earliest deadline among the sources whose
next sample is due finds it (Steiner & Yeomans 1993). What a sample is stands in `training_dataset.py`.
"""

from collections.abc import Sequence

import numba
import numpy as np
import numpy.typing as npt

BLOCK = 4096
"""Samples between two kept states; a block is worked out again when it is visited."""

MOST_SAMPLES = 3 * 10**9
"""Up to here the products of two sample counts fit 64 bits."""


class SourceSchedule:
    """The order in which sources give their samples.

    samples: how many each source gives, in all. Finding any index costs at most one block; walking on costs nothing
    more. Memory: 8 bytes per source for every 4,096 samples, and one block.
    """

    def __init__(self, samples: Sequence[int]) -> None:
        """Raises `ValueError` for negative counts or more than 3·10⁹ samples."""
        if any(count < 0 for count in samples):
            raise ValueError(f"a source cannot give fewer than 0 samples: {list(samples)}")
        self.total = sum(samples)
        if self.total > MOST_SAMPLES:
            raise ValueError(
                f"{self.total:,} samples are more than a schedule holds ({MOST_SAMPLES:,}): longer sequences"
            )
        self.samples = np.array(samples, np.int64)
        blocks = -(-self.total // BLOCK)
        self._states = np.zeros((blocks, len(samples)), np.int64)
        given = np.zeros(len(samples), np.int64)
        sources, ordinals = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
        for block in range(blocks):
            self._states[block] = given
            _advance(self.samples, given, block * BLOCK, self._steps(block), sources, ordinals)
        self._visited: tuple[int, npt.NDArray[np.int64], npt.NDArray[np.int64]] = (-1, sources, ordinals)

    def __len__(self) -> int:
        """Samples of all sources."""
        return self.total

    def locate(self, index: int) -> tuple[int, int]:
        """(source, which of its samples) at a place in the schedule. Raises `IndexError` outside it."""
        if not 0 <= index < self.total:
            raise IndexError(f"sample {index} of {self.total}")
        block, place = divmod(index, BLOCK)
        visited, sources, ordinals = self._visited
        if visited != block:
            sources, ordinals = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
            given = self._states[block].copy()
            _advance(self.samples, given, block * BLOCK, self._steps(block), sources, ordinals)
            self._visited = (block, sources, ordinals)
        return int(sources[place]), int(ordinals[place])

    def _steps(self, block: int) -> int:
        return min(BLOCK, self.total - block * BLOCK)


@numba.njit(cache=True)
def _advance(
    samples: npt.NDArray[np.int64],
    given: npt.NDArray[np.int64],
    position: int,
    steps: int,
    sources: npt.NDArray[np.int64],
    ordinals: npt.NDArray[np.int64],
) -> None:
    """Choose the sources of `steps` places from `position` on; `given` counts what each has given so far."""
    total = samples.sum()
    for step in range(steps):
        place = position + step + 1
        chosen, earliest = -1, np.int64(0)
        for source in range(len(samples)):
            # Due: giving one more keeps the source at or below its quota rounded up.
            if given[source] * total < samples[source] * place:
                deadline = ((given[source] + 1) * total + samples[source] - 1) // samples[source]
                if chosen < 0 or deadline < earliest:
                    chosen, earliest = source, deadline
        sources[step] = chosen
        ordinals[step] = given[chosen]
        given[chosen] += 1
