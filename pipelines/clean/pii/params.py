"""What a user may say about personal data. What counts as which type stands with the checks of each type."""

import hashlib
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from pipelines.profile import Params

Action = Literal["keep", "redact", "hash", "drop"]
TYPES = ("email", "phone", "ip", "card", "iban", "national_id", "credential")

ID_COUNTRIES = ("BR", "CN", "DE", "ES", "FR", "GB", "IN", "IT", "NL", "PL", "SE", "US")
"""Countries whose personal numbers are known."""
PHONE_COUNTRIES = ("AU", "BR", "CA", "DE", "ES", "FR", "GB", "IN", "IT", "JP", "US")
"""Countries whose national way of writing phone numbers is known; numbers with + and a country code always are."""

MIN_KEY_BYTES = 16
MAX_KEY_BYTES = 64


class PiiParams(Params):
    """What happens to personal data and secrets, by type.

    'keep' counts only. 'redact' writes the type's placeholder, such as <EMAIL>. 'hash' writes a placeholder with a
    keyed hash of the value, so that the same value stays recognisable. 'drop' drops every document that holds one.
    """

    email: Action = Field("redact", description="e-mail addresses, except documentation and reserved domains")
    phone: Action = Field("redact", description="phone numbers, international or as the countries write them")
    ip: Action = Field("redact", description="public IP addresses; private and documentation ranges are none")
    card: Action = Field("redact", description="payment card numbers with valid issuer, length and check digit")
    iban: Action = Field("redact", description="bank account numbers with valid country, length and check digits")
    national_id: Action = Field("redact", description="personal numbers of the countries, checked by their rules")
    credential: Action = Field("redact", description="keys, tokens, passwords and private keys in text and code")
    countries: list[str] = Field(
        [],
        description="countries whose national phone and id formats are looked for, for example [US, DE]; empty: all "
        f"that are known: {', '.join(sorted({*ID_COUNTRIES, *PHONE_COUNTRIES}))}",
    )
    hash_key_file: str = Field(
        "",
        description="file with the key of 'hash', 16 to 64 bytes, the same on every machine; a file, since a key in "
        "the profile would stand beside the data in every record of a run",
    )
    presidio: bool = Field(
        False, description="also ask the patterns of presidio-analyzer, English; slow, less precise; needs extra `pii`"
    )

    @field_validator("countries")
    @classmethod
    def _known(cls, countries: list[str]) -> list[str]:
        known = {*ID_COUNTRIES, *PHONE_COUNTRIES}
        for country in countries:
            if country not in known:
                raise ValueError(f"`countries` names {country!r}; known are {', '.join(sorted(known))}")
        return sorted(set(countries))

    @model_validator(mode="after")
    def _hashing_has_a_key(self) -> "PiiParams":
        hashed = [name for name in TYPES if self.action(name) == "hash"]
        if hashed and not self.hash_key_file:
            raise ValueError(
                f"{hashed[0]}: hash needs `hash_key_file`, a file with {MIN_KEY_BYTES} to {MAX_KEY_BYTES} secret "
                "bytes: without a key, whoever tries all numbers finds the value of a hash"
            )
        return self

    def action(self, kind: str) -> Action:
        """What happens to a type."""
        action: Action = getattr(self, kind)
        return action

    def what_is_masked(self) -> dict[str, Any]:
        """What the text that goes on depends on: types that are dropped or kept stand in it as they are."""
        actions = {kind: "keep" if self.action(kind) == "drop" else self.action(kind) for kind in TYPES}
        key = self.hash_key()
        return {
            "actions": actions,
            "countries": self.countries,
            "presidio": self.presidio,
            "key": hashlib.sha256(key).hexdigest() if key else None,
        }

    def hash_key(self) -> bytes | None:
        """The key of 'hash', None where nothing is hashed. Raises `ValueError` where the file is not fit."""
        if not any(self.action(kind) == "hash" for kind in TYPES):
            return None
        try:
            key = Path(self.hash_key_file).read_bytes().strip()
        except OSError as error:
            raise ValueError(f"hash_key_file {self.hash_key_file} cannot be read: {error.strerror}") from None
        if not MIN_KEY_BYTES <= len(key) <= MAX_KEY_BYTES:
            raise ValueError(
                f"hash_key_file {self.hash_key_file} holds {len(key)} bytes; a key has {MIN_KEY_BYTES} to "
                f"{MAX_KEY_BYTES}, for example the output of `openssl rand -hex 32`"
            )
        return key
