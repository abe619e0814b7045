"""Sequences as decoders, parsers and taggers meet them: few letters that repeat and come back, and chains of places.

Drawn ids, and what is read off drawn scores as the place of the largest, hardly ever repeat, and lead nowhere far.
"""

from __future__ import annotations

from collections.abc import Collection

import torch

from kernelagent.tools.calls.torch_dtypes import widened
from kernelagent.tools.judge.problem.trials.input_domain import (
    Tensors,
    laid_out_like,
    observe,
    shaped_like,
)
from kernelagent.tools.judge.problem.trials.planting import patterns
from kernelagent.tools.judge.problem.trials.planting.planted_values import is_free

IDS = ("integer", "observed")
_LETTERS = 3
_CHAIN = 0.4
"""How often places are a chain."""


def sequences(
    natural: Tensors, numbers: Collection[int], generator: torch.Generator
) -> dict[str, torch.Tensor]:
    """Ids of a few letters, or each the place before it; scores whose largest stand at such places.

    `numbers`: of the sources; those that can be letters are among them, as a blank is.
    """
    made: dict[str, torch.Tensor] = {}
    for name, tensor in natural.items():
        seen = observe(tensor)
        if seen.kind in IDS and tensor.dim() and tensor.numel():
            low, high = int(seen.low), int(seen.high)
            ids = _places(tuple(tensor.shape), low, high, numbers, generator)
            made[name] = laid_out_like(ids.to(tensor.device, tensor.dtype), tensor)
        elif is_free(tensor) and tensor.dim() > 1 and tensor.shape[-1] > 1:
            values = widened(tensor.detach())
            places = _places(tuple(tensor.shape[:-1]), 0, tensor.shape[-1] - 1, numbers, generator)
            peaked = patterns.with_peaks(values, places.to(tensor.device))
            made[name] = laid_out_like(shaped_like(peaked, tensor, seen), tensor)
    return made


def _places(
    shape: tuple[int, ...],
    low: int,
    high: int,
    numbers: Collection[int],
    generator: torch.Generator,
) -> torch.Tensor:
    span, length = high - low + 1, shape[-1]
    if float(torch.rand((), generator=generator)) < _CHAIN:
        return (low + _chain(length, span, generator)).expand(shape)
    fit = [number for number in numbers if low <= number <= high]
    drawn = torch.randint(low, high + 1, (_LETTERS - 1,), generator=generator).tolist()
    known = [fit[patterns.below(len(fit), generator)]] if fit else [low]
    letters = torch.tensor([*known, *drawn])
    return letters[torch.randint(len(letters), shape, generator=generator)]


def _chain(length: int, span: int, generator: torch.Generator) -> torch.Tensor:
    """Each place leads to the one before or behind it, in their own order or in another; the end leads to itself."""
    order = torch.arange(length)
    if patterns.below(2, generator):
        order = torch.cat([order[:1], 1 + torch.randperm(length - 1, generator=generator)])
    if patterns.below(2, generator):
        order = order.flip(0)
    leads = torch.empty_like(order)
    leads[order] = torch.cat([order[:1], order[:-1]])
    return leads % span
