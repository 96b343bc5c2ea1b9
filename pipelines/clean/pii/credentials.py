"""Secrets that have forms of their own: tokens of known makers, JSON web tokens, private keys.

Keys that say EXAMPLE are none. Secrets that only the place tells where they stand are in `assigned.py`.
"""

import base64
import binascii
import json
import re
from collections.abc import Iterator

from pipelines.clean.pii.finding import Finding, Window
from pipelines.clean.pii.randomness import entropy, is_placeholder, looks_random

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
_PEM_LINES = re.compile(r"(?:(?:\\n|\s)*[A-Za-z0-9+/=]{40,80})+")

_TOKEN_BITS = 3.0


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
        if match and not is_placeholder(match.group(1)) and looks_random(match.group(1)):
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
    if entropy(value) >= _TOKEN_BITS and not re.search("EXAMPLE|xxxx|XXXX|0123456789|1234567890|abcdefgh", value):
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
        body = _PEM_LINES.match(text, begin.end())
        if body:
            yield Finding("credential", start, body.end(), "private key")
    elif _PEM_BODY.search(text, begin.end(), end):
        yield Finding("credential", start, end + len(last), "private key")
