"""NaN as a GPU has it: whatever computes one in fp32 or fp16 gives all bits but the sign.

PTX has one NaN for results in these types, 0x7fffffff and 0x7fff ("canonical NaN", PTX ISA, floating point
instructions), whatever its operands were. An x86 gives 0xffc00000 where there was none before, and else hands the bits of
an operand on, so that a kernel could tell where it runs. What only moves bits (loads, `tl.where`, a change of
sign) keeps them on both. In fp64 both hand them on; bf16 is converted from fp32 by `numerics`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import triton.language as tl

from kernelagent.tools.virtual.arithmetic.numerics import Array, has_nan

Handle = Any
CANONICAL: dict[Any, Any] = {
    tl.float32: np.uint32(0x7FFFFFFF).view(np.float32),
    tl.float16: np.uint16(0x7FFF).view(np.float16),
}
"""By the types that have one NaN for all results."""
_COMPUTING = "binary_op unary_op ternary_op create_fma create_dot create_extern_elementwise".split()
_MOVING = (np.negative, np.abs, np.where)
"""Operations that are given to `binary_op` and its like, and compute nothing."""
_CONSTANTS = ("get_fp16", "get_fp32")


def canonical(data: Array, kind: Any) -> Array:
    """What was computed in a type, with the NaN that a GPU would have."""
    if not has_one_nan(kind) or not has_nan(data):
        return data
    result: Array = np.where(np.isnan(data), CANONICAL[kind], data)
    return result


def has_one_nan(kind: Any) -> bool:
    """Whether all results of a type have the same NaN; a pointer's type has no hash."""
    return kind.is_floating() and kind in CANONICAL


def with_a_gpus_nans(builder: Any) -> Any:
    """A class of builders whose results hold no NaN of an operand's, once there may be any (`foreign_nans`)."""
    for name in _COMPUTING:
        setattr(builder, name, _computing(getattr(builder, name)))
    for name in _CONSTANTS:
        setattr(builder, name, _constant(getattr(builder, name)))
    return builder


def _computing(method: Callable[..., Handle]) -> Callable[..., Handle]:
    @wraps(method)
    def computing(self: Any, *args: Any) -> Handle:
        result = method(self, *args)
        if self.foreign_nans and not any(args[-1] is item for item in _MOVING):
            result.data = canonical(result.data, result.dtype.scalar)
        return result

    return computing


def _constant(method: Callable[..., Handle]) -> Callable[..., Handle]:
    @wraps(method)
    def constant(self: Any, value: Any) -> Handle:
        result = method(self, value)
        self.note_nans(result)
        return result

    return constant
