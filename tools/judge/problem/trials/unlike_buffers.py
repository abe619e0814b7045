"""Integers of buffers as a checkpoint may have them: larger ones than the constructor fills in, as far as the module takes them."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kernelagent.tools.judge.problem.trials.input_domain import Tensors
from kernelagent.tools.judge.problem.trials.unlike import Unlike, in_drawn_order
from kernelagent.tools.judge.problem.trials.unlike_integers import INTEGERS, larger_integers

_FACTORS = 16.0, 4.0, 1.5
"""Tried from the largest: a module refuses indices beyond its tables, and takes codes of all sizes."""
_MOST = 2


def larger_buffers(buffers: Tensors, generator: torch.Generator) -> Iterator[Unlike]:
    """A quarter of a buffer's integers larger, as they are and negative where some of them are."""
    names = [name for name, t in buffers.items() if t.dtype in INTEGERS and t.numel() > 1]
    for name in in_drawn_order(names, generator)[:_MOST]:
        tensor = buffers[name]
        for factor in _FACTORS:
            larger = larger_integers(tensor, factor, generator)
            if larger is None:
                continue
            if int(tensor.min()) < 0:
                down = torch.rand(tensor.shape, generator=generator) < 0.5
                larger = torch.where(down.to(larger.device) & (larger > tensor), -larger, larger)
            held = "holds no larger integers than its constructor makes"
            tried = f"ones up to {factor:g} times as large, which a checkpoint may have,"
            yield Unlike("larger_integers", held, tried, name, {name: larger})
