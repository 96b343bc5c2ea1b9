"""English words that are cut against the rules, or left whole: contractions and abbreviations.

Contractions are cut as in the Penn Treebank (do n't, I 'm). How words are cut stands in `words.py`.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from string import ascii_lowercase

_PRONOUNS = ("i", "you", "he", "she", "it", "we", "they")
_ASKING = ("who", "what", "when", "where", "why", "how", "there", "that", "this", "these", "those")
_ENDINGS = (
    (_PRONOUNS + _ASKING, ("'ll", "'ll've", "'d", "'d've")),
    (("i",), ("'m", "'m|a")),
    (("i", "you", "we", "they"), ("'ve",)),
    (("you", "we", "they"), ("'re",)),
    (("he", "she", "it", *_ASKING[:-2]), ("'s",)),
    (tuple(word for word in _ASKING if word not in ("that", "this")), ("'re", "'ve")),
    (("could", "might", "must", "should", "would"), ("'ve",)),
    (
        (
            *("ca", "could", "do", "does", "did", "had", "may", "might", "must", "need", "ought", "sha", "should"),
            *("wo", "would"),
        ),
        ("n't", "n't've"),
    ),
    (("ai", "are", "is", "was", "were", "have", "has", "dare"), ("n't",)),
)
_WORDS_OF_THEIR_OWN = {"ill", "its", "hell", "shell", "shed", "were", "well", "whore"}
"""What would read as a contraction without its apostrophe, but is another word."""

_OTHERS = (
    "y'|all y|all how|'d|'y How|'d|'y not|'ve not|ve Not|'ve Not|ve can|not Can|not gon|na Gon|na got|ta Got|ta let|'s "
    "Let|'s c'm|on C'm|on °|c|. °|f|. °|k|. °|C|. °|F|. °|K|."
)
_ABBREVIATED = (
    "Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec "
    "Mr Mrs Ms Messrs Dr Prof Rev Gen Adm Gov Sen Rep Jr St Mt Ph.D vs "
    "Co Corp Inc Ltd Bros e.g i.e a.m p.m "
    "Ala Ariz Ark Calif Colo Conn Del Fla Ga Ia Ill Ind Kan Ky La Mass Md Mich Minn Miss Mo Mont Neb Nev Okla Ore Pa "
    "Tenn Va Wash Wis D.C N.C N.D N.H N.J N.M N.Y S.C"
)
"""Months, titles, firms, hours and American states, each with a full stop behind it."""
_WHOLE = "and/or w/o ma'am o'clock C++ 'em 'bout 'cause 'cuz 'til goin' doin' nothin' somethin' ol'"


@lru_cache(maxsize=1)
def exceptions() -> dict[str, tuple[str, ...]]:
    """Each exception with the words that it is cut into, one where it stays whole."""
    found = {"".join(pieces): pieces for pieces in _all()}
    found |= {
        text.replace("'", "’"): tuple(piece.replace("'", "’") for piece in pieces)
        for text, pieces in found.items()
        if "'" in text
    }
    return found


def _all() -> Iterator[tuple[str, ...]]:
    for words, endings in _ENDINGS:
        for word, ending in product(words, endings):
            pieces = ("n't", *ending[3:].replace("'", "|'").split("|")[1:]) if ending[0] == "n" else _cut(ending)
            for start, apostrophe in product((word, word.title()), (True, False)):
                cut = (start, *(piece if apostrophe else piece.replace("'", "") for piece in pieces))
                if apostrophe or "".join(cut).lower() not in _WORDS_OF_THEIR_OWN:
                    yield cut
    for hour, half in product(range(1, 13), ("a.m.", "am", "p.m.", "pm")):
        yield str(hour), half
    for text in _OTHERS.split():
        yield tuple(text.split("|"))
    for text in (*_WHOLE.split(), *(f"{short}." for short in (*_ABBREVIATED.split(), *ascii_lowercase))):
        yield (text,)


def _cut(ending: str) -> tuple[str, ...]:
    return tuple(ending.replace("'", "|'").strip("|").split("|"))
