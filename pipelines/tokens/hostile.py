"""Texts that break tokenizers, of our own making: what an engine must encode like the reference, and any tokenizer give
back unchanged."""

from collections.abc import Iterator, Sequence

HOSTILE_TEXTS = (
    "",
    " ",
    "\n\n\n\t \r\n",
    "one\r\ntwo\r\n\r\nthree\rfour\n \n  \n   five\n",
    "   spaces before, and after   ",
    "spaces" + " " * 40 + "between" + "\t" * 9 + "and" + " \n" * 5 + "tabs",
    " " * 300 + "x",
    "\n" * 100 + "\r\n" * 100 + "\t" * 100,
    "\x00\x01\x7f\x80 a\x00b\x00\x00c \x1b[31mred\x1b[0m\x07\x08\x0b\x0c",
    "\ufeff\ufffe\uffff\U0010ffff",
    "next to surrogates: \ud7ff\ue000\uf8ff\U00010000\U0010fffd",
    "cut off in the middle of a letter: caf\ufffd, \ufffd\ufffd\ufffd",
    "zero\u200bwidth\u200cjoin\u200ders\u2060 and so\u00adft hy\u00adphens\ufeff",
    "\u00a0 \u1680 \u2003\u2009\u202f\u205f\u3000 \u2028 \u2029 \u0085 strange spaces",
    "e\u0301 \u00e9 A\u030a \u212b \ufb01 \u1e9b\u0323 q\u0307\u0323",
    "\u0301 first a mark, then a letter a\u0315\u0300\u05ae\u0062",
    "Z\u0351\u036b\u0343a\u0321l\u0310g\u0322o" + "\u0336" * 40,
    "\u1100\u1161\u11a8 \uac01 \u0958 \u0344 \u2126 \u1fbe",
    "\u202eright to left\u202c \u0627\u0644\u0639\u0631\u0628\u064a\u0629",
    "\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd abc \u06f1\u06f2\u06f3",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466\U0001f1e9\U0001f1ea\U0001f44b\U0001f3fd\u263a\ufe0f\u0031\ufe0f\u20e3",
    "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f" + "\U0001f600" * 20,
    "吾輩は猫である。名前はまだ無い。",
    "汉字与English混排，没有空格。한국어와 日本語、ภาษาไทยไม่มีช่องว่าง हिन्दी में क्षत्रिय",
    "ﾊﾝｶｸ ｆｕｌｌ ｗｉｄｔｈ １２３ ㈱ ㍻ ﷺ",
    "0123456789 ٠١٢٣ १२३ Ⅷ ½ ² ① 𝟙𝟚𝟛 1e-05 3.14 1,000,000 0x7f 192.168.0.1",
    "1" * 300 + " " + "12 " * 50,
    "it's I'M we'LL they'Re 'tis 'S ’s don''t '' ſ's K's 'ſ 'llama o'clock",
    "ßẞ İı ŉ ǆ Ⅳ ⓐ ᴬᴮ ₁₂ 𝕬𝖇𝖈 ʼn",
    "!!!???...---===___***///\\\\\\###@@@~~~``` ([{<>}]) \"'«»„“”‚‘’",
    "snake_case camelCase kebab-case __init__ a.b.c a+b=c; f(x)->y::z // # %20 &amp; <p> C++ $1.00 €5",
    '{\n    "a": [1, 2,\n\t3],\n\r\n    "b": null}\n',
    "https://user:pass@example.com:8080/a/b?c=d&e=%20#f mail@example.org",
    "a" * 5_000,
    "ab" * 1_000 + "吾" * 500,
    "-" * 1_000 + "=" * 77 + "#" * 33,
    "▁ ▁▁ ▁a Ġ Ċ Ġa ĉ <0x0A> <0x00> ## </w> @@",
    "<|endoftext|><|pad|> <|endoftext |> < |pad| >",
)

SCRIPTS = ((0x20, 0x3400), (0xA000, 0xAC00), (0xF900, 0x10400), (0x1D400, 0x1D800), (0x1F300, 0x1FB00))
"""Ranges of code points, the end excluded, that are letters of alphabets, marks, digits and signs: every kind of sign
but ideographs and syllables, of which there are many and all alike. None is a surrogate."""

SPELT_OUT = 64
"""Tokens of a tokenizer whose spellings are tried, the first ones: some reserve a thousand that are alike."""

RUN = 96
"""Code points in a row."""


def hostile_texts(special: Sequence[str]) -> list[str]:
    """The hostile texts, every code point of `SCRIPTS`, and spellings of these special tokens.

    Some 70 kB, the same for the same tokens on every machine.
    """
    return [*HOSTILE_TEXTS, *_code_points(), *(text for token in special for text in _spellings(token))]


def _code_points() -> Iterator[str]:
    for first, after in SCRIPTS:
        for start in range(first, after, RUN):
            letters = [chr(point) for point in range(start, min(start + RUN, after))]
            yield "".join(letters)
            yield "x".join(letters[::7]) + " " + " ".join(letters[3::7]) + " 1".join(letters[5::7])


def _spellings(token: str) -> Iterator[str]:
    yield from (token, f" {token} ", f"a{token}b", f"{token}{token}\n{token}", token[:-1], token[1:])
    yield f"x {token[: len(token) // 2]} {token.upper()}{token.lower()}"
