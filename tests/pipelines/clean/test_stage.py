"""Cleaning a dataset: what is kept, and that every document is accounted for."""

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from pipelines import schemas
from pipelines.clean.params import CleanParams
from pipelines.clean.rules import KEPT, Decision, alphanumeric_share, decide
from pipelines.clean.stage import clean, clean_documents
from pipelines.dataset import Dataset, Draft, Part, read_table, seal, write_shard
from pipelines.engines.local import Engine
from pipelines.store import Store

ENGLISH = "All human beings are born free and equal in dignity and rights."
GERMAN = "Alle Menschen sind frei und gleich an Würde und Rechten geboren."


def documents(*texts: str) -> pa.Table:
    rows = [
        {"doc_id": f"{number:032x}", "source": "s", "uri": f"{number}#0", "text": text, "license": "MIT"}
        for number, text in enumerate(texts)
    ]
    return pa.Table.from_pylist(rows, schema=schemas.DOCUMENTS)


@pytest.mark.parametrize(
    ("text", "language", "score", "params", "decision"),
    [
        (ENGLISH, "en", 0.9, {}, KEPT),
        ("", "und", 0.0, {}, Decision(False, "empty", 0, 50)),
        ("short", "en", 0.9, {"min_characters": 6}, Decision(False, "too_short", 5, 6)),
        ("exact.", "en", 0.9, {"min_characters": 6}, KEPT),
        (GERMAN, "de", 0.8, {"languages": ["en"]}, Decision(False, "language", 0.8, 0.65, "de")),
        (GERMAN, "de", 0.8, {"languages": ["en", "de"]}, KEPT),
        ("ab" + "-" * 58, "und", 0.1, {}, Decision(False, "few_alphanumerics", 2 / 60, 0.25)),
        ("-" * 60, "und", 0.0, {"min_alphanumeric_share": 0}, KEPT),
    ],
)
def test_the_first_rule_that_objects_decides(
    text: str, language: str, score: float, params: dict, decision: Decision
) -> None:
    decided = decide(text, language, score, CleanParams(**params))
    assert (decided.keep, decided.rule, decided.detail) == (decision.keep, decision.rule, decision.detail)
    assert (decided.value, decided.threshold) == (pytest.approx(decision.value), decision.threshold)


def test_alphanumeric_share_counts_letters_of_every_script() -> None:
    assert alphanumeric_share("") == 0
    assert alphanumeric_share("ab1-") == pytest.approx(0.75)
    assert alphanumeric_share("自由。é") == pytest.approx(0.75)


def test_kept_documents_carry_repaired_text_and_language_and_all_have_a_decision() -> None:
    kept, decisions, stats = clean_documents(documents(ENGLISH + "\0", "no", GERMAN), CleanParams())
    assert kept.column("text").to_pylist() == [ENGLISH, GERMAN]
    assert kept.column("language").to_pylist() == ["en", "de"]
    assert kept.column("license").to_pylist() == ["MIT", "MIT"]
    assert decisions.column("rule").to_pylist() == ["kept", "too_short", "kept"]
    assert decisions.column("keep").to_pylist() == [True, False, True]
    lengths = stats.pop("histograms")["text bytes"]
    filled = [{edge: n for edge, n in zip(lengths["edges"], lengths[s], strict=True) if n} for s in ("before", "after")]
    assert filled == [{2: 1, 64: 2}, {32: 1, 64: 1}]  # a NUL less, and the first text falls into the bin below
    assert stats == {
        "documents_in": 3,
        "documents_out": 2,
        "bytes_in": len(ENGLISH) + 1 + 2 + len(GERMAN.encode()),
        "bytes_out": len(ENGLISH) + len(GERMAN.encode()),
        "documents_repaired": 1,
        "repaired": {"controls": 1},
        "dropped": {"too_short": 1},
        "languages": {"de": 1, "en": 1},
    }


def test_a_doubtful_language_is_undetermined() -> None:
    kept, _, stats = clean_documents(documents(ENGLISH), CleanParams(min_language_score=1.0))
    assert kept.column("language").to_pylist() == ["und"]
    assert stats["languages"] == {"und": 1}


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(max_size=80), max_size=5))
def test_rows_in_are_rows_kept_and_dropped_whatever_the_text(texts: list[str]) -> None:
    kept, decisions, stats = clean_documents(documents(*texts), CleanParams(min_characters=10))
    assert decisions.num_rows == len(texts) == kept.num_rows + sum(stats["dropped"].values())
    assert kept.column("doc_id").to_pylist() == decisions.filter(decisions.column("keep")).column("doc_id").to_pylist()


def dataset(store: Store, *tables: pa.Table) -> Dataset:
    shards = tuple(write_shard(store, "documents", table) for table in tables)
    version = seal(store, Draft({"documents": Part("table", shards)}), asset="raw_documents", partition="s")
    return Dataset("raw_documents", (version,), store)


def test_shards_stay_aligned_and_workers_change_no_byte(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    raw = dataset(store, documents(ENGLISH, "no"), documents(), documents("no"), documents(GERMAN))
    draft = clean(raw, CleanParams(), Engine(store, 1))
    assert [shard.rows for shard in draft.parts["documents"].shards] == [1, 0, 0, 1]
    assert [shard.rows for shard in draft.parts["decisions"].shards] == [2, 0, 1, 1]
    other = Store(str(tmp_path / "other"))
    for table in (documents(ENGLISH, "no"), documents(), documents("no"), documents(GERMAN)):
        write_shard(other, "documents", table)
    assert clean(Dataset("raw_documents", raw.versions, other), CleanParams(), Engine(other, 2)) == draft
    assert read_table(store, draft.parts["documents"].shards[0].object).schema.equals(schemas.DOCUMENTS)


def test_a_dataset_without_shards_is_cleaned_to_one_without_shards(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    draft = clean(dataset(store), CleanParams(), Engine(store, 1))
    assert (draft.parts["documents"].rows, draft.parts["decisions"].rows, draft.stats["documents_in"]) == (0, 0, 0)


def test_parameters_are_in_the_key(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    raw = dataset(store, documents(ENGLISH))
    engine = Engine(store, 1)
    for params in (CleanParams(), CleanParams(min_characters=10), CleanParams()):
        clean(raw, params, engine)
    assert [result.reused for result in engine.results] == [False, False, True]


@pytest.mark.parametrize("code", ["english", "EN", "e", "zh-CN"])
def test_languages_are_codes(code: str) -> None:
    with pytest.raises(ValidationError, match=f"`languages` names '{code}'; use ISO 639 codes"):
        CleanParams(languages=[code])
