"""Rows that are nearly one another: of two inputs, of an input and a weight, or of one input.

What is computed from their difference (a distance, a divergence, a loss near its end) keeps few digits where it is
taken as a difference of large sums, and no draw of independent rows shows that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice

import torch

from kernelagent.tools.judge.problem.trials.input_domain import Tensors, laid_out_like, observe
from kernelagent.tools.judge.problem.trials.unlike import SIZED, Unlike, in_drawn_order, wide
from kernelagent.tools.judge.problem.trials.unlike_integers import INTEGERS

_MOST_PAIRS = 3
"""Each costs two calls."""
_FEWEST = 4
"""Elements of a row; of fewer, near ones come by themselves."""
_NEAREST = 3.0
"""Powers of two above the last bit of a row's numbers, so that a difference has a digit or more."""
_FARTHEST = 3.0
"""Powers of two below their size."""


def near_rows(natural: Tensors, state: Tensors, generator: torch.Generator) -> Iterator[Unlike]:
    """Each input with rows near those of another input, of a weight or buffer, or of its own.

    Twice each: once as near as is drawn for each row, once all as near as one another.
    """
    for name, other, rows in islice(_pairs(natural, state, generator), _MOST_PAIRS):
        for same in (False, True):
            values = _near(natural[name], rows, same, generator)
            tensors = {name: laid_out_like(values.to(natural[name].dtype), natural[name])}
            held = f"has no row that is nearly one of {'{other}' if other else 'its others'}"
            yield Unlike("near_rows", held, "rows that are", name, tensors, other)


def _pairs(
    natural: Tensors, state: Tensors, generator: torch.Generator
) -> Iterator[tuple[str, str, torch.Tensor]]:
    """An input, a name of what its rows are taken near to (empty: itself), and these rows in its shape."""
    order = in_drawn_order([n for n, t in natural.items() if has_rows(t)], generator)
    for at, name in enumerate(order):
        for other in order[at + 1 :]:
            if (rows := _beside(natural[name], natural[other], generator)) is not None:
                yield name, other, rows
    for name in order:
        for other, tensor in state.items():
            rows = _beside_state(natural[name], tensor, generator) if tensor.dim() > 1 else None
            if rows is not None:
                yield name, other, rows
    for name in order:
        if natural[name].dim() > 1 and natural[name].shape[-2] > 1:
            values = wide(natural[name])
            # Each second row near the one before it: each of many is near to one of the same batch.
            yield name, "", values[..., torch.arange(values.shape[-2]) // 2 * 2, :]


def _beside_state(
    first: torch.Tensor, other: torch.Tensor, generator: torch.Generator
) -> torch.Tensor | None:
    """Integers of a table are rows, too: what an input is when it is one of them makes the largest sums of codes."""
    if other.dtype in INTEGERS and other.shape[-1] >= _FEWEST:
        other = other.to(first.dtype)
    return _beside(first, other, generator) if has_rows(other) else None


def has_rows(tensor: torch.Tensor, fewest: int = _FEWEST) -> bool:
    """Whether it has rows of so many numbers, of which larger and smaller ones may be thought of."""
    if not tensor.is_floating_point() or tensor.dim() == 0 or tensor.shape[-1] < fewest:
        return False
    seen = observe(tensor)
    return bool(tensor.numel()) and seen.kind in SIZED and not seen.constant and seen.scale > 0


def _beside(
    first: torch.Tensor, other: torch.Tensor, generator: torch.Generator
) -> torch.Tensor | None:
    """The other's rows at the same places, or any of them; None where its rows are of another length."""
    if other.dtype != first.dtype or other.shape[-1] != first.shape[-1]:
        return None
    if other.shape == first.shape:
        return wide(other)
    rows = wide(other).reshape(-1, other.shape[-1])
    at = torch.randint(len(rows), first.shape[:-1], generator=generator).to(rows.device)
    return rows[at].to(first.device)


def _near(
    tensor: torch.Tensor, rows: torch.Tensor, same: bool, generator: torch.Generator
) -> torch.Tensor:
    bits = -math.log2(torch.finfo(tensor.dtype).eps)
    span = max(0.0, min(bits, 23.0) - _NEAREST - _FARTHEST)
    shape = (1,) * rows.dim() if same else (*rows.shape[:-1], 1)
    places = 0.5 * torch.ones(shape) if same else torch.rand(shape, generator=generator)
    size = rows.square().mean(-1, keepdim=True).sqrt()
    steps = (2 * torch.rand(rows.shape, generator=generator) - 1).to(rows)
    moved = rows + size * torch.exp2(-_FARTHEST - span * places).to(rows) * steps
    seen = observe(tensor)
    return moved.clamp_min(seen.low) if seen.kind == "positive" else moved
