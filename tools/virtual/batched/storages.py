"""One storage of a launch as an array, and its elements by their addresses: numpy is five times as fast as the
interpreter's own loads and stores, which look at one lane after another."""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

from kernelagent.tools.virtual.arithmetic.numerics import Array
from kernelagent.tools.virtual.batched.accesses import Regular


class Storage:
    """The bytes from `low` to `high` as a numpy array."""

    def __init__(self, low: int, size: int) -> None:
        self.low, self.high = low, low + size
        self.bytes = np.frombuffer(
            memoryview((ctypes.c_char * size).from_address(low)).cast("B"), dtype=np.uint8
        )

    def holds(self, kind: np.dtype[np.generic]) -> bool:
        """Whether aligned addresses of such elements are whole elements of the array."""
        return self.low % kind.itemsize == 0

    def gathered(
        self, pointers: Array, mask: Array | None, filler: Array, kind: np.dtype[np.generic]
    ) -> Array:
        """Values of the shape of `pointers`; `filler` where a lane is off, wherever its address lies."""
        elements, places = self._elements(kind), self._places(pointers, kind)
        values: Array = elements.take(places, mode="raise" if mask is None else "clip")
        if mask is None:
            return values
        return np.where(mask, values, filler).astype(kind, copy=False)

    def scattered(self, pointers: Array, mask: Array | None, values: Array) -> UndoOfStore:
        """Writes the lanes that are on, each at its own place; returns what takes that back."""
        elements, places = self._elements(values.dtype), self._places(pointers, values.dtype)
        if mask is not None:
            on = np.broadcast_to(mask, places.shape)
            places, values = places[on], values[on]
        undo = UndoOfStore(elements, places, elements.take(places))
        elements[places] = values
        return undo

    def of_rows(self, rows: Regular, kind: np.dtype[np.generic]) -> Array:
        """What memory holds in the rows, of shape (programs, *corner)."""
        windows, index = self._windows(rows, kind)
        values: Array = windows[index]
        return np.swapaxes(values, -1, -2) if rows.swapped else values

    def put_rows(self, rows: Regular, values: Array) -> None:
        """Writes values of that shape."""
        windows, index = self._windows(rows, values.dtype)
        windows[index] = np.swapaxes(values, -1, -2) if rows.swapped else values

    def _windows(self, rows: Regular, kind: np.dtype[np.generic]) -> tuple[Array, Array]:
        """All places where a row could begin, and which of them do."""
        offset = (rows.start - np.uint64(self.low)).astype(np.int64)
        first = int(offset.min())
        away = offset - first
        step = int(np.gcd.reduce(away.reshape(-1))) or kind.itemsize
        size = int(away.max()) // step + 1
        windows: Array = np.ndarray(
            (size, rows.lanes), kind, self.bytes, first, (step, kind.itemsize)
        )
        return windows, away // step

    def _elements(self, kind: np.dtype[np.generic]) -> Array:
        whole: Array = self.bytes[: self.bytes.size // kind.itemsize * kind.itemsize].view(kind)
        return whole

    def _places(self, pointers: Array, kind: np.dtype[np.generic]) -> NDArray[np.int64]:
        offset = (pointers.astype(np.int64, copy=False) - self.low).reshape(pointers.shape)
        offset >>= kind.itemsize.bit_length() - 1
        return offset


class UndoOfStore:
    """Puts back what a store has overwritten."""

    def __init__(self, elements: Array, places: NDArray[np.int64], before: Array) -> None:
        self._elements, self._places, self._before = elements, places, before

    def __call__(self) -> None:
        self._elements[self._places] = self._before
