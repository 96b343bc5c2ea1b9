"""Asset checks as Dagster records them, and what an unhealthy version comes to."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets import filtering
from assets.metered import MeteredAsset
from jobs import build
from pipelines.dataset import Dataset, Draft
from pipelines.engines.local import Engine
from tests.jobs.corpus import make_profile
from tests.jobs.test_chain import Mill, reason

UP_TO_FILTERED = '+key:"filtered_documents" or key:"filtered_documents"'


@pytest.fixture
def mill(tmp_path: Path):
    with dg.DagsterInstance.ephemeral() as instance:
        yield Mill(make_profile(tmp_path), instance)


def evaluations(result: dg.ExecuteInProcessResult) -> dict[tuple[str, str], dg.AssetCheckEvaluation]:
    """Check results of a run, by asset and check."""
    told = result.get_asset_check_evaluations()
    found = {(e.asset_key.to_user_string(), e.check_name): e for e in told}
    assert len(found) == len(told), "one result for each check and step"
    return found


def break_filter(monkeypatch: pytest.MonkeyPatch, **wrong: Any) -> None:
    """Let filtered_documents miscount."""
    honest = filtering.filtered_documents

    def body(
        unique_documents: Dataset,
        toxicity_scores: Dataset,
        perplexity_scores: Dataset,
        perplexity_model: Dataset,
        contamination_scores: Dataset,
        config: Any,
        engine: Engine,
    ) -> Draft:
        scores = toxicity_scores, perplexity_scores, perplexity_model, contamination_scores
        draft = honest.body(unique_documents, *scores, config, engine)
        return replace(draft, stats=draft.stats | wrong)

    body.__name__ = honest.name
    body.__annotations__ |= {"config": honest.params_model}
    broken = replace(honest, body=body)
    assert isinstance(broken, MeteredAsset)
    monkeypatch.setattr(build, "ASSETS", tuple(broken if a is honest else a for a in build.ASSETS))


def test_every_declared_check_has_one_result_that_covers_every_source(mill: Mill) -> None:
    result = mill.run()

    assert result.success, reason(result)
    found = evaluations(result)
    declared = build.build_definitions(mill.profile).resolve_asset_graph().asset_check_keys
    assert {(key.asset_key.to_user_string(), key.name) for key in declared} == set(found)
    balance = found["unique_documents", "rows_balance"]
    assert balance.passed
    table = balance.metadata["sources"].records  # type: ignore[attr-defined]
    assert [(r.data["source"], r.data["passed"]) for r in table] == [("books", "yes"), ("web", "yes")]
    assert {key for key, evaluation in found.items() if not evaluation.passed} == set()


def test_an_unhealthy_version_is_not_published_and_the_check_says_why(
    mill: Mill, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_filter(monkeypatch, kept_beyond={"toxicity": 3})

    result = mill.run(UP_TO_FILTERED)

    assert not result.success
    assert "filtered_documents[books] is not published, it fails nothing_beyond_threshold: 3 beyond" in reason(result)
    failed = evaluations(result)["filtered_documents", "nothing_beyond_threshold"]
    assert (failed.passed, failed.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert mill.ledger.current("filtered_documents", "books") is None
    [attempt] = [a for a in mill.account().attempts if a.asset == "filtered_documents"]
    assert attempt.status == "failed"


def test_a_warning_does_not_stop_unless_the_profile_is_strict(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    break_filter(monkeypatch, documents_in=27, documents_out=0, dropped={"toxicity": 27})
    monkeypatch.setattr("pipelines.health._ROWS", {})  # only the warning is to be seen

    result = mill.run(UP_TO_FILTERED)

    warned = evaluations(result)["filtered_documents", "keeps_some"]
    assert result.success, reason(result)
    assert (warned.passed, warned.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert (
        warned.description
        == "books: 0.0% of 27 documents kept (toxicity 27); web: 0.0% of 27 documents kept (toxicity 27)"
    )

    mill.profile = mill.profile.model_copy(update={"checks": mill.profile.checks.model_copy(update={"strict": True})})
    again = mill.run("training_mixture")
    assert not again.success
    assert "training_mixture" in str(again.all_events) and "keeps_some" in reason(again)


def test_drift_compares_with_the_current_version(mill: Mill) -> None:
    first = mill.run("raw_documents")
    books = Path(mill.profile.source("books").path or "")
    for part in books.glob("*.jsonl"):
        lines = part.read_text().splitlines()
        part.write_text("\n".join(lines[:2]) + "\n")

    second = mill.run("raw_documents")

    assert evaluations(first)["raw_documents", "drift"].passed
    drift = evaluations(second)["raw_documents", "drift"]
    assert not drift.passed
    assert drift.description == "books: documents -75.0% (16 to 4), kept 100.0%, now 100.0%"


def test_a_step_notices_materializations_that_the_ledger_knows_nothing_of(mill: Mill) -> None:
    mill.instance.report_runless_asset_event(dg.AssetMaterialization("raw_documents", partition="web"))

    result = mill.run("raw_documents")

    audit = evaluations(result)["raw_documents", "in_the_ledger"]
    assert result.success and not audit.passed
    assert audit.description == (
        "raw_documents[web] by no run names no attempt: it was reported by hand or made by other code"
    )


@pytest.mark.parametrize("strict", [False, True])
def test_sources_that_drop_nothing_are_judged_together(
    mill: Mill, monkeypatch: pytest.MonkeyPatch, strict: bool
) -> None:
    break_filter(monkeypatch, documents_in=700, documents_out=700, dropped={})
    monkeypatch.setattr("pipelines.health._ROWS", {})
    mill.profile = mill.profile.model_copy(update={"checks": mill.profile.checks.model_copy(update={"strict": strict})})

    result = mill.run(UP_TO_FILTERED)

    check = evaluations(result)["filtered_documents", "drops_some"]
    assert (result.success, check.passed) == (not strict, False)
    assert check.description == "books: 0.0% of 700 documents dropped; web: 0.0% of 700 documents dropped"
    assert (mill.ledger.current("filtered_documents", "books") is None) is strict


def test_a_source_that_fails_the_audit_goes_no_further_and_the_run_says_why(tmp_path: Path) -> None:
    profile = make_profile(tmp_path, clean={"compliance": {"consent": True}})
    with dg.DagsterInstance.ephemeral() as instance:
        mill = Mill(profile, instance)
        result = mill.run("*filtered_documents")

        assert not result.success
        assert "compliance_audit[books] is not published, it fails consent_documented" in reason(result)
        assert mill.ledger.current("clean_documents", "books") is not None
        assert mill.ledger.current("compliance_audit", "books") is None
        assert mill.ledger.current("unique_documents", "books") is None


def test_what_was_cleaned_anew_is_not_deduplicated_before_it_is_audited_anew(mill: Mill) -> None:
    assert mill.run("*unique_documents").success
    books = Path(mill.profile.source("books").path) / "part 1.jsonl"
    books.write_text(books.read_text().replace("miller", "builder"))
    assert mill.run('key:"raw_documents" or key:"clean_documents" or key:"duplicate_clusters"').success

    result = mill.run("unique_documents")

    assert not result.success
    assert "clean_documents[books]" in reason(result)
