"""Which group the next sample comes from: exact shares at every point of training, found at any index.

A quota schedule: after m samples, a group that has n of all N samples has given ⌊m·n/N⌋ or ⌈m·n/N⌉. So its sample j,
counted from 0, has a window of places: it is due at place ⌊j·N/n⌋ and stands before place ⌈(j+1)·N/n⌉, its deadline.
Such a schedule always exists (Tijdeman 1980, "The chairman assignment problem"), and taking the earliest deadline among
the samples that are due finds it (Steiner & Yeomans 1993).

Nobody has to walk to a place: what was given before the first place of a stretch follows from that place alone
(`given_before`), and a stretch is worked out when one of its places is asked for. What a sample is stands in
`training_dataset.py`. Another order is another training: whoever changes it raises the stage's version.
"""

import heapq
from collections.abc import Sequence

import numba
import numpy as np
import numpy.typing as npt

BLOCK = 512
"""Places that are worked out together when one of them is asked for."""

LONGEST_STRETCH = 1 << 16
"""Places of a stretch at most. A group whose samples are further apart than that is rare."""

RARE = -1
"""Row of a stretch that stands for all rare groups."""


class GroupSchedule:
    """The order in which groups give their samples: at every place each has given its share to within one sample.

    samples: how many each group gives, in all. Groups that are rare, giving less than one sample in 65,536, have given
    their share to within three samples.

    A stretch has as many places as lie between two samples of the group that gives fewest, rare ones apart. Finding an
    index works out at most a stretch, in milliseconds, and usually a block, in microseconds; walking on costs nothing
    more. Memory: for each group 40 bytes for each block of a stretch, of which there are 129 at most.
    """

    def __init__(self, samples: Sequence[int]) -> None:
        """Raises `ValueError` for negative counts."""
        if any(count < 0 for count in samples):
            raise ValueError(f"a group cannot give fewer than 0 samples: {list(samples)}")
        self.samples = list(samples)
        self.total = sum(samples)
        longest = max(LONGEST_STRETCH, len(samples) + 2)  # the group that gives most is never rare
        giving = [group for group, count in enumerate(samples) if count]
        self._usual = [group for group in giving if self.total // samples[group] + 2 <= longest]
        self._rare = [group for group in giving if self.total // samples[group] + 2 > longest]
        self._rarely = GroupSchedule([samples[group] for group in self._rare]) if self._rare else None
        apart = max((self.total // samples[group] + 2 for group in self._usual), default=0)
        self._blocks = max(1, -(-apart // BLOCK))
        self._stretch = _Stretch(np.empty((0, 5), np.int64), np.empty((0, 3), np.int64), [], [])
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
        block, step = divmod(index, BLOCK)
        if block != self._visited:
            self._visit(block)
        group, ordinal = int(self._groups[step]), int(self._ordinals[step])
        if group != RARE or self._rarely is None:
            return group, ordinal
        which, ordinal = self._rarely.locate(ordinal)
        return self._rare[which], ordinal

    def given_before(self, place: int) -> dict[int, int]:
        """What each group, the rare ones as one, has given before the first place of a stretch: its quota rounded, so
        that all make `place`.

        Of the samples whose window the place divides, some stand before it. They are gone through as they are due:
        whenever the fractions of their quotas pass a whole number, the one of the earliest deadline among those met
        so far stands before the place. Then no places on either side have to hold more samples than they are: the
        fractions keep to that, and of all ways to round them up to as many this one asks for least after the place
        (greedy over a laminar matroid). No window holds the first places of two stretches, so each is chosen alone.

        Samples of rare groups may stand anywhere in the stretch that they fall into, so only their number counts: it is
        the nearest to their quota, and what it is off by is the fraction that the others start from.
        """
        given = {group: place * self.samples[group] // self.total for group in self._usual}
        rare = sum(self.samples[group] for group in self._rare)
        given[RARE] = (2 * place * rare + self.total) // (2 * self.total)
        fractions = place * rare - given[RARE] * self.total
        met: list[tuple[int, int]] = []
        for _, group in sorted((given[group] * self.total // self.samples[group], group) for group in self._usual):
            count = self.samples[group]
            if fraction := place * count % self.total:
                heapq.heappush(met, (-(-(given[group] + 1) * self.total // count), group))
                fractions += fraction
            if fractions >= self.total:
                fractions -= self.total
                given[heapq.heappop(met)[1]] += 1
        return given

    def _visit(self, block: int) -> None:
        """Work out a block, and the stretch that it lies in."""
        number, within = divmod(block, self._blocks)
        places = self._blocks * BLOCK
        first, after = number * places, min((number + 1) * places, self.total)
        if number != self._visited_stretch:
            self._stretch = self._stretch_between(first, after)
            self._visited_stretch = number
        begin = within * BLOCK
        self._groups, self._ordinals = self._stretch.block(within, min(BLOCK, after - first - begin))
        self._visited = block

    def _stretch_between(self, first: int, after: int) -> "_Stretch":
        before, end = self.given_before(first), self.given_before(after)
        giving = [group for group in before if end[group] > before[group]]
        apart = np.zeros((len(giving), 5), np.int64)
        state = np.zeros((len(giving), 3), np.int64)
        for row, group in enumerate(giving):
            if group == RARE:
                apart[row] = 0, 0, 1, end[group] - before[group], after - first
                continue
            count = self.samples[group]
            # Python's integers: counts times places may not fit into 64 bits.
            due, rest = divmod(before[group] * self.total, count)
            state[row] = due - first, rest, 0
            apart[row] = *divmod(self.total, count), count, end[group] - before[group], 0
        return _Stretch(apart, state, giving, [before[group] for group in giving])


class _Stretch:
    """The samples of a stretch, group by group, and their order as far as it has been walked.

    apart, state: as in `_earliest_deadlines`. groups: of the rows. before: what each gave before the stretch.
    """

    def __init__(
        self, apart: npt.NDArray[np.int64], state: npt.NDArray[np.int64], groups: list[int], before: list[int]
    ) -> None:
        self._apart = apart
        self._states = [state]
        self._groups = np.array(groups, np.int64)
        self._before = np.array(before, np.int64)

    def block(self, number: int, places: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """(groups, ordinals) of the places of a block; all blocks but the last one have `BLOCK` places."""
        while len(self._states) <= number:
            state = self._states[-1].copy()
            _earliest_deadlines(self._apart, state, (len(self._states) - 1) * BLOCK, BLOCK)
            self._states.append(state)
        rows, ordinals = _earliest_deadlines(self._apart, self._states[number].copy(), number * BLOCK, places)
        return self._groups[rows], self._before[rows] + ordinals


@numba.njit(cache=True, nogil=True)
def _earliest_deadlines(
    apart: npt.NDArray[np.int64], state: npt.NDArray[np.int64], begin: int, places: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(row, which of its samples) for each of `places` places from `begin` on; `state` is taken there.

    apart: for each row: places between one sample and the next, whole and rest; what rests are counted in; samples to
    give in the stretch; places by which windows are longer. state: for each row: when its next sample is due, whole and
    rest; how many it has given.
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
    due = state[row, 0] + apart[row, 0] + apart[row, 4]
    return np.int64(due + (rest + apart[row, 2] - 1) // apart[row, 2])
