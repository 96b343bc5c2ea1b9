"""How the helpers of compiled code are compiled: inlined, and without counting references to the arrays handed to them.

Numba counts them around every call, atomically, which takes four times as long as what the helpers of `peeling.py` do.
A helper makes no arrays, and whoever calls it holds those that it is given, so there is nothing to count.
"""

import numba

helper = numba.njit(nogil=True, cache=True, forceinline=True, _nrt=False)  # type: ignore[call-overload]
"""Decorates a function that only compiled code calls (or a test) and that makes no arrays."""
