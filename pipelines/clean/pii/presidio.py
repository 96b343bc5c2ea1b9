"""The pattern recognisers of presidio-analyzer (optional extra `pii`), without a language model.

Only findings at least as certain as `LEAST_SCORE` by pattern and checksum alone are used: presidio would raise others
by words around them, which needs a model.
"""

import functools
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pipelines.clean.pii.finding import Finding, words

LEAST_SCORE = 0.5
_TYPES = {
    "PHONE_NUMBER": "phone",
    "IP_ADDRESS": "ip",
    "CREDIT_CARD": "card",
    "IBAN_CODE": "iban",
}
_ASK_THE_NETWORK = words("EMAIL_ADDRESS URL")
"""Their recognisers fetch a list of domains (tldextract), so they are not asked; addresses are found without."""
_NOT_PERSONAL = words("DATE_TIME CRYPTO")
"""Entities that are no personal data here; others that presidio knows by patterns are personal numbers."""
_ABSENT = "pii.presidio needs presidio-analyzer, which is not installed; pip install -e '.[pii]', or set it to false"


def presidio_version() -> str:
    """The release that is installed. Raises `ImportError` with the extra's name where there is none."""
    try:
        return version("presidio-analyzer")
    except PackageNotFoundError:
        raise ImportError(_ABSENT) from None


def patterns(text: str) -> list[Finding]:
    """What the recognisers find in a text. Raises `ImportError` with the extra's name where presidio is absent."""
    found = []
    for recognizer in _recognizers():
        for result in recognizer.analyze(text, recognizer.supported_entities, None) or ():
            if result.score >= LEAST_SCORE and result.entity_type not in _NOT_PERSONAL:
                kind = _TYPES.get(result.entity_type, "national_id")
                found.append(Finding(kind, result.start, result.end, f"presidio {result.entity_type}"))
    return found


@functools.cache
def _recognizers() -> tuple[Any, ...]:
    try:
        from presidio_analyzer import PatternRecognizer, RecognizerRegistry
    except ImportError:
        raise ImportError(_ABSENT) from None
    registry = RecognizerRegistry(supported_languages=["en"])
    registry.load_predefined_recognizers(languages=["en"])
    patterned = [known for known in registry.recognizers if isinstance(known, PatternRecognizer)]
    return tuple(known for known in patterned if not _ASK_THE_NETWORK & set(known.supported_entities))
