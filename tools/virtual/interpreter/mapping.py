"""`tl.map_elementwise`: a function of single numbers for each element of blocks, which may branch on them.

Elements that take the same way through it are computed together. Which do is found first, unheard: a way is begun again
wherever the numbers of its elements decide otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as stock

from kernelagent.tools.virtual.arithmetic.numerics import Array
from kernelagent.tools.virtual.executor.launch import Unsupported
from kernelagent.tools.virtual.kernel_text.joined import follow
from kernelagent.tools.virtual.operations.builder import RepairedBuilder

Handle = Any
_MOST_WAYS = 256


class _Parts(Exception):
    """What decides differs between elements; `number`: which of them has which of its values."""

    def __init__(self, number: Array) -> None:
        super().__init__("elements part")
        self.number = number


def _common(data: Array) -> Any:
    """The number that all have."""
    numbers, which = np.unique(data.reshape(-1), return_inverse=True)
    if numbers.size > 1:
        raise _Parts(which)
    return numbers[0]


@dataclass(frozen=True)
class Mapped:
    """One call; `pack`: how many elements of each block one call of the function is given."""

    builder: RepairedBuilder
    function: Callable[..., Any]
    pack: int

    def of(self, given: Sequence[Any]) -> Any:
        """A block, or a tuple of them, of what the function makes of blocks of one shape."""
        handles = [item.handle for item in given]
        lone, made = self._each(handles)
        results = []
        for number, handle in enumerate(made):

            def again(*others: Handle, number: int = number) -> Handle:
                with self.builder.unheard():
                    return self._each(others)[1][number]

            self.builder.flow.latest(handles, handle)
            follow(self.builder, handle, tuple(handles), again)
            results.append(tl.tensor(handle, given[0].type.with_element_ty(handle.dtype)))
        return results[0] if lone else tuple(results)

    def _each(self, handles: Sequence[Handle]) -> tuple[bool, list[Handle]]:
        """Whether the function has one result, and its results."""
        shape, size = handles[0].data.shape, handles[0].data.size
        count = size // self.pack
        if count * self.pack != size:
            raise Unsupported(f"tl.map_elementwise(pack={self.pack}) of a block of shape {shape}")
        # Which elements a thread has beside each other is the layout's affair: nobody may rely on it.
        order = np.random.default_rng().permutation(size) if self.pack > 1 else np.arange(size)
        packs = [handle.data.reshape(-1)[order].reshape(count, -1) for handle in handles]
        lone = True
        made: list[Handle] = []
        for places in self._ways(handles, packs, count):
            with self._charged(count, _filled(places).size):
                lone, parts = self._call(handles, packs, places)
            if not made:
                made = [
                    stock.TensorHandle(np.empty(size, part.handle.data.dtype), part.handle.dtype)
                    for part in parts[:: self.pack]
                ]
            for number, part in enumerate(parts):
                result, which = divmod(number, self.pack)
                at = order[places * self.pack + which]
                data = part.handle.data.reshape(-1)
                made[result].data[at] = data[: at.size] if data.size > 1 else data
        for handle in made:
            handle.data = handle.data.reshape(shape)
        return lone, made

    def _ways(self, handles: Sequence[Handle], packs: list[Array], count: int) -> list[Array]:
        """The places of elements that go the same way through the function."""
        left, ways = [np.arange(count)], []
        with self.builder.unheard():
            while left:
                places = left.pop()
                try:
                    self._call(handles, packs, places)
                except _Parts as parts:
                    mine = parts.number[: places.size]
                    left += [places[mine == one] for one in np.unique(mine)]
                else:
                    ways.append(places)
                if len(left) + len(ways) > _MOST_WAYS:
                    raise Unsupported(
                        f"tl.map_elementwise: its elements go more than {_MOST_WAYS} ways through the function"
                    )
        return ways

    def _call(
        self, handles: Sequence[Handle], packs: list[Array], places: Array
    ) -> tuple[bool, list[Any]]:
        arguments = []
        filled = _filled(places)
        for handle, data in zip(handles, packs, strict=True):
            for which in range(self.pack):
                held = stock.TensorHandle(data[filled, which], handle.dtype)
                self.builder.flow.same(handle, held)
                arguments.append(tl.tensor(held, tl.block_type(handle.dtype, [filled.size])))
        known, self.builder.decides = self.builder.decides, _common
        try:
            results = self.function(*arguments)
        finally:
            self.builder.decides = known
        lone = isinstance(results, tl.tensor)
        return lone, [results] if lone else list(results)

    @contextmanager
    def _charged(self, every: int, some: int) -> Iterator[None]:
        """Threads of a warp wait for those that go another way: each way is charged as if all went it."""
        known, self.builder.lanes_for_each = self.builder.lanes_for_each, every / some
        try:
            yield
        finally:
            self.builder.lanes_for_each = known


def _filled(places: Array) -> Array:
    """With one of them again until they are a power of two, as a block's elements are."""
    size = 1 << (places.size - 1).bit_length()
    return np.append(places, np.full(size - places.size, places[0]))
