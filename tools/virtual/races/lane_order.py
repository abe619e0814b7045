"""In which order the lanes of one atomic operation reach memory: the interpreter's own, or another one.

Each thread of a GPU does the atomics of its own lanes, and nothing orders them: not among the lanes of one
operation, nor against those of other programs (PTX ISA, `atom`: one access to one location is atomic, a vector
of them is not).
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np

from kernelagent.tools.virtual.arithmetic.numerics import Array

_PARTS = 4
Update = Callable[[Array, Array, Array], Array]
"""Of addresses and values of some lanes, and which of them are switched on; returns what was there."""


class LaneOrder:
    """Of the program's operations that come next."""

    def __init__(self, seed: int, *, backwards: bool) -> None:
        """`backwards`: from the last lane to the first; else in an order that is drawn for each operation."""
        self._drawn = random.Random(seed)
        self._backwards = backwards

    def apply(
        self, update: Update, pointers: Array, values: Array, mask: Array, pause: Callable[[], None]
    ) -> Array:
        """Update a few lanes at a time; in each `pause` between, other programs may run."""
        where, what, use = (
            np.ascontiguousarray(part).ravel()
            for part in np.broadcast_arrays(pointers, values, mask)
        )
        order = np.arange(where.size)[::-1].copy()
        if not self._backwards:
            np.random.Generator(np.random.PCG64(self._drawn.getrandbits(62))).shuffle(order)
        edges = sorted(self._drawn.randrange(where.size + 1) for _ in range(_PARTS - 1))
        parts = [lanes for lanes in np.split(order, edges) if lanes.size]
        old: list[Array] = []
        for lanes in parts:
            if old:
                pause()
            old.append(update(where[lanes], what[lanes], use[lanes]))
        back = np.argsort(np.concatenate(parts))
        array: Array = np.concatenate(old)[back]
        return array.reshape(pointers.shape)


def meet(pointers: Array, mask: Array) -> bool:
    """Whether several lanes go to one address."""
    where = pointers[np.broadcast_to(mask, pointers.shape)]
    return bool(np.unique(where).size < where.size)
