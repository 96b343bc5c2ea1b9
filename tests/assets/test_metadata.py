"""What is attached to a materialization: row counts that are true, and costs in plain words."""

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets.metadata import materialization_metadata
from pipelines.dataset import Dataset, Part, Shard, Version
from pipelines.store import Store
from tests.pipelines.costs.book import BOOK
from tests.pipelines.costs.test_account import Diary


@pytest.fixture
def diary(tmp_path: Path) -> Diary:
    return Diary(tmp_path)


def metadata(diary: Diary, *parts: tuple[str, Part], partition: str = "web", **stats: Any) -> dict[str, Any]:
    """Of a version that an attempt of ten seconds made, a cent for each, and published."""
    attempt = diary.attempt("unique_documents", 10, partition=partition, version="v", made={"key": 10.0})
    diary.publish(attempt, "unique_documents", "v", partition)
    version = Version("v", "unique_documents", partition, dict(parts), {}, "1", stats=stats)
    made = Dataset("unique_documents", (version,), Store("memory://none"))
    return materialization_metadata(made, attempt, diary.ledger, BOOK, [], "documents")


@pytest.mark.parametrize("rows", [0, 7])
@pytest.mark.parametrize(("partition", "key"), [("web", "dagster/partition_row_count"), ("", "dagster/row_count")])
def test_rows_are_told_also_where_there_are_none(diary: Diary, rows: int, partition: str, key: str) -> None:
    shards = (Shard("hash", 10, rows),) if rows else ()

    assert metadata(diary, ("documents", Part("table", shards)), partition=partition)[key] == rows


def test_files_have_no_rows(diary: Diary) -> None:
    told = metadata(diary, ("documents", Part("files", (Shard("hash", 10, 0, "model.bin"),))))

    assert not {"dagster/row_count", "dagster/partition_row_count"} & told.keys()


def test_the_summary_says_in_words_what_the_figures_say(diary: Diary) -> None:
    diary.attempt("unique_documents", 3, partition="web", status="failed", run="an earlier run")

    told = metadata(diary, tokens=2_000_000)

    assert told["cost/summary"] == (
        "This run cost $0.10 (0.00278 compute-hours). With everything upstream, this version cost $0.10. "
        "Wasted so far by attempts at this dataset: $0.0300. Saved in this run by reuse: nothing."
    )
    figures = {name: told[f"cost/{name}"] for name in ("usd", "lineage_usd", "wasted_usd", "usd_per_million_tokens")}
    assert figures == {
        name: dg.FloatMetadataValue(usd) for name, usd in zip(figures, (0.1, 0.1, 0.03, 0.05), strict=True)
    }


def test_what_came_of_it_stands_before_the_figures(diary: Diary) -> None:
    names = list(metadata(diary, documents_in=4, documents_out=3, dropped={"exact": 1}))

    order = ["corpusmill/version", "cost/summary", "kept and dropped", "cost/usd", "dropped/exact", "lineage/inputs"]
    assert sorted(order, key=names.index) == order
    assert len(names) < 100
