"""Dates of records: however a source writes them, ISO 8601 where they can be read."""

from datetime import UTC, date, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

LARGEST_SECONDS = 100_000_000_000
"""A larger number (the year 5138 in seconds) counts milliseconds, and a thousand times larger one microseconds."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def iso_date(value: Any) -> Any:
    """A date as ISO 8601 text; the value as it was given where it cannot be read as one.

    Read are `date` and `datetime`, ISO 8601, YYYYMMDDhhmmss as web archives write it, the date of an e-mail (RFC 5322),
    and numbers: seconds since 1970, or milliseconds or microseconds where they are too large; four digits are a year. A
    time without a zone stays without one.
    """
    if isinstance(value, date):  # a datetime is one
        return value.isoformat()
    if isinstance(value, str):
        return _from_text(value.strip(), value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _from_number(value)
    return value


def _from_text(text: str, given: str) -> str:
    try:
        if len(text) == 14 and text.isdecimal():
            return datetime.strptime(text, "%Y%m%d%H%M%S").replace(tzinfo=UTC).isoformat()
        if len(text) == 10 or (len(text) == 8 and text.isdecimal()):
            return date.fromisoformat(text).isoformat()
        if "," in text or text[:3].isalpha():
            return parsedate_to_datetime(text).isoformat()
        return datetime.fromisoformat(text).isoformat()
    except (ValueError, TypeError, IndexError, OverflowError):
        return given


def _from_number(value: int | float) -> Any:
    if isinstance(value, int) and 1000 <= value <= 9999:
        return str(value)
    scale = 1
    while abs(value) > LARGEST_SECONDS * scale and scale < 1_000_000:
        scale *= 1000
    try:
        return (_EPOCH + timedelta(seconds=value / scale)).isoformat()
    except (ValueError, OverflowError):
        return value
