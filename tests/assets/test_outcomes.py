"""What came of a stage, as people see it."""

import json
import math
from typing import Any

import dagster as dg
import pytest

from assets.outcomes import attention, figures_metadata, outcome_metadata
from assets.values import integer, number, share, table

STATS = {"documents_in": 1_000_000, "documents_out": 998_800, "dropped": {"short": 200, "toxic": 1000, "odd": 0}}


def rows(value: dg.TableMetadataValue) -> list[tuple[Any, ...]]:
    names = [column.name for column in value.schema.columns]
    return [tuple(record.data[name] for name in names) for record in value.records]


def test_kept_stands_first_and_every_reason_has_its_count_and_share() -> None:
    assert rows(outcome_metadata(STATS)["kept and dropped"]) == [
        ("kept", "998,800", "99.9 %"),
        ("dropped: toxic", "1,000", "0.1 %"),
        ("dropped: short", "200", "< 0.1 %"),
    ]


def test_a_stage_that_drops_nothing_says_so_and_one_without_documents_says_nothing() -> None:
    assert rows(outcome_metadata({"documents_in": 3, "documents_out": 3})["kept and dropped"]) == [
        ("kept", "3", "100 %")
    ]
    assert outcome_metadata({"vocabulary_size": 8000}) == {}


def test_numbers_that_plot_over_time_are_there_also_where_they_are_nothing() -> None:
    figures = figures_metadata(STATS)

    assert (figures["dropped/odd"], figures["stats/documents_out"]) == (0, 998_800)
    assert figures["stats/kept_share"] == dg.FloatMetadataValue(0.9988)


def test_histograms_shares_and_curves_are_drawn_with_the_thresholds_that_were_used_and_are_not_told_again() -> None:
    stats = {
        "histograms": {"toxicity": {"edges": [0.0, 0.5], "kept": [5, 0], "dropped": [0, 1]}},
        "limits": {"max_toxicity": 0.6, "min_perplexity": None},
        "wanted_shares": {"books": 0.5},
        "realised_shares": {"books": 0.4},
        "curve": [[1, 5.0, 1e-4, 1.0]],
        "validation_curve": [[1, 5.5]],
        "samples": [{"prompt": "The", "continuation": "end"}],
    }
    drawn = outcome_metadata(stats)

    assert set(drawn) == {"plot/toxicity", "plot/shares of tokens", "plot/loss by step"}
    assert "limit 0.6" in drawn["plot/toxicity"].value
    assert set(figures_metadata(stats)) == {"stats/limits"}


def test_languages_are_a_table_with_the_largest_first() -> None:
    shown = figures_metadata({"languages": {"en": 3, "de": 9}})["stats/languages"]

    assert rows(shown) == [("de", "9", "75.0 %"), ("en", "3", "25.0 %")]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"white_space": 1200, "rate": 0.25}, [("white_space", "1,200"), ("rate", "0.25")]),
        ({"web": {"documents": 2, "bytes": 9}, "books": {"documents": 1}}, [("web", "2", "9"), ("books", "1", "")]),
        ([{"kept_id": "a", "removed": 2}], [("a", "2")]),
        (
            {"limit": None, "on": True, "languages": ["de", "en"]},
            [("limit", ""), ("on", "yes"), ("languages", "de, en")],
        ),
    ],
)
def test_what_is_regular_is_a_table(value: Any, shown: Any) -> None:
    assert rows(figures_metadata({"it": value})["stats/it"]) == shown


def test_other_figures_are_text_or_json_or_left_out() -> None:
    figures = figures_metadata(
        {
            "names": ["web", "books"],
            "nested": {"shares": {"web": 1}, "budget": 0},
            "huge": {"deep": {str(number): {"a": [number]} for number in range(5000)}, "x": 1},
            "nothing": {},
            "nothing of each": {"toxicity": {}, "perplexity": {}},
            "unknown": None,
            "rate": math.nan,
        }
    )

    assert set(figures) == {"stats/names", "stats/nested"}
    assert figures["stats/names"] == "web, books"
    assert isinstance(figures["stats/nested"], dg.JsonMetadataValue)


def test_a_long_table_ends_with_how_much_was_left_out() -> None:
    told = rows(table([{"name": str(number), "count": number} for number in range(1000)]))

    assert len(told) < 50
    assert told[-1] == (f"… and {1000 - len(told) + 1} more", "")


def test_numbers_are_what_dagsters_pages_can_show() -> None:
    assert (integer(2**31 - 1), integer(2**31)) == (2**31 - 1, number(2**31))
    with pytest.raises(ValueError, match="must be finite"):
        number(float("nan"))


@pytest.mark.parametrize(
    ("part", "whole", "told"), [(0, 5, "0 %"), (5, 5, "100 %"), (1, 10**6, "< 0.1 %"), (10**6 - 1, 10**6, "99.9 %")]
)
def test_a_share_never_looks_like_nothing_or_all_when_it_is_not(part: int, whole: int, told: str) -> None:
    assert share(part, whole) == told


def test_a_stage_that_looks_like_a_mistake_says_so_first() -> None:
    assert attention({"documents_in": 0, "documents_out": 0}) == "No document came in."
    assert attention({"documents_in": 5, "documents_out": 5, "attention": "Odd."}) == "Odd."
    nothing_kept = {"documents_in": 5, "documents_out": 0, "dropped": {"short": 5}}
    assert next(iter(outcome_metadata(nothing_kept))) == "attention"


def test_a_version_with_many_sources_stays_small() -> None:
    sources = [f"source-{number}" for number in range(200)]
    stats = STATS | {
        "wanted_shares": dict.fromkeys(sources, 1 / 200),
        "by_source": {name: {"documents": 10**9, "bytes": 10**12} for name in sources},
        "overlap": {name: dict.fromkeys(sources, 1) for name in sources},
        "languages": {f"l{number}": 5 for number in range(200)},
    }
    metadata = outcome_metadata(stats) | figures_metadata(stats)

    assert len(json.dumps([dg.serialize_value(v) for v in metadata.values() if not isinstance(v, int)])) < 60_000


def test_long_words_of_a_table_can_be_broken_and_short_ones_are_left_alone() -> None:
    path = "site-packages/" + "deeply_nested/" * 6

    [record] = table([{"document": path, "text": "short words stay"}]).records

    assert max(map(len, record.data["document"].split("\u200b"))) == 24
    assert record.data["document"].replace("\u200b", "") == path
    assert record.data["text"] == "short words stay"


def test_the_audit_is_a_table_in_the_order_of_the_obligations() -> None:
    rows = [
        {"documents": 0, "found": "MIT 3", "met": True, "obligation": "licence", "required": "MIT"},
        {"documents": 3, "found": "US", "met": False, "obligation": "region", "required": "EU"},
    ]
    shown = outcome_metadata({"audit": rows})["audit"]
    assert [record.data["obligation"] for record in shown.records] == ["licence", "region"]
    assert list(shown.records[0].data) == ["obligation", "met", "required", "found", "documents"]
    assert "stats/audit" not in figures_metadata({"audit": rows})
