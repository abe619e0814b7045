"""Whether two atomics of threads of one program may come in any order.

They may where both only add (or do another operation that commutes) and nobody looks at what they return; or where both
do the same with the same number, as lanes that draw tickets: changing places, they change tickets. Whoever looks at a
ticket may not rely on who got which; calls in which lanes come in another order show that (`lane_order`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelagent.tools.virtual.arithmetic.numerics import Array

_EXCHANGES, _SWAP = ("XCHG", "exchanged"), "compare and swap"
"""As the interpreter calls them, and as `accesses` does for bf16."""


@dataclass(frozen=True)
class Atomic:
    """What one atomic does to each place."""

    operation: str
    dropped: bool
    """Whether nobody looks at what it returns."""
    number: bytes | None = None
    """What it does it with, where that is one integer for all its lanes."""

    def may_change_places_with(self, other: Atomic) -> bool:
        """Whether the same is in memory afterwards, and nobody knows which of the two came first."""
        if self.operation != other.operation:
            return False
        if self.dropped and other.dropped and self.operation not in (*_EXCHANGES, _SWAP):
            return True
        return self.number is not None and self.number == other.number


def update_of(operation: Any, values: Array, mask: Array, *, dropped: bool) -> Atomic:
    """`operation`: one of the interpreter's, or the function that combines two numbers."""
    name = getattr(operation, "name", None) or getattr(operation, "__name__", repr(operation))
    return Atomic(str(name), dropped, _number(values, mask))


def swap_of(expected: Array, values: Array) -> Atomic:
    """A compare-and-swap, whose result always tells whether it was the first."""
    pair = [_number(part, np.ones(part.shape, dtype=bool)) for part in (expected, values)]
    known = None if None in pair else b"".join(part for part in pair if part)
    return Atomic(_SWAP, dropped=False, number=known)


def _number(values: Array, mask: Array) -> bytes | None:
    shape = np.broadcast_shapes(values.shape, mask.shape)
    used = np.broadcast_to(values, shape)[np.broadcast_to(mask, shape)]
    if not used.size or used.dtype.kind not in "iub" or bool((used != used.flat[0]).any()):
        return None
    return bytes(used[:1].tobytes())
