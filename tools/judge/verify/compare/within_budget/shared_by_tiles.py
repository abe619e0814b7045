"""A factor that each tile of an output has for itself, as programs that err in turn to either side give it.

Rows and columns share nothing then, and over the whole it cancels. Rounding leaves the slope of a tile's error on its
right values near nothing; a value that a row or a column shares and that is rounded counts for one of many in a tile.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import torch

from kernelagent.tools.calls.torch_dtypes import HALVES

_LEAST = 8
"""Rows and columns of the smallest tiles."""
_MOST = 128
_FEWEST_TILES = 16
_MOST_ELEMENTS = 1 << 21
_CHANCE = 8.0
"""Standard errors; some twenty sizes of tiles are tried in each comparison."""
_OWN = 2.0
_ROUNDINGS = 2.0
"""Values of the output's type that all elements of a row, or of a column, may share."""
_KEPT = 7 / 8
"""Of the tiles so many are looked at: the furthest may be far off by chance."""
_UNITS_KNOWN = 2.0
"""Tiles of which eager knows the values to so many units of its type."""


@dataclass(frozen=True)
class SharedByTiles:
    """Factors of tiles."""

    rows: int
    columns: int
    size: float
    """RMS of what the factors are off one."""
    allowed: float
    by_one_value: bool
    """Whether a value that each tile has for itself, and that is rounded to the output's type, could explain it."""

    @property
    def times(self) -> float:
        """What is explained."""
        return self.size / self.allowed

    def worse_than(self, other: SharedByTiles) -> bool:
        return (other.by_one_value, self.times) > (self.by_one_value, other.times)

    @property
    def message(self) -> str:
        return (
            f"not rounded at random: tiles of {self.rows} rows and {self.columns} columns are the right values times "
            f"factors of their own that are {self.size:.4f} off 1, where the rounding of values that rows and columns "
            f"share explains {self.allowed:.4f}; over the whole these errors cancel"
        )


@dataclass(frozen=True)
class _Sums:
    """Sums over tiles, from which those over larger tiles follow."""

    power: torch.Tensor
    """Of squares of right values."""
    slope: torch.Tensor
    """Of errors times right values."""
    squares: torch.Tensor
    cubes: torch.Tensor
    fourths: torch.Tensor
    """Of squares of errors times right values, and of what a slope takes from them."""

    @classmethod
    def of(cls, error: torch.Tensor, right: torch.Tensor) -> _Sums:
        squares = right.square()
        carried = error * right
        parts = (squares, carried, carried.square(), carried * squares, squares.square())
        return cls(*(_over(part, _LEAST, _LEAST) for part in parts))

    def over(self, rows: int, columns: int) -> _Sums:
        """So many of these tiles to one."""
        five = (self.power, self.slope, self.squares, self.cubes, self.fourths)
        return _Sums(*(_over(part, rows, columns) for part in five))

    def slopes(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Of each tile, and their variances."""
        power = self.power.clamp_min(torch.finfo(torch.float64).tiny)
        slope = self.slope / power
        rest = self.squares - 2 * slope * self.cubes + slope.square() * self.fourths
        return slope, rest.clamp_min(0.0) / power.square()


def shared_by_tiles(
    candidate: torch.Tensor, eager: torch.Tensor, oracle64: torch.Tensor
) -> SharedByTiles | None:
    """The tiles whose factors are furthest beyond what rounding explains; only for 16-bit outputs of rows and columns.

    Those that one rounded value for each tile does not explain come first.
    """
    size = oracle64.numel()
    if eager.dtype not in HALVES or oracle64.dim() < 2 or not 0 < size <= _MOST_ELEMENTS:
        return None
    right = oracle64.to(torch.float64).reshape(-1, oracle64.shape[-1])
    ours, theirs = (t.to(right).reshape(right.shape) - right for t in (candidate, eager))
    if min(right.shape) < _LEAST:
        return None
    if not all(bool(t.isfinite().all()) for t in (right, ours, theirs)):
        return None
    half_unit = float(torch.finfo(eager.dtype).eps) / 2
    own, usual = _Sums.of(ours, right), _Sums.of(theirs, right)
    known = _over(theirs.square(), _LEAST, _LEAST)
    furthest: SharedByTiles | None = None
    for rows, columns in _sizes(own.power.shape):
        of = own.over(rows, columns)
        fine = _over(known, rows, columns) <= (_UNITS_KNOWN * half_unit) ** 2 * of.power
        fine &= of.power > 0
        if int(fine.sum()) < _FEWEST_TILES:
            continue
        found, chance = _together(of, fine)
        eagers, _ = _together(usual.over(rows, columns), fine)
        high, wide = rows * _LEAST, columns * _LEAST
        # All tiles that lie beside one another have a row's rounded values in common.
        bands = min(of.power.shape)
        shared = half_unit**2 * _ROUNDINGS / 3 * (1 / high + 1 / wide)
        shared *= 1 + _CHANCE * math.sqrt(2 / bands)
        allowed = shared + _OWN**2 * eagers + _CHANCE * chance
        # A group of channels has one scale: rounded, it is at most half a unit off, and all of them may be.
        by_one = found <= allowed + half_unit**2
        tiles = SharedByTiles(high, wide, math.sqrt(found), math.sqrt(allowed), by_one)
        if tiles.times > 1 and (furthest is None or tiles.worse_than(furthest)):
            furthest = tiles
    return furthest


def _sizes(tiles: torch.Size) -> Iterator[tuple[int, int]]:
    """By how many of the smallest tiles larger ones are, in rows and columns."""
    powers = [2**at for at in range(int(math.log2(_MOST // _LEAST)) + 1)]
    for rows, columns in product(powers, powers):
        if (tiles[0] // rows) * (tiles[1] // columns) >= _FEWEST_TILES:
            yield rows, columns


def _over(values: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """Sums over tiles; what is left at the ends is not looked at."""
    high, wide = (n // of for n, of in zip(values.shape, (rows, columns), strict=True))
    cut = values[: high * rows, : wide * columns]
    return cut.reshape(high, rows, wide, columns).sum((1, 3))


def _together(sums: _Sums, fine: torch.Tensor) -> tuple[float, float]:
    """Mean square over most of the tiles beyond what chance makes of it, and the chance of that.

    What all tiles have in common is not counted: it is the slope of the whole.
    """
    slope, variance = (t[fine] for t in sums.slopes())
    squares = (slope - slope.mean()).square().sort().values[: int(_KEPT * len(slope))]
    excess = float(squares.mean()) - float(variance.mean())
    return max(0.0, excess), float((2 * variance.square().mean() / len(squares)).sqrt())
