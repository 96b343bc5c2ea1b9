"""Real corpora as they come, through the whole chain: web archives, books, many languages, hostile strings."""

import json
from collections import Counter
from pathlib import Path

import dagster as dg
import pytest

from pipelines.dataset import Dataset, Version
from pipelines.store import Store
from resources.settings import Profile, load_profile
from tests.jobs.test_chain import Mill, reason

SHARED = Path(__file__).parents[3] / "shared" / "data"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SHARED.exists(), reason="the shared corpora are not there"),
]

PROFILE = {
    "name": "real",
    "sources": [
        {"name": "books", "path": str(SHARED / "books")},
        {"name": "web", "path": str(SHARED / "web")},
        {"name": "multilingual", "path": str(SHARED / "multilingual")},
        {"name": "unicode", "path": str(SHARED / "unicode")},
        {"name": "instruction", "path": str(SHARED / "instruction"), "fields": {"text": "instruction", "id": "id"}},
    ],
    "reference_sources": ["books"],
    "clean": {"rules": {"web": ["gopher_repetition", "gopher_quality", "c4", "fineweb"]}},
    "contamination": {
        "sets": {
            "gsm8k": {"path": str(SHARED / "benchmarks/gsm8k_test.jsonl"), "fields": ["question", "answer"]},
            "humaneval": {"path": str(SHARED / "benchmarks/HumanEval.jsonl.gz"), "fields": ["prompt"], "id": "task_id"},
        }
    },
    "filters": {"min_perplexity": None, "max_perplexity_percentile": None},
    "tokenizer": {"vocabulary": 2048},
    "engine": {"workers": 1},
}


class Milled:
    """What came of it."""

    def __init__(self, profile: Profile, mill: Mill) -> None:
        self.store = Store(profile.store_url)
        self._mill = mill

    def of(self, asset: str, source: str) -> Dataset:
        pointer = self._mill.ledger.current(asset, source)
        assert pointer
        return Dataset(asset, (Version.load(self.store, pointer.version),), self.store)


@pytest.fixture(scope="module")
def milled(tmp_path_factory: pytest.TempPathFactory) -> Milled:
    folder = tmp_path_factory.mktemp("real")
    path = folder / "profile.yaml"
    path.write_text(json.dumps(PROFILE | {"store": str(folder / "store"), "ledger": str(folder / "ledger.db")}))
    profile = load_profile(path)
    with dg.DagsterInstance.ephemeral() as instance:
        mill = Mill(profile, instance)
        result = mill.run("*token_shards")
        assert result.success, reason(result)
        return Milled(profile, mill)


@pytest.mark.parametrize("source", [source["name"] for source in PROFILE["sources"]])  # type: ignore[attr-defined]
def test_every_input_is_accounted_for_at_every_stage(milled: Milled, source: str) -> None:
    before = None
    for asset in ("raw_documents", "clean_documents", "unique_documents", "filtered_documents", "token_shards"):
        stats = milled.of(asset, source).version.stats
        assert stats["documents_in"] == stats["documents_out"] + sum(stats["dropped"].values())
        assert before is None or stats["documents_in"] == before
        before = stats["documents_out"]


def test_pages_of_web_archives_are_documents_with_url_and_language(milled: Milled) -> None:
    raw, clean = milled.of("raw_documents", "web"), milled.of("clean_documents", "web")
    assert raw.rows("documents") >= 35
    fields = [json.loads(text) for text in raw.table("documents")["metadata"].to_pylist()]
    assert all(one["url"].startswith("http") and one["date"] for one in fields)
    assert "html" not in " ".join(raw.table("documents")["text"].to_pylist()[:5]).lower()[:200]
    spoken = Counter(clean.table("documents")["language"].to_pylist())
    assert len(spoken) >= 1
    assert {row["reason"] for row in raw.table("rejects").to_pylist()} <= {
        "not_a_document", "empty_text", "http_status", "other_content_type"
    }  # fmt: skip


def test_languages_of_the_declaration_of_human_rights_are_told(milled: Milled) -> None:
    rows = milled.of("clean_documents", "multilingual").table("documents").to_pylist()
    found = {row["uri"].split("#")[0]: row["language"] for row in rows}
    expected = {"arb": "ar", "cmn_hans": "und", "deu_1996": "de", "fra": "fr", "heb": "he", "hin": "hi", "jpn": "ja"}
    expected |= {"kor": "ko", "rus": "ru", "spa": "es", "tha": "th", "vie": "vi"}
    assert {name: found[f"udhr_{name}.xml"] for name in expected} == expected  # Chinese is lost among the XML


def test_of_the_books_two_editions_of_alice_go_and_nothing_is_contaminated(milled: Milled) -> None:
    assert milled.of("contamination_scores", "books").rows("contamination_hits") == 0
    assert milled.of("unique_documents", "books").version.stats["dropped"]["minhash"] == 2
    dropped = milled.of("filtered_documents", "books").version.stats["dropped"]
    assert {rule: count for rule, count in dropped.items() if count} == {"toxicity": 1}  # by the worst passage of one


def test_hostile_strings_come_out_as_valid_text(milled: Milled) -> None:
    documents = milled.of("clean_documents", "unicode").table("documents")
    assert documents.num_rows >= 1
    assert all("\0" not in text for text in documents["text"].to_pylist())


def test_nobody_loses_the_audit(milled: Milled) -> None:
    for source in PROFILE["sources"]:  # type: ignore[attr-defined]
        rows = milled.of("compliance_audit", source["name"]).table("audit").to_pylist()
        assert len(rows) == 6
        assert all(row["met"] for row in rows)
