"""Integers that are shifted by as many places as they have bits, or by more.

LLVM leaves the result undefined (`poison`: LLVM Language Reference, shl, lshr and ashr). A constant is folded to anything; of
the others PTX clamps the places (PTX ISA, shl and shr), unless an optimisation has assumed that it need not.
"""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np

_DICE = np.random.default_rng(secrets.randbits(63))


def undefined_beyond(result: Any, lhs: Any, rhs: Any) -> Any:
    """`result` with bits that nobody can know where `rhs` is negative or no less than the width of `lhs`."""
    width = lhs.dtype.scalar.primitive_bitwidth
    beyond = (rhs.data < 0) | (rhs.data >= width)
    if not beyond.any():
        return result
    data = np.array(result.data)
    beyond = np.broadcast_to(beyond, data.shape)
    size = int(beyond.sum())
    if data.dtype == np.bool_:
        data[beyond] = _DICE.integers(0, 2, size) != 0
    else:
        data[beyond] = np.frombuffer(_DICE.bytes(size * data.itemsize), data.dtype)
    result.data = data
    return result
