"""A price book with round rates: one core-second costs one cent."""

import datetime
from decimal import Decimal

from pipelines.prices.book import Energy, Figure, PriceBook, Rate

DAY = datetime.date(2026, 1, 1)


def figure(value: float) -> Figure:
    return Figure(value=value, date=DAY, source="a test")


BOOK = PriceBook(
    name="cents",
    core_hour=Rate(usd="36", provider="test", region="here", purchase="on demand", date=DAY, source="a test"),
    energy=Energy(core_watts=figure(3.5), gpu_load=figure(0.5), pue=figure(1.1), kg_co2e_per_kwh=figure(0.4)),
)

CENT = Decimal("0.01")
