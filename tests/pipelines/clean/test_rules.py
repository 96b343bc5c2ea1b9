"""Which rule decides: every rule of every set, on the table of signals alone."""

import numpy as np
import pyarrow as pa
import pytest

from pipelines import schemas
from pipelines.clean.params import RULE_SETS, CleanParams
from pipelines.clean.rules import decide, rules_of, told_languages
from pipelines.clean.signals import quality_table
from pipelines.clean.thresholds import CodeParams

PUBLISHED = {
    "gopher_quality": {"words": (50, 100_000), "mean_word_characters": (3, 10), "hashes_per_word": (None, 0.1)}
    | {"ellipses_per_word": (None, 0.1), "bullet_line_share": (None, 0.9), "ellipsis_line_share": (None, 0.3)}
    | {"alphabetic_word_share": (0.8, None), "stop_words": (2, None)},
    "gopher_repetition": {"duplicate_line_share": (None, 0.3), "duplicate_paragraph_share": (None, 0.3)}
    | {"duplicate_line_character_share": (None, 0.2), "duplicate_paragraph_character_share": (None, 0.2)}
    | {f"top_{n}gram_character_share": (None, most) for n, most in ((2, 0.2), (3, 0.18), (4, 0.16))}
    | {f"duplicate_{n}gram_character_share": (None, pytest.approx(0.2 - n / 100)) for n in range(5, 11)},
    "c4": {"sentences": (5, None), "lorem_ipsum_lines": (None, 0), "curly_bracket_lines": (None, 0)},
    "fineweb": {"punctuated_line_share": (0.12, None), "short_line_share": (None, 0.67)}
    | {"duplicate_line_character_share": (None, 0.01), "newlines_per_word": (None, 0.3)},
    "code": {"longest_line_characters": (None, 1000), "mean_line_characters": (None, 100)}
    | {"alphanumeric_share": (0.25, None)},
}
"""Lower and upper bounds, from the papers (reference/data-stages.md has them together)."""


@pytest.mark.parametrize("name", RULE_SETS)
def test_the_thresholds_are_those_published(name: str) -> None:
    found: dict[str, list[float | None]] = {}
    for rule in rules_of(name, CleanParams()):
        found.setdefault(rule.column.removeprefix(f"{name}_"), [None, None])[rule.is_upper] = rule.bound
    assert {signal: tuple(bounds) for signal, bounds in found.items()} == PUBLISHED[name]


def test_a_bound_without_a_signal_is_an_error() -> None:
    class Misspelt(CodeParams):
        max_longest_lime_characters: float | None = 1000

    params = CleanParams().model_copy(update={"code": Misspelt()})
    with pytest.raises(KeyError, match="code_longest_lime_characters"):
        decide(quality(), pa.chunked_array([["en"]]), ["code"], params)


def quality(score: float = 0.9, **signals: float | None) -> pa.Table:
    """The table of one document of 100 characters."""
    columns = {"characters": 100.0, "alphanumeric_share": 0.8} | signals
    columns = {name: np.array([np.nan if value is None else value]) for name, value in columns.items()}
    ids = pa.chunked_array([pa.array(["0"], pa.large_string())])
    return quality_table(ids, np.array([score]), columns)


def decided(table: pa.Table, sets: tuple[str, ...] = (), language: str = "en", **params: object) -> dict:
    config = CleanParams(**params)
    languages = told_languages(pa.chunked_array([pa.array([language], pa.large_string())]), table, config)
    found = decide(table, languages, sets, config)
    assert found.schema.equals(schemas.DECISIONS)
    (row,) = found.to_pylist()
    assert (row["doc_id"], row["stage"], row["keep"]) == ("0", "cleaning", row["rule"] == "kept")
    return {key: row[key] for key in ("rule", "value", "threshold", "detail")}


def told(rule: str, value: float | None, threshold: float | None, detail: str | None = None) -> dict:
    return {"rule": rule, "value": value, "threshold": threshold, "detail": detail}


KEPT = told("kept", None, None)


def test_basic_rules_come_first() -> None:
    assert decided(quality()) == KEPT
    assert decided(quality(characters=0, alphanumeric_share=None)) == told("empty", 0, 1)
    assert decided(quality(characters=49)) == told("too_short", 49, 50)
    assert decided(quality(characters=50)) == KEPT
    assert decided(quality(alphanumeric_share=0.24)) == told("few_alphanumerics", 0.24, 0.25)
    assert decided(quality(alphanumeric_share=0.24), min_alphanumeric_share=0) == KEPT


def test_a_language_is_wanted_or_not_and_undetermined_below_the_threshold() -> None:
    assert decided(quality(), language="de", languages=["en"]) == told("language", 0.9, 0.65, "de")
    assert decided(quality(), language="de", languages=["en", "de"]) == KEPT
    assert decided(quality(0.6), languages=["en"]) == told("language", 0.6, 0.65, "und")
    assert decided(quality(0.6), languages=["und"]) == KEPT
    assert decided(quality(0.6), languages=["en"], min_language_score=0.6) == KEPT


@pytest.mark.parametrize("name", RULE_SETS)
def test_each_rule_objects_beyond_its_bound_and_not_at_it(name: str) -> None:
    for rule in rules_of(name, CleanParams()):
        beyond = rule.bound * 1.01 + 0.001 if rule.is_upper else rule.bound * 0.99 - 0.001
        assert decided(quality(**{rule.column: rule.bound}), (name,)) == KEPT
        assert decided(quality(**{rule.column: beyond}), (name,)) == told(rule.name, beyond, rule.bound)
        field = rule.name.split(".")[1]
        assert decided(quality(**{rule.column: beyond}), (name,), **{name: {field: None}}) == KEPT
        assert decided(quality(**{rule.column: beyond})) == KEPT  # a set that was not named is not asked


def test_the_first_rule_of_the_first_set_decides() -> None:
    table = quality(gopher_quality_words=1, gopher_quality_stop_words=0, code_longest_line_characters=2000)
    assert decided(table, ("gopher_quality", "code"))["rule"] == "gopher_quality.min_words"
    assert decided(table, ("code", "gopher_quality"))["rule"] == "code.max_longest_line_characters"


def test_an_undefined_signal_objects_to_nothing() -> None:
    assert decided(quality(gopher_quality_mean_word_characters=None), ("gopher_quality",)) == KEPT
