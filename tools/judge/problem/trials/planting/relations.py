"""Inputs that have to do with one another, as those of a batch have: equal, opposite, indices of what is large, answers that agree.

Each input drawn by itself has none of this: of a thousand classes a drawn target is hardly ever the likeliest.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import combinations
from typing import Any

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
from kernelagent.tools.judge.problem.trials.planting.sequences import IDS, sequences

_RANKS = (0, 0, 0, 1, 2, 3, 5, 10, 20, 50)
"""Among the largest; the first is as frequent as where a trained model answers."""
_OFTEN = (1.0, 0.9, 0.7, 0.5)
"""How many of a row's indices are those of the largest, or agree with another input's: a row at a time."""
_NEAR = 1 / 16
_LEAST_LEAD = 0.7
"""Of the squared length of a row, and four times as much at most: a score of six to twenty-two at a width of 64."""
_MOST = 1 << 24
"""Elements of an input whose largest are looked for: a sort of so many takes a second."""


def related(
    tensors: Tensors,
    natural: Tensors,
    turn: int,
    generator: torch.Generator,
    numbers: Collection[int] = (),
) -> dict[str, torch.Tensor]:
    """In some turns one input has the values of another of its shape, or those with the other sign.

    In others neighbouring rows have one id and begin alike, as repeated prompts do; or integers that are in the range
    of a dimension beside them are indices of the largest along it, and integers of two inputs agree in many places; in the
    rest there are `sequences`. `numbers`: whole ones of the sources.
    """
    if turn % 4 == 1:
        return _rows_with_one_id(natural)
    if turn % 4 == 2:
        ranks = (*_RANKS, *(n for number in numbers for n in (number - 1, number) if n >= 0))
        return {**_agreeing(natural, generator), **_of_the_largest(natural, ranks, generator)}
    if turn % 4 == 3:
        return sequences(natural, numbers, generator)
    by_form: dict[Any, str] = {}
    for name, tensor in tensors.items():
        if not is_free(tensor) and not tensor.is_complex():
            continue
        first = by_form.setdefault((tensor.shape, tensor.dtype), name)
        if first != name:
            values = widened(tensors[first])
            values = values if turn // 4 % 2 else -values
            allowed = values if not observe(tensor).nonnegative else values.abs()
            return {name: laid_out_like(allowed.to(tensor.dtype), tensor)}
    return {}


def can_have_camps(tensors: Tensors) -> bool:
    """Whether two of them have rows as long as one another."""
    return _with_rows_alike(tensors) is not None


def camps(natural: Tensors, turn: int, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Rows of one input all near one row; those of another, as long, near its opposite, or but for one that is near it.

    Or that one alone is large along it: what is normalised is then far from its largest, and one key has most of the
    weight. `turn`: which of these, where there is no batch of them.
    """
    pair = _with_rows_alike(natural)
    if pair is None:
        return {}
    # Mostly the later one, as keys come after queries.
    turned = turn // 3 % 4 == 0 and natural[pair[0]].shape[-2] > 1
    name, other = pair[::-1] if turned else pair
    one, two = natural[name], natural[other]
    first, second = widened(one.detach()), widened(two.detach())
    row = first.reshape(-1, first.shape[-1])[0]
    # Opposite, but for one that is near, or flat but for one that leads; each item of a batch as it is drawn.
    items = second.shape[:-2]
    kind = torch.randint(3, items, generator=generator) if items else torch.tensor(turn % 3)
    lead = torch.where(kind == 1, 1.0, _LEAST_LEAD * 4.0 ** torch.rand(items, generator=generator))
    kind, lead = kind.to(row.device)[..., None], lead.to(row)[..., None]
    made = _NEAR * second - torch.where(kind < 2, 1.0, 0.0)[..., None] * row
    at = patterns.below(second.shape[-2], generator)
    made[..., at, :] = torch.where(kind > 0, lead * row, made[..., at, :])
    return {
        name: laid_out_like(shaped_like(row + _NEAR * first, one, observe(one)), one),
        other: laid_out_like(shaped_like(made, two, observe(two)), two),
    }


def _with_rows_alike(tensors: Tensors) -> tuple[str, str] | None:
    """The first two whose last dimensions are as long, of any sign; the second has several rows."""
    free = {
        n: t
        for n, t in tensors.items()
        if is_free(t) and t.dim() > 1 and t.shape[-1] > 1 and t.numel() and observe(t).low < 0
    }
    for one, two in combinations(free, 2):
        if free[one].shape[-1] == free[two].shape[-1]:
            several = [n for n in (one, two) if free[n].shape[-2] > 1]
            if several:
                return (one, two) if two in several else (two, one)
    return None


def _rows_with_one_id(natural: Tensors) -> dict[str, torch.Tensor]:
    """Empty where there are no ids, or no rows."""
    ids = {n: t for n, t in natural.items() if t.dim() and observe(t).kind in IDS}
    wide = {n: t for n, t in natural.items() if t.dim() > 1 and t.shape[-1] > 1 and is_free(t)}
    rows = {n: t for n, t in wide.items() if observe(t).low < 0}
    if not ids or not rows:
        return {}
    alike = {n: laid_out_like(patterns.in_runs(t), t) for n, t in ids.items()}
    for name, tensor in rows.items():
        begun = patterns.beginning_alike(widened(tensor.detach()))
        values = shaped_like(begun, tensor, observe(tensor))
        alike[name] = laid_out_like(values, tensor)
    return alike


def _of_the_largest(
    natural: Tensors, ranks: Sequence[int], generator: torch.Generator
) -> dict[str, torch.Tensor]:
    """Integers as indices of the largest of each row of a floating input, which stays as it was drawn."""
    floating = {
        n: t for n, t in natural.items() if t.is_floating_point() and 0 < t.numel() <= _MOST
    }
    made: dict[str, torch.Tensor] = {}
    for name, tensor in natural.items():
        if observe(tensor).kind not in IDS or not tensor.numel():
            continue
        for other, values in floating.items():
            rows = _rows_beside(tensor, values)
            if rows is not None:
                made[other] = values
                made[name] = laid_out_like(_within(tensor, _ranked(rows, ranks, generator)), tensor)
                break
    return made


def _within(tensor: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """These numbers where `tensor` was seen to hold such, its own elsewhere: a length is never zero, nor a label padding."""
    seen, own = observe(tensor), tensor.detach().long()
    return torch.where((numbers >= seen.low) & (numbers <= seen.high), numbers, own)


def _rows_beside(tensor: torch.Tensor, values: torch.Tensor) -> torch.Tensor | None:
    """For each of the integers a row whose places they seem to number: along the last dimension, or along the second."""
    for dim in dict.fromkeys((values.dim() - 1, 1)):
        if dim < 1 or dim >= values.dim() or values.dim() != tensor.dim() + 1:
            continue
        moved = values.movedim(dim, -1)
        seen, length = observe(tensor), moved.shape[-1]
        fits = all(a <= b for a, b in zip(tensor.shape, moved.shape[:-1], strict=True))
        # Of a few draws from a range the largest is seldom at its end, and seldom below its middle.
        if fits and seen.low >= 0 and length > seen.high >= length // 2:
            within = tuple(slice(size) for size in tensor.shape)
            return moved[within]
    return None


def _ranked(rows: torch.Tensor, ranks: Sequence[int], generator: torch.Generator) -> torch.Tensor:
    order = widened(rows.detach()).argsort(-1, descending=True)
    shape, length = rows.shape[:-1], rows.shape[-1]
    places = torch.tensor([min(rank, length - 1) for rank in (*ranks, length - 1)])
    drawn = places[torch.randint(len(places), shape, generator=generator)].to(order.device)
    rank = torch.where(_in_many_places(drawn, generator), 0, drawn)
    return order.gather(-1, rank[..., None]).squeeze(-1)


def _agreeing(natural: Tensors, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Of two inputs of integers the second as the first in many places of a row: a beginning, and what follows a difference."""
    ids = {n: t for n, t in natural.items() if t.dim() and observe(t).kind in IDS and t.numel()}
    for (name, one), (other, two) in combinations(ids.items(), 2):
        if one.dtype != two.dtype or one.shape[:-1] != two.shape[:-1] or one.numel() == 1:
            continue
        length = min(one.shape[-1], two.shape[-1])
        # Not all types of unsigned numbers can be compared.
        first, values = one.detach()[..., :length].long(), two.detach().long()
        seen, second = observe(two), values[..., :length]
        same = _in_many_places(second, generator) & (first >= seen.low) & (first <= seen.high)
        values[..., :length] = torch.where(same, first, second)
        return {name: one, other: laid_out_like(values, two)}
    return {}


def _in_many_places(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """True in a share of each row that is drawn for it."""
    shares = torch.tensor(_OFTEN)
    shape = (*like.shape[:-1], 1) if like.dim() else ()
    drawn = shares[torch.randint(len(shares), shape, generator=generator)]
    return (torch.rand(like.shape, generator=generator) < drawn).to(like.device)
