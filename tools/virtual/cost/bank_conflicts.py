"""How often shared memory has to answer a gather again, because lanes of a warp want other words of the same bank."""

from __future__ import annotations

import itertools

import numpy as np

from kernelagent.tools.virtual.arithmetic.numerics import Array
from kernelagent.tools.virtual.compiled.layout_bits import BANKS

_WARP = 32
_IN_ONE_THREAD = (1, 4)
"""How many neighbours one thread may hold; the fewest conflicts of these count."""
_WORD_BYTES = 4
_PROGRAMS = 4
"""As many programs are looked at; the others count as their mean."""


class BankConflicts:
    """Of gathers; the last indices are known again, as a loop may hold one gather."""

    def __init__(self) -> None:
        self._last: tuple[Array, tuple[int, ...], float] | None = None

    def clocks(self, indices: Array, shape: tuple[int, ...], axis: int, item_bytes: int) -> float:
        """Beyond one clock for each warp and register, of one program on average.

        `indices`: (programs, *shape of what is gathered); `shape`: of a program's source; `axis`: of that shape.
        """
        known = self._last
        if known is not None and known[0] is indices and known[1] == (*shape, axis):
            return known[2]
        result = _clocks(indices[:_PROGRAMS], shape, axis, item_bytes)
        self._last = indices, (*shape, axis), result
        return result


def _clocks(indices: Array, shape: tuple[int, ...], axis: int, item_bytes: int) -> float:
    programs, size = indices.shape[0], int(np.prod(indices.shape[1:]))
    if not programs or size < _WARP:
        return 0.0
    places = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(1, *shape)
    steps = int(np.prod(shape[axis + 1 :]))
    # What lies before the gathered axis and behind it stays; the shapes agree there.
    base = places.take([0], axis=axis + 1)
    base = base[tuple(slice(0, n) if at != axis + 1 else slice(None) for at, n in
                      enumerate((1, *indices.shape[1:])))]  # fmt: skip
    words = (base + steps * indices.astype(np.int64)) * item_bytes // _WORD_BYTES
    ways = {words.reshape(programs, -1).tobytes(): words.reshape(programs, -1)}
    turned = words.reshape(programs, *indices.shape[1:]).swapaxes(1, -1).reshape(programs, -1)
    ways[turned.tobytes()] = turned
    each = itertools.product(ways.values(), _IN_ONE_THREAD)
    fewest: float = min(_of_rows(way, held) for way, held in each)
    return fewest / int(programs)


def _of_rows(words: Array, held: int) -> float:
    """Sum over all warps and registers, where each thread holds so many neighbours."""
    programs, size = words.shape
    held = min(held, size // _WARP)
    rows = words.reshape(programs, -1, _WARP, held).swapaxes(2, 3).reshape(-1, _WARP)
    rows = np.sort(rows, axis=1)
    fresh = np.concatenate((np.ones((rows.shape[0], 1), bool), rows[:, 1:] != rows[:, :-1]), axis=1)
    at = np.arange(rows.shape[0])[:, None] * BANKS + rows % BANKS
    times = np.bincount(at[fresh], minlength=rows.shape[0] * BANKS).reshape(-1, BANKS)
    more: float = (times.max(axis=1) - 1).sum().item()
    return more
