"""Tensors of one value with a few others that stand alone: sparse masks, padding, pruned weights.

A kernel may look at some places of a tile and take the others for alike; draws of independent elements show it no tile
in which they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import torch

from kernelagent.tools.calls.complex_numbers import is_inexact
from kernelagent.tools.judge.problem.trials.input_domain import Tensors, laid_out_like, observe
from kernelagent.tools.judge.problem.trials.unlike import Unlike, in_drawn_order
from kernelagent.tools.judge.problem.trials.unlike_integers import INTEGERS, some_places

_SHARE = 1 / 40
_FEWEST = 32
"""Elements; of fewer, draws show it."""
_MOST = 3
_MOST_PAIRS = 2
_HELD = "has no element that stands alone among many alike"


def lone_elements(tensors: Tensors, generator: torch.Generator) -> Iterator[Unlike]:
    """Masks of one truth, integers of one value, floats of zeros, but for a few elements."""
    drawn = in_drawn_order([name for name, t in tensors.items() if _able(t)], generator)
    # What is a mask or an index decides more than a number does.
    for name in sorted(drawn, key=lambda name: tensors[name].is_floating_point())[:_MOST]:
        tensor = tensors[name]
        for alike in _backgrounds(tensor):
            alone = ~alike if tensor.dtype == torch.bool else tensor.detach()
            tried = f"elements that are all {_word(alike)} but for a few"
            changed = {name: _with_few(alike, alone, tensor, generator)}
            yield Unlike("lone_elements", _HELD, tried, name, changed)


def lone_changes(tensors: Tensors, generator: torch.Generator) -> Iterator[Unlike]:
    """An input that is another one but for a few elements, as a frame is the one before it."""
    names = [name for name, tensor in tensors.items() if _able(tensor)]
    pairs = [
        (one, other)
        for one, other in permutations(names, 2)
        if tensors[one].shape == tensors[other].shape and tensors[one].dtype == tensors[other].dtype
    ]
    for one, other in in_drawn_order(pairs, generator)[:_MOST_PAIRS]:
        changed = _with_few(tensors[other].detach(), tensors[one].detach(), tensors[one], generator)
        held = "is not {other} but for a few elements"
        yield Unlike("lone_elements", held, "one that is", one, {one: changed}, other)


def _with_few(
    alike: torch.Tensor, alone: torch.Tensor, like: torch.Tensor, generator: torch.Generator
) -> torch.Tensor:
    few = some_places(like, _SHARE, generator)
    return laid_out_like(torch.where(few, alone, alike), like)


def _able(tensor: torch.Tensor) -> bool:
    if tensor.numel() < _FEWEST or tensor.is_complex():
        return False
    if tensor.dtype == torch.bool or tensor.dtype in INTEGERS:
        return not (tensor == tensor.reshape(-1)[0]).all()
    return is_inexact(tensor) and observe(tensor).kind in ("real", "positive", "observed")


def _backgrounds(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    if tensor.dtype == torch.bool:
        return torch.zeros((), dtype=torch.bool), torch.ones((), dtype=torch.bool)
    if tensor.dtype in INTEGERS:
        # Padding, or a label that is ignored, is more frequent than each other one.
        most = tensor.detach().reshape(-1).mode().values
        signed = int(tensor.min()) < 0 < int(tensor.max())
        # Of codes with signs it is zero that is left out.
        return (most, torch.zeros_like(most)) if signed and int(most) else (most,)
    return (torch.zeros((), dtype=tensor.dtype, device=tensor.device),)


def _word(alike: torch.Tensor) -> str:
    return str(alike.item()) if alike.dtype == torch.bool else f"{alike.item():g}"
