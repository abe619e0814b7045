"""A batch norm in training, written with whole numbers for its sizes.

torch's own decomposition multiplies with quotients of sizes; where a size is a variable, the compiler
has no kernel for these, or computes them in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._inductor.decomposition import select_decomp_table

_FORWARD = torch.ops.aten.native_batch_norm.default
_BACKWARD = torch.ops.aten.native_batch_norm_backward.default


def _forward(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    if not training:
        own = select_decomp_table()[_FORWARD]
        return own(x, weight, bias, running_mean, running_var, training, momentum, eps)
    exact = x.double() if x.dtype == torch.float64 else x.float()
    variance, mean = _statistics(exact)
    rstd = torch.rsqrt(variance + eps)
    out = (exact - _across(mean, x)) * _across(rstd, x)
    if weight is not None:
        out = out * _across(weight, x)
    if bias is not None:
        out = out + _across(bias, x)
    count = _count(x)
    if running_mean is not None:
        running_mean.copy_(momentum * mean + (1 - momentum) * running_mean)
    if running_var is not None:
        unbiased = variance * count / (count - 1)
        running_var.copy_(momentum * unbiased + (1 - momentum) * running_var)
    return out.to(x.dtype), mean, rstd


def _backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor | None,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    save_mean: torch.Tensor | None,
    save_rstd: torch.Tensor | None,
    training: bool,
    eps: float,
    mask: Sequence[bool],
) -> Any:
    if not training or save_mean is None or save_rstd is None:
        own = select_decomp_table()[_BACKWARD]
        return own(
            *(grad, x, weight, running_mean, running_var, save_mean, save_rstd),
            *(training, eps, mask),
        )
    exact = torch.float64 if x.dtype == torch.float64 else torch.float32
    upstream, count = grad.to(exact), _count(x)
    centred = x.to(exact) - _across(save_mean, x)
    # A part that all places share leaves the input's gradient alone: taken off, it cannot leave its rounding there.
    shared = upstream[0]
    while shared.dim() > 1:
        shared = shared[:, 0]
    rest = upstream - _across(shared, x)
    total, along = _sum(rest), _sum(rest * centred)
    slope = along * save_rstd * save_rstd / count
    inner = rest - _across(total / count, x) - centred * _across(slope, x)
    factor = save_rstd if weight is None else save_rstd * weight
    kinds = (x.dtype, *[(x if weight is None else weight).dtype] * 2)
    # The bias' gradient is a sum of what came: put together from the rest and what was taken off, it would have the rounding of
    # a count times as much as the sum may be.
    made = (inner * _across(factor, x), along * save_rstd, _sum(upstream))
    return tuple(
        value.to(kind) if wanted else None
        for value, kind, wanted in zip(made, kinds, mask, strict=True)
    )


def _statistics(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Variance and mean of each channel."""
    if not _in_two(x):
        variance, mean = torch.var_mean(x, dim=_rows(x), correction=0)
        return variance, mean
    variances, means = torch.var_mean(x, dim=_places(x), correction=0)
    # Images are of one size: the variance within them, and that between them.
    between, mean = torch.var_mean(means, dim=0, correction=0)
    return variances.mean(0) + between, mean


def _sum(x: torch.Tensor) -> torch.Tensor:
    """Of each channel."""
    return x.sum(_places(x)).sum(0) if _in_two(x) else x.sum(_rows(x))


def _in_two(x: torch.Tensor) -> bool:
    """Whether there are too few channels to keep a GPU busy: then each image has its own sums first."""
    sizes = [int(n.node.hint) if isinstance(n, torch.SymInt) else int(n) for n in x.shape]
    area = math.prod(sizes[2:])
    return sizes[1] < FEW_CHANNELS and sizes[0] > 1 and area >= LARGE_IMAGE


FEW_CHANNELS, LARGE_IMAGE = 1024, 512
"""Channels below which, and elements of an image from which on, sums are made in two kernels."""


def _places(x: torch.Tensor) -> list[int]:
    """The axes of an image."""
    return list(range(2, x.dim()))


def _rows(x: torch.Tensor) -> list[int]:
    """All axes but that of the channels."""
    return [0, *range(2, x.dim())]


def _count(x: torch.Tensor) -> Any:
    """Elements of a channel."""
    return math.prod(x.shape[axis] for axis in _rows(x))


def _across(values: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """A value for each channel, beside `x`."""
    return values.reshape([1, -1, *[1] * (x.dim() - 2)])


BATCH_NORMS: Mapping[Any, Callable[..., Any]] = {_FORWARD: _forward, _BACKWARD: _backward}
"""What tracing a training step puts in the place of torch's operators."""
