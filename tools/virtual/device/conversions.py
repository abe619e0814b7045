"""Numbers that torch's own operations have otherwise on a GPU than on the CPU that computes here.

Where a floating point number does not fit into an integer, C leaves undefined what comes out. A GPU ends at the
nearest integer that there is, and NaN becomes 0, or the lowest 64-bit integer (PTX ISA, `cvt`). Factors of
fp32 convolutions are rounded to tf32 by cuDNN unless `torch.backends.cudnn.allow_tf32` is off. Integers have histograms
there, which models with experts ask for where they run on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from kernelagent.tools.calls.float32_precision import is_depthwise
from kernelagent.tools.virtual.arithmetic.numerics import bf16_to_fp32

_CONVERTING = frozenset(("to", "type", "type_as", "int", "long", "copy_"))
_CONVOLUTIONS = frozenset(
    f"conv{transposed}{axes}d" for transposed in ("", "_transpose") for axes in (1, 2, 3)
)
_GROUPS = 6
"""Their place among the arguments of a convolution."""
_OF_NAN = {torch.int32: 0, torch.int64: torch.iinfo(torch.int64).min}
"""Narrower integers go through one of these, which one is not documented; they stay as they are."""
_from_numpy = torch.from_numpy
"""Torch's own: in the scope of the pretended device what comes from numpy lies on the host."""
_PLAIN = (torch.Tensor, torch.nn.Parameter)
Told = Callable[[torch.Tensor, torch.Tensor], None]
"""A factor, and the rounded copy that takes its place."""
_TOLD: list[Told] = []


def end_at_the_nearest(
    name: str, args: tuple[Any, ...], result: Any, on_host: Callable[[Any], bool]
) -> None:
    """Writes what a GPU has for it into the result of a conversion there; nothing for other operations."""
    if name not in _CONVERTING or not _has_numbers(result) or result.dtype not in _OF_NAN:
        return
    source = args[1] if name == "copy_" else args[0]
    if not _has_numbers(source) or not source.dtype.is_floating_point:
        return
    if source.shape != result.shape or on_host(result):
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


def histogram(func: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """`torch.histc`, of integers as well: exact below 2**53, where float64 has all of them."""
    values: Any = args[0] if args else named.get("input")
    if not _has_numbers(values) or values.dtype.is_floating_point or "out" in named:
        return func(*args, **named)
    rest = {key: value for key, value in named.items() if key != "input"}
    return func(values.double(), *args[1:], **rest).to(values.dtype)


def rounded_as_by_cudnn(
    name: str, args: tuple[Any, ...], named: Mapping[str, Any]
) -> tuple[Any, ...]:
    """The arguments of a convolution as its products take them; those of others as they are.

    Nothing is rounded where a gradient is recorded, which would end there, nor where each channel is convolved by itself.
    """
    if name not in _CONVOLUTIONS or not torch.backends.cudnn.allow_tf32:
        return args
    factors = args[:2]
    if len(factors) < 2 or not all(_has_numbers(f) and f.dtype == torch.float32 for f in factors):
        return args
    if torch.is_grad_enabled() and any(f.requires_grad for f in factors):
        return args
    if _is_depthwise(name, args, named):
        return args
    rounded = [to_tf32(factor) for factor in factors]
    for tell in _TOLD:
        for factor, copy in zip(factors, rounded, strict=True):
            tell(factor, copy)
    return (*rounded, *args[2:])


def _is_depthwise(name: str, args: tuple[Any, ...], named: Mapping[str, Any]) -> bool:
    groups = named.get("groups", args[_GROUPS] if len(args) > _GROUPS else 1)
    axes = int(name[-2])
    return is_depthwise(args[0].shape[-axes - 1], groups, transposed="transpose" in name)


@contextmanager
def rounding_told_to(tell: Told) -> Iterator[None]:
    """In the scope each factor that is rounded is told: no operation of torch makes the copy."""
    _TOLD.append(tell)
    try:
        yield
    finally:
        _TOLD.remove(tell)


def to_tf32(factor: torch.Tensor) -> torch.Tensor:
    """To the nearest, laid out as it is; ten of the 23 bits stay."""
    values = np.copy(factor.detach().numpy(), order="K")
    bits = (values.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    return _from_numpy(np.where(np.isfinite(values), bits.view(np.float32), values))


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
