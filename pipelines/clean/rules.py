"""The rules that decide which cleaned documents are kept. The first rule that objects names the decision.

A rule compares a column of the table `quality` with a bound; what the columns are stands in `signals.py`. Rules of a
named set are called as the key of the profile is that holds their bound, below `clean`: gopher_quality.min_words.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines import schemas
from pipelines.clean.language import UNDETERMINED
from pipelines.clean.params import CleanParams
from pipelines.clean.pii.params import TYPES
from pipelines.clean.signals import Column, column

KEPT = "kept"
LANGUAGE = "language"


@dataclass(frozen=True)
class Decision:
    """Whether a document is kept, the rule that decided, and what it compared with what."""

    keep: bool
    rule: str
    value: float | None = None
    threshold: float | None = None
    detail: str | None = None


@dataclass(frozen=True)
class Rule:
    """A rule objects to what lies beyond its bound, below a lower or above an upper one. A null signal lies nowhere."""

    name: str
    column: str
    bound: float
    is_upper: bool = False

    def objects(self, values: Column) -> npt.NDArray[np.bool_]:
        """To which documents; a comparison with NaN is false."""
        return values > self.bound if self.is_upper else values < self.bound


def rules_of(rule_set: str, params: CleanParams) -> Iterator[Rule]:
    """The rules of a named set, in the order in which they are asked: a field min_X or max_X bounds the signal X."""
    for field, bound in getattr(params, rule_set):
        side, _, signal = field.partition("_")
        if side in ("min", "max") and bound is not None:
            yield Rule(f"{rule_set}.{field}", column(rule_set, signal), float(bound), side == "max")


def basic_rules(params: CleanParams) -> tuple[list[Rule], list[Rule]]:
    """The rules of every source, asked before those of its sets: the ones before the language is asked, those after."""
    return (
        [Rule("empty", "characters", 1.0), Rule("too_short", "characters", params.min_characters)],
        [Rule("few_alphanumerics", "alphanumeric_share", params.min_alphanumeric_share)],
    )


def personal_data_rules(params: CleanParams) -> list[Rule]:
    """The rules that drop a document for what stands in it, one for each type whose action is 'drop'."""
    kinds = [kind for kind in TYPES if params.pii.action(kind) == "drop"]
    return [Rule(f"pii.{kind}", f"pii_{kind}", 0.0, is_upper=True) for kind in kinds]


def told_languages(languages: pa.ChunkedArray, quality: pa.Table, params: CleanParams) -> pa.ChunkedArray:
    """The languages, undetermined where the best guess is not good enough."""
    return pc.if_else(
        pc.less(quality["language_score"], params.min_language_score),
        pa.scalar(UNDETERMINED, pa.large_string()),
        languages,
    )


def decide(quality: pa.Table, languages: pa.ChunkedArray, sets: Sequence[str], params: CleanParams) -> pa.Table:
    """A decision (schema DECISIONS) for every row of the table `quality`.

    languages: as `told_languages` has them. value and threshold are those of the rule that objected, null where none
    did.
    """
    rows = quality.num_rows
    names = [KEPT]
    decided = np.zeros(rows, np.int64)
    value, threshold = np.full(rows, np.nan), np.full(rows, np.nan)

    def ask(name: str, objects: npt.NDArray[np.bool_], values: Column, bound: float) -> None:
        objects = objects & (decided == 0)
        names.append(name)
        decided[objects], value[objects], threshold[objects] = len(names) - 1, values[objects], bound

    def ask_all(rules: Sequence[Rule]) -> None:
        for rule in rules:
            values = _floats(quality[rule.column])
            ask(rule.name, rule.objects(values), values, rule.bound)

    before, after = basic_rules(params)
    ask_all([*before, *personal_data_rules(params)])
    if params.languages:
        unwanted = ~np.asarray(pc.is_in(languages, pa.array(params.languages, pa.large_string())), np.bool_)
        ask(LANGUAGE, unwanted, _floats(quality["language_score"]), params.min_language_score)
    ask_all(after)
    for rule_set in sets:
        ask_all(list(rules_of(rule_set, params)))
    rule = pa.array(names, pa.large_string()).take(pa.array(decided))
    columns: dict[str, Any] = {
        "doc_id": quality["doc_id"],
        "keep": pa.array(decided == 0),
        "stage": pa.repeat(pa.scalar("cleaning", pa.large_string()), rows),
        "rule": rule,
        "value": pa.array(value, from_pandas=True),
        "threshold": pa.array(threshold, from_pandas=True),
        "detail": pc.if_else(pc.equal(rule, LANGUAGE), languages, pa.scalar(None, pa.large_string())),
    }
    return pa.table([columns[name] for name in schemas.DECISIONS.names], schema=schemas.DECISIONS)


def _floats(signal: pa.ChunkedArray) -> Column:
    return np.asarray(pc.fill_null(signal, np.nan), np.float64)
