"""Which documents a removal means."""

import json

import pytest

from pipelines.removals import Criterion, Removal, Removals, criteria_from, hash_of, host_of

ID = "0123456789abcdef" * 2


def removal(*criteria: tuple[str, str], texts: tuple[str, ...] = (), files: tuple = (), name: str = "r1") -> Removal:
    return Removal(name, 0.0, "asked", tuple(Criterion(*one) for one in criteria), texts=texts, files=files)


@pytest.mark.parametrize(
    ("kind", "pattern", "uri", "fields", "meant"),
    [
        ("document", ID, "a.jsonl#0", {}, True),
        ("document", ID[::-1], "a.jsonl#0", {}, False),
        ("uri", "a.jsonl#0", "a.jsonl#0", {}, True),
        ("uri", "a.jsonl", "a.jsonl#0", {}, False),
        ("uri", "https://x.org/p", "a.warc#7", {"url": "https://x.org/p"}, True),
        ("glob", "mail/*#*", "mail/2020/a.txt#0", {}, True),
        ("glob", "https://x.org/~ann/*", "a.warc#7", {"url": "https://x.org/~ann/cv.html"}, True),
        ("glob", "MAIL/*", "mail/a.txt#0", {}, False),
        ("domain", "x.org", "a.warc#7", {"url": "https://x.org/p"}, True),
        ("domain", "X.org", "a.warc#7", {"url": "http://www.x.org:8080/p"}, True),
        ("domain", "x.org", "a.warc#7", {"url": "https://box.org/p"}, False),
        ("domain", "x.org", "a.warc#7", {"url": "https://y.org/?from=x.org"}, False),
        ("domain", "x.org", "x.org/a.txt#0", {}, False),
        ("domain", "x.org", "a.warc#7", {"url": "http://[broken"}, False),
        ("domain", "x.org", "a.warc#7", {"url": 7}, False),
        ("domain", "x.org", "a.jsonl#https://www.x.org/1", {}, False),  # of an archive's or a table's own id: see url
        ("domain", "x.org", "a.warc#7", {"url": "www.x.org/p"}, True),
        ("domain", "x.org", "a.warc#7", {"url": "//x.org/p"}, True),
        ("domain", "bücher.de", "a.warc#7", {"url": "https://xn--bcher-kva.de/"}, True),
        ("domain", "xn--bcher-kva.de", "a.warc#7", {"url": "https://www.Bücher.de/"}, True),
        ("publisher", "The Daily", "a#0", {"publisher": "the daily"}, True),
        ("publisher", "The Daily", "a#0", {"publisher": ["Others", "The daily"]}, True),
        ("publisher", "The Daily", "a#0", {"author": "the daily"}, False),
    ],
)
def test_what_a_criterion_means(kind: str, pattern: str, uri: str, fields: dict, meant: bool) -> None:
    asked = Removals((removal((kind, pattern)),))
    found = asked.met_by(ID, uri, "text", json.dumps(fields) if fields else None)
    assert (found is not None) == meant


def test_a_text_is_meant_at_any_address() -> None:
    asked = Removals((removal(("document", ID), texts=(hash_of("the letter"),)),))
    assert asked.met_by("f" * 32, "elsewhere#3", "the letter", None)
    assert not asked.met_by("f" * 32, "elsewhere#3", "the letters", None)


def test_only_files_that_held_something_are_read_again() -> None:
    asked = Removals((removal(("domain", "x.org"), files=(("web", "a.warc"),)), removal(("uri", "b#0"), name="r0")))
    assert asked.of_files("web", ["a.warc", "b.warc"]) == ["r1"]
    assert asked.of_files("web", ["b.warc"]) == asked.of_files("books", ["a.warc"]) == []


def test_a_removal_survives_its_record() -> None:
    asked = removal(("domain", "x.org"), ("glob", "*x*"), texts=("t",), files=(("web", "a"),))
    assert Removal.of(json.loads(json.dumps(asked.record()))) == asked


@pytest.mark.parametrize(
    ("kind", "pattern", "told"),
    [
        ("glob", "*", "every document"),
        ("glob", "**/*#*", "every document"),
        ("uri", "  ", "every document"),
        ("domain", "https://x.org/p", "the host alone, for example x.org"),
        ("domain", "*.x.org", "the host alone"),
        ("domain", "x.org:8443", "the host alone"),
        ("document", "0123", "whole id"),
        ("document", "g" * 32, "whole id"),
    ],
)
def test_a_criterion_that_means_everything_or_nothing_is_refused(kind: str, pattern: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        criteria_from({kind: [pattern]})


def test_hosts() -> None:
    assert host_of("https://WWW.x.org./p") == "www.x.org"
    assert host_of("x.org/p") == host_of("http://[") == ""
