"""What a user may say about cleaning. Quality heuristics and their thresholds stand beside it, in `rules.py`."""

from pydantic import Field, field_validator

from pipelines.profile import Params


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

    @field_validator("languages")
    @classmethod
    def _codes(cls, languages: list[str]) -> list[str]:
        for code in languages:
            if not (2 <= len(code) <= 3 and code.isascii() and code.islower()):
                raise ValueError(f"`languages` names {code!r}; use ISO 639 codes in small letters, such as 'en'")
        return sorted(set(languages))
