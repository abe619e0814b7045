"""Products of matrices by precision, as tensor cores form them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter as stock

from kernelagent.tools.virtual.arithmetic import numerics
from kernelagent.tools.virtual.arithmetic.numerics import Array

INPUT = stock._ir.INPUT_PRECISION
_STEP_BYTES = 32
"""How many bytes of each row of an operand the tensor cores take at once: 16 numbers of 16 bits."""


def operand_name(kind: Any) -> str:
    """Triton's spelling of a scalar type; pointers count as the integers they are."""
    return "int64" if kind.is_ptr() else str(kind.scalar)


_SPLIT = {INPUT.TF32x3: "tf32x3", INPUT.BF16x3: "bf16x3", INPUT.BF16x6: "bf16x6"}
"""Several products on tensor cores in place of one in fp32."""


def dot_name(kind: Any, precision: Any) -> str:
    """What a product of these operands is formed in: their type, or what fp32 is split into."""
    if kind != tl.float32:
        return operand_name(kind)
    return "tf32" if precision == INPUT.TF32 else _SPLIT.get(precision, operand_name(kind))


def matrix_product(
    left: Array, right: Array, precision: Any, *, rounded: bool, exact: bool
) -> Array:
    """fp32 product as the tensor cores form it for this `input_precision`."""
    if rounded:
        left, right = numerics.truncate_to_tf32(left), numerics.truncate_to_tf32(right)
    elif not exact and precision == INPUT.BF16x3:
        high, low = _split(left)
        other_high, other_low = _split(right)
        crossed = _multiplied(high, other_low) + _multiplied(low, other_high)
        crossed += _multiplied(high, other_high)
        return crossed
    return _multiplied(left, right)


def in_halves(left: Array, right: Array, total: Array, kind: Any) -> Array:
    """A product with an accumulator in fp16, which the tensor cores round after each of their own steps."""
    step = _STEP_BYTES * 8 // kind.primitive_bitwidth
    for low in range(0, left.shape[-1], step):
        part = _multiplied(left[..., low : low + step], right[..., low : low + step, :])
        total = (part + total.astype(np.float32)).astype(np.float16)
    return total


def _multiplied(left: Array, right: Array) -> Array:
    """Through torch, whose number of threads is ours to set: numpy's wait for each other."""
    a, b = (torch.from_numpy(np.ascontiguousarray(side)) for side in (left, right))
    result: Array = torch.matmul(a, b).numpy()
    return result


def _split(values: Array) -> tuple[Array, Array]:
    high = numerics.round_to_bf16(values)
    return high, numerics.round_to_bf16(values - high)
