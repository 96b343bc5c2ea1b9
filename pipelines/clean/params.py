"""What a user may say about cleaning. Thresholds of the named rule sets stand beside it, in `thresholds.py`."""

from pydantic import Field, field_validator

from pipelines.clean.pii.params import PiiParams
from pipelines.clean.policy import ComplianceParams
from pipelines.clean.thresholds import (
    C4Params,
    CodeParams,
    FineWebParams,
    GopherQualityParams,
    GopherRepetitionParams,
)
from pipelines.profile import Params

RULE_SETS = ("gopher_quality", "gopher_repetition", "c4", "fineweb", "code")
OTHERS = "*"
"""Key of `rules` that stands for every source that is not named."""


class CleanParams(Params):
    """Which documents are kept after their text was repaired and their language found."""

    min_characters: int = Field(default=50, ge=1, description="shorter texts are dropped, characters after repair")
    languages: list[str] = Field(
        default=[],
        description="ISO 639 codes of the languages to keep, for example [en, de]; empty: all. 'und': undetermined",
    )
    min_language_score: float = Field(
        default=0.65,
        ge=0,
        le=1,
        description="below this probability a text's language is undetermined ('und'); FineWeb's threshold is 0.65",
    )
    min_alphanumeric_share: float = Field(
        default=0.25,
        ge=0,
        le=1,
        description="texts with a smaller share of letters and digits are dropped; StarCoder's threshold is 0.25",
    )
    rules: dict[str, list[str]] = Field(
        default={},
        description="rule sets by source, in the order in which they are asked, '*' for sources not named, for example "
        f"{{'*': [gopher_repetition, gopher_quality], code: [code]}}; there are {', '.join(RULE_SETS)}",
    )
    gopher_quality: GopherQualityParams = GopherQualityParams()
    gopher_repetition: GopherRepetitionParams = GopherRepetitionParams()
    c4: C4Params = C4Params()
    fineweb: FineWebParams = FineWebParams()
    code: CodeParams = CodeParams()
    pii: PiiParams = PiiParams()
    compliance: ComplianceParams = ComplianceParams()

    @field_validator("languages")
    @classmethod
    def _codes(cls, languages: list[str]) -> list[str]:
        for code in languages:
            if not (2 <= len(code) <= 3 and code.isascii() and code.islower()):
                raise ValueError(f"`languages` names {code!r}; use ISO 639 codes in small letters, such as 'en'")
        return sorted(set(languages))

    @field_validator("rules")
    @classmethod
    def _sets_exist(cls, rules: dict[str, list[str]]) -> dict[str, list[str]]:
        for source, names in rules.items():
            for name in names:
                if name not in RULE_SETS:
                    raise ValueError(f"`rules` names {name!r} for {source!r}; rule sets are {', '.join(RULE_SETS)}")
            if len(set(names)) < len(names):
                raise ValueError(f"`rules` names a rule set twice for {source!r}; once is enough")
        return rules

    def rule_sets(self, source: str) -> list[str]:
        """The rule sets of a source, in the order in which they are asked."""
        return self.rules.get(source, self.rules.get(OTHERS, []))
