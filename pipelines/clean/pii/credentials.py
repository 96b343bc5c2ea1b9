"""Secrets: tokens of known makers, private keys, passwords in URLs, and values assigned to names such as api_key.

Placeholders (`changeme`, `<your key>`, `${VAR}`, keys that say EXAMPLE) are none.
"""

import base64
import binascii
import json
import math
import re
from collections import Counter
from collections.abc import Iterator

from pipelines.clean.pii.finding import Finding, Window, words

_END = r"(?![A-Za-z0-9_-])"
_TOKENS = tuple(
    (maker, re.compile(pattern))
    for maker, pattern in (
        ("aws", r"A[KS]IA[A-Z2-7]{16}(?![A-Za-z0-9])"),
        ("github", rf"(?:gh[pousr]_[A-Za-z0-9]{{36,255}}|github_pat_[A-Za-z0-9]{{22}}_[A-Za-z0-9]{{59}}){_END}"),
        ("gitlab", rf"glpat-[A-Za-z0-9_-]{{20,64}}{_END}"),
        ("slack", r"xox[abeprs]-(?=[A-Za-z0-9-]*\d)[A-Za-z0-9-]{20,250}|xapp-\d-[A-Za-z0-9-]{20,250}"),
        ("slack", r"hooks\.slack\.com/services/T[A-Z0-9]{6,14}/B[A-Z0-9]{6,14}/[A-Za-z0-9]{20,30}"),
        ("stripe", rf"[rs]k_live_[A-Za-z0-9]{{20,200}}{_END}"),
        ("google", rf"AIza[A-Za-z0-9_-]{{35}}{_END}"),
        ("anthropic", rf"sk-ant-[a-z0-9]{{2,10}}-[A-Za-z0-9_-]{{20,200}}{_END}"),
        ("openai", rf"sk-(?:proj-|svcacct-|admin-)[A-Za-z0-9_-]{{20,250}}{_END}|sk-[A-Za-z0-9]{{32,200}}{_END}"),
        ("npm", rf"npm_[A-Za-z0-9]{{36}}{_END}"),
        ("pypi", rf"pypi-AgEI[A-Za-z0-9_-]{{50,250}}{_END}"),
        ("huggingface", rf"hf_[A-Za-z0-9]{{34,40}}{_END}"),
        ("sendgrid", rf"SG\.[A-Za-z0-9_-]{{22}}\.[A-Za-z0-9_-]{{43}}{_END}"),
        ("digitalocean", rf"dop_v1_[a-f0-9]{{64}}{_END}"),
        ("shopify", rf"shpat_[a-fA-F0-9]{{32}}{_END}"),
        ("docker", rf"dckr_pat_[A-Za-z0-9_-]{{20,64}}{_END}"),
        ("age", rf"AGE-SECRET-KEY-1[A-Z0-9]{{58}}{_END}"),
    )
)
"""The forms that the makers publish. Each also needs the entropy of random signs."""
_JWT = re.compile(r"(eyJ[A-Za-z0-9_-]{10,400})\.([A-Za-z0-9_-]{10,4000})\.[A-Za-z0-9_-]{16,700}")
_TELEGRAM = re.compile(rf"(?<![A-Za-z0-9_])\d{{8,10}}:AA[A-Za-z0-9_-]{{33}}{_END}")
_AZURE = re.compile(r"AccountKey=([A-Za-z0-9+/]{80,90}={0,2})")
_BEARER = re.compile(r"Bearer ([A-Za-z0-9._~+/-]{20,400}={0,2})(?![A-Za-z0-9])")
_PEM = re.compile(r"-----BEGIN ((?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?)-----")
_PEM_BODY = re.compile(r"[A-Za-z0-9+/=]{40}")

_PASSWORD_NAMES = ("password", "passwd", "passphrase", "pwd", "credential", "credentials")
_KEYS = ("api", "access", "secret", "private", "auth", "encryption", "signing", "account", "client")
_NAMES = (
    *_PASSWORD_NAMES,
    "secret",
    "token",
    *(f"{kind}{joint}key" for kind in _KEYS for joint in ("", "_", "-", ".")),
)
"""How names of secrets end, in small letters."""
_VALUE = re.compile(
    r"(?:[:=]|:=|=>) {0,4}(?:[rbuf]{0,2}([\"'`])([^\"'`\s]{8,200})\1|([^\s\"'`<>;,(){}\[\]|\\]{8,200})(?=\s|$|&))"
)
_PLACEHOLDER = re.compile(
    r"[<>{}$]|\*\*|xxx|\.\.\.|::|%\(|%s|change|your|example|placeholder|dummy|sample|fake|secret|passw|token|none|null|true|"
    r"false|test|todo|redacted|hunter2|foobar|abcdef|123456|environ|getenv|config|settings|://|default|admin|user|mock|hidden|key|private|public|%[a-z]",
    re.IGNORECASE,
)
_PATH_OR_NAME = re.compile(
    r"[A-Za-z_]+(?:[./:-][A-Za-z_]+)*\d?$|[./~].*|[\d.:-]+$|.*\.(?:py|json|pem|key|crt|txt|ya?ml)$"
)
_BITS = {"password": 2.8, "token": 3.4}
"""Fewest bits of entropy per character of an assigned password, and of other assigned secrets."""
_TOKEN_BITS = 3.0
_FEWEST_TOKEN_CHARACTERS = 16


def tokens(window: Window) -> Iterator[Finding]:
    """A token, key or private key that a known beginning announces."""
    text, start = window.text, window.start
    if window.found == "-----BEGIN ":
        yield from _private_key(text, start)
        return
    if window.found == ":AA":
        for named in _TELEGRAM.finditer(text, max(0, start - 10)):
            yield from _token("telegram", named.start(), named.end(), named.group())
        return
    if window.found in ("AccountKey=", "Bearer "):
        match = (_AZURE if window.found == "AccountKey=" else _BEARER).match(text, start)
        if match and not _PLACEHOLDER.search(match.group(1)) and _looks_random(match.group(1), _BITS["token"]):
            yield Finding(
                "credential", match.start(1), match.end(1), "azure" if window.found == "AccountKey=" else "bearer"
            )
        return
    if start and (text[start - 1].isalnum() or text[start - 1] in "_-") and window.found != "hooks.slack.com/services/":
        return
    if window.found == "eyJ":
        yield from _web_token(text, start)
        return
    for maker, pattern in _TOKENS:
        match = pattern.match(text, start)
        if match:
            yield from _token(maker, match.start(), match.end(), match.group()[len(window.found) :])
            return


def _token(maker: str, start: int, stop: int, value: str) -> Iterator[Finding]:
    if _entropy(value) >= _TOKEN_BITS and not re.search("EXAMPLE|xxxx|XXXX|0123456789|1234567890|abcdefgh", value):
        yield Finding("credential", start, stop, maker)


def _web_token(text: str, start: int) -> Iterator[Finding]:
    """A JSON web token (RFC 7519): its header says how it is signed. The one that documentation shows is none."""
    match = _JWT.match(text, start)
    if not match:
        return
    header, payload = _decoded(match.group(1)), _decoded(match.group(2))
    documented = isinstance(payload, dict) and payload.get("sub") == "1234567890"
    if isinstance(header, dict) and "alg" in header and not documented:
        yield Finding("credential", start, match.end(), "jwt")


def _decoded(part: str) -> object:
    try:
        return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        return None


def _private_key(text: str, start: int) -> Iterator[Finding]:
    """A private key in PEM armour (RFC 7468), from its first to its last line; without a last line, its body."""
    begin = _PEM.match(text, start)
    if not begin:
        return
    last = f"-----END {begin.group(1)}-----"
    end = text.find(last, begin.end())
    following = text.find("-----BEGIN ", begin.end(), end if end >= 0 else len(text))
    if end < 0 or following >= 0:
        body = re.compile(r"(?:(?:\\n|\s)*[A-Za-z0-9+/=]{40,80})+").match(text, begin.end())
        if body:
            yield Finding("credential", start, body.end(), "private key")
    elif _PEM_BODY.search(text, begin.end(), end):
        yield Finding("credential", start, end + len(last), "private key")


def in_urls(window: Window) -> Iterator[Finding]:
    """The password between :// and @ in a URL."""
    user, _, password = window.found.partition(":")
    if (
        len(password) < 6
        or not re.search(r"[\d\W]", password)
        or re.search(r"[\[\]{}(),:]", password)
        or _PLACEHOLDER.search(password)
        or password.lower().strip("-_") in _PASSWORD_WORDS
    ):
        return
    if password.lower() == user.lower() or re.fullmatch(r"\d{1,5}|[A-Z_]+|[^\w]*|(\w)\1*", password) or "/" in user:
        return
    if re.fullmatch(
        r"[\w.:-]*(?:example|localhost)[\w.:-]*", window.text[window.stop + 1 : window.stop + 40].split("/")[0]
    ):
        return
    yield Finding("credential", window.stop - len(password), window.stop, "url")


_PASSWORD_WORDS = words(
    "pass pwd pw psw passwd password p w word pwrd secret key auth foo bar baz abc abcd tiger scott"
)


def assignments(window: Window) -> Iterator[Finding]:
    """A value assigned to a name of a secret, in code or configuration."""
    text, at = window.text, window.start
    name = text[max(0, at - 24) : at].rstrip(" \"']").lower()
    value = _VALUE.match(text, at) if name.endswith(_NAMES) else None
    if not value:
        return
    group = 2 if value.group(2) else 3
    found = value.group(group)
    is_password = name.endswith(_PASSWORD_NAMES)
    if _PLACEHOLDER.search(found) or _PATH_OR_NAME.match(found):
        return
    if is_password and group == 2:
        fits = _entropy(found) >= _BITS["password"] and _kinds_of_signs(found) >= 3
    else:
        fits = len(found) >= _FEWEST_TOKEN_CHARACTERS and _looks_random(found, _BITS["token"])
    if fits:
        yield Finding("credential", value.start(group), value.end(group), "assigned")


def _looks_random(value: str, bits: float) -> bool:
    digits = sum(map(str.isdigit, value))
    return _entropy(value) >= bits and digits >= 2 and digits < len(value) and not re.search("[A-Za-z]{13}", value)


def _kinds_of_signs(value: str) -> int:
    return sum(
        any(map(test, value)) for test in (str.islower, str.isupper, str.isdigit, lambda sign: not sign.isalnum())
    )


def _entropy(value: str) -> float:
    """Shannon's entropy of the signs, bits per sign."""
    total = len(value)
    return -sum(count / total * math.log2(count / total) for count in Counter(value).values())
