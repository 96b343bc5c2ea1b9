"""Which group the next sample comes from: exact shares at every point of training, found at any index.

A quota schedule: after m samples, a group that has n of all N samples has given ⌊m·n/N⌋ or ⌈m·n/N⌉. Such a schedule
always exists (Tijdeman 1980, "The chairman assignment problem"); taking the earliest deadline among the groups whose
next sample is due finds it (Steiner & Yeomans 1993). What a sample is stands in `training_dataset.py`.
"""

from collections.abc import Sequence

import numba
import numpy as np
import numpy.typing as npt

BLOCK = 512
"""Samples between two kept states; a block is worked out again when it is visited."""

LONGEST_ROUND = 1 << 22
"""Samples of which the order is worked out when training begins, in a fraction of a second: more are made of equal
rounds, so that sample 10⁹ is found as soon as the first one."""


class GroupSchedule:
    """The order in which groups give their samples.

    samples: how many each group gives, in all: what was asked for, or up to `rounds` - 1 fewer where there are several
    rounds (one for every 4,194,304 samples, all alike): less than 0.00003 % of the whole. Finding any index costs at
    most one block; walking on costs nothing more. Memory: 8 bytes per group for every 512 samples of a round.
    """

    def __init__(self, wanted: Sequence[int]) -> None:
        """wanted: samples of each group. Raises `ValueError` for negative counts."""
        if any(count < 0 for count in wanted):
            raise ValueError(f"a group cannot give fewer than 0 samples: {list(wanted)}")
        self.rounds = max(1, -(-sum(wanted) // LONGEST_ROUND))
        self.samples = [count // self.rounds * self.rounds for count in wanted]
        self.total = sum(self.samples)
        self._round = np.array([count // self.rounds for count in wanted], np.int64)
        self._round_samples = int(self._round.sum())
        blocks = -(-self._round_samples // BLOCK)
        self._states = np.zeros((blocks, len(wanted)), np.int64)
        given = np.zeros(len(wanted), np.int64)
        groups, ordinals = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
        for block in range(blocks):
            self._states[block] = given
            _advance(self._round, given, block * BLOCK, self._steps(block), groups, ordinals)
        self._visited: tuple[int, npt.NDArray[np.int64], npt.NDArray[np.int64]] = (-1, groups, ordinals)

    def __len__(self) -> int:
        """Samples of all groups."""
        return self.total

    def locate(self, index: int) -> tuple[int, int]:
        """(group, which of its samples) at a place in the schedule. Raises `IndexError` outside it."""
        if not 0 <= index < self.total:
            raise IndexError(f"sample {index} of {self.total}")
        rounds, place = divmod(index, self._round_samples)
        block, step = divmod(place, BLOCK)
        visited, groups, ordinals = self._visited
        if visited != block:
            groups, ordinals = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
            given = self._states[block].copy()
            _advance(self._round, given, block * BLOCK, self._steps(block), groups, ordinals)
            self._visited = (block, groups, ordinals)
        group = int(groups[step])
        return group, rounds * int(self._round[group]) + int(ordinals[step])

    def _steps(self, block: int) -> int:
        return min(BLOCK, self._round_samples - block * BLOCK)


@numba.njit(cache=True, nogil=True)
def _advance(
    samples: npt.NDArray[np.int64],
    given: npt.NDArray[np.int64],
    position: int,
    steps: int,
    groups: npt.NDArray[np.int64],
    ordinals: npt.NDArray[np.int64],
) -> None:
    """Choose the groups of `steps` places from `position` on; `given` counts what each has given so far."""
    total = samples.sum()
    never = np.int64(1) << 62
    due = np.full(len(samples), never)  # first place at which one more keeps a group at or below its quota rounded up
    deadline = np.full(len(samples), never)  # last place at which one less would put it below its quota rounded down
    for group in range(len(samples)):
        if samples[group]:
            due[group] = given[group] * total // samples[group] + 1
            deadline[group] = ((given[group] + 1) * total + samples[group] - 1) // samples[group]
    for step in range(steps):
        place = position + step + 1
        chosen, earliest = -1, never
        for group in range(len(samples)):
            if due[group] <= place and deadline[group] < earliest:
                chosen, earliest = group, deadline[group]
        groups[step] = chosen
        ordinals[step] = given[chosen]
        given[chosen] += 1
        due[chosen] = given[chosen] * total // samples[chosen] + 1
        deadline[chosen] = ((given[chosen] + 1) * total + samples[chosen] - 1) // samples[chosen]
