"""MediaWiki markup → plain text, in one pass and in linear time, whatever the markup.

Templates, tables, references, comments, files and categories go; links become their text, headings and list items
lines of their own. The parsers that Python has for wikitext back-track, and users of theirs reported pages on which
that took minutes or all memory (mwparserfromhell's issues 183, 286, 364; wikitextparser's 24, 37, 89; some are mended).
So markup is matched here by one stack: what closes ends the nearest that opened, and what never closes stays as text,
as in MediaWiki itself.
"""

import html
import re
from collections import Counter
from collections.abc import Collection

MAX_LINKS_DEEP = 8
"""Links within links (captions of pictures) that are followed; each level reads the innermost text once more."""

MAX_BRACES = 12
"""More opening braces in a row are text: nobody opens that many templates at once."""

DROPPED_NAMESPACES = frozenset({"file", "image", "media", "category"})
"""Links into these show a picture, or nothing, where they stand. Wikis in other languages have further names."""

_TOKEN = re.compile(
    r"<!--|</?([a-zA-Z][a-zA-Z0-9]*+)[^<>]*+>"
    r"|\{{2,}|\}{2,}|^[ :]*\{\||^[ ]*\|\}(?!\})"
    r"|\[\[|\]\]|\[(?:https?:|ftp:|mailto:)?//[^\s\[\]<>\"]*[ ]?|\]"
    r"|'{2,}|__[A-Z]{3,40}__",
    re.MULTILINE,
)
_DROPPED_TAGS = re.compile(
    r"ref|references|gallery|timeline|score|graph|imagemap|inputbox|templatedata|templatestyles|mapframe|maplink"
    r"|categorytree|hiero|style|script|includeonly|indicator"
)
_VERBATIM_TAGS = frozenset({"nowiki", "pre", "math", "chem", "syntaxhighlight", "source"})
_LINE_TAGS = re.compile(r"br|p|div|li|d[dt]|t[rdh]|blockquote|center|h[1-6r]|poem")
_INTERLANGUAGE = re.compile(r"[a-z]{2,3}(-[a-z]{2,10}){0,2}")
_LISTS = "*#:;"


def plain_text(markup: str, dropped_namespaces: Collection[str] = DROPPED_NAMESPACES) -> str:
    """The text of a page. dropped_namespaces: in small letters; a link into one of them is left out."""
    return _lines(html.unescape(_Reading(markup, dropped_namespaces).text()))


class _Reading:
    """One pass over a page. `_pieces` holds the text so far, `_open` what has been opened: kind, run, first piece."""

    def __init__(self, markup: str, dropped_namespaces: Collection[str]) -> None:
        self._markup = markup
        self._dropped = dropped_namespaces
        self._pieces: list[str] = []
        self._open: list[tuple[str, int, int]] = []
        self._counts: Counter[str] = Counter()
        self._never_closed: set[str] = set()

    def text(self) -> str:
        """The page without its markup; line by line work is left to `_lines`."""
        markup, pieces = self._markup, self._pieces
        position = 0
        while found := _TOKEN.search(markup, position):
            if found.start() > position:
                pieces.append(markup[position : found.start()])
            position = self._token(found)
        pieces.append(markup[position:])
        return "".join(pieces)

    def _token(self, found: re.Match[str]) -> int:
        """Deal with one piece of markup; returns where reading goes on."""
        token, end = found[0], found.end()
        if token == "<!--":
            close = self._markup.find("-->", end)
            return len(self._markup) if close < 0 else close + 3
        if found[1]:
            return self._tag(token, found[1].lower(), end)
        if token.startswith("{{") and len(token) <= MAX_BRACES:
            self._push("{{", token)
        elif token.startswith("}}"):
            self._close_braces(len(token))
        elif token.endswith("{|"):
            self._push("{|", token)
        elif token.endswith("|}"):
            self._drop_to("{|")
        elif token == "[[":
            if self._counts["[["] == MAX_LINKS_DEEP:
                self._give_up("[[")
            self._push("[[", token)
        elif token.startswith("]") and self._open and self._open[-1][0] == "[":
            self._pop()
            return found.start() + 1  # of three brackets the first ends an external link, the others a link around it
        elif token == "]]" and self._open and self._open[-1][0] == "[[":
            self._close_link()
        elif token.startswith("["):
            self._push("[", "")
        elif not token.startswith(("'", "_")):  # the marks of bold and italics, and words like __TOC__
            self._pieces.append(token)
        return end

    def _tag(self, token: str, name: str, end: int) -> int:
        if name == "table":
            if token[1] == "/":
                self._drop_to("<table>")
            else:
                self._push("<table>", "\n")
        elif _LINE_TAGS.fullmatch(name):
            self._pieces.append("\n")
        elif token[1] != "/" and not token.endswith("/>") and (name in _VERBATIM_TAGS or _DROPPED_TAGS.fullmatch(name)):
            closing = self._closing(name, end)
            if closing is None:
                return end
            if name in _VERBATIM_TAGS:
                self._pieces.append(_verbatim(self._markup[end : closing.start()]))
            return closing.end()
        return end

    def _closing(self, name: str, start: int) -> re.Match[str] | None:
        """The next closing tag of a name. That there is none is remembered, else many would cost quadratic time."""
        if name in self._never_closed:
            return None
        closing = re.compile(rf"</{name}\s*>", re.IGNORECASE).search(self._markup, start)
        if closing is None:
            self._never_closed.add(name)
        return closing

    def _push(self, kind: str, shown: str) -> None:
        """Open something; `shown` stays in the text if it is never closed."""
        self._open.append((kind, len(shown), len(self._pieces)))
        self._counts[kind] += 1
        self._pieces.append(shown)

    def _pop(self) -> tuple[str, int, int]:
        kind, run, first = self._open.pop()
        self._counts[kind] -= 1
        return kind, run, first

    def _drop_to(self, kind: str) -> int:
        """Drop the nearest open `kind` with everything in it; returns its run, 0 where none is open."""
        if not self._counts[kind]:
            return 0
        found, run, first = self._pop()
        while found != kind:
            found, run, first = self._pop()
        del self._pieces[first:]
        return run

    def _give_up(self, kind: str) -> None:
        """The nearest open `kind`, and what was opened in it, will not be closed: what was shown stays."""
        while self._pop()[0] != kind:
            pass

    def _close_braces(self, closing: int) -> None:
        """Close templates and parameters: three braces match three where both sides have them, else two match two."""
        while closing >= 2 and (opened := self._drop_to("{{")):
            while opened >= 2 and closing >= 2:
                matched = min(opened, closing, 3)
                opened -= matched
                closing -= matched
            if opened >= 2:
                self._push("{{", "{" * opened)
            else:
                self._pieces.append("{" * opened)
        self._pieces.append("}" * closing)

    def _close_link(self) -> None:
        _, _, first = self._pop()
        content = "".join(self._pieces[first + 1 :])
        del self._pieces[first:]
        self._pieces.append(self._link_text(content))

    def _link_text(self, content: str) -> str:
        target, bar, label = content.partition("|")
        target = target.strip()
        namespace, colon, rest = target.partition(":")
        if namespace.strip().lower() in self._dropped and colon:
            return ""
        if colon and not bar and _INTERLANGUAGE.fullmatch(namespace):
            return ""  # the same article in another language
        if label:
            return label
        return rest if bar and colon else target.removeprefix(":")


def _verbatim(text: str) -> str:
    """What markup does not reach; several lines are code, and indented so that no line passes for a list item."""
    return "\n" + "\n".join("    " + line for line in text.strip("\n").split("\n")) + "\n" if "\n" in text else text


def _lines(text: str) -> str:
    """Headings and list items without their marks, no section without text, no run of blank lines or of spaces."""
    lines: list[str] = []
    headings: list[tuple[int, int]] = []  # level, and number of lines before it, of headings that nothing follows yet
    for line in text.split("\n"):
        level, line = _line(line.rstrip())
        if level:
            while headings and headings[-1][0] >= level:
                del lines[headings.pop()[1] :]
            headings.append((level, len(lines)))
            lines += ["", line, ""]
        elif line:
            headings.clear()
            lines.append(line)
        elif lines and lines[-1]:
            lines.append("")
    if headings:
        del lines[headings[0][1] :]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")


def _line(line: str) -> tuple[int, str]:
    """A line as text, and its level if it is a heading (1 to 6), else 0."""
    if line.startswith("=") and line.endswith("=") and (title := line.strip("=")).strip():
        level = min(len(line) - len(line.lstrip("=")), len(line) - len(line.rstrip("=")), 6)
        return level, title.strip()
    if line.startswith("----"):
        return 0, line.lstrip("-").strip()
    if line[:1] and line[0] in _LISTS:
        text = line.lstrip(_LISTS)
        marks = line[: len(line) - len(text)]
        bullet = "• " if text.strip() and ("*" in marks or "#" in marks) else ""
        line = bullet + text.strip()
    if not line.startswith(" "):  # what is indented is code
        line = re.sub(r" {2,}", " ", line)
        line = re.sub(r" \([ ,;]*\)", "", line)  # a template stood in the brackets
    return 0, line.rstrip()
