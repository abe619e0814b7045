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
_STAYS = (1, 4, 24)
"""Places, about, for which a letter stays."""
_MOST_SEEN = 1 << 20
"""Of an input with more elements no number of the sources is a letter."""
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
            ids = _ids(tensor, numbers, generator)
            made[name] = laid_out_like(ids.to(tensor.device, tensor.dtype), tensor)
        elif is_free(tensor) and tensor.dim() > 1 and tensor.shape[-1] > 1:
            shape, length = tuple(tensor.shape[:-1]), tensor.shape[-1]
            if patterns.chance(_CHAIN, generator):
                places = _chain(shape[-1], length, generator).expand(shape)
            else:
                drawn = torch.randint(length, (_LETTERS - 1,), generator=generator).tolist()
                fit = [number for number in numbers if 0 <= number < length]
                places = _spelt(shape, drawn, fit, generator)
            peaked = patterns.with_peaks(widened(tensor.detach()), places.to(tensor.device))
            made[name] = laid_out_like(shaped_like(peaked, tensor, seen), tensor)
    return made


def _ids(
    tensor: torch.Tensor, numbers: Collection[int], generator: torch.Generator
) -> torch.Tensor:
    """Of numbers that were seen, as others may be invalid; places in a chain are any from zero to the largest."""
    shape, flat = tuple(tensor.shape), tensor.detach().long().reshape(-1).cpu()
    low, high = int(flat.min()), int(flat.max())
    if low == 0 and observe(tensor).kind == "integer" and patterns.chance(_CHAIN, generator):
        return _chain(shape[-1], high + 1, generator).expand(shape)
    at = torch.randint(flat.numel(), (_LETTERS - 1,), generator=generator)
    seen = set(flat.tolist()) if flat.numel() <= _MOST_SEEN else set()
    return _spelt(shape, flat[at].tolist(), [n for n in numbers if n in seen], generator)


def _spelt(
    shape: tuple[int, ...], drawn: list[int], fit: list[int], generator: torch.Generator
) -> torch.Tensor:
    """Each place one of these letters, or of one of `fit`, as a blank is; in most draws they stay for a while."""
    known = [fit[patterns.below(len(fit), generator)]] if fit else drawn[:1]
    letters = torch.tensor([*known, *drawn])
    which = torch.randint(len(letters), shape, generator=generator)
    stays = _STAYS[patterns.below(len(_STAYS), generator)]
    begins = torch.rand(shape, generator=generator) < 1.0 / stays
    at = torch.where(begins, torch.arange(shape[-1]), 0).cummax(-1).values
    return letters[which.gather(-1, at)]


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
