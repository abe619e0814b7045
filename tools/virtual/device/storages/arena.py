"""Memory that runner and executor share: storages are copied in before a launch and out after it."""

from __future__ import annotations

import mmap
import os
import secrets

ALIGNMENT = 512
"""Of every allocation that torch makes on a GPU."""
OF_A_CPU = 64
"""Of those that it makes here."""
GAP = 1 << 16
"""The least unused bytes between two storages: an access that leaves its own does not reach the next."""
_PAGE = 1 << 12
_MOST_PAGES = 64
MOST_GAP = GAP + _MOST_PAGES * _PAGE
"""Before a storage is aligned. How far apart two lie is drawn for each launch, as nobody knows it of a GPU's memory."""


class Arena:
    """One end's mapping of a memory file, remapped as it grows."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._mapping: mmap.mmap | None = None
        self._size = 0

    def ensure(self, size: int) -> None:
        """Make at least `size` bytes usable; the file only ever grows."""
        if size <= self._size:
            return
        rounded = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        if os.fstat(self._fd).st_size < rounded:
            os.ftruncate(self._fd, rounded)
        # The old mapping is left to its views; it is freed with the last of them.
        self._mapping = mmap.mmap(self._fd, rounded)
        self._size = rounded

    @property
    def memory(self) -> mmap.mmap:
        if self._mapping is None:
            self.ensure(mmap.PAGESIZE)
        assert self._mapping is not None
        return self._mapping


def place(offset: int, address: int) -> int:
    """An offset beyond `offset` and a drawn gap that is aligned as torch's own memory on a GPU.

    What is not torch's own, by `address`, is no better aligned there than here. In whole pages, so that no count of
    what an access touches depends on the draw.
    """
    after = offset + GAP + secrets.randbelow(_MOST_PAGES) * _PAGE
    begins = 0 if address % OF_A_CPU == 0 else address
    return after + (begins - after) % ALIGNMENT
