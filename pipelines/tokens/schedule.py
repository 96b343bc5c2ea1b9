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
rounds, and of what does not go into them, evenly between; so sample 10⁹ is found as soon as the first one."""


class GroupSchedule:
    """The order in which groups give their samples.

    samples: how many each group gives, in all. Up to 4,194,304 samples are one round, in which shares are exact to
    within one sample. More are several rounds, all alike; the samples that do not go into them, fewer of a group than
    there are rounds, have a schedule of their own, and are spread evenly over the whole: shares are exact to within
    three samples then. Finding any index costs at most a block of either; walking on costs nothing more. Memory: 8
    bytes per group for every 512 samples of a round.
    """

    def __init__(self, samples: Sequence[int]) -> None:
        """Raises `ValueError` for negative counts."""
        if any(count < 0 for count in samples):
            raise ValueError(f"a group cannot give fewer than 0 samples: {list(samples)}")
        self.samples = list(samples)
        self.total = sum(samples)
        self.rounds = max(1, -(-self.total // LONGEST_ROUND))
        self._others = GroupSchedule([count % self.rounds for count in samples]) if self.rounds > 1 else None
        self._round = np.array([count // self.rounds for count in samples], np.int64)
        self._round_samples = int(self._round.sum())
        blocks = -(-self._round_samples // BLOCK)
        self._states = np.zeros((blocks, len(samples)), np.int64)
        given = np.zeros(len(samples), np.int64)
        groups, ordinals = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
        for block in range(blocks):
            self._states[block] = given
            _advance(self._round, given, block * BLOCK, self._steps(block), groups, ordinals)
        self._visited: tuple[int, npt.NDArray[np.int64], npt.NDArray[np.int64]] = (-1, groups, ordinals)

    def __len__(self) -> int:
        """Samples of all groups."""
        return self.total

    def locate(self, index: int) -> tuple[int, int]:
        """(group, which of its samples) at a place in the schedule; those of no round are a group's last ones.

        Raises `IndexError` outside it.
        """
        if not 0 <= index < self.total:
            raise IndexError(f"sample {index} of {self.total}")
        if self._others is not None:
            before, after = (place * self._others.total // self.total for place in (index, index + 1))
            if after > before:
                group, ordinal = self._others.locate(before)
                return group, self.rounds * int(self._round[group]) + ordinal
            index -= before
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
