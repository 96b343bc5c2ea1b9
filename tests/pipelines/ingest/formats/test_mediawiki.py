"""MediaWiki dumps: which pages become documents, and what a broken dump costs."""

import bz2
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from .reading import damage, items, reasons, records

SITE = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="de">
  <siteinfo><sitename>Wikipedia</sitename><namespaces>
    <namespace key="0" case="first-letter" /><namespace key="6" case="first-letter">Datei</namespace>
    <namespace key="14" case="first-letter">Kategorie</namespace>
  </namespaces></siteinfo>
"""


def page(title: str, number: int, text: str, *, namespace: int = 0, more: str = "") -> str:
    return f"""<page><title>{title}</title><ns>{namespace}</ns><id>{number}</id>{more}
    <revision><id>{number}0</id><timestamp>2024-01-02T03:04:05Z</timestamp>
      <contributor><username>Somebody</username><id>99</id></contributor>
      <model>wikitext</model><format>text/x-wiki</format>
      <text bytes="{len(text)}" xml:space="preserve">{text}</text></revision></page>
"""


def dump(*pages: str) -> bytes:
    return (SITE + "".join(pages) + "</mediawiki>\n").encode()


def test_an_article_is_a_document_keyed_by_its_page_id() -> None:
    data = dump(page("Ada &amp; Grace", 12, "'''Ada''' met [[Grace Hopper|Grace]] &lt;ref&gt;no&lt;/ref&gt;."))
    [record] = items("mediawiki", data)
    assert (record.key, record.text) == ("12", "Ada met Grace .")
    assert json.loads(record.metadata or "") == {
        "title": "Ada & Grace",
        "url_title": "Ada_&_Grace",
        "date": "2024-01-02T03:04:05Z",
        "revision": "120",
    }


def test_a_compressed_dump_reads_the_same() -> None:
    data = dump(page("A", 1, "one"), page("B", 2, "two"))
    assert items("mediawiki", bz2.compress(data)) == items("mediawiki", data)


def test_other_namespaces_and_redirects_are_counted_and_are_no_damage() -> None:
    given = items(
        "mediawiki",
        dump(
            page("A", 1, "an article"),
            page("Talk:A", 2, "talk", namespace=1),
            page("Vorlage:X", 3, "template", namespace=10),
            page("Vorlage:Y", 4, "template", namespace=10),
            page("B", 5, "#REDIRECT [[A]]", more='<redirect title="A" />'),
            page("Old dump", 6, "#redirect [[A]]"),
        ),
    )
    assert [record.key for record in records(given)] == ["1"]
    assert {item.reason: item.detail for item in given[1:]} == {
        "other_namespace": "3 pages of other namespaces: 2 of 10, 1 of 1",
        "redirect": "2 pages only point to another",
    }
    assert damage(given) == []


def test_files_and_categories_are_known_by_the_names_that_the_wiki_gives_them() -> None:
    text = "[[Datei:x.jpg|mini|Ein Bild]]Text[[Kategorie:Ort]] [[File:y.jpg]]"
    assert [record.text for record in items("mediawiki", dump(page("A", 1, text)))] == ["Text"]


def test_of_several_revisions_the_last_one_counts() -> None:
    old = "<revision><id>1</id><text>old</text></revision>"
    [record] = items("mediawiki", dump(page("A", 1, "new", more=old)))
    assert record.text == "new"
    assert json.loads(record.metadata or "")["revisions"] == 2


def test_a_page_without_text_one_too_large_and_a_repeated_one_are_rejected() -> None:
    given = items(
        "mediawiki",
        dump(page("A", 1, "{{stub}}"), page("B", 2, "x" * 3000), page("C", 3, "kept"), page("C", 3, "again")),
        max_bytes=2000,
    )
    assert [record.text for record in records(given)] == ["kept"]
    assert reasons(given) == [("1", "empty_text"), ("2", "too_large"), ("3", "duplicate_id")]


def test_a_rejected_page_does_not_claim_its_id() -> None:
    given = items("mediawiki", dump(page("A", 1, "{{stub}}"), page("A", 1, "kept"), page("A", 1, "{{stub}}")))
    assert [record.text for record in records(given)] == ["kept"]
    assert reasons(given) == [("1", "empty_text"), ("1", "empty_text")]


def test_a_truncated_dump_keeps_what_was_read_and_is_one_damage() -> None:
    data = dump(page("A", 1, "one"), page("B", 2, "two"))
    cut = data[: data.index(b"two") + 2]
    given = items("mediawiki", cut)
    assert [record.text for record in records(given)] == ["one"]
    assert reasons(given) == [(None, "damaged_file")]


def test_a_truncated_archive_says_so() -> None:
    packed = bz2.compress(dump(*(page(f"P{number}", number, f"text {number}") for number in range(2000))))
    given = items("mediawiki", packed[: len(packed) // 2])
    assert damage(given)[-1] == (None, "damaged_file")
    assert "compressed data ends" in given[-1].detail


def test_xml_that_breaks_in_the_middle_keeps_what_was_before() -> None:
    data = dump(page("A", 1, "one"), page("B", 2, "t\x00wo"), page("C", 3, "three"))
    given = items("mediawiki", data)
    assert [record.text for record in records(given)] == ["one"]
    assert reasons(given) == [(None, "damaged_file")]


@pytest.mark.parametrize(
    "hostile",
    [
        '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><mediawiki>&b;</mediawiki>',
        '<!DOCTYPE x SYSTEM "file:///etc/passwd"><mediawiki></mediawiki>',
        "<a>" * 10_000,
        "<mediawiki><page><title " + "x" * 400_000,
    ],
    ids=["entities", "external entity", "depth", "endless tag"],
)
def test_hostile_xml_is_one_rejection(hostile: str) -> None:
    assert reasons(items("mediawiki", hostile.encode(), max_bytes=100_000)) == [(None, "damaged_file")]


@given(st.data())
def test_any_cut_and_any_changed_byte_gives_records_or_rejections(data: st.DataObject) -> None:
    whole = bytearray(dump(page("A", 1, "one [[b|c]] {{d}}"), page("B", 2, "two")))
    for _ in range(data.draw(st.integers(0, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    given = items("mediawiki", bytes(whole[: data.draw(st.integers(1, len(whole)))]))
    assert given  # two pages, or a rejection that says why not
    assert len(records(given)) == 2 or reasons(given)
