"""Cleaning a dataset: what is kept, that every document is accounted for, and what a changed parameter does again."""

import subprocess
import sys
import unicodedata
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from pipelines import schemas
from pipelines.clean.params import CleanParams
from pipelines.clean.pii.mask import mask
from pipelines.clean.pii.params import PiiParams
from pipelines.clean.stage import Cleaning, clean, decide_documents, measure_documents
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


def dataset(store: Store, *tables: pa.Table) -> Dataset:
    shards = tuple(write_shard(store, "documents", table) for table in tables)
    version = seal(store, Draft({"documents": Part("table", shards)}), asset="raw_documents", partition="s")
    return Dataset("raw_documents", (version,), store)


def table(store: Store, draft: Draft, part: str) -> pa.Table:
    return Dataset("made", (seal(store, draft, asset="made"),), store).table(part)


def test_kept_documents_carry_repaired_text_and_language_and_all_have_a_decision(store: Store) -> None:
    raw = dataset(store, documents(ENGLISH + "\0", "no", GERMAN))
    draft = clean(raw, CleanParams(), Engine(store, 1))
    kept, decisions, quality = (table(store, draft, part) for part in ("documents", "decisions", "quality"))
    assert kept["text"].to_pylist() == [ENGLISH, GERMAN]
    assert kept["language"].to_pylist() == ["en", "de"]
    assert kept["license"].to_pylist() == ["MIT", "MIT"]
    assert decisions["rule"].to_pylist() == ["kept", "too_short", "kept"]
    assert decisions["keep"].to_pylist() == [True, False, True]
    assert quality["doc_id"].equals(decisions["doc_id"])
    assert quality["characters"].to_pylist() == [len(ENGLISH), 2, len(GERMAN)]
    stats = dict(draft.stats)
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
        "personal_data": {},
        "removed_lines": 0,
        "removed_bytes": 0,
        "dropped": {"too_short": 1},
        "languages": {"de": 1, "en": 1},
    }


def test_a_doubtful_language_is_undetermined(store: Store) -> None:
    draft = clean(dataset(store, documents(ENGLISH)), CleanParams(min_language_score=1.0), Engine(store, 1))
    assert table(store, draft, "documents")["language"].to_pylist() == ["und"]
    assert draft.stats["languages"] == {"und": 1}


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(max_size=80), max_size=5))
def test_rows_in_are_rows_kept_and_dropped_whatever_the_text(texts: list[str]) -> None:
    cleaning = Cleaning(CleanParams(min_characters=10, c4={"remove_lines": True}), ("gopher_quality", "c4"))
    repaired, quality, _ = measure_documents(documents(*texts), cleaning)
    kept, decisions, stats = decide_documents(repaired, quality, cleaning)
    assert decisions.num_rows == len(texts) == kept.num_rows + sum(stats["dropped"].values())
    assert kept["doc_id"].to_pylist() == decisions.filter(decisions["keep"])["doc_id"].to_pylist()


def test_shards_stay_aligned_and_workers_change_no_byte(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    raw = dataset(store, documents(ENGLISH, "no"), documents(), documents("no"), documents(GERMAN))
    draft = clean(raw, CleanParams(), Engine(store, 1))
    for part, rows in (("documents", [1, 0, 0, 1]), ("decisions", [2, 0, 1, 1]), ("quality", [2, 0, 1, 1])):
        assert [shard.rows for shard in draft.parts[part].shards] == rows
    other = Store(str(tmp_path / "other"))
    for shard in (documents(ENGLISH, "no"), documents(), documents("no"), documents(GERMAN)):
        write_shard(other, "documents", shard)
    assert clean(Dataset("raw_documents", raw.versions, other), CleanParams(), Engine(other, 2)) == draft
    assert read_table(store, draft.parts["documents"].shards[0].object).schema.equals(schemas.DOCUMENTS)


def test_a_dataset_without_shards_is_cleaned_to_one_without_shards(store: Store) -> None:
    draft = clean(dataset(store), CleanParams(), Engine(store, 1))
    assert {part: held.rows for part, held in draft.parts.items()} == {"documents": 0, "decisions": 0, "quality": 0}
    assert draft.stats["documents_in"] == 0


def test_a_shard_of_which_all_stays_is_stored_once(store: Store) -> None:
    engine = Engine(store, 1)
    draft = clean(dataset(store, documents(ENGLISH, GERMAN)), CleanParams(), engine)
    measured, decided = engine.results
    assert draft.parts["documents"] == measured.parts["documents"] == decided.parts["documents"]


def reused(store: Store, *params: CleanParams) -> list[list[bool]]:
    """Whether the two tasks of one shard were found done, for each of the parameters in turn."""
    raw = dataset(store, documents(ENGLISH))
    found = []
    for config in params:
        engine = Engine(store, 1)
        clean(raw, config, engine)
        found.append([result.reused for result in engine.results])
    return found


def test_another_threshold_decides_anew_and_measures_nothing(store: Store) -> None:
    gopher = {"rules": {"s": ["gopher_quality"]}}
    assert reused(
        store,
        CleanParams(),
        CleanParams(min_characters=10),
        CleanParams(min_language_score=0.1),
        CleanParams(),
        CleanParams(gopher_quality={"min_words": 5}),  # of a set that is not asked
        CleanParams(**gopher),
        CleanParams(**gopher, gopher_quality={"min_words": 5}),
    ) == [[False, False], [True, False], [True, False], [True, True], [True, True], [False, False], [True, False]]


def test_how_signals_are_counted_is_measured_anew(store: Store) -> None:
    fineweb = {"rules": {"*": ["fineweb", "code"]}}
    assert reused(
        store,
        CleanParams(**fineweb),
        CleanParams(**fineweb, fineweb={"short_line_characters": 40}),
        CleanParams(rules={"*": ["code", "fineweb"]}),  # the order is that of decisions only
    ) == [[False, False], [False, False], [True, False]]


def test_a_source_has_its_own_rules_or_those_of_all_others(store: Store) -> None:
    raw = dataset(store, documents(ENGLISH))
    rules = {"code": ["code"], "*": ["gopher_quality"]}
    assert clean(raw, CleanParams(rules=rules), Engine(store, 1)).stats["dropped"] == {"gopher_quality.min_words": 1}
    rules = {"s": [], "*": ["gopher_quality"]}
    assert clean(raw, CleanParams(rules=rules), Engine(store, 1)).stats["dropped"] == {}


def test_removed_lines_are_counted(store: Store) -> None:
    page = f"Home\n{ENGLISH}\nWe use cookies on this site."
    config = CleanParams(rules={"*": ["c4"]}, c4={"remove_lines": True, "min_sentences": 1})
    draft = clean(dataset(store, documents(page)), config, Engine(store, 1))
    assert table(store, draft, "documents")["text"].to_pylist() == [ENGLISH]
    assert draft.stats["removed_lines"] == 2
    assert draft.stats["removed_bytes"] == len(page) - len(ENGLISH)


def test_what_removed_lines_leave_is_masked(store: Store) -> None:
    """C4 takes the number of a note out of a line; what stood around it is an address only then."""
    page = f"{ENGLISH}\nWrite to jane[1]@python.org today."
    config = CleanParams(rules={"*": ["c4"]}, c4={"remove_lines": True, "min_sentences": 1})
    draft = clean(dataset(store, documents(page)), config, Engine(store, 1))
    assert table(store, draft, "documents")["text"].to_pylist() == [f"{ENGLISH}\nWrite to <EMAIL> today."]
    assert table(store, draft, "quality")["pii_email"].to_pylist() == [1]
    assert draft.stats["personal_data"] == {"email": 1}
    assert draft.stats["removed_bytes"] == len("[1]")


@pytest.mark.parametrize("package", ["ftfy", "phonenumbers", "presidio-analyzer", "unicode"])
def test_another_release_of_what_cleaning_rests_on_cleans_anew(
    store: Store, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    releases = {"presidio-analyzer": "2.2"}
    monkeypatch.setattr("pipelines.clean.libraries.version", lambda name: releases.get(name, "1"))
    monkeypatch.setattr("pipelines.clean.pii.presidio.version", lambda name: releases.get(name, "1"))
    monkeypatch.setattr("pipelines.clean.stage.mask", lambda texts, _: mask(texts, PiiParams()))  # it is optional
    presidio = CleanParams(pii={"presidio": package == "presidio-analyzer"})
    assert reused(store, presidio, presidio) == [[False, False], [True, True]]
    releases[package] = "2"
    monkeypatch.setattr("unicodedata.unidata_version", "16.1" if package == "unicode" else unicodedata.unidata_version)
    assert reused(store, presidio)[0][0] is False


def test_the_absence_of_presidio_is_told(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("pipelines.clean.pii.presidio.version", absent)
    with pytest.raises(ImportError, match=r"pip install -e '\.\[pii\]'"):
        clean(dataset(store, documents(ENGLISH)), CleanParams(pii={"presidio": True}), Engine(store, 1))


def test_to_load_a_profile_loads_no_compiler() -> None:
    code = "import sys, pipelines.clean.params; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("code", ["english", "EN", "e", "zh-CN"])
def test_languages_are_codes(code: str) -> None:
    with pytest.raises(ValidationError, match=f"`languages` names '{code}'; use ISO 639 codes"):
        CleanParams(languages=[code])


def test_rule_sets_are_named_ones() -> None:
    with pytest.raises(ValidationError, match="`rules` names 'gofer' for 'web'; rule sets are gopher_quality, "):
        CleanParams(rules={"web": ["gofer"]})
    with pytest.raises(ValidationError, match="twice for 'web'"):
        CleanParams(rules={"web": ["c4", "c4"]})
    with pytest.raises(ValidationError, match="`line_rules` names 'cookies'; there are punctuation, "):
        CleanParams(c4={"line_rules": ["cookies"]})
