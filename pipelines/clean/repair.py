"""Text repair: mojibake, control characters, line ends, white space, Unicode normal form.

Nothing here judges a text; `rules.py` does. What a text does not need is found out by searches that run in C, so
plain ASCII passes at memory speed and mojibake is looked for only in lines that can hold some.
"""

import functools
import re
import unicodedata
from dataclasses import dataclass

import ftfy
from ftfy.chardata import CHARMAP_ENCODINGS

MAX_BLANK_LINES = 2
"""As many blank lines as code has between its definitions; longer runs are cut."""

_TERMINAL_ESCAPE = re.compile("\x1b\\[[0-?]*[ -/]*[@-~]")
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u206a-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff]")
_ASCII_CONTROLS = dict.fromkeys((*range(9), *range(14, 32), 127))
_LINE_ENDS = ("\r\n", "\r", "\v", "\f", "\x85", "\u2028", "\u2029")
_BLANK_RUN = re.compile(f"\n{{{MAX_BLANK_LINES + 2},}}")


@dataclass(frozen=True)
class Repaired:
    """A text after repair, and which repairs changed it: 'encoding', 'controls', 'normal_form', 'white_space'."""

    text: str
    repairs: tuple[str, ...]


def repair(text: str) -> Repaired:
    """Repair a text.

    Text that was decoded with a wrong code page is decoded anew (ftfy, line by line); control characters, byte order
    marks and terminal colours are removed; composed characters are used (Unicode NFC); lines end in a line feed and
    not in white space, at most `MAX_BLANK_LINES` in a row are blank, and none at either end (which alone does not
    count as a repair).
    """
    repairs = []
    for name, step in _STEPS:
        if name in ("encoding", "normal_form") and text.isascii():
            continue
        repaired = step(text)
        if repaired != text and repaired != text.strip("\n"):
            repairs.append(name)
        text = repaired
    return Repaired(text, tuple(repairs))


def _decode_anew(text: str) -> str:
    """Undo decoding with a wrong code page, in the lines that show its traces."""
    if not _mojibake_traces().search(text):
        return text
    lines = text.split("\n")
    return "\n".join(ftfy.fix_encoding(line) if _mojibake_traces().search(line) else line for line in lines)


@functools.cache
def _mojibake_traces() -> re.Pattern[str]:
    """Matches wherever UTF-8 may have been read in a code page of one byte per character.

    That makes the first byte of a sequence (C2 to F4) and the next (80 to BF) two characters that the code page has
    there. ftfy's own heuristic is forty times slower than this search, and is asked only about lines that match.
    Also matched: C1 control characters, and the no-break space after Â and Ã that someone made a space.
    """
    first: set[str] = set()
    following: set[str] = set()
    for encoding in CHARMAP_ENCODINGS:
        first.update(bytes(range(0xC2, 0xF5)).decode(encoding, "ignore"))
        following.update(bytes(range(0x80, 0xC0)).decode(encoding, "ignore"))
    pair = "".join(sorted(map(re.escape, first))), "".join(sorted(map(re.escape, following)))
    return re.compile(f"[{pair[0]}][{pair[1]}]|[\x80-\x9f]|[ÂÃ] ")


def _remove_controls(text: str) -> str:
    if "\x1b" in text:
        text = _TERMINAL_ESCAPE.sub("", text)
    if text.isascii():
        return text.translate(_ASCII_CONTROLS)
    return _CONTROLS.sub("", text) if _CONTROLS.search(text) else text


def _tidy_white_space(text: str) -> str:
    for end in _LINE_ENDS:
        text = text.replace(end, "\n")
    text = "\n".join(map(str.rstrip, text.split("\n")))
    if "\n" * (MAX_BLANK_LINES + 2) in text:
        text = _BLANK_RUN.sub("\n" * (MAX_BLANK_LINES + 1), text)
    return text.strip("\n")


def _compose(text: str) -> str:
    return unicodedata.normalize("NFC", text)


_STEPS = (
    ("encoding", _decode_anew),
    ("controls", _remove_controls),
    ("normal_form", _compose),
    ("white_space", _tidy_white_space),
)
