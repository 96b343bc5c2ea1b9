"""Values of metadata that Dagster's pages can show: finite numbers, integers of 32 bits, small tables."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

Metadata = dict[str, Any]

MOST_ROWS = 40

LONG_WORD, PIECE = re.compile(r"\S{25,}"), re.compile(r".{1,24}")


def number(value: Any) -> dg.FloatMetadataValue:
    """A finite float. Raises `ValueError` for NaN and infinity, which would hang Dagster's pages."""
    plain = float(value)
    if not math.isfinite(plain):
        raise ValueError(f"metadata must be finite, not {plain}")
    return dg.FloatMetadataValue(plain)


def integer(value: int) -> Any:
    """An integer; as a float where it does not fit the 32 bits of Dagster's API, which could not plot it otherwise."""
    return int(value) if abs(value) < 2**31 else number(value)


def table(rows: Sequence[Mapping[str, Any]]) -> dg.TableMetadataValue:
    """Rows with the same columns, as people read them; of more than `MOST_ROWS` the first, and how many follow."""
    columns = list(rows[0])
    records = [dg.TableRecord({column: breakable(cell(row[column])) for column in columns}) for row in rows[:MOST_ROWS]]
    if len(rows) > MOST_ROWS:
        more = f"… and {len(rows) - MOST_ROWS:,} more"
        records.append(dg.TableRecord(dict.fromkeys(columns, "") | {columns[0]: more}))
    schema = dg.TableSchema([dg.TableColumn(column, "string") for column in columns])
    return dg.TableMetadataValue(records, schema)


def breakable(text: str) -> str:
    """A text that a page can break: words that would widen its table for themselves get invisible places to do so."""
    return LONG_WORD.sub(lambda word: "\u200b".join(PIECE.findall(word[0])), text)


def cell(value: Any) -> str:
    """A value in a table: 1,234,567 for an integer, four digits for a float."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 10_000 else f"{value:,.0f}"
    return ", ".join(map(cell, value)) if isinstance(value, list) else str(value)


def share(part: float, whole: float) -> str:
    """A share as people read it: 12.3 %; what is not nothing never reads as 0 %, what is not all never as 100 %."""
    if not whole or part in (0, whole):
        return "100 %" if whole and part == whole else "0 %"
    percent = 100 * part / whole
    return "< 0.1 %" if percent < 0.1 else f"{min(percent, 99.9):.1f} %"
