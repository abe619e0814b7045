"""How many instructions an integer division takes, which no GPU has a unit for."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from kernelagent.tools.virtual.cost.dataflow import is_known

_BY_VALUE = {(32, True): 21, (32, False): 17, (64, True): 70, (64, False): 70}
"""By bits and whether signed. Of 32 bits: what `nvdisasm` shows of `//` and `%` compiled for sm_90 (24 and 21 signed, 18
and 17 unsigned; the CUDA C++ Programming Guide has about 20 under arithmetic instructions). Of 64 bits: assumption, over
three times that."""
_BY_CONSTANT = 5
"""Of 32 bits, for a constant (`nvdisasm`, sm_90: 4.7 for `//`, 5.7 for `%`), or twice that for 64."""
_BY_POWER_OF_TWO = 1
_AGAIN = 2
"""Of `x % y` beside `x // y`: a product and a difference."""


class Divisions:
    """Knows the last one, as `//` and `%` of the same numbers come in pairs."""

    def __init__(self) -> None:
        self._last: tuple[Any, ...] = ()

    def instructions(self, left: Any, right: Any) -> int:
        """Of each thread, for one element of `left`."""
        kind = left.dtype.scalar
        bits = 64 if kind.primitive_bitwidth == 64 else 32
        if is_known(left) and is_known(right):
            return 0
        if is_known(right):
            value = int(right.data.reshape(-1)[0])
            if value > 0 and value & (value - 1) == 0:
                return _BY_POWER_OF_TWO
            return _BY_CONSTANT * bits // 32
        if self._again(left, right):
            return _AGAIN
        return _BY_VALUE[bits, bool(kind.is_int_signed())]

    def _again(self, left: Any, right: Any) -> bool:
        known = [item() for item in self._last]
        self._last = (weakref.ref(_owner(left.data)), weakref.ref(_owner(right.data)))
        return len(known) == 2 and known[0] is _owner(left.data) and known[1] is _owner(right.data)


def _owner(data: Any) -> Any:
    """The array that holds the numbers of a view."""
    while isinstance(data.base, np.ndarray):
        data = data.base
    return data
