"""For the servers that steps and workers are forked from: what every compiled function needs before its first call.

Loading it takes half a second of CPU, once here instead of in each process. Nothing imports this module by name; it
stands in lists of modules to preload.
"""

from numba.core.registry import cpu_target

cpu_target.typing_context.refresh()
cpu_target.target_context.refresh()
