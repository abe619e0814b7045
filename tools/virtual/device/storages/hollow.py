"""Address ranges of any size for tensors without contents, backed by one small window of memory.

A cost-estimate run needs the addresses of accesses, not the values. A range is one window of
memory mapped again and again, end to end: every address in it can be read and written, whoever does
it, and however large the tensor, only the window is ever allocated. Tensors that fit in the window
are ordinary memory.
"""

from __future__ import annotations

import ctypes
import mmap
import os

WINDOW_BYTES = 64 << 20
_MOST_MAPPINGS = 32_768
"""Half of what Linux lets one process have (vm.max_map_count)."""
_PROT_NONE, _READ_WRITE = 0, mmap.PROT_READ | mmap.PROT_WRITE
_MAP_FIXED, _MAP_NORESERVE = 0x10, 0x4000
_MAY_MOVE, _MOVE_FIXED = 1, 2
_DONTNEED = 4
_FAILED = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long),
)
_libc.mremap.restype = ctypes.c_void_p
_libc.mremap.argtypes = (
    *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p),
)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


class AliasedRange:
    """One address range; the buffer protocol's object is `memory`."""

    def __init__(self, size: int) -> None:
        """`size` in bytes, at least 1; raises `MemoryError` when there are no such addresses."""
        window = _window_of(size)
        self.size = -(-size // window) * window
        # Reserved first, so that the windows find their places free; nothing is allocated by it.
        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        self._base = _checked(_libc.mmap(None, self.size, _PROT_NONE, private, -1, 0), size)
        # Shared: the kernel counts it against no data limit, and once for all its addresses.
        shared = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | _MAP_NORESERVE | _MAP_FIXED
        _checked(_libc.mmap(self._base, window, _READ_WRITE, shared, -1, 0), size)
        for at in range(self._base + window, self._base + self.size, window):
            # With an old size of 0 the same memory gets a further address (mremap(2)). A file
            # descriptor would do as well, and the sandbox gives none.
            _checked(_libc.mremap(self._base, 0, window, _MAY_MOVE | _MOVE_FIXED, at), size)
        self.memory = (ctypes.c_char * self.size).from_address(self._base)

    def forget_pages(self) -> None:
        """Give the page tables back; what was stored stays in the window."""
        _libc.madvise(self._base, self.size, _DONTNEED)

    def close(self) -> None:
        """Nothing may use the addresses any more."""
        _libc.munmap(self._base, self.size)


def _window_of(size: int) -> int:
    whole = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    window = WINDOW_BYTES
    while window * _MOST_MAPPINGS < size:
        window *= 2
    return min(whole, window)


def _checked(address: int | None, size: int) -> int:
    if address is None or address == _FAILED:
        raise MemoryError(
            f"a tensor of {size} bytes has no room in the executor's addresses "
            f"({os.strerror(ctypes.get_errno())})"
        )
    return int(address)
