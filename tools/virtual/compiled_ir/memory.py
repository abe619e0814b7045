"""The memory of a launch as its compiled code sees it: a copy of the storages, and what was stored to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import triton.language as tl

from kernelagent.tools.virtual.arithmetic import numerics
from kernelagent.tools.virtual.arithmetic.numerics import Array
from kernelagent.tools.virtual.compiled_ir.types import NARROW, bits_of, held_as
from kernelagent.tools.virtual.compiled_ir.unknown import Unknown


class OutsideStorages(Exception):
    """An access of the compiled code outside the storages of its launch."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.location = location


@dataclass(frozen=True)
class Descriptor:
    """A tensor descriptor as compiled code holds it."""

    base: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    block: tuple[int, ...]
    element: str
    pads_with_nan: bool = False

    def places(self, offsets: list[Array]) -> tuple[Array, Array]:
        """The addresses of the block that begins at these offsets, and which of them are inside."""
        size = bits_of(self.element) // 8
        addresses: Any = np.int64(self.base)
        inside: Any = np.bool_(True)
        rank = len(self.block)
        for dim, (count, offset) in enumerate(zip(self.block, offsets, strict=True)):
            along = np.arange(count, dtype=np.int64)
            if dim == 0 and offset.size == count and count > 1:
                at = offset.astype(np.int64)
            else:
                at = along + np.int64(offset.reshape(-1)[0])
            at = at.reshape((1,) * dim + (count,) + (1,) * (rank - dim - 1))
            addresses = addresses + at * (size * self.strides[dim])
            inside = inside & (at >= 0) & (at < self.shape[dim])
        return np.broadcast_to(addresses, self.block), np.broadcast_to(inside, self.block)


@dataclass(frozen=True)
class Stored:
    """What one operation stored: places in the copy, of elements of one type."""

    places: Array
    element: str
    location: str

    def touched(self) -> Array:
        """Every byte of it."""
        size = kind_in_memory(self.element).itemsize
        places: Array = (self.places[:, None] + np.arange(size)).reshape(-1)
        return places


class LaunchMemory:
    """A copy of a launch's storages; addresses are this process's own."""

    def __init__(self, memory: Array, ranges: list[tuple[int, int]]) -> None:
        """`ranges`: where in `memory` storages begin and end, in order."""
        self._memory = memory
        self._base = memory.ctypes.data
        self._starts = np.array([low for low, _ in ranges], np.int64)
        self._ends = np.array([high for _, high in ranges], np.int64)
        self._views: dict[Any, Array] = {}
        self.stored: list[Stored] = []

    def load(
        self, addresses: Array, mask: Array | None, other: Array | None, element: str, where: str
    ) -> Array:
        """Lanes that are switched off hold `other`, or zeros."""
        kind = kind_in_memory(element)
        shape = addresses.shape
        if mask is not None and not mask.all():
            result: Array = np.zeros(shape, held_as(element))
            if other is not None:
                result[...] = other
            on = np.broadcast_to(mask, shape)
            if on.any():
                found = self._gathered(addresses[on], kind, where)
                result[on] = held_in_memory(found, element)
            return result
        return held_in_memory(self._gathered(addresses, kind, where), element)

    def store(
        self, addresses: Array, values: Array, mask: Array | None, element: str, where: str
    ) -> None:
        values = np.broadcast_to(values, addresses.shape)
        if mask is not None and not mask.all():
            on = np.broadcast_to(mask, addresses.shape)
            addresses, values = addresses[on], values[on]
        if addresses.size:
            kind = kind_in_memory(element)
            places = self._places(addresses, kind.itemsize, where)
            self._scatter(places, _bits(values, element), kind)
            self.stored.append(Stored(places.reshape(-1), element, where))

    def update(
        self,
        addresses: Array,
        values: Array,
        mask: Array | None,
        element: str,
        combine: Callable[[Array, Array], Array],
        where: str,
    ) -> Array:
        """Each lane after the one before: what was there, and `combine` of it and the value instead."""
        shape = addresses.shape
        flat, given = addresses.reshape(-1), np.broadcast_to(values, shape).reshape(-1)
        old = np.zeros(flat.shape, held_as(element))
        lanes = np.arange(flat.size)
        if mask is not None:
            lanes = lanes[np.broadcast_to(mask, shape).reshape(-1)]
        kind = kind_in_memory(element)
        for turn in _without_repeats(flat, lanes):
            places = self._places(flat[turn], kind.itemsize, where)
            before = held_in_memory(self._at(places, kind), element)
            old[turn] = before
            after = combine(before, given[turn])
            self._scatter(places, _bits(after.astype(before.dtype, copy=False), element), kind)
            self.stored.append(Stored(places, element, where))
        return old.reshape(shape)

    def _gathered(self, addresses: Array, kind: Any, where: str) -> Array:
        return self._at(self._places(addresses, kind.itemsize, where), kind)

    def _at(self, places: Array, kind: Any) -> Array:
        size = kind.itemsize
        if size == 1 or not (places % size).any():
            found: Array = self._view(kind)[places // size]
            return found
        whole = self._memory[places[..., None] + np.arange(size)]
        bits: Array = np.ascontiguousarray(whole).view(kind)[..., 0]
        return bits

    def _scatter(self, places: Array, bits: Array, kind: Any) -> None:
        size = kind.itemsize
        if size == 1 or not (places % size).any():
            self._view(kind)[places // size] = bits
            return
        whole = np.ascontiguousarray(bits).reshape(*bits.shape, 1).view(np.uint8)
        self._memory[places[..., None] + np.arange(size)] = whole

    def _view(self, kind: Any) -> Array:
        if kind not in self._views:
            usable = self._memory.size // kind.itemsize * kind.itemsize
            self._views[kind] = self._memory[:usable].view(kind)
        return self._views[kind]

    def _places(self, addresses: Array, size: int, where: str) -> Array:
        """Where in the copy these addresses are; raises `OutsideStorages` for what is in no storage."""
        places = addresses - self._base
        if not places.size:
            return places
        low, high = int(places.min()), int(places.max())
        at = int(np.searchsorted(self._starts, low, side="right")) - 1
        if at >= 0 and high + size <= self._ends[at]:
            return places
        owners = np.searchsorted(self._starts, places, side="right") - 1
        if (owners < 0).any() or (places + size > self._ends[owners]).any():
            raise OutsideStorages(where)
        return places


def _without_repeats(addresses: Array, lanes: Array) -> list[Array]:
    """Groups of lanes, one after another: no two of a group have the same address."""
    groups = []
    while lanes.size:
        _, first = np.unique(addresses[lanes], return_index=True)
        if first.size == lanes.size:
            groups.append(lanes)
            break
        first.sort()
        groups.append(lanes[first])
        lanes = np.delete(lanes, first)
        if len(groups) > _MOST_TURNS:
            raise Unknown("an atomic of very many lanes at one place")
    return groups


_MOST_TURNS = 4096


def kind_in_memory(element: str) -> Any:
    """numpy's type of an element's bits in memory."""
    if element in NARROW:
        return np.dtype(f"u{bits_of(element) // 8}")
    return np.dtype(np.uint8 if element == "i1" else held_as(element))


def held_in_memory(found: Array, element: str) -> Array:
    if element in NARROW:
        return numerics.to_fp32(found, NARROW[element])
    return found != 0 if element == "i1" else found


def _bits(values: Array, element: str) -> Array:
    if element in NARROW:
        return numerics.convert(
            np.ascontiguousarray(values, np.float32), tl.float32, NARROW[element]
        )
    return values.astype(np.uint8) if element == "i1" else values
