"""The named rule sets and their published thresholds. A field min_X or max_X bounds the signal X of its set; the others
say how signals are counted. A bound set to null is not applied.

What the signals are stands in `signals.py`, who decides in `rules.py`.
"""

from pydantic import Field, field_validator

from pipelines.profile import Params

LINE_RULES = ("punctuation", "few_words", "long_word", "javascript", "policy")
"""Why C4 does not count a line: it does not end in . ? ! " or ', or ends in an ellipsis; it has too few words; it has
one that is too long; it tells of JavaScript; it tells of cookies, terms of use or a privacy policy."""

_GOPHER = "Rae et al. 2021"


def _at_least(default: float, description: str, highest: float | None = None) -> float:
    return Field(default=default, ge=0, le=highest, description=f"{description}, at least")


def _at_most(default: float, description: str, highest: float | None = None) -> float:
    return Field(default=default, ge=0, le=highest, description=f"{description}, at most")


class GopherQualityParams(Params):
    """Rules of quality of the Gopher corpus MassiveText (Rae et al. 2021, "Scaling Language Models", A1.1)."""

    min_words: float | None = _at_least(50, f"words that are not only signs ({_GOPHER}: 50)")
    max_words: float | None = _at_most(100_000, f"words that are not only signs ({_GOPHER}: 100,000)")
    min_mean_word_characters: float | None = _at_least(3, f"mean length of words, characters ({_GOPHER}: 3)")
    max_mean_word_characters: float | None = _at_most(10, f"mean length of words, characters ({_GOPHER}: 10)")
    max_hashes_per_word: float | None = _at_most(0.1, f"signs # per word ({_GOPHER}: 0.1)")
    max_ellipses_per_word: float | None = _at_most(0.1, f"ellipses per word ({_GOPHER}: 0.1)")
    max_bullet_line_share: float | None = _at_most(0.9, f"share of lines that begin with a bullet ({_GOPHER}: 0.9)", 1)
    max_ellipsis_line_share: float | None = _at_most(0.3, f"share of lines that end in an ellipsis ({_GOPHER}: 0.3)", 1)
    min_alphabetic_word_share: float | None = _at_least(0.8, f"share of words with a letter ({_GOPHER}: 0.8)", 1)
    min_stop_words: float | None = _at_least(
        2, f"different words of: the, be, to, of, and, that, have, with ({_GOPHER}: 2); null for other languages", 8
    )


class GopherRepetitionParams(Params):
    """Rules against repetition of MassiveText (Rae et al. 2021, table A1)."""

    max_duplicate_paragraph_share: float | None = _at_most(0.3, f"share of paragraphs seen before ({_GOPHER}: 0.30)", 1)
    max_duplicate_paragraph_character_share: float | None = _at_most(
        0.2, f"share of characters in such paragraphs ({_GOPHER}: 0.20)", 1
    )
    max_duplicate_line_share: float | None = _at_most(0.3, f"share of lines seen before ({_GOPHER}: 0.30)", 1)
    max_duplicate_line_character_share: float | None = _at_most(
        0.2, f"share of characters in such lines ({_GOPHER}: 0.20)", 1
    )
    max_top_2gram_character_share: float | None = _at_most(
        0.2, f"share of characters in the most frequent 2-gram of words ({_GOPHER}: 0.20)"
    )
    max_top_3gram_character_share: float | None = _at_most(0.18, f"the same of 3-grams ({_GOPHER}: 0.18)")
    max_top_4gram_character_share: float | None = _at_most(0.16, f"the same of 4-grams ({_GOPHER}: 0.16)")
    max_duplicate_5gram_character_share: float | None = _at_most(
        0.15, f"share of characters in 5-grams of words seen before ({_GOPHER}: 0.15)", 1
    )
    max_duplicate_6gram_character_share: float | None = _at_most(0.14, f"the same of 6-grams ({_GOPHER}: 0.14)", 1)
    max_duplicate_7gram_character_share: float | None = _at_most(0.13, f"the same of 7-grams ({_GOPHER}: 0.13)", 1)
    max_duplicate_8gram_character_share: float | None = _at_most(0.12, f"the same of 8-grams ({_GOPHER}: 0.12)", 1)
    max_duplicate_9gram_character_share: float | None = _at_most(0.11, f"the same of 9-grams ({_GOPHER}: 0.11)", 1)
    max_duplicate_10gram_character_share: float | None = _at_most(0.1, f"the same of 10-grams ({_GOPHER}: 0.10)", 1)


class C4Params(Params):
    """Rules of the Colossal Clean Crawled Corpus (Raffel et al. 2020, 2.2, and the code that made it)."""

    line_rules: list[str] = Field(
        default=list(LINE_RULES),
        description="lines that do not count: punctuation, those without a mark at their end; few_words; long_word; "
        "javascript; policy, those about cookies, terms of use and privacy. FineWeb left out punctuation",
    )
    words_per_line: int = Field(
        default=3, ge=0, description="lines with fewer words are of few_words (Raffel et al. 2020: 3)"
    )
    word_characters: int = Field(
        default=1000, ge=1, description="lines with a longer word are of long_word (C4's code: 1,000 characters)"
    )
    remove_lines: bool = Field(
        default=False,
        description="true: lines that do not count are removed from the text, as in C4; false: they only don't count",
    )
    max_lorem_ipsum_lines: float | None = _at_most(0, "lines that count and hold 'lorem ipsum' (Raffel et al. 2020: 0)")
    max_curly_bracket_lines: float | None = _at_most(0, "lines that count and hold a { (Raffel et al. 2020: 0)")
    min_sentences: float | None = _at_least(5, "sentences in lines that count (Raffel et al. 2020: 5)")

    @field_validator("line_rules")
    @classmethod
    def _known(cls, rules: list[str]) -> list[str]:
        for rule in rules:
            if rule not in LINE_RULES:
                raise ValueError(f"`line_rules` names {rule!r}; there are {', '.join(LINE_RULES)}")
        return [rule for rule in LINE_RULES if rule in rules]


class FineWebParams(Params):
    """Rules that FineWeb added to Gopher's and C4's (Penedo et al. 2024, 3.6)."""

    min_punctuated_line_share: float | None = _at_least(
        0.12, "share of lines that end in a mark that ends a sentence (Penedo et al. 2024: 0.12)", 1
    )
    short_line_characters: int = Field(
        default=30, ge=0, description="lines of at most so many characters are short (Penedo et al. 2024: 30)"
    )
    max_short_line_share: float | None = _at_most(0.67, "share of short lines (Penedo et al. 2024: 0.67)", 1)
    max_duplicate_line_character_share: float | None = _at_most(
        0.01, "share of characters in lines seen before (FineWeb's code: 0.01; the paper: 0.1)", 1
    )
    max_newlines_per_word: float | None = _at_most(0.3, "line breaks per word (FineWeb's code: 0.3)")


class CodeParams(Params):
    """Rules for source code of StarCoder (Li et al. 2023, 3), and of Codex before it (Chen et al. 2021, 3.1)."""

    max_longest_line_characters: float | None = _at_most(1000, "characters of the longest line (Li et al. 2023: 1,000)")
    max_mean_line_characters: float | None = _at_most(100, "mean length of lines, characters (Li et al. 2023: 100)")
    min_alphanumeric_share: float | None = _at_least(0.25, "share of letters and digits (Li et al. 2023: 0.25)", 1)
