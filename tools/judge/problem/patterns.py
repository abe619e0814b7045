"""Values with structure, as users have them and random draws never are: sparse, alike, consecutive, causal.

A candidate that takes a short cut for such values is right on all others. Each list is gone through in
turn, so that a few calls see much of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from kernelagent.tools.judge.problem.input_domain import Domain, fresh_values

Draw = torch.Generator
Row = Callable[[torch.Tensor, Draw], torch.Tensor]
"""`(a natural row, at most 1-d, float32 or wider; generator) -> a row of about its scale`."""


def below(count: int, draw: Draw) -> int:
    """A number from 0 to `count` - 1."""
    return int(torch.randint(count, (), generator=draw))


def _chance(like: torch.Tensor, share: float, draw: Draw) -> torch.Tensor:
    """True with this probability; on the device of `like`."""
    drawn = torch.rand(like.shape, generator=draw, device=draw.device) < share
    return drawn.to(like.device)


def _rms(row: torch.Tensor) -> torch.Tensor:
    return row.square().mean().sqrt().clamp_min(torch.finfo(row.dtype).tiny)


def one_place(row: torch.Tensor, draw: Draw) -> torch.Tensor:
    """Zeros but for a one somewhere."""
    result = torch.zeros_like(row)
    result.reshape(-1)[below(row.numel(), draw)] = 1.0
    return result


def _few_places(row: torch.Tensor, draw: Draw) -> torch.Tensor:
    result = torch.zeros_like(row)
    for _ in range(1 + below(8, draw)):
        at = below(row.numel(), draw)
        result.reshape(-1)[at] = row.reshape(-1)[at]
    return result


def _signs(row: torch.Tensor, draw: Draw) -> torch.Tensor:
    return torch.where(_chance(row, 0.5, draw), 1.0, -1.0).to(row) * _rms(row)


def _alternating(row: torch.Tensor, draw: Draw) -> torch.Tensor:
    signs = 1.0 - 2.0 * (torch.arange(row.numel(), device=row.device) % 2)
    return row.abs() * signs.to(row).reshape(row.shape)


def _halves_alike(row: torch.Tensor, draw: Draw) -> torch.Tensor:
    flat = row.reshape(-1).clone()
    half = flat.numel() // 2
    flat[half : 2 * half] = flat[:half]
    return flat.reshape(row.shape)


def _palindrome(row: torch.Tensor, draw: Draw) -> torch.Tensor:
    flat = row.reshape(-1).clone()
    half = flat.numel() // 2
    flat[flat.numel() - half :] = flat[:half].flip(0)
    return flat.reshape(row.shape)


def _evenly_spaced(row: torch.Tensor, draw: Draw) -> torch.Tensor:
    ends = float(row.min()), float(row.max())
    return torch.linspace(*ends, row.numel(), device=row.device).to(row).reshape(row.shape)


_ANYWHERE: tuple[Row, ...] = (
    lambda row, draw: torch.zeros_like(row),
    lambda row, draw: torch.ones_like(row),
    lambda row, draw: torch.full_like(row, float(row.reshape(-1)[0])),
    lambda row, draw: torch.where(_chance(row, 0.8, draw), 0.0, row),
    lambda row, draw: row.clamp_min(0.0),
    lambda row, draw: row.abs(),
    lambda row, draw: -row.abs(),
    lambda row, draw: torch.sigmoid(row / _rms(row)),
    lambda row, draw: (2 * row / _rms(row)).round(),
    lambda row, draw: (row > 0).to(row),
    _signs,
    lambda row, draw: row.to(torch.bfloat16).to(row),
)
"""For rows and for whole tensors."""
ROWS: tuple[Row, ...] = (
    *_ANYWHERE,
    one_place,
    _few_places,
    _alternating,
    _halves_alike,
    _palindrome,
    _evenly_spaced,
    lambda row, draw: row / (_rms(row) * row.numel() ** 0.5),
    lambda row, draw: torch.softmax(row / _rms(row), -1),
    lambda row, draw: row - row.mean(),
    lambda row, draw: (row / _rms(row) * 4).round() / 4,
)
WHOLE: tuple[Row, ...] = (
    *_ANYWHERE,
    lambda all_rows, draw: all_rows[:1].expand_as(all_rows),
    lambda all_rows, draw: all_rows[..., :1].expand_as(all_rows),
)


def in_rows(values: torch.Tensor, draw: Draw, turn: int) -> torch.Tensor:
    """Each row by the next of `ROWS`, some as another row is; few rows see few of them."""
    rows = values.reshape(-1, values.shape[-1]) if values.dim() > 1 else values.reshape(1, -1)
    rows = rows.clone()
    order = torch.randperm(len(rows), generator=draw).tolist()
    for number, at in enumerate(order):
        kind = (turn + number) % (len(ROWS) + 2)
        if kind < len(ROWS):
            rows[at] = ROWS[kind](rows[at], draw)
        elif kind == len(ROWS):
            rows[at] = rows[order[number - 1]]
    return rows.reshape(values.shape)


def whole(values: torch.Tensor, draw: Draw, turn: int) -> torch.Tensor:
    """All of the tensor by one of `WHOLE`, every fourth as it is: relations to others may matter."""
    kind = turn % (len(WHOLE) + len(WHOLE) // 3)
    if kind >= len(WHOLE):
        return values
    return one_of_whole(kind, values, draw).clone()


def one_of_whole(kind: int, values: torch.Tensor, draw: Draw) -> torch.Tensor:
    """All of the tensor by this one of `WHOLE`; those are of one dimension or more."""
    made = WHOLE[kind](values if values.dim() else values.reshape(1), draw)
    return made.reshape(values.shape)


def mask(tensor: torch.Tensor, draw: Draw, turn: int) -> torch.Tensor:
    """A mask as attention and padding have it, over its last one or two dimensions."""
    columns = torch.arange(tensor.shape[-1], device=tensor.device)
    height = tensor.shape[-2] if tensor.dim() > 1 else 1
    rows = torch.arange(height, device=tensor.device)[:, None]
    block = 1 + below(max(1, tensor.shape[-1] // 2), draw)
    until = 1 + below(tensor.shape[-1], draw)
    some = _chance(torch.empty(height, tensor.shape[-1], device=tensor.device), 0.5, draw)
    square = height == tensor.shape[-1]
    kinds = (
        columns >= 0,
        columns < 0,
        columns <= rows + (tensor.shape[-1] - height),
        columns < rows,
        columns < until,
        (columns < 1) | ((columns <= rows) & (columns > rows - block)),
        columns // block == rows // block,
        columns % (1 + block % 4) == 0,
        some | some.mT if square else some,
        some | (columns == rows),
    )
    return kinds[turn % len(kinds)].expand(tensor.shape).clone()


def integers(tensor: torch.Tensor, domain: Domain, draw: Draw, turn: int) -> torch.Tensor:
    """Ids, labels and counts as batches have them, in the range that was seen."""
    fresh = fresh_values(tensor, domain, draw)
    low, high = int(domain.low), int(domain.high)
    span, count = high - low + 1, max(1, tensor.numel())
    at = torch.arange(count, device=tensor.device).reshape(tensor.shape)
    place = at % tensor.shape[-1] if tensor.dim() else at
    one, other = (low + below(span, draw) for _ in range(2))
    until = below(tensor.shape[-1] + 1, draw) if tensor.dim() else 0
    kinds: Sequence[torch.Tensor] = (
        torch.full_like(fresh, one),
        torch.full_like(fresh, low),
        torch.full_like(fresh, high),
        low + (place + one) % span,
        low + at % span,
        low + at.flip(-1) % span if tensor.dim() else fresh,
        torch.where(at % 2 == 0, one, other),
        fresh[:1].expand_as(fresh) if tensor.dim() else fresh,
        torch.where(place < until, fresh, low),
        torch.where(place < until, fresh, high),
        torch.where(place < until, low, fresh),
        fresh.sort(-1).values if tensor.dim() else fresh,
        low + (at * _step(span)) % span,
        torch.minimum(fresh, fresh.flip(-1)) if tensor.dim() else fresh,
    )
    return kinds[turn % len(kinds)].to(tensor.dtype).clone()


def ascending(tensor: torch.Tensor, draw: Draw, turn: int) -> torch.Tensor:
    """Offsets with the ends they have: empty parts, one part that is all, parts of one size, of one element."""
    first, last = tensor[..., :1], tensor[..., -1:]
    steps = tensor.shape[-1] - 1
    at = torch.arange(steps + 1, device=tensor.device)
    cut = below(steps + 1, draw)
    kinds = (
        torch.where(at == 0, first, last),
        torch.where(at == steps, last, first),
        torch.where(at <= cut, first, last),
        first + (last - first) * at // max(1, steps),
        torch.minimum(first + at, last),
    )
    result = kinds[turn % len(kinds)].clone()
    result[..., -1:] = last
    return result


def observed(tensor: torch.Tensor, draw: Draw, turn: int) -> torch.Tensor:
    """Of values that were seen alone: all alike, most alike, sorted, alternating, rows alike."""
    flat = tensor.reshape(-1)
    seen: torch.Tensor = torch.unique(flat)
    one = seen[below(seen.numel(), draw)]
    at = torch.arange(flat.numel(), device=tensor.device).reshape(tensor.shape)
    kinds = (
        one.expand_as(tensor),
        torch.where(_chance(tensor, 0.9, draw), one, tensor),
        tensor.sort(-1).values if tensor.dim() else tensor,
        seen[at % seen.numel()],
        tensor[:1].expand_as(tensor) if tensor.dim() else tensor,
        seen[0].expand_as(tensor),
        torch.where(_chance(tensor, 0.9, draw), seen[0], tensor),
    )
    return kinds[turn % len(kinds)].clone()


def _step(span: int) -> int:
    """A step that meets every number of the span before it meets one again."""
    return next(n for n in range(span // 2 + 1, 2 * span + 2) if math.gcd(n, span) == 1)
