"""What licence a Python package says it has, as an SPDX expression, and whether that is a permissive one.

The table of names is short on purpose: what it does not know is not taken. Which files a package has is
`environment.py`'s business.
"""

import re
from email.message import Message

from pipelines.spdx import LONGEST, permitted_expression

PERMISSIVE = frozenset(
    {
        "0BSD",
        "Apache-2.0",
        "Apache-2.0 WITH LLVM-exception",
        "BlueOak-1.0.0",
        "BSD-1-Clause",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "BSD-3-Clause-Clear",
        "BSL-1.0",
        "CC0-1.0",
        "CNRI-Python",
        "HPND",
        "ISC",
        "LicenseRef-BSD",
        "MIT",
        "MIT-0",
        "MIT-CMU",
        "PSF-2.0",
        "Python-2.0",
        "Unlicense",
        "UPL-1.0",
        "Zlib",
        "ZPL-2.1",
    }
)
"""SPDX identifiers that allow use with attribution at most. 'LicenseRef-BSD': "BSD", without a word on clauses."""

_NAMES = {
    "apache": "Apache-2.0",
    "apache 2": "Apache-2.0",
    "apache 2.0": "Apache-2.0",
    "apache-2": "Apache-2.0",
    "apache version 2.0": "Apache-2.0",
    "apache software": "Apache-2.0",
    "asl 2.0": "Apache-2.0",
    "bsd": "LicenseRef-BSD",
    "new bsd": "BSD-3-Clause",
    "modified bsd": "BSD-3-Clause",
    "3-clause bsd": "BSD-3-Clause",
    "bsd 3-clause": "BSD-3-Clause",
    "bsd-3": "BSD-3-Clause",
    "simplified bsd": "BSD-2-Clause",
    "2-clause bsd": "BSD-2-Clause",
    "bsd 2-clause": "BSD-2-Clause",
    "boost software 1.0 (bsl-1.0)": "BSL-1.0",
    "cc0 1.0 universal (cc0 1.0) public domain dedication": "CC0-1.0",
    "historical permission notice and disclaimer (hpnd)": "HPND",
    "isc (iscl)": "ISC",
    "mit no attribution (mit-0)": "MIT-0",
    "psf": "PSF-2.0",
    "psfl": "PSF-2.0",
    "python software foundation": "PSF-2.0",
    "the mit": "MIT",
    "the unlicense": "Unlicense",
    "the unlicense (unlicense)": "Unlicense",
    "universal permissive (upl)": "UPL-1.0",
    "zlib/libpng": "Zlib",
    "zope public": "ZPL-2.1",
}
"""What packages write instead of SPDX: small letters, without 'license' and commas."""

_IDENTIFIERS = {name.lower(): name for name in PERMISSIVE}
_RESTRICTED = re.compile(r"GPL|MPL|EPL|EUPL|CDDL|SSPL|Mozilla|General Public|proprietary|commercial", re.IGNORECASE)
"""Words in a `License` field that no permissive classifier outweighs."""


def identifier(name: str) -> str | None:
    """The SPDX identifier of one permissive licence, however it is written; None: not in the table."""
    plain = re.sub(r"\blicen[cs]e\b|,", " ", name.lower())
    plain = " ".join(plain.split())
    return _IDENTIFIERS.get(" ".join(name.lower().split())) or _IDENTIFIERS.get(plain) or _NAMES.get(plain)


def permissive_expression(words: str) -> str | None:
    """An SPDX expression normalised, if it allows permissive use; else None (see `permitted_expression`)."""
    return permitted_expression(words, identifier)


def licence_of(metadata: Message) -> tuple[str | None, str]:
    """A package's licence as a permissive SPDX expression (None: not permissive, or unknown) and its own words.

    `License-Expression` decides where there is one. Else `License` and the classifiers must not contradict each
    other: all that they name must be permissive. The words are empty where the package says nothing.
    """
    if expression := metadata.get("License-Expression"):
        return permissive_expression(expression), expression
    written = (metadata.get("License") or "").strip()
    classified = [
        classifier.rsplit(" :: ", 1)[-1]
        for classifier in metadata.get_all("Classifier", [])
        if classifier.startswith("License :: ") and classifier.count(" :: ") > 1
    ]
    words = "; ".join([*filter(None, [" ".join(written.split())[:80]]), *classified])
    found = [permissive_expression(name) for name in classified]
    from_field = permissive_expression(written)
    if None in found or (from_field is None and _RESTRICTED.search(written[:LONGEST])):
        return None, words
    return from_field or " AND ".join(dict.fromkeys(filter(None, found))) or None, words
