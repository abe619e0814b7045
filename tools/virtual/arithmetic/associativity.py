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
    for first, other, whole, kind in zip(left, right, parts, kinds, strict=True):
        if _differ(first, other, whole, kind.scalar):
            name = getattr(getattr(function, "fn", None), "__name__", "the combine function")
            raise NotAssociative(
                f"`{name}` is not associative: the same elements, grouped otherwise, give another "
                f"result, and a GPU groups them as its threads hold them; write a loop, or carry what "
                f"makes it associative (for y = d*y + x the pair of d and x)"
            )


def _differ(array: Array, other: Array, whole: Array, kind: Any) -> bool:
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
        away = finite & (np.abs(a - b) > _ROUNDING.get(kind.primitive_bitwidth, _NARROW) * size)
    return bool(np.count_nonzero(away) > _SHARE * away.size)
