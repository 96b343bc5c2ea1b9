"""Compiled: arrays without a count of their references.

numba counts references of every array argument at every call, with instructions that lock the memory: 60 ns an array.
"""

from typing import Any

import numba
from numba.core import cgutils, types
from numba.extending import intrinsic


@intrinsic
def _pointer(context: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.uintp), generate


@numba.njit(nogil=True, cache=True)
def borrowed(array):  # type: ignore[no-untyped-def]
    """The same memory; whoever calls keeps `array` alive as long."""
    return numba.carray(_pointer(array.ctypes.data), array.shape, array.dtype)  # type: ignore[call-arg]
