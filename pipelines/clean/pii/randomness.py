"""Whether a value is a secret's: random signs, or what a person takes for a password, and no placeholder.

A name in code and a word of any language go from letter to letter as words do; random signs seldom.
"""

import math
import re
from collections import Counter

from pipelines.clean.pii.finding import words

_PAIRS = frozenset(
    followers[0] + follower
    for followers in words(
        "abcdgilmnprstuy baeilou caehiklortu dadeiostu eacdefglmnpqrstvx faefiloru geirs haeio iabcdefglmnoprstvz ke "
        "ladefilostuy mabeimopsu nacdefginopstu oabcdglmnoprstuw paehiloprstuy qu racdegimnorstuy sacehiopstuy "
        "tacehioprstuy ubeilmnprst vaei wai xpt yp ze"
    )
    for follower in followers[1:]
)
"""The letters that most often follow one another in names in code: each group's first letter, and those after it.

The 205 most frequent pairs of 83,000 names in the package sources on a machine, 92 % of the pairs in them; of pairs of
random letters they are 30 %.
"""
_FEWEST_ODD = {2: 0.5, 3: 0.4, 4: 0.4}
"""By kinds of signs: of the signs of a random value so many follow their neighbour as no word would have it. 1 % of the
names in code do, mostly abbreviations, and 98 % of ten random letters and digits."""
_SHORTEST_OF_ONE_KIND = 20
_JOINTS = frozenset("_-./:,; ")
_HEX = re.compile(r"(?:[0-9a-f]{32,}|[0-9A-F]{32,}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})")
_HEX_BITS = 2.9
"""Fewest bits of entropy of a sign among hexadecimal ones; 32 random ones have 3.6 of 4, hardly ever below 3."""
_PASSWORD_BITS = 2.8

_WORDS = re.compile(
    r"change|your|example|placeholder|dummy|sample|fake|secret|passw|token|none|null|true|false|test|todo|redacted|"
    r"hunter2|foobar|abcdef|12345|environ|getenv|config|settings|default|admin|user|mock|hidden|private|public|"
    r"[_-]key|key[_-]|://|xxxx|\*{3}|\.{3}|(.)\1{4}",
    re.IGNORECASE,
)
"""Words of placeholders; at least four letters, so that no random value holds one by chance."""
_TEMPLATE = re.compile(
    r"[$#%@]?[<{(\[].*[>})\]]s?|\$(?:[A-Z_][A-Z0-9_]+|[a-z_]+\d?|[a-z]+(?:[A-Z][a-z]+)+)|%\w+%|@\w+@|[*.x-]+|"
    r".*(?:[$#%]?\{[\w .:!?-]*\}|%\(\w+\)|(?<!\w)%[sdr](?!\w)|<[a-z][\w -]*>).*",
    re.IGNORECASE,
)
"""What something else is put into. As a whole: <key>, ${KEY}, $(cmd), {{key}}, $KEY, %KEY%, ***; inside: {key}, %s."""


def is_placeholder(value: str) -> bool:
    """Whether a value stands for the reader's own, or for one that a program puts there."""
    return _WORDS.search(value) is not None or _TEMPLATE.fullmatch(value) is not None


def looks_random(value: str) -> bool:
    """Whether the signs of a value follow one another as no word or name has them."""
    if _HEX.fullmatch(value):
        return entropy(value) >= _HEX_BITS and 4 <= sum(map(str.isdigit, value)) < len(value) - 2
    # Neither the capital of a first word nor the signs between words make a kind.
    kinds = kinds_of_signs("".join(sign for sign in value[:1].lower() + value[1:] if sign not in _JOINTS))
    if kinds < 2 and len(value) < _SHORTEST_OF_ONE_KIND:
        return False
    odd = sum(map(_is_odd, value, value[1:]))
    return odd >= _FEWEST_ODD[max(kinds, 2)] * (len(value) - 1) and len(set(value)) > len(value) / 4


def looks_chosen(value: str) -> bool:
    """Whether a value has three kinds of signs, as a password that a person takes."""
    return entropy(value) >= _PASSWORD_BITS and kinds_of_signs(value) >= 3


def _is_odd(sign: str, following: str) -> bool:
    """Whether words and names seldom have these two signs side by side."""
    if sign.isalpha() and following.isalpha():
        if sign.islower() and following.isupper():
            return True
        return sign.isascii() and following.isascii() and (sign + following).lower() not in _PAIRS
    if sign in _JOINTS or following in _JOINTS:
        return False
    return not (sign.isdigit() and following.isdigit())


def kinds_of_signs(value: str) -> int:
    """How many of small letters, capitals, digits and other signs a value holds."""
    return sum(
        any(map(test, value)) for test in (str.islower, str.isupper, str.isdigit, lambda sign: not sign.isalnum())
    )


def entropy(value: str) -> float:
    """Shannon's entropy of the signs, bits per sign."""
    total = len(value)
    return -sum(count / total * math.log2(count / total) for count in Counter(value).values())
