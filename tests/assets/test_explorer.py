"""The tables of the threshold explorer, for people."""

from pathlib import Path
from typing import Any

import numpy as np

from assets.explorer import explorer_metadata, rows, rows_by_source
from pipelines.costs.ledger import Ledger, Pointer
from pipelines.dataset import Dataset, Draft, seal
from pipelines.filters.thresholds import Ruled, threshold_counts
from pipelines.store import Store

LIMITS = {"max_toxicity": 0.95, "max_perplexity": None, "toxic": "document"}


def counts(scores: list[float], limit: float | None = 0.95) -> dict[str, Any]:
    values = np.array(scores)
    ruled = {"toxicity": Ruled.above(values, limit)}
    sizes = np.full(len(values), 2_000_000)
    return threshold_counts(ruled, sizes)["toxicity"]


def filtered(store: Store, partition: str, scores: list[float]) -> Dataset:
    stats = {"thresholds": {"toxicity": counts(scores)}, "limits": LIMITS}
    version = seal(store, Draft({}, stats), asset="filtered_documents", partition=partition)
    return Dataset("filtered_documents", (version,), store)


def test_a_row_for_each_threshold_with_the_present_one_marked() -> None:
    told = {row["dropped above"]: row for row in rows("toxicity", counts([0.05, 0.5, 0.96, 0.999]), LIMITS)}

    assert told["0.1"] == {
        "dropped above": "0.1",
        "documents kept": "1",
        "share": "25.0 %",
        "MB kept": "2",
        "share of bytes": "25.0 %",
        "now": "",
    }
    assert (told["0.95"]["documents kept"], told["0.95"]["now"]) == ("2", "in force")
    assert [edge for edge, row in told.items() if row["now"]] == ["0.95"]
    assert told["0.98"]["documents kept"] == "3"


def test_where_sentences_are_cut_documents_are_left_whole() -> None:
    assert "documents left whole" in rows("toxicity", counts([0.5]), {**LIMITS, "toxic": "sentence"})[0]


def test_all_sources_side_by_side() -> None:
    by_source = {"books": counts([0.05, 0.05]), "web": counts([0.05, 0.5])}

    told = rows_by_source("toxicity", by_source, LIMITS)

    assert told[0] == {
        "dropped above": "0.1",
        "books": "2 (100 %)",
        "web": "1 (50.0 %)",
        "all sources": "3 (75.0 %)",
        "now": "",
    }


def test_a_page_knows_the_sources_filtered_before(tmp_path: Path) -> None:
    store, ledger = Store(str(tmp_path / "store")), Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    books, web = filtered(store, "books", [0.05, 0.99]), filtered(store, "web", [0.5, 0.05])

    alone = explorer_metadata(books, ledger, [])
    pending = [Pointer("filtered_documents", "books", books.version.id, "attempt", "run")]
    both = explorer_metadata(web, ledger, pending)

    assert set(alone) == {"thresholds/toxicity"}
    assert set(both) == {"thresholds/toxicity", "thresholds/toxicity by source"}
    first = both["thresholds/toxicity by source"].records[0].data
    assert (first["books"], first["web"]) == ("1 (50.0 %)", "1 (50.0 %)")


def test_a_rule_with_nothing_to_choose_has_no_table(tmp_path: Path) -> None:
    store, ledger = Store(str(tmp_path / "store")), Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")

    assert explorer_metadata(filtered(store, "web", [0.05, 0.06]), ledger, []) == {}
    other = Dataset("a", (seal(store, Draft({}, {"documents_in": 3}), asset="a"),), store)
    assert explorer_metadata(other, ledger, []) == {}
