"""Where in a tensor the wrong elements lie: a tail, every k-th row, one tile, a few rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch

Shape = Literal["tail", "head", "range", "periodic", "scattered"]
_FILLED = 0.5
"""A region is reported as a tail or tile when at least this share of its elements is wrong."""
_FEWEST_STEPS = 3


@dataclass(frozen=True)
class Along:
    """The wrong indices along one dimension, where they are not all of them."""

    dim: int
    size: int
    shape: Shape
    first: int
    last: int
    step: int = 1
    count: int = 0

    def named(self, rank: int) -> str:
        """For example `columns 576 to 639 of 640`, in a tensor of `rank` dimensions."""
        noun = _NOUNS.get(rank - self.dim, "") if rank > 1 else "elements"
        if self.shape == "scattered":
            return f"{self.count} of the {self.size} {noun or f'places along dimension {self.dim}'}"
        if self.shape == "periodic":
            what = noun or f"places along dimension {self.dim}"
            return f"every {_ordinal(self.step)} of the {what}, from {self.first} on"
        what = noun or f"dimension {self.dim}:"
        if self.first == self.last:
            return f"{what.removesuffix('s')} {self.first} of {self.size}"
        return f"{what} {self.first} to {self.last} of {self.size}"


_NOUNS = {1: "columns", 2: "rows"}


def restrictions(wrong: torch.Tensor) -> tuple[Along, ...]:
    """The dimensions along which only some indices hold wrong elements, last dimension first.

    Empty when wrong elements are everywhere, or nowhere in particular.
    """
    result = []
    for dim in reversed(range(wrong.dim())):
        others = [d for d in range(wrong.dim()) if d != dim]
        hit = wrong.any(dim=others) if others else wrong
        along = _along(dim, hit.nonzero().reshape(-1).tolist(), int(wrong.shape[dim]))
        if along is not None:
            result.append(along)
    return tuple(result) if _is_filled(wrong, result) else _only_telling(result)


def _along(dim: int, indices: Sequence[int], size: int) -> Along | None:
    if not indices or len(indices) == size:
        return None
    first, last, count = indices[0], indices[-1], len(indices)
    if count == last - first + 1:
        shape: Shape = "tail" if last == size - 1 else "head" if first == 0 else "range"
        return Along(dim, size, shape, first, last, count=count)
    steps = {b - a for a, b in pairwise(indices)}
    step = steps.pop()
    if not steps and count >= _FEWEST_STEPS and first < step and last + step >= size:
        return Along(dim, size, "periodic", first, last, step, count)
    if count > size // 2:
        return None
    return Along(dim, size, "scattered", first, last, count=count)


def _is_filled(wrong: torch.Tensor, places: Sequence[Along]) -> bool:
    """Whether the box that the restrictions span is mostly wrong."""
    inside = wrong
    for along in places:
        if along.shape != "scattered":
            piece = slice(along.first, along.last + 1, along.step)
            inside = inside[(slice(None),) * along.dim + (piece,)]
    return float(inside.to(torch.float32).mean()) >= _FILLED


def _only_telling(places: Sequence[Along]) -> tuple[Along, ...]:
    """For sparse errors: keep only ranges of at most an eighth of their dimension; wider ones say little."""
    return tuple(along for along in places if along.count <= along.size // 8)


def _ordinal(number: int) -> str:
    return {2: "2nd", 3: "3rd"}.get(number, f"{number}th")
