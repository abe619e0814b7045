"""A combine function must be associative: a GPU groups the elements as its threads hold them."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from typing import Any

import numpy as np

from kernelagent.tools.virtual.arithmetic import numerics, trees
from kernelagent.tools.virtual.arithmetic.numerics import Array

_LANES = 8
"""So many elements are combined from the left and from the right."""
_LOOKS = 32
"""How often each function is looked at; its results are formed in a tree each time."""
_ROUNDING = {32: 1e-3, 64: 1e-6}
_NARROW = 0.05
_SHARE = 1 / 16
"""The share of the results that must differ: a tie may go either way."""
_MOVES = 4
"""So often the elements are moved to their neighbours among the numbers, where an order makes a difference."""
_OF_ROUNDING = 16
"""What is no more than so many times as far off as moved elements make it comes from rounding: of a sum of squares, say,
less the square of a mean that is far from zero."""
_looked: Counter[Any] = Counter()


class NotAssociative(Exception):
    """Grouped otherwise, the elements give another result."""


def require_associative(
    function: Any, combine: trees.CombineAll, parts: list[Array], kinds: list[Any], axis: int
) -> None:
    """Raises `NotAssociative`; `parts`: arrays of one shape, combined together along `axis`."""
    length = min(parts[0].shape[axis], _LANES)
    if length < 3 or _looked[function] >= _LOOKS:
        return
    _looked[function] += 1
    lanes = [[trees.part(item, axis, at, at + 1) for item in parts] for at in range(length)]
    left = reduce(combine, lanes)
    right = reduce(lambda later, earlier: combine(earlier, later), reversed(lanes))
    spreads: list[Array] | None = None
    for at, (first, other, whole, kind) in enumerate(zip(left, right, parts, kinds, strict=True)):
        if not _differ(first, other, whole, kind.scalar):
            continue
        spreads = spreads or _spreads(combine, lanes, left)
        if _differ(first, other, whole, kind.scalar, spreads[at]):
            name = getattr(getattr(function, "fn", None), "__name__", "the combine function")
            raise NotAssociative(
                f"`{name}` is not associative: the same elements, grouped otherwise, give another "
                f"result, and a GPU groups them as its threads hold them; write a loop, or carry what "
                f"makes it associative (for y = d*y + x the pair of d and x)"
            )


def _spreads(combine: trees.CombineAll, lanes: list[list[Array]], left: list[Array]) -> list[Array]:
    """How far off each result is where the elements are neighbours of theirs, at most of a few times."""
    draw = np.random.default_rng(0)
    spreads = [np.zeros(item.shape) for item in left]
    for _ in range(_MOVES):
        near = reduce(combine, [[_moved(item, draw) for item in lane] for lane in lanes])
        for spread, first, other in zip(spreads, left, near, strict=True):
            if first.dtype.kind == "f":
                away = np.abs(first.astype(np.float64) - other.astype(np.float64))
                np.maximum(spread, np.where(np.isfinite(away), away, 0.0), out=spread)
    return spreads


def _moved(item: Array, draw: np.random.Generator) -> Array:
    """Each number's next one, up or down; zero and what is no number of numpy's stay."""
    if item.dtype.kind != "f":
        return item
    up = np.where(draw.random(item.shape) < 0.5, np.inf, -np.inf).astype(item.dtype)
    return np.where((item == 0) | ~np.isfinite(item), item, np.nextafter(item, up))


def _differ(
    array: Array, other: Array, whole: Array, kind: Any, spread: Array | float = 0.0
) -> bool:
    if not kind.is_floating():
        away = array != other
    else:
        a, b, inputs = (
            item.astype(np.float64)
            if item.dtype.kind == "f" and item.dtype.itemsize > 2
            else numerics.to_fp32(item, kind).astype(np.float64)
            for item in (array, other, whole)
        )
        finite = np.isfinite(a) & np.isfinite(b)
        known = inputs[np.isfinite(inputs)]
        size = np.maximum(np.abs(a), np.abs(b)) + np.abs(known).max(initial=0.0)
        off = np.abs(a - b)
        away = finite & (off > _ROUNDING.get(kind.primitive_bitwidth, _NARROW) * size)
        away &= off > _OF_ROUNDING * spread
    return bool(np.count_nonzero(away) > _SHARE * away.size)
