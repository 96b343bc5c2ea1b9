"""New documents in the chain: what was kept stays in append-only mode, and sources that are only compared with."""

import json
from pathlib import Path

import dagster as dg
import pytest

from jobs.command import main
from pipelines.dataset import Version
from tests.jobs.corpus import BOOKS, make_profile, prose
from tests.jobs.test_chain import Mill, reason

pytestmark = pytest.mark.usefixtures("own_environment")

UP_TO_UNIQUE = "*unique_documents"


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


def arrives(mill: Mill, folder: Path, *texts: str) -> None:
    """A file of more documents for the books, which win over the web."""
    rows = [json.dumps({"id": f"late {number}", "text": text}) for number, text in enumerate(texts)]
    (folder / "books" / "late.jsonl").write_text("\n".join(rows) + "\n")


def clusters(mill: Mill) -> Version:
    return mill.dataset("duplicate_clusters").version


def test_what_was_kept_stays_though_an_earlier_source_brings_it_later(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    mill = Mill(make_profile(tmp_path, dedup={"append_only": True}), instance)
    assert mill.run(UP_TO_UNIQUE).success
    before = mill.dataset("unique_documents", "web").version
    first = clusters(mill)

    arrives(mill, tmp_path, prose(105), prose(5000))
    result = mill.run(UP_TO_UNIQUE)

    assert result.success, reason(result)
    assert mill.dataset("unique_documents", "web").version.parts == before.parts
    assert mill.dataset("unique_documents", "books").version.stats["dropped"]["exact"] == 1
    second = clusters(mill)
    assert ("duplicate_clusters", "", first.id) in second.inputs
    # Run again, nothing changes: the version is the same, built on the same.
    assert mill.run(UP_TO_UNIQUE).success
    assert clusters(mill).id == second.id
    assert mill.account().lineage_usd(second.id) > mill.account().lineage_usd(first.id)


def test_a_version_that_builds_on_another_can_be_made_again(
    tmp_path: Path, instance: dg.DagsterInstance, capsys: pytest.CaptureFixture
) -> None:
    mill = Mill(make_profile(tmp_path, dedup={"append_only": True}), instance)
    assert mill.run(UP_TO_UNIQUE).success
    arrives(mill, tmp_path, prose(105), prose(5000))
    assert mill.run(UP_TO_UNIQUE).success

    main(["reproduce", "duplicate_clusters", "--verify", "--json", "--profile", str(tmp_path / "profile.yaml")])

    told = json.loads(capsys.readouterr().out)["verdicts"]
    assert [one["outcome"] for one in told if one["asset"] == "duplicate_clusters"] == ["same", "same"]


def test_impact_knows_what_stays(tmp_path: Path, instance: dg.DagsterInstance, capsys: pytest.CaptureFixture) -> None:
    mill = Mill(make_profile(tmp_path, dedup={"append_only": True}), instance)
    assert mill.run(UP_TO_UNIQUE).success
    arrives(mill, tmp_path, prose(105), prose(5000))
    assert mill.run(UP_TO_UNIQUE).success
    capsys.readouterr()

    assert main(["impact", "--profile", str(tmp_path / "profile.yaml"), "--json"]) == 0

    told = {(one["asset"], one["partition"]): one["outcome"] for one in json.loads(capsys.readouterr().out)["datasets"]}
    assert told["duplicate_clusters", ""] == "untouched"


def test_without_it_the_earlier_source_takes_the_place(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    mill = Mill(make_profile(tmp_path), instance)
    assert mill.run(UP_TO_UNIQUE).success
    arrives(mill, tmp_path, prose(105), prose(5000))
    assert mill.run(UP_TO_UNIQUE).success
    assert mill.dataset("unique_documents", "books").version.stats["dropped"]["exact"] == 0
    assert not [pin for pin in clusters(mill).inputs if pin[0] == "duplicate_clusters"]


def test_a_source_to_compare_with_goes_through_the_chain_and_nothing_of_it_comes_out(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    exam = tmp_path / "exam"
    exam.mkdir()
    rows = [{"id": "leaked", "text": BOOKS[3]["text"]}, {"id": "own", "text": prose(7000)}]
    (exam / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    sources = [{"name": name, "path": name, "fields": {"id": "id"}} for name in ("books", "web", "exam")]
    mill = Mill(make_profile(tmp_path, dedup={"against": ["exam"]}, sources=sources), instance)

    result = mill.run("*training_blend")

    assert result.success, reason(result)
    assert mill.dataset("unique_documents", "books").version.stats["dropped"]["exact"] == 1
    exam_stats = mill.dataset("unique_documents", "exam").version.stats
    assert (exam_stats["documents_in"], exam_stats["documents_out"]) == (2, 0)
    assert exam_stats["dropped"]["only_compared"] == 2
    texts = mill.dataset("filtered_documents", "books", "web", "exam").table("documents")["text"].to_pylist()
    assert not {row["text"] for row in rows} & set(texts)
    found = {
        check.check_name: check.passed
        for check in result.get_asset_check_evaluations()
        if check.asset_key == dg.AssetKey("unique_documents")
    }
    assert found["keeps_some"] and all(found.values())
