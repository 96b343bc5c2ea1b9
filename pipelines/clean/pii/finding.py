"""What the checks are given and what they give: a window of text around a candidate, and findings in it."""

import unicodedata
from typing import NamedTuple


class Finding(NamedTuple):
    """Personal data from `start` up to `stop`. type: one of `params.TYPES`. detail: which kind of it, or whose."""

    type: str
    start: int
    stop: int
    detail: str


class Window(NamedTuple):
    """Text around a candidate that stands from `start` to `stop`; context: what the words before say (`triggers.py`).

    Fullwidth and other digits, dashes and spaces are ASCII's here, character by character.
    """

    text: str
    start: int
    stop: int
    context: int

    @property
    def found(self) -> str:
        """The candidate."""
        return self.text[self.start : self.stop]

    def before(self, characters: int = 1) -> str:
        """The characters right before the candidate."""
        return self.text[max(0, self.start - characters) : self.start]


def words(text: str) -> frozenset[str]:
    """The words of a text, as a set to look things up in."""
    return frozenset(text.split())


ASCII_FORMS = {
    **{code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)},
    **{code: ord("0") + unicodedata.digit(chr(code)) for code in (*range(0x660, 0x66A), *range(0x6F0, 0x6FA))},
    **dict.fromkeys((*range(0x2010, 0x2016), 0x2212), ord("-")),
    **dict.fromkeys((0xA0, 0x2009, 0x202F, 0x3000), ord(" ")),
}
"""Characters that are read as others, for `str.translate`; one for one, so that places stay."""
