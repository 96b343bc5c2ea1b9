"""E-mail addresses: mailboxes of RFC 5321 with a domain that can exist, and `name at domain dot com`.

Not meant: documentation and reserved domains (RFC 2606, RFC 6761), remotes such as git@host, users in URLs, file names
with an @, operators in code.
"""

import functools
import re
from collections.abc import Iterator

from pipelines.clean.pii.finding import Finding, Window, words

_LABEL = r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?|[^\W_]{1,63})"
_TOP = r"(?:xn--[A-Za-z0-9-]{2,59}|[A-Za-z]{2,18}|[^\W\d_A-Za-z]{2,12})"
_DOMAIN = re.compile(rf"(?:{_LABEL}\.){{1,8}}{_TOP}(?![A-Za-z0-9_-])")
_LOCAL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_%+-]|\.(?=[A-Za-z0-9_%+-])){0,63}$")
_OPEN, _CLOSE = r" ?[\[({] ?", r" ?[\])}] ?"
_BRACKETED = re.compile(
    rf"[A-Za-z0-9][A-Za-z0-9._+-]{{0,63}}{_OPEN}at{_CLOSE}"
    rf"[A-Za-z0-9-]{{1,63}}(?:(?:{_OPEN}dot{_CLOSE}|\.| dot )[A-Za-z0-9-]{{2,63}}){{1,4}}",
    re.IGNORECASE,
)
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
_EXAMPLES = words(
    "example examples yourdomain your-domain mydomain domain somedomain yourcompany your-company mycompany "
    "company acme foo bar baz foobar test testing host myhost hostname server myserver site mysite yoursite "
    "somewhere nowhere anywhere sample fake dummy placeholder spam eggs blah website x y a b"
)
"""Second-level domains that stand for any domain in documentation."""
_SECOND_LEVELS = words("co com org net ac edu gov")
_REMOTES = words("git hg svn cvs anonymous anoncvs root ubuntu ec2-user pi")
_PROTOCOL_NAMES = words("openssh.com libssh.org")
"""Domains in names of algorithms, such as hmac-sha2-256-etm@openssh.com (RFC 4251, 6)."""
_NOT_A_MAILBOX = re.compile(r"://[^\s/@]*$|(?:message-id|in-reply-to)\W{0,4}$", re.IGNORECASE)
"""What stands before users in URLs and the numbers of messages."""
_COMMON_TOPS = words("com org net edu gov mil info biz io dev ai app name eu uk de fr nl it es ch at se")
"""Those that a spelled-out address may have."""


@functools.cache
def _country_tops() -> frozenset[str]:
    import phonenumbers

    return frozenset({*(region.lower() for region in phonenumbers.SUPPORTED_REGIONS), "uk", "eu", "su", "tf", "aq"})


def addresses(window: Window) -> Iterator[Finding]:
    """The address around an @."""
    text = window.text
    at = text.find("@", window.start, window.stop)
    local = _LOCAL.search(text, max(window.start, at - 64), at) if at >= 0 else None
    domain = _DOMAIN.match(text, at + 1) if local else None
    if not local or not domain:
        return
    start, stop = local.start(), domain.end()
    name = local.group()
    before = text[max(0, start - 2) : start]
    if before[-1:] == "\\" and name[:1] in "nrt" and len(name) > 1:
        start += 1  # the n of an escaped line break
        name = name[1:]
    elif before[-1:] in ("%", "$", "{", "}", "@", "~") or _NOT_A_MAILBOX.search(text[max(0, start - 72) : start]):
        return
    if text[stop : stop + 1] in ("(", "[", "@") or (before.endswith("=") and text[stop : stop + 1] == "."):
        return
    if domain.group().lower() in _PROTOCOL_NAMES and "-" in name:
        return
    reached = _real_domain(domain.group())
    if not reached or (name.lower() in _REMOTES and text[stop : stop + 1] in (":", "/")) or name.lower() == "git":
        return
    if name.lower().startswith(("your", "username", "example")) or name.strip("xX._-") == "":
        return
    yield Finding("email", start, at + 1 + reached, "address")


def _real_domain(domain: str) -> int:
    """How many characters of it are a domain that mail can be sent to; 0: it is for documentation, or no domain."""
    labels = domain.split(".")
    while len(labels) >= 2:
        top, second = labels[-1].lower(), labels[-2].lower()
        if len(labels) >= 3 and second in _SECOND_LEVELS:
            second = labels[-3].lower()
        if top in _RESERVED_TOPS or second in _EXAMPLES or "example" in map(str.lower, labels):
            return 0
        capital = labels[-1][0].isupper() and not labels[-2].isupper()
        known = len(top) > 2 or top in _country_tops() or not top.isascii()
        if known and top not in _NO_TOPS and not capital and not labels[0].lower().endswith("2x"):
            return len(".".join(labels))
        if not capital:
            return 0
        labels.pop()  # the first word of a sentence that follows without a space
    return 0


def obfuscated(window: Window) -> Iterator[Finding]:
    """An address whose @ or dot is written as a word."""
    for pattern in (_BRACKETED, _SPELLED):
        for match in pattern.finditer(window.text):
            domain = re.split(r"[^A-Za-z0-9-]+(?:dot[^A-Za-z0-9-]+)?", match.group().lower())
            top, second = domain[-1], domain[-2]
            covers = match.start() < window.stop and window.start < match.end()
            if covers and top in _COMMON_TOPS and second not in _EXAMPLES:
                yield Finding("email", match.start(), match.end(), "obfuscated")
