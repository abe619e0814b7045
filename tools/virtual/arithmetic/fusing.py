"""Products that are rounded with the sum that takes them only, as a GPU's `fma` does.

Triton compiles with `enable_fp_fusion` (nvidia/compiler.py), under which LLVM and ptxas contract them in every floating
type: what `x * x - y` becomes is fma.rn.f64, .f32, .f16 and .bf16 in the PTX for sm_80 to sm_100.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as stock

from kernelagent.tools.virtual import triton_versions
from kernelagent.tools.virtual.arithmetic import numerics
from kernelagent.tools.virtual.arithmetic.error_free import two_product
from kernelagent.tools.virtual.arithmetic.numerics import Array

Handle = Any
_EXACT = "exact"
"""Where a handle keeps the parts whose sum is the product that it holds rounded."""
_SHAPING = {
    "create_expand_dims": 0,
    "create_broadcast": 0,
    "create_unsplat": 0,
    "create_trans": 0,
    "create_reshape": 0,
    "create_splat": 1,
}
"""Operations that move numbers or change their signs, each with the place of the operand among its arguments."""
if triton_versions.NEGATES:
    _SHAPING["create_fneg"] = 0


def fused(lhs: Handle, rhs: Handle, op: Any) -> Handle | None:
    """A product that remembers its exact value, or a sum that takes a factor's; None for others."""
    kind = lhs.dtype.scalar
    if not numerics.is_convertible(kind) or kind in numerics.FP8:
        return None
    if op is np.multiply:
        parts = _product(lhs.data, rhs.data, kind)
        return _held(parts, kind, keep=True)
    if op is not np.add and op is not np.subtract:
        return None
    left, right = lhs.attr.get(_EXACT), rhs.attr.get(_EXACT)
    if left is not None:
        other = _wide(rhs.data, kind)
        return _held((*left, -other if op is np.subtract else other), kind)
    if right is None:
        return None
    parts = tuple(-part for part in right) if op is np.subtract else right
    return _held((*parts, _wide(lhs.data, kind)), kind)


def carrying_products(builder: Any) -> Any:
    """A class of builders whose changes of shape and sign pass on what a product was before it was rounded."""
    for name, place in _SHAPING.items():
        setattr(builder, name, _carrying(getattr(builder, name), place))
    return builder


def _carrying(method: Any, place: int) -> Any:
    @wraps(method)
    def shaped(self: Any, *args: Any) -> Handle:
        result = method(self, *args)
        parts = args[place].attr.get(_EXACT) if self.fuses else None
        if parts is not None:
            moved = []
            for part in parts:
                given = list(args)
                given[place] = stock.TensorHandle(part, tl.float64)
                moved.append(method(self, *given).data)
            result.attr[_EXACT] = tuple(moved)
        return result

    return shaped


def _wide(data: Array, kind: Any) -> Array:
    return data if kind == tl.float64 else numerics.to_fp32(data, kind).astype(np.float64)


def _product(left: Array, right: Array, kind: Any) -> tuple[Array, ...]:
    left, right = _wide(left, kind), _wide(right, kind)
    if kind != tl.float64:
        # Of two numbers with 24 bits or fewer it is exact in 53.
        return (left * right,)
    product, rest = two_product(left, right)
    return product, np.where(np.isfinite(rest), rest, 0.0)


def _held(parts: tuple[Array, ...], kind: Any, *, keep: bool = False) -> Handle:
    """The sum of the parts, rounded once."""
    total = parts[0] if len(parts) == 1 else parts[0] + parts[1]
    if len(parts) == 3:
        product, rest, summand = parts
        total = _rounded(product, rest, summand)
    if kind == tl.bfloat16:
        data = numerics.fp32_to_bf16(total.astype(np.float32))
    else:
        data = total.astype(stock._get_np_dtype(kind), copy=False)
    result = stock.TensorHandle(data, kind)
    if keep:
        result.attr[_EXACT] = parts
    return result


def _rounded(product: Array, rest: Array, summand: Array) -> Array:
    """`product + rest + summand`, where `rest` is what rounding the product left out (Knuth's two-sum)."""
    total = product + summand
    moved = total - product
    lost = (product - (total - moved)) + (summand - moved)
    return np.where(np.isfinite(lost), total + (lost + rest), total)
