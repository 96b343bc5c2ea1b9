"""Personal data and secrets: found in two steps, by one compiled scan and by the checks of each type, and masked.

`mask.py` is what the stage calls, `find.py` what explains and audits.
"""

from pipelines.clean.pii.find import find
from pipelines.clean.pii.finding import Finding
from pipelines.clean.pii.mask import Masked, mask
from pipelines.clean.pii.params import TYPES, PiiParams

__all__ = ["TYPES", "Finding", "Masked", "PiiParams", "find", "mask"]
