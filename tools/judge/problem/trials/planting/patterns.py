"""Values with structure, as users have them and random draws never are: sparse, alike, consecutive, causal.

A candidate that takes a short cut for such values is right on all others. Each list is gone through in
turn, so that a few calls see much of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from kernelagent.tools.judge.problem.trials.input_domain import Domain, fresh_values

Draw = torch.Generator
_FEW = 8
_RUN = 3
_RARELY = 3.0
"""In a row, about."""
Rows = Callable[[torch.Tensor, Draw], torch.Tensor]
"""`(natural rows, 2-d, float32 or wider; generator) -> as many rows of about their scale`.

Of all rows at once: an input may have a hundred thousand, and one by one each would cost a GPU several launches.
"""


def below(count: int, draw: Draw) -> int:
    """A number from 0 to `count` - 1."""
    return int(torch.randint(count, (), generator=draw))


def chance(share: float, draw: Draw) -> bool:
    """True with this probability."""
    return float(torch.rand((), generator=draw)) < share


def _places(rows: torch.Tensor, count: int, draw: Draw) -> torch.Tensor:
    """So many columns of each row."""
    size = (rows.shape[0], count)
    return torch.randint(rows.shape[1], size, generator=draw, device=draw.device).to(rows.device)


def _chance(like: torch.Tensor, share: float, draw: Draw) -> torch.Tensor:
    """True with this probability; on the device of `like`."""
    drawn = torch.rand(like.shape, generator=draw, device=draw.device) < share
    return drawn.to(like.device)


def _rms(rows: torch.Tensor) -> torch.Tensor:
    """Of each row."""
    least = torch.finfo(rows.dtype).tiny
    return rows.square().mean(-1, keepdim=True).sqrt().clamp_min(least)


def _a_place_in_each(rows: torch.Tensor, draw: Draw) -> torch.Tensor:
    return torch.zeros_like(rows).scatter(1, _places(rows, 1, draw), 1.0)


def _few_places(rows: torch.Tensor, draw: Draw) -> torch.Tensor:
    at = _places(rows, _FEW, draw)
    counts = torch.randint(_FEW, (rows.shape[0], 1), generator=draw, device=draw.device)
    within = torch.arange(_FEW, device=rows.device) <= counts.to(rows.device)
    at = torch.where(within, at, at[:, :1])
    return torch.zeros_like(rows).scatter(1, at, rows.gather(1, at))


def _signs(rows: torch.Tensor, draw: Draw) -> torch.Tensor:
    return torch.where(_chance(rows, 0.5, draw), 1.0, -1.0).to(rows) * _rms(rows)


def _alternating(rows: torch.Tensor, draw: Draw) -> torch.Tensor:
    signs = 1.0 - 2.0 * (torch.arange(rows.shape[1], device=rows.device) % 2)
    return rows.abs() * signs.to(rows)


def _halves_alike(rows: torch.Tensor, draw: Draw) -> torch.Tensor:
    result = rows.clone()
    half = rows.shape[1] // 2
    result[:, half : 2 * half] = rows[:, :half]
    return result


def _palindrome(rows: torch.Tensor, draw: Draw) -> torch.Tensor:
    result = rows.clone()
    half = rows.shape[1] // 2
    result[:, rows.shape[1] - half :] = rows[:, :half].flip(1)
    return result


def _squares(rows: torch.Tensor, draw: Draw) -> torch.Tensor:
    """Of whole numbers: a root that errs in its last place is cut off below them."""
    return rows.sign() * rows.abs().sqrt().round().square()


def evenly_spaced(first: torch.Tensor, last: torch.Tensor, count: int) -> torch.Tensor:
    """Rows of `count` numbers between the two of each row, ends included."""
    share = torch.linspace(0.0, 1.0, count, dtype=first.dtype, device=first.device)
    return torch.lerp(first, last, share.expand(first.shape[0], count))


def _rising(rows: torch.Tensor, draw: Draw) -> torch.Tensor:
    return evenly_spaced(rows.amin(1, keepdim=True), rows.amax(1, keepdim=True), rows.shape[1])


_ANYWHERE: tuple[Rows, ...] = (
    lambda rows, draw: torch.zeros_like(rows),
    lambda rows, draw: torch.ones_like(rows),
    lambda rows, draw: rows[:, :1].expand_as(rows),
    lambda rows, draw: torch.where(_chance(rows, 0.8, draw), 0.0, rows),
    lambda rows, draw: rows.clamp_min(0.0),
    lambda rows, draw: rows.abs(),
    lambda rows, draw: -rows.abs(),
    lambda rows, draw: torch.sigmoid(rows / _rms(rows)),
    lambda rows, draw: (2 * rows / _rms(rows)).round(),
    lambda rows, draw: (rows > 0).to(rows),
    _signs,
    lambda rows, draw: rows.to(torch.bfloat16).to(rows),
)
"""For rows and for whole tensors, which are then one row."""
ROWS: tuple[Rows, ...] = (
    *_ANYWHERE,
    _a_place_in_each,
    _few_places,
    _alternating,
    _halves_alike,
    _palindrome,
    _squares,
    _rising,
    lambda rows, draw: rows / (_rms(rows) * rows.shape[1] ** 0.5),
    lambda rows, draw: torch.softmax(rows / _rms(rows), -1),
    lambda rows, draw: rows - rows.mean(-1, keepdim=True),
    lambda rows, draw: (rows / _rms(rows) * 4).round() / 4,
)


def _as_one_row(change: Rows) -> Rows:
    return lambda values, draw: change(values.reshape(1, -1), draw).reshape(values.shape)


one_place = _as_one_row(_a_place_in_each)
"""Zeros but for a one somewhere, in a tensor of any shape."""


def _peaks(values: torch.Tensor, draw: Draw) -> torch.Tensor:
    """Rows whose largest stand where a rule says: what is read off them repeats, comes back, is a chain."""
    if values.dim() < 2:
        return values
    count, length = values.shape[-2:]
    at = torch.arange(count, device=values.device)
    one, other, third = (below(length, draw) for _ in range(3))
    kinds = (
        (at + 1) % length,
        (at - 1) % length,
        torch.where(at % 2 == 0, one, other),
        torch.where(at % 3 == 1, other, one),
        torch.where(at // 2 % 2 == 0, one, length - 1),
        torch.where(at < 1 + below(count, draw), one, third),
    )
    return with_peaks(values, kinds[below(len(kinds), draw)].expand(values.shape[:-1]))


def with_peaks(values: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """The same with the largest of each row, by far, at its place."""
    rows = values.reshape(-1, values.shape[-1])
    peaks = rows.amax() + rows.amax(-1, keepdim=True) - rows.amin(-1, keepdim=True)
    return values.scatter(-1, places[..., None], peaks.reshape(*places.shape, 1))


def _two_camps(values: torch.Tensor, draw: Draw) -> torch.Tensor:
    """Rows near one, or near its opposite: of the first so many the latter."""
    if values.dim() < 2:
        return values
    first = values[..., :1, :]
    opposite = torch.arange(values.shape[-2], device=values.device) < 1 + below(
        values.shape[-2], draw
    )
    signs = torch.where(opposite, -1.0, 1.0).to(values)[:, None]
    return signs * first + _NEAR * (values - first)


def _held(values: torch.Tensor, draw: Draw) -> torch.Tensor:
    """Rows that stay as they are for long, as what a sensor tells does, at times louder."""
    if values.dim() < 2:
        return values
    count = values.shape[-2]
    begins = [0, *sorted(below(count, draw) for _ in range(_FEW // 2))]
    first = torch.zeros(count, dtype=torch.long, device=values.device)
    for begin in begins:
        first[begin:] = begin
    return (1 + below(2, draw)) * values[..., first, :]


_NEAR = 1 / 64
WHOLE: tuple[Rows, ...] = (
    *map(_as_one_row, _ANYWHERE),
    lambda values, draw: values[:1].expand_as(values),
    lambda values, draw: values[..., :1].expand_as(values),
    _peaks,
    _two_camps,
    _held,
)


UNTIED: tuple[Rows, ...] = (
    _rising,
    lambda rows, draw: evenly_spaced(
        rows.amax(1, keepdim=True), rows.amin(1, keepdim=True), rows.shape[1]
    ),
    lambda rows, draw: rows.abs(),
    lambda rows, draw: -rows.abs(),
    lambda rows, draw: torch.sigmoid(rows / _rms(rows)),
    _alternating,
)
"""Those whose elements differ from their neighbours: what is compared with them comes out the same however it is rounded."""


def in_rows(
    values: torch.Tensor, draw: Draw, turn: int, changes: Sequence[Rows] = ROWS
) -> torch.Tensor:
    """Each row by the next of `changes`, some as another row is, some as they are; few rows see few of them."""
    rows = values.reshape(-1, values.shape[-1]) if values.dim() > 1 else values.reshape(1, -1)
    rows = rows.clone()
    order = torch.randperm(len(rows), generator=draw).to(rows.device)
    kinds = len(changes) + 2
    for kind, change in enumerate(changes):
        at = order[(kind - turn) % kinds :: kinds]
        if at.numel():
            rows[at] = change(rows[at], draw)
    if changes is ROWS:
        copied = slice((len(ROWS) - turn) % kinds, None, kinds)
        rows[order[copied]] = rows[order.roll(1)[copied]]
    return rows.reshape(values.shape)


def mixed(
    values: torch.Tensor, draw: Draw, turn: int, scales: Sequence[float], changes: Sequence[Rows]
) -> torch.Tensor:
    """Rows of many kinds and sizes beside one another, along any dimension; half of them as they are, many of one sign.

    What a candidate leaves out for a later row, block or step shows in some of them.
    """
    long = [dim for dim, size in enumerate(values.shape) if size >= _FEW] or [values.dim() - 1]
    along = long[below(len(long), draw)]
    own = values.movedim(along, -1)
    rows = in_rows(own, draw, turn, changes).reshape(-1, own.shape[-1])
    rows = torch.where(_chance(rows[:, :1], 0.5, draw), own.reshape(rows.shape), rows)
    sign = torch.randint(4, (len(rows), 1), generator=draw, device=draw.device).to(rows.device)
    rows = torch.where(sign == 0, rows.abs(), torch.where(sign == 1, -rows.abs(), rows))
    size = torch.randint(len(scales), (len(rows), 1), generator=draw, device=draw.device)
    sizes = torch.tensor(scales, dtype=rows.dtype, device=rows.device)[size.to(rows.device)]
    return (rows * sizes).reshape(own.shape).movedim(-1, along)


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
        _chance(some, _RARELY / tensor.shape[-1], draw),
    )
    kind = kinds[turn % len(kinds)]
    # A single row of truths has no height.
    return (kind if tensor.dim() > 1 else kind.reshape(-1)).expand(tensor.shape).clone()


def integers(tensor: torch.Tensor, domain: Domain, draw: Draw, turn: int) -> torch.Tensor:
    """Ids, labels and counts as batches have them, in the range that was seen."""
    # Not all types of unsigned numbers can be turned round, sorted or compared.
    fresh = fresh_values(tensor, domain, draw).long()
    low, high = int(domain.low), int(domain.high)
    span, count = high - low + 1, max(1, tensor.numel())
    at = torch.arange(count, device=tensor.device).reshape(tensor.shape)
    place = at % tensor.shape[-1] if tensor.dim() else at
    first, other = (low + below(span, draw) for _ in range(2))
    until = below(tensor.shape[-1] + 1, draw) if tensor.dim() else 0
    rarely = _RARELY / tensor.shape[-1] if tensor.dim() else 0.5
    kinds: Sequence[torch.Tensor] = (
        torch.full_like(fresh, first),
        torch.full_like(fresh, low),
        torch.full_like(fresh, high),
        low + (place + first) % span,
        low + at % span,
        low + at.flip(-1) % span if tensor.dim() else fresh,
        torch.where(at % 2 == 0, first, other),
        fresh[:1].expand_as(fresh) if tensor.dim() else fresh,
        torch.where(place < until, fresh, low),
        torch.where(place < until, fresh, high),
        torch.where(place < until, low, fresh),
        fresh.sort(-1).values if tensor.dim() else fresh,
        low + (at * _step(span)) % span,
        torch.minimum(fresh, fresh.flip(-1)) if tensor.dim() else fresh,
        torch.where(_chance(fresh, rarely, draw), fresh, first),
    )
    return kinds[turn % len(kinds)].to(tensor.dtype).clone()


def in_runs(tensor: torch.Tensor) -> torch.Tensor:
    """Each number as the first of its run of a few."""
    flat = tensor.reshape(-1)
    return flat[_firsts(flat)].reshape(tensor.shape)


def beginning_alike(values: torch.Tensor) -> torch.Tensor:
    """Rows, each of which begins as the first of its run of a few; the last of a run ends in larger numbers.

    So large that what is taken from another row is another answer, whatever is added up.
    """
    rows = values.reshape(-1, values.shape[-1])
    columns = torch.arange(values.shape[-1], device=values.device)
    begins = columns < min(_FEW, values.shape[-1] // 2)
    at = torch.arange(len(rows), device=values.device)[:, None]
    ends = torch.where(at % _RUN == _RUN - 1, 4 * rows, rows)
    return torch.where(begins, rows[_firsts(rows)], ends).reshape(values.shape)


def _firsts(items: torch.Tensor) -> torch.Tensor:
    """For each the place of the first of its run."""
    at = torch.arange(len(items), device=items.device)
    return at - at % _RUN


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
    item = seen[below(seen.numel(), draw)]
    at = torch.arange(flat.numel(), device=tensor.device).reshape(tensor.shape)
    kinds = (
        item.expand_as(tensor),
        torch.where(_chance(tensor, 0.9, draw), item, tensor),
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
