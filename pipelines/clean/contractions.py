"""English words that are cut against the rules, or left whole: contractions, abbreviations, emoticons.

As spaCy's English tokenizer has them (Honnibal et al., spaCy 3), since that is what the published rule sets are run
with. How words are cut stands in `words.py`.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import product

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
_WHOLE = r"""
'S 's ‘S ‘s and/or w/o 're 'd 'Cause 'cause 'cos 'Cos 'coz 'Coz 'cuz 'Cuz 'bout ma'am Ma'am o'clock O'clock 'em 'll
'nuff lovin' Lovin' havin' Havin' doin' Doin' goin' Goin' nothin' Nothin' nuthin' Nuthin' ol' Ol' somethin' Somethin'
Mt. Ak. Ala. Apr. Ariz. Ark. Aug. Calif. Colo. Conn. Dec. Del. Feb. Fla. Ga. Ia. Id. Ill. Ind. Jan. Jul. Jun. Kan. Kans.
Ky. La. Mar. Mass. Mich. Minn. Miss. N.C. N.D. N.H. N.J. N.M. N.Y. Neb. Nebr. Nev. Nov. Oct. Okla. Ore. Pa. S.C. Sep.
Sept. Tenn. Va. Wash. Wis. a.m. Adm. Bros. co. Co. Corp. D.C. Dr. e.g. E.g. E.G. Gen. Gov. i.e. I.e. I.E. Inc. Jr. Ltd.
Md. Messrs. Mo. Mont. Mr. Mrs. Ms. p.m. Ph.D. Prof. Rep. Rev. Sen. St. vs. v.s. ä. ö. ü. C++ ' '' \") <space> \t \n —
:) :-) :)) :-)) :))) :-))) (: (-: =) (= :] :-] [: [-: [= =] :o) (o: :} :-} 8) 8-) (-8 ;) ;-) (; (-; :( :-( :(( :-((
:((( :-((( ): )-: =( >:( :') :'-) :'( :'-( :/ :-/ =/ =| :| :-| ]= =[ :1 :P :-P :p :-p :O :-O :o :-o :0 :-0 :() >:o :*
:-* :3 :-3 =3 :> :-> :X :-X :x :-x :D :-D ;D ;-D =D xD XD xDD XDD 8D 8-D ^_^ ^__^ ^___^ >.< >.> <.< ._. ;_; -_- -__-
v.v V.V v_v V_V o_o o_O O_o O_O 0_o o_0 0_0 o.O O.o O.O o.o 0.0 o.0 0.o @_@ <3 <33 <333 </3 (^_^) (-_-) (._.) (>_<)
(*_*) (¬_¬) ಠ_ಠ ಠ︵ಠ (ಠ_ಠ) ¯\(ツ)/¯ (╯°□°）╯︵┻━┻ ><(((*>
"""


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
    for text in (*_WHOLE.split(), *(f"{letter}." for letter in "abcdefghijklmnopqrstuvwxyz")):
        yield (text,)


def _cut(ending: str) -> tuple[str, ...]:
    return tuple(ending.replace("'", "|'").strip("|").split("|"))
