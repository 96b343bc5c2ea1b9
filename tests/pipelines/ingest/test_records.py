"""What becomes of a record's fields, its dates above all."""

import datetime
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.ingest.dates import iso_date
from pipelines.ingest.params import Source
from pipelines.ingest.records import Record, Reject, record_from


def record(fields: dict[str, Any], **mapped: str) -> Record:
    made = record_from(fields, 0, Source(name="s", path="x", fields=mapped), 1000)
    assert isinstance(made, Record)
    return made


def test_url_and_date_stand_under_these_names_in_the_metadata() -> None:
    fields = {"text": "a", "link": "https://a.example/", "crawled": "2024-05-06T07:08:09Z", "n": 1}
    made = record(fields, url="link", date="crawled")
    assert json.loads(made.metadata or "") == {"url": "https://a.example/", "date": "2024-05-06T07:08:09+00:00", "n": 1}
    assert fields["link"] == "https://a.example/"  # what was given stays as it is


def test_a_field_that_is_mapped_and_missing_leaves_no_trace() -> None:
    assert record({"text": "a"}, url="link", date="crawled").metadata is None


def test_a_mapped_url_wins_over_a_field_of_that_name() -> None:
    assert json.loads(record({"text": "a", "url": "x", "link": "y"}, url="link").metadata or "") == {"url": "y"}


def test_an_id_that_is_a_url_stands_in_the_metadata_too() -> None:
    url = "HTTPS://a.example/x"
    for mapped in ({"id": "url"}, {"id": "url", "url": "url"}, {"id": "link"}, {"id": "link", "url": "gone"}):
        made = record({"text": "a", mapped["id"]: url}, **mapped)
        assert (made.key, json.loads(made.metadata or "")) == (url, {"url": url})


def test_another_url_wins_over_an_id_that_is_one() -> None:
    fields = {"text": "a", "doi": "https://doi.example/1", "link": "https://a.example/"}
    assert json.loads(record(fields, id="doi", url="link").metadata or "") == {"url": "https://a.example/"}
    fields["url"] = fields.pop("link")
    assert json.loads(record(fields, id="doi").metadata or "") == {"url": "https://a.example/"}


def test_a_field_without_a_name_is_neither_url_nor_date() -> None:
    made = record({"text": "a", "n": 7, "": "x"}, id="n")
    assert made.metadata == '{"":"x"}'


def test_an_id_that_is_no_url_is_one_only_where_it_is_mapped_so() -> None:
    assert record({"text": "a", "n": "mailto:a"}, id="n").metadata is None
    assert json.loads(record({"text": "a", "n": 7}, id="n", url="n", date="n").metadata or "") == {
        "url": 7,
        "date": "1970-01-01T00:00:07+00:00",
    }


@pytest.mark.parametrize("name", ["license", "licence"])
def test_a_records_own_licence_counts_where_none_is_mapped(name: str) -> None:
    made = record({"text": "a", name: "CC-BY-4.0"})
    assert (made.license, made.metadata) == ("CC-BY-4.0", None)
    made = record({"text": "a", name: "CC-BY-4.0", "terms": "MIT"}, license="terms")
    assert (made.license, made.metadata) == ("MIT", f'{{"{name}":"CC-BY-4.0"}}')


@pytest.mark.parametrize("value", [["MIT"], None, "", " ", 4, "Permission is granted. " * 100])
def test_what_is_no_name_of_a_licence_stays_in_the_metadata(value: Any) -> None:
    made = record({"text": "a", "license": value})
    assert made.license is None
    assert json.loads(made.metadata or "") == {"license": value}
    assert record({"text": "a", "license": value, "licence": "MIT"}).license == "MIT"


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"text": None, "n": 1}, "the text in the field 'text' is null"),
        ({"body": "a", "n": 1}, "no text in the field 'text'; it has body, n"),
    ],
)
def test_null_is_told_from_a_field_that_is_not_there(fields: dict[str, Any], told: str) -> None:
    made = record_from(fields, 0, Source(name="s", path="x"), 1000)
    assert isinstance(made, Reject)
    assert (made.reason, made.detail) == ("missing_field", told)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"text": "a", "n": None}, "the id in the field 'n' is null"),
        ({"text": "a", "n": ""}, "the id in the field 'n' is empty"),
        ({"text": "a"}, "no id in the field 'n'; it has text"),
    ],
)
def test_an_id_that_is_missing_is_told(fields: dict[str, Any], told: str) -> None:
    made = record_from(fields, 0, Source(name="s", path="x", fields={"id": "n"}), 1000)
    assert isinstance(made, Reject)
    assert (made.reason, made.detail) == ("missing_field", told)


@pytest.mark.parametrize(
    ("given", "iso"),
    [
        ("2024-05-06", "2024-05-06"),
        ("20240506", "2024-05-06"),
        ("2024-05-06T07:08:09Z", "2024-05-06T07:08:09+00:00"),
        ("2024-05-06 07:08:09.5", "2024-05-06T07:08:09.500000"),
        ("2024-05-06T07:08:09+0200", "2024-05-06T07:08:09+02:00"),
        ("20240506070809", "2024-05-06T07:08:09+00:00"),
        ("Mon, 06 May 2024 07:08:09 GMT", "2024-05-06T07:08:09+00:00"),
        (1714979289, "2024-05-06T07:08:09+00:00"),
        (1714979289.5, "2024-05-06T07:08:09.500000+00:00"),
        (1714979289000, "2024-05-06T07:08:09+00:00"),
        (1714979289000000, "2024-05-06T07:08:09+00:00"),
        (0, "1970-01-01T00:00:00+00:00"),
        (1999, "1999"),
        (datetime.date(2024, 5, 6), "2024-05-06"),
        (datetime.datetime(2024, 5, 6, 7, 8, 9, tzinfo=datetime.UTC), "2024-05-06T07:08:09+00:00"),
        ("soon", "soon"),
        ("2024-13-40", "2024-13-40"),
        ("Mon, 99 May 2024", "Mon, 99 May 2024"),
        (True, True),
        (10**40, 10**40),
        (float("nan"), float("nan")),
        ({"year": 2024}, {"year": 2024}),
    ],
)
def test_dates_become_iso_8601_where_they_can_be_read(given: Any, iso: Any) -> None:
    assert repr(iso_date(given)) == repr(iso)


@given(st.none() | st.text() | st.integers() | st.floats() | st.lists(st.integers()))
def test_no_date_is_too_strange(value: Any) -> None:
    told = iso_date(value)
    assert isinstance(told, str) or repr(told) == repr(value)


@given(st.datetimes(timezones=st.none() | st.just(datetime.UTC)))
def test_iso_8601_is_what_it_was(moment: datetime.datetime) -> None:
    assert iso_date(moment.isoformat()) == iso_date(moment) == moment.isoformat()
