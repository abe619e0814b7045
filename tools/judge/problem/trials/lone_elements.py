"""Tensors of one value with a few others that stand alone: sparse masks, padding, pruned weights.

A kernel may look at some places of a tile and take the others for alike; draws of independent elements show it no tile
in which they are.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kernelagent.tools.calls.complex_numbers import is_inexact
from kernelagent.tools.judge.problem.trials.input_domain import Tensors, laid_out_like, observe
from kernelagent.tools.judge.problem.trials.unlike import Unlike
from kernelagent.tools.judge.problem.trials.unlike_integers import INTEGERS

_SHARE = 1 / 40
_FEWEST = 32
"""Elements; of fewer, draws show it."""
_MOST = 3
_HELD = "has no element that stands alone among many alike"


def lone_elements(tensors: Tensors, generator: torch.Generator) -> Iterator[Unlike]:
    """Masks of one truth, integers of one value, floats of zeros, each with a few elements as they were."""
    names = [name for name, tensor in tensors.items() if _able(tensor)]
    drawn = [names[at] for at in torch.randperm(len(names), generator=generator).tolist()]
    # What is a mask or an index decides more than a number does.
    for name in sorted(drawn, key=lambda name: tensors[name].is_floating_point())[:_MOST]:
        tensor = tensors[name]
        for alike in _backgrounds(tensor, generator):
            few = torch.rand(tensor.shape, generator=generator) < _SHARE
            few.view(-1)[int(torch.randint(tensor.numel(), (), generator=generator))] = True
            alone = ~alike if tensor.dtype == torch.bool else tensor.detach()
            values = torch.where(few.to(tensor.device), alone, alike)
            changed = laid_out_like(values, tensor)
            tried = f"elements that are all {_word(alike)} but for a few"
            yield Unlike("lone_elements", _HELD, tried, name, {name: changed})


def _able(tensor: torch.Tensor) -> bool:
    if tensor.numel() < _FEWEST or tensor.is_complex():
        return False
    if tensor.dtype == torch.bool or tensor.dtype in INTEGERS:
        return not (tensor == tensor.reshape(-1)[0]).all()
    return is_inexact(tensor) and observe(tensor).kind in ("real", "positive", "observed")


def _backgrounds(tensor: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
    if tensor.dtype == torch.bool:
        return torch.zeros((), dtype=torch.bool), torch.ones((), dtype=torch.bool)
    if tensor.dtype in INTEGERS:
        at = int(torch.randint(tensor.numel(), (), generator=generator))
        some = tensor.detach().reshape(-1)[at]
        signed = int(tensor.min()) < 0 < int(tensor.max())
        # Of codes with signs it is zero that is left out.
        return (some, torch.zeros_like(some)) if signed and int(some) else (some,)
    return (torch.zeros((), dtype=tensor.dtype, device=tensor.device),)


def _word(alike: torch.Tensor) -> str:
    return str(alike.item()) if alike.dtype == torch.bool else f"{alike.item():g}"
