"""What the C library does with memory that was freed: kept, it need not be zeroed again by the kernel.

By default glibc returns blocks of 128 kB and more at once, and a temporary array of a megabyte then takes
longer to come by than to compute. Constants and defaults: mallopt(3). Other C libraries have no such call
and are left alone.
"""

from __future__ import annotations

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_MOST = 1 << 30


def keep_freed(block: int, together: int) -> None:
    """From here on blocks of fewer bytes than `block` are kept when freed, up to `together` bytes at the heap's end."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        # Set once, a threshold also stays where it is: by itself it rises to the largest block that was freed.
        mallopt(_M_MMAP_THRESHOLD, min(block, _MOST))
        mallopt(_M_TRIM_THRESHOLD, min(together, _MOST))
