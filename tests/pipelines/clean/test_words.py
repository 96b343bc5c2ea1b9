"""How words are cut. What spaCy's English tokenizer makes of the examples was looked up with spaCy 3.8."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.clean.words import cut
from tests.pipelines.clean import reference

AS_SPACY = [
    ("Hello, world!", ["Hello", ",", "world", "!"]),
    ("  two\n\nlines\t", ["two", "lines"]),
    (
        "I don't, she can't and they cannot.",
        ["I", "do", "n't", ",", "she", "ca", "n't", "and", "they", "can", "not", "."],
    ),
    ("It’s Bob's", ["It", "’s", "Bob", "'s"]),
    ("e.g. the U.S. (i.e. Dr. No)", ["e.g.", "the", "U.S.", "(", "i.e.", "Dr.", "No", ")"]),
    ("well-known and/or 3-4 a--b", ["well", "-", "known", "and/or", "3", "-", "4", "a", "--", "b"]),
    ("5km 10% 3.5GB $20 20€", ["5", "km", "10", "%", "3.5", "GB", "$", "20", "20", "€"]),
    ("wait... really…no", ["wait", "...", "really", "…", "no"]),
    ("see https://example.org/a-b_c?d=e, please", ["see", "https://example.org/a-b_c?d=e", ",", "please"]),
    ("me@example.org or a/b,c", ["me@example.org", "or", "a", "/", "b", ",", "c"]),
    ("«Straße» 北京。", ["«", "Straße", "»", "北京", "。"]),
    ("end.Begin self.name os.path", ["end", ".", "Begin", "self.name", "os.path"]),
]


@pytest.mark.parametrize(("text", "expected"), AS_SPACY, ids=[text for text, _ in AS_SPACY])
def test_words_are_cut_as_spacy_does(text: str, expected: list[str]) -> None:
    assert cut(text) == expected


PIECES = st.sampled_from(
    [
        *"ab1Z .,-'’/:;()[]<>=+*^~—–_#&%$€…\n\t\u00a0é北°⟦²@!?|\\\"",
        "..",
        "don't",
        "id",
        "km",
        "US$",
        "e.g.",
        ".org",
        "://",
    ]
)
TEXTS = st.lists(PIECES, max_size=12).map("".join)


@given(TEXTS)
def test_words_are_those_of_the_rules_in_plain_python(text: str) -> None:
    assert cut(text) == reference.words(text)


@given(st.text(max_size=30))
def test_nothing_but_white_space_is_lost(text: str) -> None:
    assert "".join(cut(text)) == "".join(text.split())
