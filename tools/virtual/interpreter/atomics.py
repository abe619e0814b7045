"""What an atomic changes in memory, lane after lane."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from triton.runtime import interpreter as stock

from kernelagent.tools.virtual.arithmetic.numerics import Array, bf16_to_fp32, fp32_to_bf16

_native = stock._interpreter
Combine = Callable[[Array, Array], Array]


def read(pointers: Array, mask: Array, kind: Any) -> Array:
    """Contents of memory, zeros where the mask is false."""
    values: Array = _native.load(pointers, mask, np.zeros(pointers.shape, dtype=kind), kind)
    return values


def updated(operation: Any, pointers: Array, values: Array, mask: Array, order: Any) -> Array:
    """Memory changed by an atomic, lane after lane; returns what was there.

    Triton's interpreter can add floats up only: they are exchanged as bits. A sum of fp16 that overflows is an error
    there and an infinity on a GPU. fp32 sums in global memory flush what goes in and what comes out (PTX ISA, `atom`:
    "atom.add.f32 on global memory flushes subnormal inputs and results to sign-preserving zero"); fp16, bf16
    (`.noftz`) and fp64 do not.
    """
    kind = values.dtype
    bits = operation == _native.RMW_OP.XCHG and kind.kind == "f"
    what = np.ascontiguousarray(values).view(f"u{kind.itemsize}") if bits else values
    if kind == np.float16 and operation == _native.RMW_OP.FADD:
        return _half_sums(pointers, values, mask, order)
    flushes = kind == np.float32 and operation == _native.RMW_OP.FADD
    if flushes:
        torch.set_flush_denormal(True)
    try:
        old: Array = _native.atomic_rmw(operation, pointers, what, mask, order)
    finally:
        if flushes:
            torch.set_flush_denormal(False)
    return old.view(kind)


def _half_sums(pointers: Array, values: Array, mask: Array, order: Any) -> Array:
    before = read(pointers, mask, values.dtype)
    try:
        old: Array = _native.atomic_rmw(_native.RMW_OP.FADD, pointers, values, mask, order)
    except OverflowError:
        # Some lanes are added by then.
        _native.store(pointers, before, mask)
        with np.errstate(over="ignore", invalid="ignore"):
            return _lane_after_lane(pointers, values, mask, np.add)
    return old


def bf16_atomic(pointers: Array, values: Array, mask: Array, combine: Combine) -> Array:
    def after(before: Array, what: Array) -> Array:
        return fp32_to_bf16(combine(bf16_to_fp32(before), bf16_to_fp32(what)))

    return _lane_after_lane(pointers, values, mask, after)


def _lane_after_lane(pointers: Array, values: Array, mask: Array, after: Combine) -> Array:
    """Several lanes may name one address."""
    where, what, use = (
        np.ascontiguousarray(part).ravel() for part in np.broadcast_arrays(pointers, values, mask)
    )
    old = np.zeros_like(what)
    item = np.ones(1, dtype=bool)
    for lane in np.flatnonzero(use):
        at = where[lane : lane + 1]
        before = read(at, item, what.dtype)
        old[lane] = before[0]
        _native.store(at, after(before, what[lane : lane + 1]), item)
    return old.reshape(pointers.shape)
