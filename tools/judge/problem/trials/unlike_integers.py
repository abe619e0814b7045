"""Integers unlike the user's: larger, smaller, and such as a narrower type takes for one."""

from __future__ import annotations

import math

import torch

from kernelagent.tools.judge.problem.trials.input_domain import laid_out_like

_SHARE = 0.25
_FIRST_INEXACT = 1 << 24
"""Above it float32 holds no integers that differ by one."""
_HIGH_BITS = tuple(1 << bits for bits in (24, 31, 32, 40, 48, 53))
INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)


def smaller_integers(
    tensor: torch.Tensor, least: int, generator: torch.Generator
) -> torch.Tensor | None:
    """A quarter of them from `least` to below the smallest; None where none lie there, or their type has none so small."""
    if tensor.dtype not in INTEGERS or tensor.numel() == 0 or int(tensor.min()) <= least:
        return None
    if least < torch.iinfo(tensor.dtype).min:
        return None
    drawn = torch.randint(least, int(tensor.min()), tensor.shape, generator=generator)
    return _put_among(tensor, drawn, generator)


def larger_integers(
    tensor: torch.Tensor, factor: float, generator: torch.Generator
) -> torch.Tensor | None:
    """A quarter of them up to `factor` times the largest; None where their type has none so large."""
    if tensor.dtype not in INTEGERS or tensor.numel() == 0:
        return None
    high = int(tensor.max())
    most = math.ceil(max(high, 1) * factor)
    if high < 0 or most > torch.iinfo(tensor.dtype).max:
        return None
    # Each size as likely as any other, so that what lies just above the draws is tried in the same call.
    octaves = math.log2((most + 1) / (high + 1)) * torch.rand(
        tensor.shape, generator=generator, dtype=torch.float64
    )
    drawn = ((high + 1) * torch.exp2(octaves)).to(torch.int64).clamp(high + 1, most)
    return _put_among(tensor, drawn, generator)


def close_integers(
    tensor: torch.Tensor, beside: torch.Tensor, most: int, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Both with large numbers, those of `tensor` equal to the ones of `beside`, or other by one or in high bits alone.

    `beside` may be `tensor` itself: then its numbers are near to others of its own, and the second is of no use; of another
    form they are near to any of its. None where numbers up to `most` leave no room for that.
    """
    if tensor.dtype not in INTEGERS or tensor.numel() == 0 or most <= 4 * _FIRST_INEXACT:
        return None
    octaves = math.log2(most // 4 / _FIRST_INEXACT)
    base = int(_FIRST_INEXACT * 2 ** (octaves * float(torch.rand((), generator=generator))))
    own, other = (base + t.detach().long().abs() % _FIRST_INEXACT for t in (tensor, beside))
    near = other
    if beside is tensor:
        order = torch.randperm(tensor.numel(), generator=generator).to(tensor.device)
        near = other.reshape(-1)[order].reshape(other.shape)
    elif beside.shape != tensor.shape:
        near = other.reshape(-1)[torch.randint(other.numel(), tensor.shape, generator=generator)]
    apart = torch.tensor([0, 1, -1, *(n for n in _HIGH_BITS if n < most // 4)])
    which = torch.randint(len(apart), tensor.shape, generator=generator)
    close = (torch.rand(tensor.shape, generator=generator) < 0.5).to(tensor.device)
    values = torch.where(close, near + apart[which].to(tensor.device), own)
    if int(tensor.min()) < 0 and bool(torch.rand((), generator=generator) < 0.5):
        values, other = -values, -other
    return laid_out_like(values, tensor), laid_out_like(other, beside)


def _put_among(
    tensor: torch.Tensor, drawn: torch.Tensor, generator: torch.Generator
) -> torch.Tensor:
    places = some_places(tensor, _SHARE, generator)
    return laid_out_like(torch.where(places, drawn.to(tensor), tensor), tensor)


def some_places(tensor: torch.Tensor, share: float, generator: torch.Generator) -> torch.Tensor:
    """Each element's with this chance, and one at least."""
    places = torch.rand(tensor.shape, generator=generator) < share
    places.view(-1)[int(torch.randint(tensor.numel(), (), generator=generator))] = True
    return places.to(tensor.device)
