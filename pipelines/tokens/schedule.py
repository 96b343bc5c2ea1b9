"""Which group the next sample comes from: exact shares at every point of training, found at any index.

A quota schedule: after m samples, a group that has n of all N samples has given ⌊m·n/N⌋ or ⌈m·n/N⌉. So its sample j,
counted from 0, has a window of places: it is due at place ⌊j·N/n⌋ and stands before place ⌈(j+1)·N/n⌉, its deadline.
Such a schedule always exists (Tijdeman 1980, "The chairman assignment problem"), and taking the earliest deadline among
the samples that are due finds it (Steiner & Yeomans 1993).

Nobody has to walk to a place: what was given before the first place of a stretch follows from that place alone
(`given_before`), and a stretch is worked out when one of its places is asked for. What a sample is stands in
`training_dataset.py`.
"""

import heapq
from collections.abc import Sequence

import numba
import numpy as np
import numpy.typing as npt

BLOCK = 512
"""Places that are worked out together when one of them is asked for."""

MOST_STATES = 1 << 14
"""States kept within a stretch; blocks are longer where they would not do."""


class GroupSchedule:
    """The order in which groups give their samples: at every place each has given its share to within one sample.

    samples: how many each group gives, in all. A stretch has as many places as lie between two samples of the group
    that gives fewest, and at least a block. Finding an index costs at most a stretch, about 10 ns for each of its
    places and each group; walking on costs nothing more. Memory: for each group 24 bytes per block of a stretch, at
    most 400 kB.
    """

    def __init__(self, samples: Sequence[int]) -> None:
        """Raises `ValueError` for negative counts."""
        if any(count < 0 for count in samples):
            raise ValueError(f"a group cannot give fewer than 0 samples: {list(samples)}")
        self.samples = list(samples)
        self.total = sum(samples)
        longest = max((self.total // count for count in samples if count), default=0) + 2
        self._block_places = max(BLOCK, -(-longest // MOST_STATES))
        self._blocks = -(-longest // self._block_places)
        self._stretch = _Stretch.empty()
        self._groups: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self._ordinals: npt.NDArray[np.int64] = self._groups
        self._visited = self._visited_stretch = -1

    def __len__(self) -> int:
        """Samples of all groups."""
        return self.total

    def locate(self, index: int) -> tuple[int, int]:
        """(group, which of its samples) at a place in the schedule. Raises `IndexError` outside it."""
        if not 0 <= index < self.total:
            raise IndexError(f"sample {index} of {self.total}")
        block, step = divmod(index, self._block_places)
        if block != self._visited:
            self._visit(block)
        return int(self._groups[step]), int(self._ordinals[step])

    def given_before(self, place: int) -> list[int]:
        """What each group has given before the first place of a stretch: its quota rounded, so that all make `place`.

        Of the samples whose window the place divides, some stand before it. They are gone through as they are due:
        whenever the fractions of their quotas pass a whole number, the one of the earliest deadline among those met
        so far stands before the place. Then no places on either side have to hold more samples than they are: the
        fractions keep to that, and of all ways to round them up to as many this one asks for least after the place
        (greedy over a laminar matroid). No window holds the first places of two stretches, so each is chosen alone.
        """
        given = [place * count // self.total for count in self.samples]
        divided = sorted(
            (before * self.total // count, group)
            for group, (before, count) in enumerate(zip(given, self.samples, strict=True))
            if place * count % self.total
        )
        fractions = 0
        met: list[tuple[int, int]] = []
        for _, group in divided:
            count = self.samples[group]
            heapq.heappush(met, (-(-(given[group] + 1) * self.total // count), group))
            fractions += place * count % self.total
            if fractions >= self.total:
                fractions -= self.total
                given[heapq.heappop(met)[1]] += 1
        return given

    def _visit(self, block: int) -> None:
        """Work out a block, and the stretch that it lies in."""
        number, within = divmod(block, self._blocks)
        places = self._blocks * self._block_places
        first, after = number * places, min((number + 1) * places, self.total)
        if number != self._visited_stretch:
            self._stretch = _Stretch(self.samples, first, self.given_before(first), self.given_before(after))
            self._stretch.keep_states(-(-(after - first) // self._block_places), self._block_places)
            self._visited_stretch = number
        begin = within * self._block_places
        self._groups, self._ordinals = self._stretch.block(
            within, begin, min(self._block_places, after - first - begin)
        )
        self._visited = block


class _Stretch:
    """The samples of a stretch: those of each group, from what was given before it to what is given at its end."""

    def __init__(self, samples: Sequence[int], first: int, before: Sequence[int], after: Sequence[int]) -> None:
        total = sum(samples)
        self._giving = [group for group in range(len(samples)) if after[group] > before[group]]
        self._before = np.array([before[group] for group in self._giving], np.int64)
        self._apart = np.empty((len(self._giving), 4), np.int64)
        state = np.empty((len(self._giving), 3), np.int64)
        for row, group in enumerate(self._giving):
            count = samples[group]
            # Python's integers: counts times places may not fit into 64 bits.
            due, rest = divmod(before[group] * total, count)
            state[row] = due - first, rest, 0
            self._apart[row] = *divmod(total, count), count, after[group] - before[group]
        self._states = [state]

    @classmethod
    def empty(cls) -> "_Stretch":
        """One without places."""
        return cls([], 0, [], [])

    def keep_states(self, blocks: int, places: int) -> None:
        """Walk through all blocks but the last one, so that each can be worked out alone."""
        for block in range(blocks - 1):
            state = self._states[-1].copy()
            _earliest_deadlines(self._apart, state, block * places, places)
            self._states.append(state)

    def block(self, number: int, begin: int, places: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """(groups, ordinals) of the places of a block."""
        rows, ordinals = _earliest_deadlines(self._apart, self._states[number].copy(), begin, places)
        return np.array(self._giving, np.int64)[rows], self._before[rows] + ordinals


@numba.njit(cache=True, nogil=True)
def _earliest_deadlines(
    apart: npt.NDArray[np.int64], state: npt.NDArray[np.int64], begin: int, places: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(row, which of its samples) for each of `places` places from `begin` on; `state` is taken there.

    apart: for each row: places between one sample and the next, whole and rest; what rests are counted in; samples to
    give in the stretch. state: for each row: when its next sample is due, whole and rest; how many it has given.
    """
    never = np.int64(1) << 62
    rows, ordinals = np.empty(places, np.int64), np.empty(places, np.int64)
    deadlines = np.empty(len(apart), np.int64)
    for row in range(len(apart)):
        deadlines[row] = _deadline(apart, state, row)
    for step in range(places):
        chosen, earliest = -1, never
        for row in range(len(apart)):
            if state[row, 0] <= begin + step and deadlines[row] < earliest:
                chosen, earliest = row, deadlines[row]
        rows[step], ordinals[step] = chosen, state[chosen, 2]
        state[chosen, 2] += 1
        rest = state[chosen, 1] + apart[chosen, 1]
        state[chosen, 0] += apart[chosen, 0] + rest // apart[chosen, 2]
        state[chosen, 1] = rest % apart[chosen, 2]
        deadlines[chosen] = _deadline(apart, state, chosen)
    return rows, ordinals


@numba.njit(cache=True, nogil=True)
def _deadline(apart: npt.NDArray[np.int64], state: npt.NDArray[np.int64], row: int) -> np.int64:
    """Place before which the next sample of a row stands; none when it has given all."""
    if state[row, 2] == apart[row, 3]:
        return np.int64(1) << 62
    rest = state[row, 1] + apart[row, 1]
    return np.int64(state[row, 0] + apart[row, 0] + (rest + apart[row, 2] - 1) // apart[row, 2])
