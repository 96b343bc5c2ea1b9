"""Personal data and secrets: found in two steps, by one compiled scan and by the checks of each type, and masked.

`mask.py` is what cleaning calls, `find.py` what the audit does.
"""
