"""Secrets by the place where they stand: assigned to names such as api_key, in URLs, in options of curl.

What they look like says `randomness.py`; secrets with forms of their own are in `credentials.py`.
"""

import re
from collections.abc import Iterator

from pipelines.clean.pii.finding import Finding, Window, words
from pipelines.clean.pii.randomness import is_placeholder, looks_chosen, looks_random

_PASSWORD_NAMES = ("password", "passwd", "passphrase", "pwd", "credential", "credentials")
_KEYS = ("api", "access", "secret", "private", "auth", "encryption", "signing", "account", "client")
_NAMES = (
    *_PASSWORD_NAMES,
    "secret",
    "token",
    *(f"{kind}{joint}key" for kind in _KEYS for joint in ("", "_", "-", ".")),
)
"""How names of secrets end, in small letters."""
_PUBLIC = ("publickeytoken",)
"""Names that end so, too, and hold nothing secret: of .NET's assemblies."""
_PASS = re.compile(r"(?:(?<![A-Za-z])(?:pass|PASS|Pass)|(?<=[a-z])Pass)$")
"""The end of DB_PASS and dbPass, not of bypass."""
_VALUE = re.compile(
    r"(?::=|=>|[:=](?!=)) {0,4}(?:[rbufRBUF]{0,2}([\"'`])((?:(?!\1)\S){8,200})\1"
    r"|([^\s\"'`<>;,(){}\[\]|\\]{8,200})(?=\s|$|&|;(?:\s|$|[\"'`]|[\w ]{1,32}=)|[\"'`](?!\w)))"
)
_NEXT_PARAMETER = re.compile(r"&(?:amp;)?\w+=")
_FILE_OR_NUMBER = re.compile(r"[\d.:-]+|.*\.(?:py|json|pem|key|crt|txt|ya?ml)")
_OTHER_SIGNS = frozenset("!@#$%^&*+?~")
"""Signs of passwords that code has not in a name or path."""
_FEWEST_TOKEN_CHARACTERS = 16

_FEWEST_PASSWORD_CHARACTERS = 6
_NO_PASSWORD = re.compile(r"\d{1,5}|[A-Z_]+|[^\w]*|(\w)\1*")
_PASSWORD_WORDS = words(
    "pass pwd pw psw passwd password p w word pwrd secret key auth foo bar baz abc abcd tiger scott"
)
_NOBODYS_HOST = re.compile(r"[\w.:-]*(?:example|localhost)[\w.:-]*")
_CURL = re.compile(r"\bcurl\b(?:[^\n|;]|\\\n)*$")
_USER_OPTION = re.compile(r"-(?:u|user) +([\"']?)([^\s:\"']{1,64}):([^\s\"']{6,128})(?=\1)")


def assignments(window: Window) -> Iterator[Finding]:
    """A value assigned to a name of a secret, in code or configuration."""
    text, at = window.text, window.start
    name = text[max(0, at - 48) : at].rstrip(" \"']")
    is_pass = _PASS.search(name) is not None
    is_password = is_pass or name.lower().endswith(_PASSWORD_NAMES)
    value = _VALUE.match(text, at) if is_password or name.lower().endswith(_NAMES) else None
    if not value or name.lower().endswith(_PUBLIC):
        return
    quoted = value.group(2) is not None
    found = value.group(2) or value.group(3)
    if not quoted:
        found = _NEXT_PARAMETER.split(found, maxsplit=1)[0]
        if is_pass and text[at] == ":" and name[-4:] == "PASS":
            return  # a test that passed
    if len(found) < 8 or is_placeholder(found) or _FILE_OR_NUMBER.fullmatch(found):
        return
    if is_password:
        fits = looks_random(found) or (looks_chosen(found) and (quoted or not _OTHER_SIGNS.isdisjoint(found)))
    else:
        fits = len(found) >= _FEWEST_TOKEN_CHARACTERS and looks_random(found)
    if fits:
        start = value.start(2 if quoted else 3)
        yield Finding("credential", start, start + len(found), "assigned")


def in_urls(window: Window) -> Iterator[Finding]:
    """The password between :// and @ in a URL."""
    user, _, password = window.found.partition(":")
    host = window.text[window.stop + 1 : window.stop + 40].split("/")[0]
    if _is_password(user, password) and "/" not in user and not _NOBODYS_HOST.fullmatch(host):
        yield Finding("credential", window.stop - len(password), window.stop, "url")


def in_options(window: Window) -> Iterator[Finding]:
    """The password in curl's option -u or --user."""
    if _CURL.search(window.text, 0, window.start):
        option = _USER_OPTION.match(window.text, window.start)
        if option and _is_password(option.group(2), option.group(3)):
            yield Finding("credential", option.start(3), option.end(3), "option")


def _is_password(user: str, password: str) -> bool:
    """Whether what stands behind a user and a colon is a password of somebody."""
    if len(password) < _FEWEST_PASSWORD_CHARACTERS or not (re.search(r"[\d\W]", password) or looks_random(password)):
        return False
    if re.search(r"[\[\]{}(),:]", password) or password.lower().strip("-_") in _PASSWORD_WORDS:
        return False
    if is_placeholder(password) or password.lower() == user.lower():
        return False
    return _NO_PASSWORD.fullmatch(password) is None
