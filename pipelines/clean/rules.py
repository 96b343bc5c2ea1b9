"""The rules that decide which cleaned documents are kept. The first rule that objects names the decision.

Measures of quality with many thresholds (repetition, Gopher, C4) belong to filtering, not here.
"""

from dataclasses import dataclass

from pipelines.clean.params import CleanParams

_ALPHANUMERIC = bytes(code for code in range(128) if chr(code).isalnum())


@dataclass(frozen=True)
class Decision:
    """Whether a document is kept, the rule that decided, and what it compared with what."""

    keep: bool
    rule: str
    value: float | None = None
    threshold: float | None = None
    detail: str | None = None


KEPT = Decision(True, "kept")


def decide(text: str, language: str, score: float, params: CleanParams) -> Decision:
    """Keep or drop one repaired text. language: the best guess, score: its probability."""
    if not text or text.isspace():
        return Decision(False, "empty", 0.0, float(params.min_characters))
    if len(text) < params.min_characters:
        return Decision(False, "too_short", float(len(text)), float(params.min_characters))
    if params.languages and language not in params.languages:
        return Decision(False, "language", score, params.min_language_score, language)
    if params.min_alphanumeric_share > 0:
        share = alphanumeric_share(text)
        if share < params.min_alphanumeric_share:
            return Decision(False, "few_alphanumerics", share, params.min_alphanumeric_share)
    return KEPT


def alphanumeric_share(text: str) -> float:
    """Letters and digits per character, 0 to 1; 0 for an empty text.

    The StarCoder corpus dropped files below 0.25 (Li et al. 2023, "StarCoder: may the source be with you!", 3.2).
    """
    if not text:
        return 0.0
    if text.isascii():
        return 1.0 - len(text.encode().translate(None, _ALPHANUMERIC)) / len(text)
    return sum(map(str.isalnum, text)) / len(text)
