"""The memory of a launch's arguments in pieces of one element, and which programs accessed each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from triton._C.libtriton import interpreter as native

from kernelagent.tools.virtual.executor.launch import AccessKind, TensorArgument

Addresses = NDArray[np.uint64]
NOBODY, MANY = 0, -1


@dataclass
class Region:
    """One storage: who stored, read and updated each piece last, as 1 + the program's place in the run."""

    low: int
    high: int
    grain: int
    """Bytes of a piece: the smallest element of the arguments in this storage."""
    tensor: TensorArgument
    # Each is made when it is first asked for: most launches only load what they do not store.

    @cached_property
    def writer(self) -> NDArray[np.int32]:
        """Who stored it."""
        return self._nobody()

    @cached_property
    def reader(self) -> NDArray[np.int32]:
        """Who loaded it."""
        return self._nobody()

    @cached_property
    def updater(self) -> NDArray[np.int32]:
        """Who updated it by an atomic."""
        return self._nobody()

    @cached_property
    def plain(self) -> NDArray[np.int32]:
        """Who loaded it, neither volatile nor as the guess of a compare-and-swap."""
        return self._nobody()

    def _nobody(self) -> NDArray[np.int32]:
        return np.zeros(-(-(self.high - self.low) // self.grain), dtype=np.int32)

    def marks(self, kind: AccessKind) -> NDArray[np.int32]:
        """Who made accesses of this kind."""
        if kind == "load":
            return self.reader
        return self.writer if kind == "store" else self.updater

    def holds(self, addresses: Addresses) -> bool:
        return self.low <= int(addresses.min()) and int(addresses.max()) < self.high

    def pieces(self, addresses: Addresses, item_bytes: int) -> NDArray[np.int64]:
        first = (addresses - np.uint64(self.low)).astype(np.int64) // self.grain
        if item_bytes <= self.grain:
            return first
        wide = np.arange(-(-item_bytes // self.grain))
        return (first[:, None] + wide).ravel()


def bytes_at(addresses: Addresses, size: int) -> NDArray[np.uint8]:
    """`size` bytes from each address, all of them inside an argument's storage."""
    where = (addresses[:, None] + np.arange(size, dtype=np.uint64)).ravel()
    filler = np.zeros(where.shape, dtype=np.uint8)
    held = native.load(where, np.ones(where.shape, dtype=bool), filler, np.dtype(np.uint8))
    result: NDArray[np.uint8] = held.reshape(-1, size)
    return result
