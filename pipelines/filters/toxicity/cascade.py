"""The toxicity cascade as pure functions: who reads a document, which cheap scores decide nothing, and how several
scores become one.

Cheap scorers (the lexicons, the screen) read every document in a language that they know. Experts (neural models, or a
remote scorer where no model knows the language) read what the cheap ones leave open. The scorers themselves stand in
`screen.py`, `lexicon.py`, `neural.py` and `remote.py`; the stage, in `stage.py`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pipelines.filters.statistics import Estimate, wilson

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int32]

REMOTE = "remote"
Pooling = Literal["mean", "majority", "any"]


# -- the band -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Band:
    """Cheap scores that decide nothing: low ≤ score ≤ high. threshold: what an expert scores above it is toxic."""

    low: float
    high: float
    threshold: float

    def holds(self, cheap: Floats) -> Mask:
        """bool[n]: the score decides nothing. False for NaN, no score."""
        return (cheap >= self.low) & (cheap <= self.high)

    def comparable(self, cheap: Floats) -> Floats:
        """Cheap scores on the experts' side of their threshold: 0 to 0, low and high to the threshold, 1 to 1, linear
        between. So one limit serves both scorers: at the threshold it decides as the cascade does, and it never puts
        two scores of one scorer in another order. NaN stays NaN."""
        mapped = np.interp(cheap, [0.0, self.low, self.high, 1.0], [0.0, self.threshold, self.threshold, 1.0])
        mapped[self.holds(cheap)] = self.threshold  # also where the band ends at 1
        above = cheap > self.high
        mapped[above] = np.maximum(mapped[above], np.nextafter(self.threshold, 1.0))  # rounding must not turn a verdict
        return np.where(cheap < self.low, np.minimum(mapped, self.threshold), mapped)


@dataclass(frozen=True)
class Choice:
    """A band chosen from a labelled sample, and what it does there.

    recall: of the texts that the experts call toxic (positives), those not below the band. precision: of the texts
    above the band (above), those that people call toxic; None where there are none. in_band: share that experts read.
    """

    low: float
    high: float
    texts: int
    positives: int
    recall: Estimate
    above: int
    precision: Estimate | None
    in_band: Estimate

    def record(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def choose_band(cheap: Floats, expert: Mask, toxic: Mask, target_recall: float, target_precision: float) -> Choice:
    """The band of least cost on a sample: cheap scores, what the experts call toxic, what people call toxic.

    low = x[k], where x are the cheap scores of the n texts that the experts call toxic, ascending from x[0], and
    k = ⌊(1 − target_recall) · n⌋: at most k of them lie below. high = the least score h ≥ low of the sample for which
    at least target_precision of the texts that score above h are toxic to people; 1 where no text scores so.

    Raises `ValueError` where the experts call no text toxic.
    """
    found = np.sort(cheap[expert])
    if not len(found):
        raise ValueError(
            "toxicity: the experts call no text of the calibration sample toxic, so no band can be chosen; give a "
            "larger sample, or set toxicity.band"
        )
    lost = math.floor((1 - target_recall) * len(found) + 1e-9)  # 1 - 0.9 is a little less than a tenth
    low = float(found[min(lost, len(found) - 1)])
    high = _high(cheap, toxic, low, target_precision)
    above, inside = cheap > high, (cheap >= low) & (cheap <= high)
    recall, in_band = wilson(int((found >= low).sum()), len(found)), wilson(int(inside.sum()), len(cheap))
    assert recall is not None and in_band is not None
    precision = wilson(int(toxic[above].sum()), int(above.sum()))
    return Choice(low, high, len(cheap), len(found), recall, int(above.sum()), precision, in_band)


def _high(cheap: Floats, toxic: Mask, low: float, target_precision: float) -> float:
    order = np.argsort(cheap, kind="stable")
    scores, labels = cheap[order], toxic[order]
    values, last = np.unique(scores[::-1], return_index=True)
    ends = len(scores) - last  # texts that score at most values[i]
    above = len(scores) - ends
    right = labels.sum() - np.concatenate([[0], np.cumsum(labels)])[ends]
    precise = (above > 0) & (right >= target_precision * above - 1e-9) & (values >= low)
    return float(values[precise][0]) if precise.any() else 1.0


# -- who reads what -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Routes:
    """Which scorer knows which languages. neural: of each model, by its name as a scorer. unknown_to: who is sent
    documents in a language that no scorer knows."""

    screen: frozenset[str]
    lexicon: frozenset[str]
    neural: Mapping[str, frozenset[str]]
    remote: frozenset[str]
    unknown_to: Literal["nobody", "neural", "remote"] = "nobody"

    def record(self) -> dict[str, Any]:
        """As JSON values, the languages sorted."""
        neural = {name: sorted(languages) for name, languages in self.neural.items()}
        others = {name: sorted(getattr(self, name)) for name in ("screen", "lexicon", "remote")}
        return {**others, "neural": neural, "unknown_to": self.unknown_to}

    def without_remote(self) -> "Routes":
        """The same without the remote scorer."""
        unknown_to = "nobody" if self.unknown_to == REMOTE else self.unknown_to
        return replace(self, remote=frozenset(), unknown_to=unknown_to)

    def experts(self, language: str) -> tuple[list[str], bool]:
        """The experts that read documents in a language, and whether the cheap score has a say first."""
        known = [name for name, languages in self.neural.items() if language in languages]
        known = known or ([REMOTE] if language in self.remote else [])
        if known or language in self.screen | self.lexicon:
            return known, language in self.screen
        return {"nobody": [], "neural": list(self.neural), "remote": [REMOTE]}[self.unknown_to], False

    def readers(self, languages: Sequence[str | None], cheap: Floats, band: Band | None) -> dict[str, Rows]:
        """The rows that each expert reads, ascending, by its name; experts that read none are left out.

        Where the screen knows the language these are documents whose cheap score lies in the band (without a band:
        none); where it does not, all: a lexicon that finds nothing tells little. cheap: NaN where there is no score.
        """
        undecided = np.zeros(len(cheap), np.bool_) if band is None else band.holds(cheap)
        codes, number = np.unique([language or "und" for language in languages], return_inverse=True)
        rows: dict[str, npt.NDArray[np.bool_]] = {}
        for index, language in enumerate(codes.tolist()):
            names, screened_first = self.experts(language)
            wanted = (number == index) & (undecided if screened_first else True)
            for name in names:
                rows[name] = rows.get(name, np.zeros(len(cheap), np.bool_)) | wanted
        return {name: np.flatnonzero(mask).astype(np.int32) for name, mask in rows.items() if mask.any()}

    def cascaded(self, languages: Sequence[str | None]) -> Mask:
        """bool[n]: the document's cheap score stands beside experts' scores of its language, so it has to be
        comparable with them."""
        codes, number = np.unique([language or "und" for language in languages], return_inverse=True)
        both = [names != [] and screened for names, screened in map(self.experts, codes.tolist())]
        return np.array(both, np.bool_)[number] if len(number) else np.zeros(0, np.bool_)


# -- several models -----------------------------------------------------------------------------------------------


def pooled(scores: Floats, pooling: Pooling) -> Floats:
    """float64[n]: one score of each row of float64[n, models]; NaN is a model that did not read it, and is left out.

    'mean'; 'any', the largest; 'majority', the lower median: it lies above any limit if and only if more than half of
    the models' scores do. NaN where no model read it.
    """
    result = np.full(len(scores), np.nan)
    read = (~np.isnan(scores)).sum(axis=1)
    some = read > 0
    if not some.any():
        return result
    if pooling == "mean":
        result[some] = np.nanmean(scores[some], axis=1)
    elif pooling == "any":
        result[some] = np.nanmax(scores[some], axis=1)
    else:
        ordered = np.sort(scores, axis=1)  # NaN comes last
        result[some] = ordered[some, (read[some] - 1) // 2]
    return result


def agreement(scores: Floats, decision: Floats, threshold: float) -> Floats:
    """float64[n]: the share of the models that are on the decision's side of the threshold; NaN where fewer than two
    read the document."""
    read = ~np.isnan(scores)
    same = read & ((scores > threshold) == (decision > threshold)[:, None])
    count = read.sum(axis=1)
    return np.where(count >= 2, same.sum(axis=1) / np.maximum(count, 1), np.nan)
