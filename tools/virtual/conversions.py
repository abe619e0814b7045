"""torch's conversions of floating point numbers to integers, where they do not fit: undefined in C, known on a GPU.

There they end at the nearest integer that there is, and NaN becomes 0, or the lowest 64-bit integer (PTX ISA,
`cvt`). A CPU answers otherwise, by which a candidate could tell where it runs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from kernelagent.tools.virtual.numerics import bf16_to_fp32

_CONVERTING = frozenset(("to", "type", "type_as", "int", "long", "copy_"))
_OF_NAN = {torch.int32: 0, torch.int64: torch.iinfo(torch.int64).min}
"""Narrower integers go through one of these, which one is not documented; they stay as they are."""
_PLAIN = (torch.Tensor, torch.nn.Parameter)


def end_at_the_nearest(name: str, args: tuple[Any, ...], result: Any) -> None:
    """Writes what a GPU has for it into the result of a conversion; nothing for other operations."""
    if name not in _CONVERTING or not _has_numbers(result) or result.dtype not in _OF_NAN:
        return
    source = args[1] if name == "copy_" else args[0]
    if not _has_numbers(source) or not source.dtype.is_floating_point:
        return
    if source.shape != result.shape:
        return
    given = _numbers(source)
    limits = torch.iinfo(result.dtype)
    # Not the largest integer itself: as a float it may be one that does not fit any more.
    fits = (given >= limits.min) & (given < -float(limits.min))
    if fits.all():
        return
    nearest = np.where(given > 0, limits.max, limits.min)
    values = np.where(np.isnan(given), _OF_NAN[result.dtype], nearest)
    written = result.detach().numpy()
    written[~fits] = values[~fits]


def _has_numbers(value: Any) -> bool:
    """Neither a tensor without contents nor one that stands for others."""
    return (
        type(value) in _PLAIN
        and value.layout == torch.strided
        and value.device.type == "cpu"
        and not value.is_neg()
        and not torch._C._functorch.is_functorch_wrapped_tensor(value)
    )


def _numbers(source: torch.Tensor) -> Any:
    plain = source.detach()
    if plain.dtype == torch.bfloat16:
        return bf16_to_fp32(plain.view(torch.uint16).numpy())
    return plain.numpy() if plain.dtype in (torch.float64, torch.float32) else plain.float().numpy()
