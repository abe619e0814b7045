"""NaN in those places of an input that decide nothing: rows whose label is ignored, elements that a mask hides.

What was never computed may stand there. A kernel that multiplies by zero what it should leave out takes it in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from kernelagent.tools.calls.complex_numbers import is_inexact
from kernelagent.tools.judge.problem.trials.input_domain import Tensors, laid_out_like
from kernelagent.tools.judge.problem.trials.unlike import Unlike, in_drawn_order
from kernelagent.tools.judge.problem.trials.unlike_integers import INTEGERS

_MOST_INPUTS = 3
_MOST_ROWS = 16
"""Rows that are tried, each by a call of the reference."""

Keeps = Callable[[Tensors], bool]
"""Whether the reference's answer has no more that is NaN or infinite with these in the places of their names."""


def unread_places(natural: Tensors, keeps: Keeps, generator: torch.Generator) -> Iterator[Unlike]:
    """Each input with NaN where `keeps` says that the reference does not look."""
    names = [n for n, t in natural.items() if is_inexact(t) and t.dim() and t.numel() > 1]
    for name in in_drawn_order(names, generator)[:_MOST_INPUTS]:
        tensor = natural[name]
        for places in (*_masked(natural, tensor), _rows(name, tensor, keeps, generator)):
            if not bool(places.any()) or bool(places.all()):
                continue
            changed = {name: _with_nan(tensor, places)}
            if keeps(changed):
                held = "holds numbers in all places"
                tried = (
                    "NaN in places that your module does not look at, as ignored or masked ones,"
                )
                yield Unlike("unread", held, tried, name, changed)


def alike_integers(natural: Tensors, generator: torch.Generator) -> Iterator[Unlike]:
    """Each input of integers with one of its own numbers in all places: all labels ignored, all ids padding."""
    names = [n for n, t in natural.items() if t.dtype in (*INTEGERS, torch.bool) and t.numel() > 1]
    for name in in_drawn_order(names, generator)[:_MOST_INPUTS]:
        flat = natural[name].detach().reshape(-1)
        for value in {int(flat.min()), int(flat.max()), int(flat.mode().values)}:
            changed = {name: torch.full_like(natural[name], value)}
            yield Unlike("alike", "is not the same in all places", f"{value} in all", name, changed)


def other_truths(natural: Tensors, generator: torch.Generator) -> Iterator[Unlike]:
    """Each input of truths with 255 as the byte of what is true, as a view of an image's bytes has it.

    Torch takes every byte but zero for true. A kernel that reads the bytes as numbers does not.
    """
    names = [n for n, t in natural.items() if t.dtype == torch.bool and t.numel()]
    for name in in_drawn_order(names, generator)[:_MOST_INPUTS]:
        tensor = natural[name].detach()
        places = tensor if 0 not in tensor.stride() else tensor.contiguous()
        truths = (places.view(torch.uint8) * 255).view(torch.bool)
        held = "has one as the byte of each truth"
        yield Unlike("truths", held, "truths whose byte is 255", name, {name: truths})


def _masked(natural: Tensors, tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Where a mask beside it is true, and where it is not."""
    for mask in natural.values():
        if mask.dtype == torch.bool and mask.dim() <= tensor.dim():
            try:
                whole = mask.expand(tensor.shape)
            except RuntimeError:
                continue
            yield whole
            yield ~whole


def _rows(
    name: str, tensor: torch.Tensor, keeps: Keeps, generator: torch.Generator
) -> torch.Tensor:
    """Of some drawn rows of the last dimension (elements where it has no other), those that decide nothing."""
    places = torch.zeros(tensor.shape, dtype=torch.bool, device=tensor.device)
    rows = places.view(-1, tensor.shape[-1] if tensor.dim() > 1 else 1)
    for at in torch.randperm(len(rows), generator=generator)[:_MOST_ROWS].tolist():
        one = torch.zeros_like(rows)
        one[at] = True
        if keeps({name: _with_nan(tensor, one.view(tensor.shape))}):
            rows[at] = True
    return places


def _with_nan(tensor: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    values = tensor.detach()
    # torch fills no tensor of eight bits; float32 holds all that those do.
    wide = values.float() if values.element_size() == 1 else values
    return laid_out_like(wide.masked_fill(places, float("nan")).to(values.dtype), tensor)
