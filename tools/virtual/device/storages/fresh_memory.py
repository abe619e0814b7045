"""What fresh memory is filled with on `virtual`, and which storages of the runner were made of it.

On a GPU torch's allocator hands out blocks that hold what earlier calls left there. Here each is filled, and
the executor is told with what: it then knows which bytes nobody has written yet (`never_written`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.multiprocessing.reductions import StorageWeakRef

from kernelagent.tools.calls.tensors import dtype_of
from kernelagent.tools.calls.torch_dtypes import name_of

_KEPT_AT_MOST = 4096
"""Storages after which those that are gone are let go of."""
Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Fill:
    """What one storage was filled with when it was made."""

    serial: int
    """Of the storage: another than that of any other in this process."""
    dtype: str
    """Of the tensor that it was made for, in torch's spelling."""
    seed: int | None
    """Of random bytes; None: torch's own filling, NaN or the largest integer."""

    def as_value(self) -> dict[str, Any]:
        return {"serial": self.serial, "dtype": self.dtype, "seed": self.seed}

    @property
    def item_bytes(self) -> int:
        return dtype_of(self.dtype).itemsize

    @property
    def chance(self) -> float:
        """How often an element that was written holds what it was filled with all the same."""
        kind = dtype_of(self.dtype)
        if kind == torch.bool:
            return 0.5
        return 0.0 if self.seed is None else 2.0 ** (-8 * kind.itemsize)

    def bytes(self, size: int) -> Bytes:
        """The first so many of them."""
        kind = dtype_of(self.dtype)
        if self.seed is not None:
            return noise(self.seed, kind, size)
        if kind.is_floating_point or kind.is_complex:
            single = torch.full((1,), math.nan, dtype=kind)
        else:
            most = True if kind == torch.bool else torch.iinfo(kind).max
            single = torch.full((1,), most, dtype=kind)
        pattern = single.view(torch.uint8).numpy()
        return np.resize(pattern, size)


def noise(seed: int, kind: torch.dtype, size: int) -> Bytes:
    """Random bytes, the same ones for the same seed; those of booleans are 0 or 1."""
    most = 2 if kind == torch.bool else 256
    return np.random.default_rng(seed).integers(0, most, size, np.uint8)


class FreshMemory:
    """The storages that were handed out filled, as long as they live."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[StorageWeakRef, Fill]] = {}
        self._serials = itertools.count(1)

    def note(self, fresh: Any, seed: int | None) -> None:
        """A tensor that torch has just made and filled, or that was filled with noise of this seed."""
        if type(fresh) is not torch.Tensor or fresh.device.type != "cpu" or not fresh.numel():
            return
        if len(self._known) >= _KEPT_AT_MOST:
            self._known = {key: item for key, item in self._known.items() if _lives(item[0])}
        storage = fresh.untyped_storage()
        fill = Fill(next(self._serials), name_of(fresh.dtype), seed)
        mark = StorageWeakRef(storage)  # type: ignore[no-untyped-call]
        self._known[storage._cdata] = mark, fill

    def of(self, storage: torch.UntypedStorage) -> Mapping[str, Any] | None:
        """The fill of this storage as it is sent; None where it was not made of fresh memory."""
        mark, fill = self._known.get(storage._cdata, (None, None))
        return fill.as_value() if mark is not None and fill is not None and _lives(mark) else None


def _lives(mark: StorageWeakRef) -> bool:
    return not mark.expired()  # type: ignore[no-untyped-call]


FRESH_MEMORY = FreshMemory()
"""Of this process."""
