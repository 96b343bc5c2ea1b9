"""JSON: lines and whole files, by a fast parser where it agrees with Python's own."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.ingest.formats.json import Values
from pipelines.ingest.formats.jsonl import json_record, parse_json
from pipelines.ingest.params import Source
from pipelines.ingest.records import Record, Reject, record_from

SOURCE = Source(name="s", path="x")


def by_python(line: bytes) -> tuple[Any, ...]:
    """What a line gives by Python's parser alone."""
    parsed = parse_json(line)
    if isinstance(parsed, Reject):
        return "reject", parsed.reason
    fields, repairs = parsed
    if not isinstance(fields, dict):
        return "reject", "not_an_object"
    made = record_from(fields, 0, SOURCE, 10**6)
    return ("reject", made.reason) if isinstance(made, Reject) else (made.text, made.metadata, repairs + made.repairs)


def by_both(line: bytes) -> tuple[Any, ...]:
    made = json_record(line, 0, SOURCE, 10**6)
    return ("reject", made.reason) if isinstance(made, Reject) else (made.text, made.metadata, made.repairs)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=()), max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["text", "a", "b", "é"]), VALUES))
def test_a_line_gives_what_pythons_parser_makes_of_it(fields: dict[str, Any]) -> None:
    for ascii_only in (True, False):
        line = json.dumps(fields, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
        assert by_both(line) == by_python(line)


@pytest.mark.parametrize(
    "line",
    [
        b'{"text": "a", "n": 18446744073709551616}',
        b'{"text": "a", "n": [-9223372036854775809, {"x": 1e999}]}',
        b'{"text": "a", "n": 12345678901234567890123456789}',
        b'{"text": "a", "n": NaN, "m": -Infinity}',
        b'{"text": "a", "text": "b", "n": 1, "n": 2}',
        b'{"text": "a\tb\x01"}',
        b'{"text": "\\ud835"}',
        b'{"text": "\xff"}',
        b'{"text": "\xed\xa0\x80 is one of a thousand characters' + b"." * 1000 + b'"}',
        b'{"text": "a", "x": ' + b"[" * 300 + b"]" * 300 + b"}",
        b'{"text": "a", "x": 0.1, "y": 1e22, "z": 1E400, "w": -0.0}',
        b'{"text": "a"} ',
        b'{"text": "a"} x',
        b'{"text": "a",}',
        b'{"text": "\\u0000"}',
        b"'text'",
    ],
)
def test_what_the_fast_parser_refuses_or_rounds_is_left_to_pythons(line: bytes) -> None:
    assert by_both(line) == by_python(line)


def test_an_array_of_records_is_read_one_by_one(folder: Path, read: Callable) -> None:
    (folder / "a.json").write_text('[\n  {"text": "one, [two]", "n": {"x": [1]}},\n  {"text": "quoted \\"}\\""}\n]\n')
    got = read()
    assert got.texts == {"a.json#0": "one, [two]", "a.json#1": 'quoted "}"'}
    assert got.documents[0]["metadata"] == '{"n":{"x":[1]}}'


def test_a_bad_value_in_an_array_costs_that_value_only(folder: Path, read: Callable) -> None:
    (folder / "a.json").write_text('[{"text": "one"}, {"text": oops}, 5, {"text": "four"}]')
    got = read()
    assert got.texts == {"a.json#0": "one", "a.json#3": "four"}
    assert got.reasons == {"a.json#1": "invalid_json", "a.json#2": "not_an_object"}
    assert [row["detail"][:10] for row in got.rejects] == ["at byte 18", "at byte 34"]


def test_an_object_is_a_record_or_holds_records(folder: Path, read: Callable) -> None:
    (folder / "alone.json").write_text('{\n "text": "alone",\n "list": [{"text": "inner"}]\n}')
    (folder / "data.json").write_text('{"version": 1, "data": [{"text": "one"}, {"text": "two"}]}')
    (folder / "named.json").write_text('{"x": {"text": "first"}, "y": {"text": "second"}}')
    (folder / "several.json").write_text('{\n"text": "a"}\n{\n"text": "b"}')
    got = read()
    assert got.texts == {
        "alone.json#0": "alone",
        "data.json#0": "one",
        "data.json#1": "two",
        "named.json#0": "first",
        "named.json#1": "second",
        "several.json#0": "a",
        "several.json#1": "b",
    }
    assert [row["metadata"] for row in got.documents if row["uri"].startswith("named")] == [
        '{"key":"x"}',
        '{"key":"y"}',
    ]


def test_of_an_object_in_an_object_its_own_fields_are_told(folder: Path, read: Callable) -> None:
    (folder / "a.json").write_text('{"train": {"a": {"text": "deep"}}, "test": {"text": "flat"}}')
    got = read()
    assert got.texts == {"a.json#1": "flat"}
    [reject] = got.rejects
    assert reject["detail"] == "at byte 0: in the object 'train': no text in the field 'text'; it has a"


def test_an_array_of_strings_holds_texts(folder: Path, read: Callable) -> None:
    (folder / "a.json").write_text('["one", "two, three"]')
    assert read().texts == {"a.json#0": "one", "a.json#1": "two, three"}


def test_json_that_ends_in_the_middle_keeps_what_was_whole(folder: Path, read: Callable) -> None:
    (folder / "a.json").write_text('[{"text": "one"}, {"text": "tw')
    (folder / "b.json").write_text('[{"text": "one"},')
    got = read()
    assert got.texts == {"a.json#0": "one", "b.json#0": "one"}
    assert got.reasons == {"a.json": "damaged_file", "b.json": "damaged_file"}


def test_a_value_that_is_too_large_is_passed_over(folder: Path, read: Callable) -> None:
    (folder / "a.json").write_text('[{"text": "small"}, {"text": "%s"}, {"text": "after"}]' % ("x" * 5000))
    got = read(max_document_megabytes=0.001)
    assert got.texts == {"a.json#0": "small", "a.json#2": "after"}
    assert got.reasons == {"a.json#1": "too_large"}


def test_json_by_another_name_and_lines_by_the_name_json(folder: Path, read: Callable) -> None:
    (folder / "array.txt").write_text('[{"text": "array"}]')
    (folder / "lines.json").write_text('{"text": "one"}\n{"text": "two"}\n')
    (folder / "pretty.dat").write_text('{\n  "text": "pretty"\n}\n')
    assert sorted(read().texts.values()) == ["array", "one", "pretty", "two"]


@given(st.lists(VALUES, max_size=5), st.integers(1, 7), st.sampled_from([None, 1]), st.booleans())
def test_however_the_bytes_arrive_the_values_are_the_same(
    values: list[Any], block: int, indent: int | None, in_array: bool
) -> None:
    parts = [json.dumps(value if in_array else {"v": value}, indent=indent) for value in values]
    data = (f"[{', '.join(parts)}]" if in_array else "\n".join(parts)).encode("utf-8", "surrogatepass")

    class Slow(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(block)

    found = [value for _, value in Values(Slow(data), 10**6)]
    assert [json.loads(value) for value in found if isinstance(value, bytes)] == [
        json.loads(part) for part in parts
    ] or ("NaN" in data.decode("utf-8", "replace"))
    for offset, value in Values(io.BytesIO(data), 10**6):
        assert isinstance(value, bytes) and data[offset:].startswith(value)


def test_a_record_made_by_the_fast_parser_needs_no_repair() -> None:
    assert json_record(orjson.dumps({"text": "é😀\0"}), 3, SOURCE, 100) == Record("3", "é😀\0")


@pytest.mark.parametrize("depth", [100, 300, 900, 980, 1000, 1020, 1030, 20_000])
@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_values_of_any_depth_are_read_or_rejected(folder: Path, read: Callable, depth: int, name: str) -> None:
    deep = f'{{"text": "a", "x": {"[" * depth}{"]" * depth}}}'
    (folder / name).write_text(f'{deep}\n{{"text": "b"}}\n')
    got = read()
    assert got.texts[f"{name}#1"] == "b"
    assert got.reasons.get(f"{name}#0", "invalid_json") == "invalid_json"
    assert len(got.documents) + len(got.rejects) == 2
