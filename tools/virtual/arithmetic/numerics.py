"""Number formats numpy does not have (bf16, fp8, tf32), converted the way NVIDIA hardware does."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import triton.language as tl
from numpy.typing import NDArray

from kernelagent.domain.tables.dtypes import FLOATS

Array = NDArray[Any]

_ROWS = {getattr(tl, row.triton): row for row in FLOATS if row.triton is not None}
_TORCH = {kind: getattr(torch, row.name) for kind, row in _ROWS.items()}
FP8 = {kind: _TORCH[kind] for kind, row in _ROWS.items() if row.bits == 8}
"""fp8 formats torch converts too; numpy holds their bits in uint8."""
HALVES = tuple(kind for kind, row in _ROWS.items() if row.bits == 16)
_NUMPY = {kind: np.dtype(row.name) for kind, row in _ROWS.items() if row.numpy}
_TF32_BITS = np.uint32(0xFFFFE000)


def has_nan(data: Array) -> bool:
    """The largest of some numbers is NaN where one of them is; nothing finds it quicker."""
    return bool(data.size) and bool(np.isnan(data.max()))


def bf16_to_fp32(bits: Array) -> Array:
    """uint16 bit patterns to float32, exactly."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def fp32_to_bf16(values: Array) -> Array:
    """float32 to uint16 bit patterns, rounded to nearest even; every NaN becomes 0x7FFF."""
    wide = np.asarray(values, dtype=np.float32)
    result: Array = _held_by_torch(wide).to(torch.bfloat16).view(torch.int16).numpy()
    result = result.view(np.uint16)
    if has_nan(wide):
        result = np.where(np.isnan(wide), np.uint16(0x7FFF), result)
    return result


def round_to_bf16(values: Array) -> Array:
    """float32 to the nearest float32 that bf16 can hold."""
    return bf16_to_fp32(fp32_to_bf16(values))


def truncate_to_tf32(values: Array) -> Array:
    """float32 as a tensor core reads it: the low 13 bits are ignored."""
    bits = np.asarray(values, dtype=np.float32, order="C").view(np.uint32)
    return (bits & _TF32_BITS).view(np.float32)


def is_convertible(dtype: Any) -> bool:
    return dtype in _ROWS


def to_fp32(data: Array, dtype: Any) -> Array:
    """Values of a floating `dtype`, as the interpreter holds them, in float32."""
    if dtype == tl.bfloat16:
        return bf16_to_fp32(data)
    if dtype in FP8:
        return as_torch(data, dtype).float().numpy()
    return _cast(data, np.dtype(np.float32))


def convert(data: Array, source: Any, destination: Any) -> Array:
    """Between floating formats, rounded to nearest even, fp8 saturating at its largest value."""
    if source == destination:
        return data
    if source == tl.bfloat16 and destination in (tl.float32, tl.float64):
        return bf16_to_fp32(data).astype(np.float64 if destination == tl.float64 else np.float32)
    if source == tl.float32 and destination == tl.bfloat16:
        return fp32_to_bf16(data)
    if source in _NUMPY and destination in _NUMPY:
        return _cast(data, _NUMPY[destination])
    values = as_torch(data, source)
    if destination in FP8:
        values = _saturated(values.float(), FP8[destination])
    return from_torch(values.to(_TORCH[destination]), destination)


def _cast(data: Array, kind: np.dtype[Any]) -> Array:
    """Between the formats that numpy has as well; torch takes a fifth of its time to fp16, and an eighth back.

    torch rounds fp64 to fp16 by way of fp32, and what it makes of a NaN depends on how many numbers there are.
    """
    if data.dtype == kind:
        return data
    if max(data.dtype.itemsize, kind.itemsize) == 8:
        return data.astype(kind)
    cast: Array = _held_by_torch(data).to(getattr(torch, kind.name)).numpy()
    wide = cast if kind.itemsize == 4 else np.asarray(data)
    return data.astype(kind) if has_nan(wide) else cast


def _held_by_torch(data: Array) -> torch.Tensor:
    """The same memory where torch takes it, else a copy."""
    held = np.asarray(data)
    size = held.itemsize
    plain = held.flags.writeable and all(step >= 0 and step % size == 0 for step in held.strides)
    return torch.from_numpy(held if plain else np.array(held, order="C"))


def as_torch(data: Array, dtype: Any) -> torch.Tensor:
    """A torch copy of what the interpreter holds, in its own format."""
    values = torch.from_numpy(np.array(data))
    return values.view(_TORCH[dtype]) if dtype == tl.bfloat16 or dtype in FP8 else values


def from_torch(values: torch.Tensor, dtype: Any) -> Array:
    """What the interpreter holds for a tensor of `dtype`."""
    if dtype in FP8:
        values = values.view(torch.uint8)
    elif dtype == tl.bfloat16:
        return values.view(torch.int16).numpy().view(np.uint16)
    held: Array = values.numpy()
    return held


def _saturated(values: torch.Tensor, kind: torch.dtype) -> torch.Tensor:
    largest = torch.finfo(kind).max
    return torch.where(values.isnan(), values, values.clamp(-largest, largest))
