"""Cleaning drops what may not be used and masks personal data; the audit looks whether it did."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipelines import schemas
from pipelines.clean.audit import audit
from pipelines.clean.params import CleanParams
from pipelines.clean.stage import clean
from pipelines.dataset import Dataset, Draft, Part, Version, seal, write_shard
from pipelines.engines.local import Engine
from pipelines.health import COMPLIANCE, CheckParams, Unhealthy, refuse_unhealthy
from pipelines.store import Store

TEXT = "All human beings are born free and equal in dignity and rights. "
MAIL = "Write to anna.miller@mail-provider.com if you want to know more about the mill. "


def raw(store: Store, *rows: dict[str, Any], shards: int = 1, **source: Any) -> Dataset:
    """Raw documents of a source that the profile describes so, in shards of equal size."""
    plain = [
        {
            "doc_id": f"{number:032x}",
            "source": "s",
            "uri": f"{number}#0",
            "text": row.get("text", TEXT),
            "license": row.get("license"),
            "metadata": json.dumps(row["fields"]) if "fields" in row else None,
        }
        for number, row in enumerate(rows)
    ]
    table = pa.Table.from_pylist(plain, schema=schemas.DOCUMENTS)
    size = len(rows) // shards
    tables = [table.slice(number * size, size) for number in range(shards)]
    draft = Draft({"documents": Part("table", tuple(write_shard(store, "documents", piece) for piece in tables))})
    version = seal(store, draft, asset="raw_documents", partition="s", params={"source": {"name": "s", **source}})
    return Dataset("raw_documents", (version,), store)


def cleaned(store: Store, documents: Dataset, config: CleanParams) -> tuple[Dataset, dict[str, Any]]:
    draft = clean(documents, config, Engine(store, 1))
    version = seal(store, draft, asset="clean_documents", partition="s", inputs=[documents])
    return Dataset("clean_documents", (version,), store), draft.stats


def audited(store: Store, documents: Dataset, kept: Dataset, config: CleanParams) -> Version:
    draft = audit(documents, kept, config, Engine(store, 1))
    return seal(store, draft, asset="compliance_audit", partition="s")


def failed(version: Version) -> list[str]:
    return [check.name for check in COMPLIANCE if not check.look(version, None, CheckParams()).passed]  # type: ignore[union-attr]


def test_cleaning_drops_what_may_not_be_used_before_it_asks_for_quality(store: Store) -> None:
    config = CleanParams(compliance={"licences": ["MIT"], "as_of": "2026-11-30"})
    documents = raw(
        store,
        {"license": "MIT", "fields": {"date": "2026-11-01"}},
        {"license": "GPL-3.0-only", "text": "no"},
        {"license": "MIT", "fields": {"robots": "noai", "date": "2026-11-01"}},
        {"license": "MIT", "fields": {"date": "2020-01-01"}},
        retention_days=100,
    )
    kept, stats = cleaned(store, documents, config)
    assert kept.table("decisions")["rule"].to_pylist() == [
        "kept",
        "compliance.licence",
        "compliance.opt_out",
        "compliance.retention",
    ]
    assert stats["dropped"] == {"compliance.licence": 1, "compliance.opt_out": 1, "compliance.retention": 1}
    assert failed(audited(store, documents, kept, config)) == []


def test_personal_data_is_masked_counted_and_not_stored_anywhere(store: Store) -> None:
    documents = raw(store, {"text": MAIL}, {"text": TEXT})
    kept, stats = cleaned(store, documents, CleanParams())
    assert kept.table("documents")["text"].to_pylist() == [
        "Write to <EMAIL> if you want to know more about the mill. ".strip(),
        TEXT.strip(),
    ]
    assert stats["personal_data"] == {"email": 1}
    assert kept.table("quality")["pii_email"].to_pylist() == [1, 0]
    named = {shard.object for part in documents.version.parts.values() for shard in part.shards}
    for record in store.actions():
        for part in record["parts"].values():
            for shard in part["shards"]:
                stored = kept.store.get(shard["object"])
                assert shard["object"] in named or b"anna.miller" not in stored


def test_a_document_may_be_dropped_for_what_stands_in_it(store: Store) -> None:
    documents = raw(store, {"text": MAIL}, {"text": TEXT})
    kept, _ = cleaned(store, documents, CleanParams(pii={"email": "drop"}))
    assert kept.table("decisions")["rule"].to_pylist() == ["pii.email", "kept"]
    assert kept.rows("documents") == 1
    again, _ = cleaned(store, documents, CleanParams(pii={"email": "keep"}))
    assert again.table("documents")["text"].to_pylist()[0] == MAIL.strip()


@pytest.mark.parametrize(
    ("strict", "source", "row", "check"),
    [
        ({"compliance": {"licences": ["MIT"]}}, {}, {"license": "GPL-3.0-only"}, "licence_permitted"),
        ({"compliance": {"consent": True}}, {}, {}, "consent_documented"),
        ({"compliance": {"regions": ["EU"]}}, {"region": "US"}, {}, "region_permitted"),
        ({"compliance": {"as_of": "2026-11-30"}}, {"retention_days": 9}, {}, "within_retention"),
        ({}, {}, {"fields": {"robots": "noai"}}, "no_opt_out"),
        ({}, {}, {"text": MAIL}, "personal_data_masked"),
    ],
)
def test_what_cleaning_let_pass_is_found_and_goes_no_further(
    store: Store, strict: dict, source: dict, row: dict, check: str
) -> None:
    careless = CleanParams(
        compliance={"opt_outs": []}, pii=dict.fromkeys(("email", "phone", "ip", "card", "iban", "credential"), "keep")
    )
    documents = raw(store, row)
    kept, _ = cleaned(store, documents, careless)
    version = audited(store, raw(store, row, **source), kept, CleanParams(**strict))
    assert failed(version) == [check]
    with pytest.raises(Unhealthy, match=check):
        refuse_unhealthy(version, CheckParams())


def test_every_obligation_has_a_row_that_people_can_read(store: Store) -> None:
    config = CleanParams(compliance={"licences": ["MIT", "CC0-*"], "consent": True, "regions": ["EU"]})
    documents = raw(store, {"license": "MIT"}, {"license": "CC0-1.0"}, consent="a contract", region="EU")
    kept, _ = cleaned(store, documents, config)
    version = audited(store, documents, kept, config)
    table = Dataset("compliance_audit", (version,), store).table("audit")
    rows = {row["obligation"]: row for row in table.to_pylist()}
    assert list(rows) == ["licence", "consent", "retention", "region", "opt_out", "personal_data"]
    assert all(row["met"] and row["source"] == "s" and row["documents"] == 0 for row in rows.values())
    assert (rows["licence"]["required"], rows["licence"]["found"]) == ("MIT, CC0-*", "CC0-1.0 1, MIT 1")
    assert rows["consent"]["found"] == "a contract"
    assert rows["personal_data"]["found"] == "none found"


def test_documents_that_hold_personal_data_are_counted_once_whatever_they_hold(store: Store) -> None:
    """One with an address, one with an address twice and a number, one with what is kept, one with nothing."""
    phone = "Call +44 20 7031 3000 if you want to know more about the mill. "
    rows = [{"text": MAIL}, {"text": MAIL + MAIL + "at 81.2.69.142."}, {"text": phone}, {"text": TEXT}]
    documents = raw(store, *rows)
    kept, _ = cleaned(store, documents, CleanParams(pii={"email": "keep", "phone": "keep", "ip": "keep"}))

    def found(**pii: str) -> tuple[int, str, bool]:
        version = audited(store, documents, kept, CleanParams(pii=pii))
        row = Dataset("compliance_audit", (version,), store).table("audit").to_pylist()[-1]
        return row["documents"], row["found"], row["met"]

    assert found() == (3, "email 2, ip 1, phone 1", False)
    assert found(ip="keep") == (3, "email 2, phone 1", False)
    assert found(email="keep", ip="keep") == (1, "phone 1", False)
    assert found(email="drop", phone="keep", ip="keep") == (2, "email 2", False)
    assert found(email="keep", phone="keep", ip="keep") == (0, "none found", True)


def test_the_audit_neither_reads_the_key_of_hashes_nor_depends_on_where_it_lies(store: Store, tmp_path: Path) -> None:
    documents = raw(store, {"text": MAIL})
    kept, _ = cleaned(store, documents, CleanParams())
    looked = []
    for name in ("one", "other"):
        engine = Engine(store, 1)
        config = CleanParams(pii={"email": "hash", "hash_key_file": str(tmp_path / name)})
        audit(documents, kept, config, engine)
        looked.append([result.reused for result in engine.results])
    assert looked == [[False, False], [True, True]]


def test_another_release_of_what_finds_personal_data_looks_anew(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = raw(store, {"text": MAIL})
    kept, _ = cleaned(store, documents, CleanParams())
    looked = []
    for release in ("1", "1", "2"):
        monkeypatch.setattr("pipelines.clean.libraries.version", lambda _, release=release: release)
        engine = Engine(store, 1)
        audit(documents, kept, CleanParams(), engine)
        looked.append(engine.results[0].reused)
    assert looked == [False, True, False]


def test_the_most_frequent_licences_of_a_source_are_told_however_they_lie_in_shards(store: Store) -> None:
    """Three shards hold twenty licences twice each, and one that is in all of them, once each."""
    shards = [[f"{shard}-{n}" for n in range(20) for _ in range(2)] + ["MIT"] for shard in "ABC"]
    documents = raw(store, *({"license": name} for names in shards for name in names), shards=3)
    version = audited(store, documents, documents, CleanParams())
    assert version.stats["audit"][0]["found"].startswith("MIT 3, A-0 2, ")
    assert version.stats["licences"]["MIT"] == 3
    assert len(version.stats["licences"]) == 20


def test_a_source_without_documents_meets_everything(store: Store) -> None:
    documents = raw(store)
    kept, _ = cleaned(store, documents, CleanParams(compliance={"licences": ["MIT"]}))
    assert failed(audited(store, documents, kept, CleanParams(compliance={"licences": ["MIT"]}))) == []
