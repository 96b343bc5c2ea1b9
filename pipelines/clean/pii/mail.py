"""E-mail addresses: mailboxes of RFC 5321 with a domain that can exist, and `name at domain dot com`.

Not meant: documentation and reserved domains (RFC 2606, RFC 6761), remotes such as git@host, users in URLs, file names
with an @, operators in code.
"""

import functools
import re
import unicodedata
from collections.abc import Iterator

from pipelines.clean.pii.finding import Finding, Window, words

_LABEL = r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?|[^\W_](?:(?:[^\W_]|-){0,61}[^\W_])?)"
_TOP = r"(?:xn--[A-Za-z0-9-]{2,59}|[A-Za-z]{2,18}|[^\W\d_A-Za-z]{2,12})"
_DOMAIN = re.compile(rf"(?:{_LABEL}\.){{1,8}}{_TOP}(?![A-Za-z0-9_-])")
_ATOM = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_%+-.'&!#*^~")
"""ASCII's signs of RFC 5322, 3.2.3, without those that part addresses from what stands before them: = / ? | ` $ { }."""
_LOCAL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_%+-]|\.(?=[A-Za-z0-9_%+-])|(?<=[A-Za-z0-9])['&!#*^~](?=[A-Za-z0-9]))*$")
_MOST_OCTETS = 64
"""RFC 5321, 4.5.3.1.1, and RFC 6531 with it."""
_UNSPACED = words("CJK HIRAGANA KATAKANA HANGUL BOPOMOFO THAI LAO KHMER MYANMAR")
"""Scripts, as Unicode names them, in which words stand without spaces beside an address in other letters."""
_STRING = re.compile("[bfruBFRU]'")
_OPEN, _CLOSE = r" ?[\[({] ?", r" ?[\])}] ?"
_BRACKETED = re.compile(
    rf"[A-Za-z0-9][A-Za-z0-9._+-]{{0,63}}{_OPEN}at{_CLOSE}"
    rf"[A-Za-z0-9-]{{1,63}}(?:(?:{_OPEN}dot{_CLOSE}|\.| dot )[A-Za-z0-9-]{{2,63}}){{1,4}}",
    re.IGNORECASE,
)
_ENCODED_LOCAL = re.compile(
    r"(?:(?<=%[0-9A-Fa-f]{2})|(?<![A-Za-z0-9._%+-]))(?:[A-Za-z0-9_+.-]|%2[BbDdEe]|%5[Ff]){1,64}$"
)
"""With %2B for + and the like."""
_SPELLED = re.compile(
    r"(?<![A-Za-z0-9._-])(?:[a-z0-9-]{1,32} (?:dot|DOT) ){0,2}[a-z0-9][a-z0-9._-]{1,63} (?:at|AT) "
    r"[a-z0-9-]{2,63}(?: (?:dot|DOT) [a-z0-9-]{2,63}){1,4}"
)

_RESERVED_TOPS = words("example invalid test localhost local localdomain internal lan home corp intranet arpa")
_NO_TOPS = words(
    "png jpg jpeg gif svg webp ico bmp css scss less html htm js mjs cjs jsx tsx json yaml yml xml toml cfg conf "
    "ini txt log csv pdf zip tar tgz whl egg exe dll pyc pyi pyx cpp hpp java lock min map dist git service "
    "target socket timer mount slice path domain tld ext todo"
)
"""What follows a dot after an @ without being a top-level domain: file names, units of systemd, placeholders."""
_RESERVED_NAMES = words(
    "example yourdomain your-domain yourcompany your-company yoursite your-site yourserver yourhost"
)
"""Domains that are reserved for documentation (RFC 2606) and those that tell the reader to write his own."""
_NO_NAME = re.compile(
    r"(?:your(?:$|[._-]|(?:first|last|user|e?mail|name|address|account|id|login|self|company|domain)(?![a-z]))"
    r"|username[\d._-]*$|example(?![a-z])|[xX._-]+$)",
    re.IGNORECASE,
)
"""Mailboxes of nobody, which stand for the reader's or any."""
_SECOND_LEVELS = words("co com org net ac edu gov")
_REMOTES = words("git hg svn cvs anonymous anoncvs root ubuntu ec2-user pi")
_PROTOCOL_NAMES = words("openssh.com libssh.org")
"""Domains in names of algorithms, such as hmac-sha2-256-etm@openssh.com (RFC 4251, 6)."""
_TEMPLATE = re.compile(r"[%$}@~]$|[{$#%]\{$")
"""What stands before names that something else is put in for, and before parts of paths."""
_NOT_A_MAILBOX = re.compile(r"://[^\s/@]*$|(?:message-id|in-reply-to)\W{0,4}$", re.IGNORECASE)
"""What stands before users in URLs and the numbers of messages."""
_COMMON_TOPS = words("com org net edu gov mil info biz io dev ai app name eu uk de fr nl it es ch at se")
"""Those that a spelled-out address may have."""


@functools.cache
def _country_tops() -> frozenset[str]:
    import phonenumbers

    return frozenset({*(region.lower() for region in phonenumbers.SUPPORTED_REGIONS), "uk", "eu", "su", "tf", "aq"})


_COMMON_METHODS = words("at is it name app")
"""Top-level domains that methods are called as, too: x@w.at[0]."""


def addresses(window: Window) -> Iterator[Finding]:
    """The address around an @."""
    text = window.text
    at = text.find("@", window.start, window.stop)
    domain = _DOMAIN.match(text, at + 1) if at >= 0 else None
    reached = _real_domain(domain.group()) if domain else 0
    if not domain or not reached:
        return
    stop = at + 1 + reached
    name = _mailbox(text, at, text[stop : stop + 1] == "'")
    if not name:
        return
    start = at - len(name)
    before = text[max(0, start - 2) : start]
    if before[-1:] == "\\" and name[:1] in "nrt" and len(name) > 1:
        start += 1  # the n of an escaped line break
        name = name[1:]
    elif _TEMPLATE.search(before) or _NOT_A_MAILBOX.search(text[max(0, start - 72) : start]):
        return
    after = text[domain.end() : domain.end() + 1]
    if after == "@" or (after in ("(", "[") and not _is_no_call(name, text[at + 1 : stop])):
        return
    if before.endswith("=") and after == ".":
        return
    if domain.group().lower() in _PROTOCOL_NAMES and "-" in name:
        return
    if (name.lower() in _REMOTES and text[stop : stop + 1] in (":", "/")) or name.lower() == "git":
        return
    if not _NO_NAME.match(name):
        yield Finding("email", start, stop, "address")


def _mailbox(text: str, at: int, quoted: bool) -> str:
    """The local part before an @: letters, digits and marks of any script, with RFC 5322's signs between them.

    '' where there is none. quoted: whether a quote follows the address, so that one before it is no part of a name.
    """
    start, script = at, ""
    while start and at - start <= _MOST_OCTETS:
        sign = text[start - 1]
        if not (sign in _ATOM or (sign > "\x7f" and unicodedata.category(sign)[0] in "LMN")):
            break
        if sign.isalpha():
            other = "" if sign.isascii() else _unspaced(sign)
            if script and other != script[1:]:
                break
            script = f"/{other}"
        start -= 1
    name = text[start:at].lstrip("'")
    if (quoted and start + len(name) == at) or _STRING.match(name):
        name = name.rpartition("'")[2]
    if text[start - 1 : start] == "=":
        name = name.rpartition("&")[2]  # the next parameter of a query
    local = _LOCAL.search(re.sub("[^\x00-\x7f]", "a", name))
    name = name[local.start() :] if local else ""
    return name if len(name.encode("utf-8", "surrogateescape")) <= _MOST_OCTETS else ""


def _unspaced(letter: str) -> str:
    script = re.split("[ -]", unicodedata.name(letter, ""), maxsplit=1)[0]
    return script if script in _UNSPACED else ""


def _is_no_call(name: str, domain: str) -> bool:
    """Whether an address before a bracket is none in which arrays are multiplied (w@x.reshape(3))."""
    top = domain.rpartition(".")[2].lower()
    return len(name) >= 3 and top in _COMMON_TOPS and top not in _COMMON_METHODS


def _real_domain(domain: str) -> int:
    """How many characters of it are a domain that mail can be sent to; 0: it is for documentation, or no domain."""
    labels = domain.split(".")
    while len(labels) >= 2:
        top, second = labels[-1].lower(), labels[-2]
        if _is_reserved([label.lower() for label in labels]):
            return 0
        capital = labels[-1][0].isupper() and not second.isupper()
        if capital and top in _COMMON_TOPS and (len(labels) == 2 or second[0].isupper()):
            capital = False  # as in Jane@Python.Org
        known = len(top) > 2 or top in _country_tops() or not top.isascii()
        if known and top not in _NO_TOPS and not capital and not labels[0].lower().endswith("2x"):
            return len(".".join(labels))
        if not capital:
            return 0
        labels.pop()  # the first word of a sentence that follows without a space
    return 0


def _is_reserved(labels: list[str]) -> bool:
    second = labels[-3] if len(labels) >= 3 and labels[-2] in _SECOND_LEVELS else labels[-2]
    return labels[-1] in _RESERVED_TOPS or second in _RESERVED_NAMES or "example" in labels


def obfuscated(window: Window) -> Iterator[Finding]:
    """An address whose @ or dot is written as a word."""
    for pattern in (_BRACKETED, _SPELLED):
        for match in pattern.finditer(window.text):
            labels = re.split(r"[^A-Za-z0-9-]+(?:dot[^A-Za-z0-9-]+)?", match.group().lower())
            covers = match.start() < window.stop and window.start < match.end()
            if covers and labels[-1] in _COMMON_TOPS and not _is_reserved(labels):
                yield Finding("email", match.start(), match.end(), "obfuscated")


def encoded(window: Window) -> Iterator[Finding]:
    """An address whose @ is written as in URLs (RFC 3986) or in HTML."""
    domain = _DOMAIN.match(window.text, window.stop)
    reached = _real_domain(domain.group()) if domain else 0
    top = window.text[window.stop : window.stop + reached].rpartition(".")[2].lower()
    if not reached or not (top in _COMMON_TOPS or top in _country_tops()):
        return
    local = _ENCODED_LOCAL.search(window.text, max(0, window.start - _MOST_OCTETS), window.start)
    if local and not _NO_NAME.match(local.group()):
        yield Finding("email", local.start(), window.stop + reached, "encoded")
