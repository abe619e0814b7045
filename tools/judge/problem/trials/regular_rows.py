"""Inputs that follow a rule: waves, numbers that grow by one factor, large ones at one distance, chains.

Algorithms that take a number of rounds, or look at a part of what is large, are right on draws of independent
elements. Their worst cases follow a rule: each box over the next one, each node beside the next, all limbs at their
largest.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from kernelagent.tools.judge.problem.trials.input_domain import Tensors, laid_out_like, observe
from kernelagent.tools.judge.problem.trials.near_rows import has_rows
from kernelagent.tools.judge.problem.trials.unlike import Unlike, in_drawn_order, wide
from kernelagent.tools.judge.problem.trials.unlike_integers import INTEGERS

_WORD = "regular_rows"
_HELD = "follows no rule along its rows"
_MOST_INPUTS = 2
_FEWEST = 8
"""Elements of a row."""
_LARGE = 8.0
"""So many times its size is a number that is to be among the largest."""
_STEPS = (1 / 4, 1 / 8, 1 / 16, 1 / 32)
"""Of the range of a row's numbers: so far is each row from the one before it."""
_MOST_IN_A_PLACE = 16
"""Numbers of a row that says where something is, as a box does or a point."""
_NEAR = 1 / 16
_SIGNS = ((-1, -1), (1, 1), (1, -1))
"""Each in a call of its own: beside what grows to one side the other may be lost."""
_OCTAVES = 40.0
"""Powers of two by which numbers of one row grow at most."""


def regular_rows(natural: Tensors, generator: torch.Generator) -> Iterator[Unlike]:
    """Each input, or two of them, with rows that follow one rule each; the others as they were drawn."""
    floating = [n for n, t in natural.items() if has_rows(t, 2)]
    for name in in_drawn_order(floating, generator)[:_MOST_INPUTS]:
        tensor = natural[name]
        for tried, values in _of_numbers(tensor, generator):
            yield _item(name, tensor, values, tried)
    for name, tensor in natural.items():
        if _is_square_of_truths(tensor):
            chain = torch.ones_like(wide(tensor)[..., 0, 1:]).diag_embed(1)
            yield _item(name, tensor, chain, "ones beside the diagonal alone, as in a chain,")
    whole = [n for n, t in natural.items() if t.dtype in INTEGERS and t.dim()]
    for name in in_drawn_order(whole, generator)[:_MOST_INPUTS]:
        for tried, values in _of_whole_numbers(natural[name]):
            yield _item(name, natural[name], values, tried)
    for one, other in _pairs_of_integers(natural):
        total = _largest_sum(natural[one])
        for at in (0, -1):
            # All but one of the sums are the largest number, and that one is beyond it.
            values = total - natural[one].detach().long()
            values[..., at] += 1
            held = "makes no one sum with all of {other}"
            changed = {other: laid_out_like(values, natural[other])}
            yield Unlike(_WORD, held, "numbers that do", other, changed, one)


def _of_numbers(
    tensor: torch.Tensor, generator: torch.Generator
) -> Iterator[tuple[str, torch.Tensor]]:
    values, seen = wide(tensor), observe(tensor)
    count = tensor.shape[-1]
    if count >= _FEWEST:
        if seen.kind == "real":
            yield "rows that are waves", seen.scale * _waves(values, generator)
        for signs in ((1, 1),) if seen.kind == "positive" else _SIGNS:
            made = _growing(values, seen.scale, signs, torch.finfo(tensor.dtype).max, generator)
            yield "rows whose numbers grow by one factor", made
        yield "rows whose largest are at one distance", _at_one_distance(values, generator)
    if tensor.dim() > 1 and count <= _MOST_IN_A_PLACE and tensor.shape[-2] >= _FEWEST:
        first = values[..., :1, :]
        reach = first.amax(-1, keepdim=True) - first.amin(-1, keepdim=True)
        numbers = torch.arange(tensor.shape[-2], device=values.device)[:, None].to(values)
        for step in _STEPS:
            yield "rows that move on in equal steps", first + step * reach * numbers


def _of_whole_numbers(tensor: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """Places that each name the one before or after, and ends of parts of which one part has nearly all."""
    count, values = tensor.shape[-1], tensor.detach().long()
    if count < _FEWEST:
        return
    low, high = int(values.min()), int(values.max())
    at = torch.arange(count, device=values.device).expand(values.shape)
    if low >= -1 and count // 2 <= high + 1 <= count:
        # As they were drawn they may name themselves at an end.
        yield "places that each name the one before, as in a chain", (at - 1).clamp(min=low)
        yield "places that each name the next, as in a chain", (at + 1).clamp(max=high)
    steps = values.diff(dim=-1)
    if (steps >= 0).all() and high > low:
        least = int(steps.min())
        first, last = values[..., :1], values[..., -1:]
        early = torch.minimum(first + least * at, last)
        late = torch.maximum(last - least * (count - 1 - at), first)
        for words, made in (("last", early), ("first", late)):
            ends = torch.cat([first, made[..., 1:-1], last], -1)
            yield f"ends of parts of which the {words} has nearly all", ends


def _waves(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Of each number of periods, the few first."""
    *leading, count = values.shape
    rows = math.prod(leading)
    periods = torch.arange(rows) % max(1, count // 2) + 1
    periods = periods[torch.randperm(rows, generator=generator)].reshape(*leading, 1)
    phases = torch.rand((*leading, 1), generator=generator)
    turns = periods * torch.arange(count) / count + phases
    return (math.sqrt(2) * torch.sin(2 * math.pi * turns)).to(values)


def _growing(
    values: torch.Tensor,
    scale: float,
    signs: tuple[int, int],
    largest: float,
    generator: torch.Generator,
) -> torch.Tensor:
    """From a fraction of their size on, to either end of the row, with these signs in turn."""
    *leading, count = values.shape
    shape = (*leading, 1)
    room = math.log2(largest / scale) / 2
    most = max(0.0, min(_OCTAVES, room)) / (count - 1)
    octaves = min(1.0, most) * (0.1 + 0.9 * torch.rand(shape, generator=generator))
    begin = scale * torch.exp2(-4 * torch.rand(shape, generator=generator))
    made = begin * torch.exp2(octaves * torch.arange(count))
    backwards = torch.rand(shape, generator=generator) < 0.5
    made = torch.where(backwards, made.flip(-1), made)
    made = made * torch.tensor(signs)[torch.arange(count) % 2]
    return made.to(values)


def _at_one_distance(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Eight or more of a row, as on a line or a diagonal of what the row is folded to."""
    *leading, count = values.shape
    sides = [side for side in (math.isqrt(count), 16, 32, 64) if 2 <= side < count // 8]
    distances = {1, 2, *(d for side in sides for d in (side - 1, side, side + 1))}
    choices = torch.tensor(sorted(d for d in distances if 0 < d <= max(1, count // 8)))
    distance = choices[torch.randint(len(choices), (*leading, 1), generator=generator)]
    begin = torch.randint(count, (*leading, 1), generator=generator)
    places = torch.arange(count)
    large = ((places - begin) % count) % distance == 0
    # Not all multiples of a small distance: so many that a part of the row holds all the largest.
    large &= (places - begin) % count < distance * _LARGE
    return torch.where(large.to(values.device), values.abs() * _LARGE, values)


def _is_square_of_truths(tensor: torch.Tensor) -> bool:
    if tensor.dim() < 2 or tensor.shape[-1] != tensor.shape[-2] or tensor.shape[-1] < _FEWEST:
        return False
    if tensor.is_complex():
        return False
    return bool(((tensor == 0) | (tensor == 1)).all()) and not observe(tensor).constant


def _pairs_of_integers(natural: Tensors) -> Iterator[tuple[str, str]]:
    """Two of one form: the first as it was drawn."""
    names = [n for n, t in natural.items() if t.dtype in INTEGERS and t.dim() and t.numel() > 1]
    for at, one in enumerate(names):
        for other in names[at + 1 :]:
            if natural[one].shape == natural[other].shape:
                yield one, other
                return


def _largest_sum(tensor: torch.Tensor) -> int:
    """The largest number of as many bits as the numbers have, where they come near to it; else the two ends' sum."""
    low, high = int(tensor.min()), int(tensor.max())
    ones = (1 << max(high, 0).bit_length()) - 1
    return ones if 0 <= low <= _NEAR * high and high >= (1 - _NEAR) * ones else low + high


def _item(name: str, tensor: torch.Tensor, values: torch.Tensor, tried: str) -> Unlike:
    changed = laid_out_like(values.to(tensor.dtype), tensor)
    return Unlike(_WORD, _HELD, tried, name, {name: changed})
