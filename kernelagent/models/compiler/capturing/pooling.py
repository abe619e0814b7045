"""Averages over large three-dimensional windows as sums, which the compiler would leave to torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

_FUSED = 25
"""Elements of a window up to which Inductor writes a kernel itself."""


def _avg_pool3d(
    images: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    window, border = _each(kernel_size), _each(padding)
    steps = _each(stride) if stride else window
    uneven = not count_include_pad and any(border) and divisor_override is None
    if ceil_mode or uneven or math.prod(window) <= _FUSED:
        return NotImplemented
    framed = images
    if any(border):
        sides = [size for size in reversed(border) for _ in range(2)]
        framed = torch.ops.aten.constant_pad_nd.default(images, sides, 0.0)
    first = images.dim() - len(window)
    for axis, (size, step) in enumerate(zip(window, steps, strict=True)):
        framed = framed.unfold(first + axis, size, step)
    # Halves are added up in fp32, as torch does, and rounded once.
    exact = images.dtype if images.dtype == torch.float64 else torch.float32
    total = framed.sum(dim=(-3, -2, -1), dtype=exact)
    return (total / (divisor_override or math.prod(window))).to(images.dtype)


def _each(sizes: Sequence[int]) -> tuple[int, ...]:
    """A number for each of three axes."""
    return tuple(sizes) * 3 if len(sizes) == 1 else tuple(sizes)


POOLED: Mapping[Any, Callable[..., Any]] = {torch.ops.aten.avg_pool3d.default: _avg_pool3d}
"""What tracing puts in the place of torch's operators."""
