"""What filters are worth, for people: how good each is against what it costs, projected to the corpus.

What was measured stands in the stats of `filter_benchmark` (`pipelines/filters/comparison.py`), in quantities; dollars
are those of the price book.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import dagster as dg

from assets import plots
from assets.values import Metadata, cell, number, table
from pipelines.costs.report import dollars
from pipelines.filters.statistics import Estimate
from pipelines.prices.book import PriceBook
from pipelines.usage import Usage

MILLION = 1_000_000


def worth_metadata(stats: Mapping[str, Any], prices: PriceBook) -> Metadata:
    """The table, the cheapest first, the plot of cost against F1, and figures to follow over time; nothing where no
    filter was measured."""
    measured = dict(sorted(stats.get("measured", {}).items(), key=lambda item: usd_per_million(item[1], prices)))
    if not measured:
        return {}
    metadata: Metadata = {
        "what filters are worth": table([row(name, found, stats["corpus"], prices) for name, found in measured.items()])
    }
    points = {
        name: (float(usd_per_million(found, prices)), *(found["f1"][key] for key in ("value", "low", "high")))
        for name, found in measured.items()
        if found["f1"]
    }
    if svg := plots.scatter(points):
        metadata["plot/F1 by dollars per million documents"] = dg.MarkdownMetadataValue(plots.image("F1 by cost", svg))
    for name, found in measured.items():
        key = f"filters/{name.replace(' ', '_')}"
        metadata[f"{key}/usd_per_million"] = number(usd_per_million(found, prices))
        if found["f1"]:
            metadata[f"{key}/f1"] = number(found["f1"]["value"])
    return metadata


def row(name: str, found: Mapping[str, Any], corpus: Mapping[str, int], prices: PriceBook) -> dict[str, str]:
    """One filter. Projected by bytes of text: documents of the corpus may be longer than those of the sample."""
    times = corpus["bytes"] / max(found["bytes"], 1)
    wall = found["usage"]["wall_seconds"]
    return {
        "filter": name,
        "F1": _told(found["f1"]),
        "precision": _told(found["precision"]),
        "recall": _told(found["recall"]),
        "AUC": _told(found["auc"]),
        "threshold": "none: everything goes" if found["threshold"] is None else cell(found["threshold"]),
        "ms per document": cell(1000 * wall / found["documents"]),
        "peak MB": cell(round(found["peak_memory_bytes"] / 1e6)),
        "$ per million documents": dollars(usd_per_million(found, prices)),
        f"$ for {corpus['documents']:,} documents": dollars(usd_of(found, prices) * Decimal(times)),
        "minutes for these, one process": cell(wall * times / 60),
        "without a score": cell(found["unscored"]),
    }


def usd_of(found: Mapping[str, Any], prices: PriceBook) -> Decimal:
    """What the measured half cost. Raises `PriceError` for a GPU that the book has no price for."""
    return prices.price(Usage.from_record(found["usage"])).usd


def usd_per_million(found: Mapping[str, Any], prices: PriceBook) -> Decimal:
    """Dollars for a million documents like those of the sample."""
    return usd_of(found, prices) * MILLION / found["documents"]


def _told(estimate: Mapping[str, float] | None) -> str:
    return "" if estimate is None else str(Estimate(**estimate))
