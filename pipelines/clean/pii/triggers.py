"""What the compiled scan stops at, as tables: pairs of bytes, beginnings of secrets, words that tell what a number is.

Nothing here decides; a candidate becomes a finding in the checks of its type.
"""

import functools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

DIGIT, UPPER, LOWER, HEX, LOCAL, DOMAIN, NUMERIC = 1, 2, 4, 8, 16, 32, 64
"""Classes of bytes. LOCAL may stand before an @, DOMAIN after it; bytes of other letters than ASCII's are DOMAIN.
NUMERIC may stand in a number."""

NUMBER_PAIR, AT_PAIR, ASSIGN_PAIR, LITERAL_PAIR = 1, 2, 4, 8
"""What a pair of bytes may begin."""

PHONE, CARD, IP, VERSION, REFERENCE = 1, 2, 4, 8, 16
"""What words before a number say about it. VERSION and REFERENCE (an ISBN, an order) speak against personal data."""
COUNTRIES = {
    name: 1 << (8 + index)
    for index, name in enumerate(("BR", "CN", "DE", "ES", "FR", "GB", "IN", "IT", "NL", "PL", "SE", "US"))
}
"""A word that announces the personal number of a country."""

CONTEXT_WORDS = {
    PHONE: "phone telephone telefon telefono téléphone telefone teléfono tel telf tél fax mobile mobil mobiltelefon "
    "cell cellphone call sms whatsapp handy contact hotline phonenumber ruf rufnummer portable cellulare celular "
    "movil móvil telefoonnummer phones 電話 电话 手机 携帯",
    CARD: "card cards creditcard visa mastercard amex maestro debit kreditkarte carte tarjeta carta cardnumber ccnum "
    "ccnumber pan cartão cc kartennummer kreditkartennummer express diners",
    IP: "ip ips ipv ipaddr ipaddress addr host hosts server ping dns gateway nameserver ssh inet whois",
    VERSION: "version versions ver release releases build firmware driver revision rev assemblyversion fileversion oid "
    "objectidentifier section chapter patch deps chrome firefox safari oids sec upgrade",
    REFERENCE: "isbn issn doi pmid arxiv order invoice sku serial ean upc gtin asin part catalog catalogue patent uuid "
    "timestamp pid checksum hash commit model item ticket ndc cas oclc lccn casno isrc",
    COUNTRIES["BR"]: "cpf",
    COUNTRIES["CN"]: "身份证",
    COUNTRIES["DE"]: "steuer steuerid idnr steueridentifikationsnummer identifikationsnummer tin",
    COUNTRIES["ES"]: "dni nif nie",
    COUNTRIES["FR"]: "nir insee sécu sécurité",
    COUNTRIES["GB"]: "nino insurance",
    COUNTRIES["IN"]: "aadhaar aadhar uidai",
    COUNTRIES["IT"]: "fiscale",
    COUNTRIES["NL"]: "bsn burgerservicenummer sofinummer",
    COUNTRIES["PL"]: "pesel",
    COUNTRIES["SE"]: "personnummer",
    COUNTRIES["US"]: "ssn ssns social",
}
"""Compared in small letters, ASCII's at least; a word is a run of letters."""

SECRET_BEGINNINGS = {
    "AKIA": 0, "ASIA": 0, "ghp_": 1, "gho_": 2, "ghu_": 2, "ghs_": 1, "ghr_": 1, "github_pat_": 5, "glpat-": 1,
    "xoxb-": 0, "xoxp-": 0, "xoxa-": 0, "xoxr-": 0, "xoxs-": 0, "xoxe-": 0, "xapp-": 3, "hooks.slack.com/services/": 15,
    "sk_live_": 0, "rk_live_": 0, "AIza": 1, "sk-": 1, "npm_": 1, "pypi-AgEI": 4, "hf_": 0, "eyJ": 1, "SG.": 0,
    "dop_v1_": 4, "shpat_": 1, "dckr_pat_": 2, "AccountKey=": 6, "AGE-SECRET-KEY-1": 13, ":AA": 0, "Bearer ": 0,
    "-----BEGIN ": 4,
}  # fmt: skip
"""What tokens of known makers begin with, or hold near their beginning; and where in it the two bytes stand that prose
and code have least of (counted in 30 MB of site-packages)."""
OBFUSCATED_SIGNS = {
    "(at)": 0, "[at]": 0, "{at}": 0, "(AT)": 2, "[AT]": 2, " dot ": 1, "[dot]": 0, "(dot)": 0, " DOT ": 1,
}  # fmt: skip
ENCODED_SIGNS = {"%40": 0, "&#64;": 1, "&#x40;": 1, "&#X40;": 1}
IBAN_WORDS = {"iban": 0, "Iban": 0, "IBAN": 0}
"""What announces an IBAN in small letters."""
USER_OPTIONS = {"-u ": 0, "-user ": 0}
"""Of curl; a user and a password follow."""
_LITERALS = SECRET_BEGINNINGS | OBFUSCATED_SIGNS | ENCODED_SIGNS | IBAN_WORDS | USER_OPTIONS
LITERALS = tuple(text.encode() for text in _LITERALS)
KEY_ENDINGS = ("ord", "swd", "pwd", "ret", "ken", "key", "ase", "ial", "als", "ass")
"""The last three letters of names such as password, passwd, pwd, secret, token, api_key, passphrase, credentials, pass.
"""

HASH_START, HASH_FACTOR = 0x811C9DC5, 0x01000193
"""FNV-1a, 32 bits."""
WORD_SLOTS = 1024


@dataclass(frozen=True)
class Tables:
    """classes: uint8[256]. pairs: uint8[65536]. literals: the bytes of LITERALS from `starts[i]` on; `first[pair]` is
    the first in `order` whose chosen pair, `places[i]` bytes from its beginning, this is; `chosen[i]` is that pair.
    words and meanings: a hash table of the context words. endings: bool[32768], by the low
    five bits of three bytes."""

    classes: npt.NDArray[np.uint8]
    pairs: npt.NDArray[np.uint8]
    literals: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    chosen: npt.NDArray[np.int64]
    first: npt.NDArray[np.uint8]
    order: npt.NDArray[np.int64]
    words: npt.NDArray[np.uint32]
    meanings: npt.NDArray[np.int64]
    endings: npt.NDArray[np.bool_]

    def arrays(self) -> tuple[npt.NDArray[np.generic], ...]:
        """In the order in which the scan takes them."""
        return (
            self.classes, self.pairs, self.literals, self.starts, self.places, self.chosen, self.first, self.order,
            self.words, self.meanings, self.endings,
        )  # fmt: skip


@functools.cache
def tables() -> Tables:
    """The tables, made once per process."""
    places = list(_LITERALS.values())
    chosen = [literal[at] << 8 | literal[at + 1] for literal, at in zip(LITERALS, places, strict=True)]
    order = sorted(range(len(LITERALS)), key=lambda index: chosen[index])
    first = np.zeros(1 << 16, np.uint8)
    for rank in reversed(range(len(order))):
        first[chosen[order[rank]]] = rank
    words, meanings = _word_table()
    return Tables(
        _classes(),
        _pairs(chosen),
        np.frombuffer(b"".join(LITERALS), np.uint8),
        np.cumsum([0, *map(len, LITERALS)]),
        np.array(places, np.int64),
        np.array([chosen[index] for index in order], np.int64),
        first,
        np.array(order, np.int64),
        words,
        meanings,
        _endings(),
    )


def _classes() -> npt.NDArray[np.uint8]:
    classes = np.zeros(256, np.uint8)
    for byte in range(256):
        sign = chr(byte) if byte < 128 else ""
        classes[byte] = (
            DIGIT * sign.isdigit()
            + UPPER * sign.isupper()
            + LOWER * sign.islower()
            + HEX * (sign != "" and sign in "0123456789abcdefABCDEF")
            + LOCAL * (byte >= 128 or sign.isalnum() or (sign != "" and sign in "._%+-'&"))
            + DOMAIN * (byte >= 128 or sign.isalnum() or sign == "-")
            + NUMERIC * (byte >= 128 or (sign != "" and sign in "0123456789 -./()"))
        )
    return classes


def _pairs(chosen: list[int]) -> npt.NDArray[np.uint8]:
    pairs = np.zeros((256, 256), np.uint8)
    digits = slice(ord("0"), ord("9") + 1)
    pairs[:, digits] = NUMBER_PAIR
    pairs[digits, digits] = 0
    pairs[0xBC, 0x90:0x9A] = NUMBER_PAIR  # the end of a fullwidth digit
    pairs[0xD9, 0xA0:0xAA] = NUMBER_PAIR  # an Arabic-Indic digit
    pairs[0xDB, 0xB0:0xBA] = NUMBER_PAIR  # the Persian form
    pairs[33:, ord("@")] = AT_PAIR
    pairs[ord("@"), ord("@")] = 0
    pairs[0xBC, 0xA0] = AT_PAIR  # the end of a fullwidth @
    for sign in b":=":
        pairs[32:, sign] = ASSIGN_PAIR
        for double in b":=!<>+-*/|&":
            pairs[double, sign] = 0
    pairs[ord(":"), ord("=")] = ASSIGN_PAIR
    flat = pairs.reshape(-1)
    flat[chosen] |= LITERAL_PAIR
    return flat


def _endings() -> npt.NDArray[np.bool_]:
    endings = np.zeros(1 << 15, np.bool_)
    for first, second, third in (ending.encode() for ending in KEY_ENDINGS):
        endings[(first & 31) << 10 | (second & 31) << 5 | third & 31] = True
    return endings


def _word_table() -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    words, meanings = np.zeros(WORD_SLOTS, np.uint32), np.zeros(WORD_SLOTS, np.int64)
    for meaning, listed in CONTEXT_WORDS.items():
        for word in listed.split():
            value = HASH_START
            for byte in word.encode():
                value = (value ^ byte) * HASH_FACTOR & 0xFFFFFFFF
            slot = value % WORD_SLOTS
            while words[slot] not in (0, value):
                slot = (slot + 1) % WORD_SLOTS
            words[slot] = value
            meanings[slot] |= meaning
    return words, meanings
