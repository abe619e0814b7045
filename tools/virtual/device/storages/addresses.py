"""Addresses that a candidate puts into tables for its kernels: which of its own tensors each belongs to.

A kernel of a grouped product gets an int64 tensor full of `data_ptr()`s. In the runner every storage
whose address was asked for is remembered, weakly; at a launch the tables are looked through, and what
they point into travels with the other storages. The executor turns an address inside such a storage
into its own; any other stays what it was and lies in no storage of the launch, which is out of bounds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.multiprocessing.reductions import StorageWeakRef

TABLES = (torch.int64, torch.uint64)
_MOST_ENTRIES = 1 << 16
"""Larger integer tensors are no tables of addresses."""
_LOWEST = 1 << 16
"""No storage lies below it: small integers are not looked for."""


@dataclass(frozen=True)
class _Asked:
    storage: StorageWeakRef
    low: int
    size: int
    dtype: torch.dtype

    @property
    def is_there(self) -> bool:
        """Whether it lives, where it was and as large: what is resized lies elsewhere, and other memory may lie there."""
        if self.storage.expired():  # type: ignore[no-untyped-call]
            return False
        storage = torch.UntypedStorage._new_with_weak_ptr(self.storage.cdata)
        return storage.data_ptr() == self.low and storage.nbytes() == self.size


class DataPointers:
    """Storages whose addresses the candidate has asked for."""

    def __init__(self) -> None:
        self._by_address: dict[int, _Asked] = {}

    def note(self, tensor: torch.Tensor) -> None:
        """`tensor`: one whose `data_ptr()` was read."""
        if tensor.device.type != "cpu":
            return
        storage = tensor.untyped_storage()
        low = storage.data_ptr()
        if low:
            weak = StorageWeakRef(storage)  # type: ignore[no-untyped-call]
            self._by_address[low] = _Asked(weak, low, storage.nbytes(), tensor.dtype)

    def pointed_at(self, values: Sequence[int]) -> Iterator[tuple[int, torch.Tensor]]:
        """The living storages that any of `values` lies in, with their addresses, each once.

        Of those that share memory, as two made of one array of numpy do, the first.
        """
        self._forget_dead()
        lows = sorted(self._by_address)
        seen: set[int] = set()
        end = 0
        for value in sorted(values) if lows else ():
            at = bisect_right(lows, value) - 1
            if at < 0 or lows[at] in seen:
                continue
            item = self._by_address[lows[at]]
            if value < item.low + item.size and item.low >= end:
                seen.add(item.low)
                storage = torch.UntypedStorage._new_with_weak_ptr(item.storage.cdata)
                end = item.low + item.size
                yield item.low, torch.empty(0, dtype=item.dtype).set_(storage)

    def in_table(self, tensor: torch.Tensor) -> Iterator[tuple[int, torch.Tensor]]:
        """What the entries of an integer tensor point at."""
        if tensor.dtype not in TABLES or tensor.device.type != "cpu" or not self._by_address:
            return
        if 0 < tensor.numel() <= _MOST_ENTRIES:
            values = {int(v) for v in tensor.reshape(-1).tolist() if v >= _LOWEST}
            yield from self.pointed_at([*values])

    def _forget_dead(self) -> None:
        for low in [low for low, item in self._by_address.items() if not item.is_there]:
            del self._by_address[low]


DATA_POINTERS = DataPointers()
"""Of this process."""


@dataclass(frozen=True)
class Pointee:
    """A storage that a table points at: addresses from `low` to before `high` move by `shift`."""

    low: int
    high: int
    shift: int


def translated(values: NDArray[np.uint64], pointees: Sequence[Pointee]) -> NDArray[np.uint64]:
    """Addresses of the runner as the executor's own; those in no `pointees` stay as they are."""
    result = values.copy()
    for item in pointees:
        inside = (values >= np.uint64(item.low)) & (values < np.uint64(item.high))
        if inside.any():
            result[inside] += np.uint64(item.shift % (1 << 64))
    return result
