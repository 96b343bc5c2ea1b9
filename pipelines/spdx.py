"""SPDX licence expressions: what is left of one when only some licences may be used.

Which licences those are is the business of whoever asks: ingestion knows the names that packages use, the compliance
audit what a profile permits.
"""

import re
from collections.abc import Callable

LONGEST = 200
"""Characters; more is a licence's whole text, not its name."""

_TOKENS = re.compile(r"[()]|\bOR\b|\bAND\b|(?:(?!\bOR\b|\bAND\b)[^()])+")


def permitted_expression(words: str, permitted: Callable[[str], str | None]) -> str | None:
    """The part of an expression that may be used, None where nothing may, or where it is no expression.

    permitted: from one licence as written (with its 'WITH' exception) to the name it is known by, None where it may not
    be used. Of alternatives (OR) one must be permitted, and only those are kept; of parts (AND) all must be. 'AND'
    binds tighter than 'OR' (SPDX specification 2.3, annex D.4).
    """
    if len(words) > LONGEST:
        return None
    if whole := permitted(words.strip()):
        return whole
    tokens = [token.strip() for token in _TOKENS.findall(words) if token.strip()]
    try:
        value = _either(tokens, permitted)
    except IndexError:
        return None
    return value if not tokens else None


def _either(tokens: list[str], permitted: Callable[[str], str | None]) -> str | None:
    options = [_every(tokens, permitted)]
    while tokens and tokens[0] == "OR":
        tokens.pop(0)
        options.append(_every(tokens, permitted))
    allowed = list(dict.fromkeys(option for option in options if option))
    return " OR ".join(allowed) if allowed else None


def _every(tokens: list[str], permitted: Callable[[str], str | None]) -> str | None:
    parts = [_one(tokens, permitted)]
    while tokens and tokens[0] == "AND":
        tokens.pop(0)
        parts.append(_one(tokens, permitted))
    if not all(parts):
        return None
    return " AND ".join(dict.fromkeys(part for part in parts if part))


def _one(tokens: list[str], permitted: Callable[[str], str | None]) -> str | None:
    token = tokens.pop(0)
    if token != "(":
        return permitted(token)
    inner = _either(tokens, permitted)
    if not tokens or tokens.pop(0) != ")":
        raise IndexError
    return f"({inner})" if inner and " OR " in inner else inner
