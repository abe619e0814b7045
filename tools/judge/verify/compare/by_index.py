"""Errors that depend on one index only: a channel's bias left out, a row's scale wrong, a lane's value stale.

Each index of a dimension has a factor or an offset of its own, the same for all elements there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import torch

_FEWEST = 8
"""Elements at an index, from which on a factor that fits all of them says something."""
_MOST_ELEMENTS = 1 << 24
_LEFT = 0.1
"""What remains once the fit is taken out, as a share of the error, both as RMS."""
_ALIKE = 0.02
_LANES = tuple(2**power for power in range(3, 11))
"""Block sizes whose lanes are tried, the smallest first."""

Kind = Literal["factor", "offset"]
Near = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""`(candidate, expected) -> bool per element`: equal up to rounding."""


@dataclass(frozen=True)
class ByIndex:
    """One factor or offset for each index of a dimension, or of each lane of blocks along it."""

    kind: Kind
    dim: int
    rank: int
    values: torch.Tensor
    """float64, one for each index."""
    lanes: int | None = None
    """Width of the blocks, where the index is that within a block."""
    tensor: str | None = None
    """The known tensor that the values come from."""
    times: Literal["left out", "used twice"] = "left out"

    @property
    def words(self) -> str:
        least, most = float(self.values.min()), float(self.values.max())
        each = f"each {self._place}"
        if self.kind == "offset":
            fact = f"{each} is off by a value of its own ({least:.4g} to {most:.4g})"
        else:
            fact = (
                f"each {self._place} is right times a factor of its own ({least:.4g} to {most:.4g})"
            )
        return fact if self.tensor is None else f"{fact}, as with {self.tensor} {self.times}"

    @property
    def _place(self) -> str:
        if self.lanes is not None:
            return f"lane of blocks of {self.lanes} along dimension {self.dim}"
        noun = {1: "column", 2: "row"}.get(self.rank - self.dim)
        return f"index of dimension {self.dim}" + (f" ({noun})" if noun else "")


def by_index(
    got: torch.Tensor, want: torch.Tensor, near: Near, vectors: Mapping[str, torch.Tensor]
) -> ByIndex | None:
    """The first dimension, then the first width of lanes, whose indices explain the error; None where none does.

    `vectors`: tensors by name that the values may come from. Only floating, finite outputs have an answer.
    """
    if not got.is_floating_point() or got.numel() > _MOST_ELEMENTS:
        return None
    left, right = got.double(), want.double()
    if not bool(left.isfinite().all()) or not bool(right.isfinite().all()):
        return None
    for dim, lanes, ours, theirs in _views(left, right):
        kinds: tuple[Kind, ...] = ("offset", "factor")
        for kind in kinds:
            values = _fitted(kind, ours, theirs, near, got.dtype)
            if values is None:
                continue
            result = ByIndex(kind, dim, got.dim(), values, lanes)
            return result if lanes is not None else _named(result, vectors)
    return None


def _views(
    got: torch.Tensor, want: torch.Tensor
) -> Iterator[tuple[int, int | None, torch.Tensor, torch.Tensor]]:
    """Both tensors as (index, elements there): by each dimension, then by lanes along the last."""
    for dim, size in enumerate(got.shape):
        if size > 1 and got.numel() >= _FEWEST * size:
            ours, theirs = (t.movedim(dim, 0).reshape(size, -1) for t in (got, want))
            yield dim, None, ours, theirs
    last = got.dim() - 1
    for width in _LANES if got.dim() else ():
        blocks = got.shape[last] // width
        if blocks > 1 and got.numel() >= _FEWEST * width:
            ours, theirs = (t[..., : blocks * width].reshape(-1, width).T for t in (got, want))
            yield last, width, ours, theirs


def _fitted(
    kind: Kind, got: torch.Tensor, want: torch.Tensor, near: Near, dtype: torch.dtype
) -> torch.Tensor | None:
    """The value of each index, where nothing but rounding remains once it is taken out."""
    if kind == "offset":
        values = (got - want).mean(1)
        explained = want + values[:, None]
    else:
        squares = want.square().sum(1)
        if bool((squares == 0).any()):
            return None
        values = (got * want).sum(1) / squares
        explained = want * values[:, None]
    error, remaining = ((got - other).square().mean().sqrt() for other in (want, explained))
    if float(remaining) > _LEFT * float(error):
        return None
    right = near(got, explained.to(dtype).double()).double().mean()
    return values if float(right) > 0.99 else None


def _named(result: ByIndex, vectors: Mapping[str, torch.Tensor]) -> ByIndex:
    """The same with the tensor that was left out or used twice, where one is known."""
    for name, tensor in vectors.items():
        if tensor.numel() != result.values.numel() or not tensor.is_floating_point():
            continue
        own = tensor.detach().double().reshape(-1).to(result.values.device)
        if result.kind == "factor" and bool((own == 0).any()):
            continue
        left_out = -own if result.kind == "offset" else 1 / own
        if _alike(result.values, left_out):
            return _with(result, name, "left out")
        if _alike(result.values, own):
            return _with(result, name, "used twice")
    return result


def _with(result: ByIndex, name: str, times: Literal["left out", "used twice"]) -> ByIndex:
    return ByIndex(result.kind, result.dim, result.rank, result.values, None, name, times)


def _alike(values: torch.Tensor, other: torch.Tensor) -> bool:
    size = float(other.square().mean().sqrt())
    return size > 0 and float((values - other).square().mean().sqrt()) <= _ALIKE * size
