"""CSV as spreadsheets write it: separators, line ends, and columns of the same name."""

import gzip
import json
from random import Random
from typing import Any

import pytest

from pipelines.ingest.records import Record, Reject

from .reading import items, reasons, records


def rows(data: str | bytes, **source: Any) -> list[tuple[str, dict[str, Any]]]:
    """Text and other fields of every row; there must be no rejection."""
    given = items("csv", data.encode() if isinstance(data, str) else data, **source)
    assert reasons(given) == []
    return [(item.text, json.loads(item.metadata or "{}")) for item in records(given)]


def rejections(data: str, **source: Any) -> list[tuple[str, str]]:
    return [(item.reason, item.detail) for item in items("csv", data.encode(), **source) if isinstance(item, Reject)]


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ('"a;b;c;d",text\nx,y\n', "a;b;c;d"),
        ('text;"a,b,c"\ny;x\n', "a,b,c"),
        ('"a ""quoted"";;;",text\nx,y\n', 'a "quoted";;;'),
        ('size 5";text\nx;y\n', 'size 5"'),
        ('"",text\nx,y\n', ""),
        ('text,"two;;;\nlines;;;"\ny,x\n', "two;;;\nlines;;;"),
    ],
)
def test_the_separator_is_counted_outside_of_quotes(data: str, name: str) -> None:
    assert rows(data) == [("y", {name: "x"})]


@pytest.mark.parametrize("line", ["sep=;\n", "\ufeffsep=;\r\n"])
def test_a_first_line_may_name_the_separator(line: str) -> None:
    assert rows(line + "text;a,b,c\ny;1\n") == [("y", {"a,b,c": "1"})]


def test_a_column_called_sep_is_no_separator() -> None:
    assert rows("sep=x,text\n1,y\n") == [("y", {"sep=x": "1"})]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-16-be"])
def test_lines_may_end_with_carriage_returns_alone(encoding: str) -> None:
    data = 'text,n\rone,1\r"two, and\rthree",2\r'.encode(encoding)
    assert rows(data) == [("one", {"n": "1"}), ("two, and\nthree", {"n": "2"})]


def test_the_place_of_a_row_is_told_where_lines_end_with_carriage_returns() -> None:
    [(reason, detail)] = rejections("text,n\rone\rtwo,2\r")
    assert reason == "wrong_columns"
    assert detail.startswith("the row from line 2 at byte 7 ")


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("a\rb,1\n", "a carriage return stands in a field without quotes"),
        ('"a" b,1\n', "a closing quote is followed by more than a separator"),
        ('"a,1\n', "a quote is opened and never closed"),
        ('"' + "a\n" * 60 + '",1\n', "a field has more than 100 characters"),
    ],
)
def test_what_is_wrong_with_a_row_is_told_in_our_words(row: str, told: str) -> None:
    [first, *_] = items("csv", f"text,n\n{row}".encode(), max_bytes=100)
    assert isinstance(first, Reject)
    assert (first.reason, first.detail.partition(": ")[2]) == ("invalid_csv", told)


def test_a_header_that_cannot_be_read_is_told_with_its_own_reason() -> None:
    [(reason, detail)] = rejections('"text,n\none,1\n')
    assert reason == "invalid_csv"
    assert detail == "the header cannot be read: a quote is opened and never closed"


def test_a_header_that_damage_cuts_off_is_damage() -> None:
    random = "".join(chr(97 + byte % 26) + "\n" * (byte % 5 == 0) for byte in Random(1).randbytes(5000))
    given = items("csv", gzip.compress(f'"{random}",text\na,b\n'.encode())[:-200])
    assert reasons(given) == [(None, "damaged_file")]


def test_columns_of_the_same_name_are_told_apart() -> None:
    assert rows("text,n,n,n_2,n\ny,1,2,3,4\n") == [("y", {"n": "1", "n_3": "2", "n_2": "3", "n_4": "4"})]


@pytest.mark.parametrize(
    ("header", "fields", "name"),
    [
        ("name,text,text", {}, "text"),
        ("text,id,id", {"id": "id"}, "id"),
        ("text,link,link", {"url": "link"}, "link"),
        ("text,terms,terms", {"license": "terms"}, "terms"),
    ],
)
def test_a_mapped_column_that_is_there_twice_is_an_error(header: str, fields: dict[str, str], name: str) -> None:
    [(reason, detail)] = rejections(f"{header}\n1,2,3\n", fields=fields)
    assert reason == "ambiguous_column"
    assert detail == f"2 columns are called {name!r}, and one of them is to be read; rename the others"


def test_an_unclosed_header_of_quotes_ends() -> None:
    given = items("csv", b'"' * 900_000 + b"\n" + b"a,b\n")
    assert not any(isinstance(item, Record) for item in given)
