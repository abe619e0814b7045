"""Infinities and NaN in the shapes that masks and padding have: whole rows, their ends, blocks, tiles, triangles.

Single ones in a few places, which `variation` puts, show none of what goes wrong only where a row, a block of it or a
window holds nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from kernelagent.tools.judge.problem.trials.input_domain import Tensors, laid_out_like
from kernelagent.tools.judge.problem.trials.planting.patterns import below
from kernelagent.tools.judge.problem.trials.unlike import in_drawn_order

_BLOCKS = (16, 32, 64, 128)
_MOST_INPUTS = 3
_LARGEST_TILE = 16
_KEPT = 3
"""Of so many rows, or tiles, two stay as they are."""
_MINUS, _PLUS, _NAN = -torch.inf, torch.inf, torch.nan
Places = Callable[[tuple[int, int, int], torch.Generator], torch.Tensor]
"""`((matrices, rows, columns), generator) -> a mask of that shape`"""


@dataclass(frozen=True)
class Shaped:
    """One input with infinities in a shape."""

    name: str
    shape: str
    """As a sentence goes on after "holds"."""
    tensors: dict[str, torch.Tensor]


def infinite_shapes(tensors: Tensors, generator: torch.Generator) -> Iterator[Shaped]:
    """A few of the floating inputs, one at a time: another's infinities would hide what one shows."""
    names = [n for n, t in tensors.items() if _takes_them(t)]
    for name in in_drawn_order(names, generator)[:_MOST_INPUTS]:
        for shape, values, places, dim in _shapes(tensors[name], generator):
            changed = _put(tensors[name], values, places, dim, generator)
            yield Shaped(name, shape, {name: changed})


def _takes_them(tensor: torch.Tensor) -> bool:
    if not tensor.is_floating_point() or not tensor.dim() or tensor.shape[-1] < 2:
        return False
    return tensor.numel() > 0 and bool(torch.tensor(torch.inf).to(tensor.dtype).float().isinf())


def _shapes(
    tensor: torch.Tensor, generator: torch.Generator
) -> Iterator[tuple[str, Sequence[float], Places, int]]:
    """What is put where, along which dimension."""
    last = tensor.dim() - 1
    yield "-inf in whole rows or in runs of them", (_MINUS,), _runs, last
    yield "+inf or NaN in whole rows or in runs of them", (_PLUS, _NAN), _runs, last
    if not last:
        return
    yield "-inf in all but the ends of its rows, as padding on the left", (_MINUS,), _left, last
    yield "-inf at the ends of its rows, as padding on the right", (_MINUS,), _right, last
    yield "-inf above its diagonal, as a causal mask", (_MINUS,), _causal, last
    yield "-inf in tiles of its last two dimensions", (_MINUS,), _tiles, last
    yield "+inf or NaN in tiles of its last two dimensions", (_PLUS, _NAN), _tiles, last
    other = below(last, generator)
    if tensor.shape[other] > 1:
        yield f"-inf along dimension {other}, all of it or in runs", (_MINUS,), _runs, other


def _put(
    tensor: torch.Tensor,
    values: Sequence[float],
    places: Places,
    dim: int,
    generator: torch.Generator,
) -> torch.Tensor:
    # In float64, because not every operation has the types of 8 bits.
    wide = tensor.detach().double().movedim(dim, -1)
    height = wide.shape[-2] if wide.dim() > 1 else 1
    size = wide.numel() // (height * wide.shape[-1]), height, wide.shape[-1]
    mask = places(size, generator)
    each = torch.arange(size[0] * size[1]).reshape(size[0], size[1], 1)
    if places is _tiles:
        each = each[:, :1]
    put = torch.tensor(values, dtype=torch.float64)[each % len(values)].expand(size)
    changed = torch.where(mask, put, wide.reshape(size).cpu()).reshape(wide.shape)
    back = changed.movedim(-1, dim).to(tensor.device, tensor.dtype)
    return laid_out_like(back, tensor)


def _runs(size: tuple[int, int, int], generator: torch.Generator) -> torch.Tensor:
    """In a third of the rows, each a run of another kind; never the same kinds first."""
    matrices, height, width = size
    count = matrices * height
    result = torch.zeros(count, width, dtype=torch.bool)
    chosen = torch.randperm(count, generator=generator)[: max(1, count // _KEPT)].tolist()
    kinds = list(_run_kinds(width, generator))
    # Whole rows and most of a row first, so that few rows see those; the others in a drawn order.
    order = [0, *(1 + torch.randperm(len(kinds) - 1, generator=generator)).tolist()]
    for at, row in enumerate(chosen):
        first, end = kinds[order[at % len(order)]]
        result[row, first:end] = True
    return result.reshape(size)


def _run_kinds(width: int, generator: torch.Generator) -> Iterator[tuple[int, int]]:
    yield 0, width
    yield 0, width // 2
    yield width - width // 2, width
    yield 0, width - 1 - below(max(1, width // 8), generator)
    yield 0, 1 + below(width - 1, generator)
    yield 1 + below(width - 1, generator), width
    first = 1 + below(width - 1, generator)
    yield first, first + 1 + below(width - first, generator)
    yield from ((0, block) for block in _BLOCKS if block < width)


def _left(size: tuple[int, int, int], generator: torch.Generator) -> torch.Tensor:
    """All but few columns, the same of every row: no block before them holds anything else."""
    width = size[2]
    until = width - 1 - below(max(1, width // 8), generator)
    return (torch.arange(width) < until).expand(size)


def _right(size: tuple[int, int, int], generator: torch.Generator) -> torch.Tensor:
    width = size[2]
    return (torch.arange(width) >= 1 + below(width // 2, generator)).expand(size)


def _causal(size: tuple[int, int, int], generator: torch.Generator) -> torch.Tensor:
    rows = torch.arange(size[1])[:, None]
    return (torch.arange(size[2]) > rows + max(0, size[2] - size[1])).expand(size)


def _tiles(size: tuple[int, int, int], generator: torch.Generator) -> torch.Tensor:
    """In a matrix one tile at its beginning or elsewhere, so large that a window of a few lies in it wherever it begins."""
    matrices, height, width = size
    result = torch.zeros(size, dtype=torch.bool)
    for matrix in range(0, matrices, 1 if matrices < _KEPT else _KEPT - 1):
        tall, wide = (min(n, 3 + below(_LARGEST_TILE - 2, generator)) for n in (height, width))
        above, before = below(height - tall + 1, generator), below(width - wide + 1, generator)
        if matrix % 2:
            above = before = 0
        result[matrix, above : above + tall, before : before + wide] = True
    return result
