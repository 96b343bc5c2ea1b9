"""MediaWiki markup as text: what is kept, what goes, and that no markup takes more than linear time."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.ingest.formats.wikitext import plain_text


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("'''Bold''' and ''italic'' and '''''both'''''", "Bold and italic and both"),
        ("It's the cats' house", "It's the cats' house"),
        ("[[Berlin]], [[Berlin|the capital]], [[Berlin#History]]", "Berlin, the capital, Berlin#History"),
        ("[[Wikipedia:Help|]] and [[:Category:Towns]]", "Help and Category:Towns"),
        ("[[de:Berlin]][[zh-min-nan:Berlin]]", ""),
        ("word[[s]]less", "wordsless"),
        ("see [https://example.org the site] and [https://example.org]", "see the site and"),
        ("a [bracket] and a]", "a [bracket] and a]"),
        ("before {{cite|title=A|url={{x|{{y}}}}}} after", "before after"),
        ("a {{{1|default}}} b {{{{{2}}}}} c", "a b c"),
        ("x<!-- hidden\nlines -->y", "xy"),
        ('fact<ref>{{cite}} [[source]]</ref> two<ref name="a"/> three<ref name=b /> end', "fact two three end"),
        ("[[File:a.jpg|thumb|A [[caption]] with a [http://x link]]]text", "text"),
        ("[[Category:Towns]]text[[Image:b.png]]", "text"),
        ("before\n{| class=x\n|-\n| cell || {{t}}\n{|\n| inner\n|}\n|}\nafter", "before\n\nafter"),
        ("a<table><tr><td>cell</td></tr></table>b", "ab"),
        ("one<br />two<br>three", "one\ntwo\nthree"),
        ('<div class="x"><span>in</span></div>', "in"),
        ("H<sub>2</sub>O", "H2O"),
        ("* one\n** two\n# three\n:: indented\n; term", "• one\n• two\n• three\nindented\nterm"),
        ("a &amp; b&nbsp;c &lt;d&gt; &#8211; e", "a & b\u00a0c <d> – e"),
        ("<nowiki>[[not a link]] {{x}}</nowiki>", "[[not a link]] {{x}}"),
        ("so <math>x^{2}</math> is", "so x^{2} is"),
        ("<syntaxhighlight lang=c>\n#include <a.h>\n* p;\n</syntaxhighlight>", "    #include <a.h>\n    * p;"),
        ("__NOTOC__text__init__", "text__init__"),
        ("Ada ({{lang|x}}; {{y}}) was; call f()", "Ada was; call f()"),
        ("a\n----\nb", "a\n\nb"),
        ("", ""),
    ],
)
def test_markup_as_text(markup: str, text: str) -> None:
    assert plain_text(markup) == text


def test_headings_stand_alone_and_sections_without_text_go() -> None:
    markup = (
        "Intro\n== History ==\n=== Early ===\nText\n== Gallery ==\n<gallery>a.jpg</gallery>\n== See also ==\n{{x}}\n"
    )
    assert plain_text(markup) == "Intro\n\nHistory\n\nEarly\n\nText"


def test_what_never_closes_stays_as_in_mediawiki() -> None:
    assert plain_text("a {{b c") == "a {{b c"
    assert plain_text("a [[b c") == "a [[b c"
    assert plain_text("a }} b ]] c") == "a }} b ]] c"
    assert plain_text("a <ref>b c") == "a b c"
    assert plain_text("a <!-- b") == "a"


def test_a_template_left_open_in_a_table_ends_with_the_table() -> None:
    assert plain_text("a\n{|\n| {{small|x\n|}\nb") == "a\n\nb"


def test_many_open_links_do_not_hide_the_links_after_them() -> None:
    assert plain_text("[[ " * 30 + "[[a|b]]").endswith("b")


MARKS = (
    "{{ }} [[ ]] [[a| {{a| {| |} <ref> <b> <x <!-- '' [http://a ] { } = ==a (, <math> </table> <table> & __A [[File: "
    "{{{ * </ref <a&#"
)
HOSTILE = [*MARKS.split(" "), "\n{|", "\n|}", "\n=", "( ", "[http://a ", "== a ", "</ref "]


@pytest.mark.parametrize("opening", HOSTILE)
def test_no_markup_costs_more_than_linear_time(opening: str) -> None:
    """50,000 characters of each, with what may close it: in quadratic time all of them would take many minutes."""
    closing = "}}]]</ref>|}\n"
    plain_text(opening * (50_000 // len(opening)))
    plain_text(opening * (25_000 // len(opening)) + closing * (25_000 // len(closing)))
    for mark in ("}}", "]]", "</ref>", "\n|}"):
        plain_text((opening + "x" + mark) * (10_000 // len(opening)))


def test_deep_nesting_of_all_kinds() -> None:
    depth = 20_000
    assert plain_text("{{a|" * depth + "x" + "}}" * depth + "kept") == "kept"
    assert plain_text("<div>" * depth + "x" + "</div>" * depth).strip() == "x"


@given(st.lists(st.sampled_from([*HOSTILE, "text", " ", "\n", "|"]), max_size=30).map("".join))
def test_any_markup_becomes_text(markup: str) -> None:
    plain_text(markup).encode()


@given(st.text(alphabet=string.ascii_letters + "äß漢 .,", max_size=60))
def test_text_without_markup_stays(text: str) -> None:
    assert plain_text(text).split() == text.split()


def test_it_agrees_with_mwparserfromhell_on_ordinary_articles() -> None:
    mwparserfromhell = pytest.importorskip("mwparserfromhell", reason="the oracle is not installed")
    article = (
        "{{Infobox|name=X|born={{date|1900}}}}\n'''Ada Lovelace''' (1815&ndash;1852) was an [[England|English]] "
        "[[mathematician]].<ref>{{cite book|title=T}}</ref> She wrote ''Notes'' on the [[Analytical Engine]].\n\n"
        "== Life ==\nBorn in [[London]], see [https://example.org her letters].\n"
    )
    theirs = mwparserfromhell.parse(article)
    for tag in theirs.filter_tags(matches=lambda node: node.tag == "ref"):
        theirs.remove(tag)
    assert plain_text(article).split() == theirs.strip_code().split()
