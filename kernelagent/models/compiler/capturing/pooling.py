"""Poolings that the compiler would leave to torch, or read from memory again for each place of a window.

Averages over large three-dimensional windows become sums. Windows that overlap become one operation,
for which a template has a kernel.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

POOL = "torch.ops.kernelagent.pool.default"
"""How Inductor spells a pooling that is left to a template."""
_FUSED = 25
"""Elements of a window up to which Inductor writes a kernel itself."""
_OVERLAP = 2.0
"""How often each element is read, from which on windows are a template's."""
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


@torch.library.custom_op(
    "kernelagent::pool",
    mutates_args=(),
    schema=(
        "(Tensor x, str kind, int[] window, int[] stride, int[] padding, int[] dilation, int divisor) -> Tensor"
    ),
)
def _pool(*given: Any) -> Any:
    raise NotImplementedError("a graph with it is only ever written as source")


@_pool.register_fake
def _(
    x: Any, kind: Any, window: Any, stride: Any, padding: Any, dilation: Any, divisor: Any
) -> Any:
    first = x.dim() - len(window)
    places = [
        (x.shape[first + axis] + 2 * padding[axis] - dilation[axis] * (size - 1) - 1)
        // stride[axis]
        + 1
        for axis, size in enumerate(window)
    ]
    return x.new_empty((*x.shape[:first], *places))


def pool_spelled_out(call: ast.Call) -> ast.expr:
    """The step in a candidate's own words, where no kernel takes it over."""
    x, kind, window, stride, padding, dilation, divisor = map(ast.unparse, call.args)
    axes = len(ast.literal_eval(window))
    name = f"torch.nn.functional.{ast.literal_eval(kind)}_pool{axes}d"
    rest = dilation if ast.literal_eval(kind) == "max" else f"divisor_override={divisor}"
    return ast.parse(f"{name}({x}, {window}, {stride}, {padding}, {rest})", mode="eval").body


class _MaxPool:
    """`max_pool2d_with_indices` and its like: the places are torch's own, and mostly nobody reads them."""

    def __init__(self, operator: Any, axes: int) -> None:
        self._operator, self._axes = operator, axes
        self._inside = False

    def __call__(
        self,
        x: torch.Tensor,
        window: Sequence[Any],
        stride: Sequence[Any] = (),
        padding: Sequence[Any] = (0,),
        dilation: Sequence[Any] = (1,),
        ceil_mode: bool = False,
    ) -> Any:
        if self._inside or ceil_mode:
            return NotImplemented
        each = [_each(n, self._axes) for n in (window, stride or window, padding, dilation)]
        if not _overlaps(x, *each):
            return NotImplemented
        self._inside = True
        try:
            places = self._operator(x, window, stride, padding, dilation, ceil_mode)[1]
        finally:
            self._inside = False
        return torch.ops.kernelagent.pool.default(x, "max", *each, 1), places


def _avg_pool(axes: int, *, trained: bool = False) -> Callable[..., Any]:
    def pooled(
        x: torch.Tensor,
        window: Sequence[Any],
        stride: Sequence[Any] = (),
        padding: Sequence[Any] = (0,),
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        size, steps, border = (_each(n, axes) for n in (window, stride or window, padding))
        uneven = not count_include_pad and any(border) and divisor_override is None
        if ceil_mode or uneven:
            return NotImplemented
        if not trained and _overlaps(x, size, steps, border, [1] * axes):
            divisor = divisor_override or math.prod(size)
            return torch.ops.kernelagent.pool.default(
                x, "avg", size, steps, border, [1] * axes, divisor
            )
        if axes < 3 or math.prod(size) <= _FUSED:
            return NotImplemented
        return _as_sums(x, size, steps, border, divisor_override)

    return pooled


def _as_sums(
    images: torch.Tensor,
    window: Sequence[int],
    steps: Sequence[int],
    border: Sequence[int],
    divisor: int | None,
) -> torch.Tensor:
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
    return (total / (divisor or math.prod(window))).to(images.dtype)


def _overlaps(x: torch.Tensor, *numbers: Sequence[Any]) -> bool:
    """Whether a kernel that reads each element once would read far less, and can have these numbers."""
    window, stride, _, dilation = numbers
    if x.dtype not in _FLOATS or any(type(n) is not int for row in numbers for n in row):
        return False
    reach = [step * (size - 1) + 1 for size, step in zip(window, dilation, strict=True)]
    held = all(n <= MOST_REACH for n in reach[-2:])
    return held and math.prod(window) >= _OVERLAP * math.prod(stride)


MOST_REACH = 24
"""Along the last two axes: a tile holds windows as wide as this, and places for several."""


def _each(sizes: Sequence[Any], axes: int) -> list[Any]:
    """A number for each axis."""
    return list(sizes) * axes if len(sizes) == 1 else list(sizes)


_ATEN = torch.ops.aten
POOLED: Mapping[Any, Callable[..., Any]] = {_ATEN.avg_pool3d.default: _avg_pool(3, trained=True)}
"""What tracing a training step puts in the place of torch's operators."""
OVERLAPPING: Mapping[Any, Callable[..., Any]] = {
    _ATEN.avg_pool3d.default: _avg_pool(3),
    _ATEN.avg_pool2d.default: _avg_pool(2),
    _ATEN.max_pool2d_with_indices.default: _MaxPool(_ATEN.max_pool2d_with_indices.default, 2),
    _ATEN.max_pool3d_with_indices.default: _MaxPool(_ATEN.max_pool3d_with_indices.default, 3),
}
"""The same where no gradient is asked for."""
