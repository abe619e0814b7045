"""In which order sums and other reductions are formed: Triton defines none, and each of these may be a GPU's."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import cache

from kernelagent.tools.virtual.compiled.thread_layouts import Bits, Layouts

_LANES = 32
_MOST_OWN = 16
"""The most elements next to each other that a thread is tried with."""


@dataclass(frozen=True)
class Scanning:
    """How a running sum is cut: `run` elements of a thread, `lanes` threads of a warp."""

    run: int
    lanes: int


@dataclass
class Order:
    """Of this process, which interprets one launch at a time."""

    name: str | None = None
    """None: as usual, those half the length apart first. `neighbours`, `threads` (as the compiled kernel's own
    threads hold them), or a number, by which an order is drawn."""
    layouts: Layouts = field(default_factory=Layouts)
    """Of the kernel under way."""

    def bits(self, shape: tuple[int, ...], axis: int | None, size: int) -> tuple[int, ...]:
        """The bits of a place among `size`, as they are combined away."""
        count = size.bit_length() - 1
        if self.name is None:
            return _by_halves(count)
        if self.name == "neighbours":
            return tuple(range(count))
        if self.name == "threads":
            held = self.layouts.bits(shape, axis) or _usual(count)
            return tuple(bit for bit in held.in_order if bit < count)
        # One order for all reductions of a length: a kernel may compute a sum twice and compare.
        drawn = list(range(count))
        random.Random(f"{self.name} {count}").shuffle(drawn)
        return tuple(drawn)

    def scanning(self, shape: tuple[int, ...], axis: int, size: int) -> Scanning | None:
        """How a running sum is formed; None: over all elements in steps of 1, 2, 4, ..."""
        if self.name is None or self.name == "neighbours":
            return None
        if self.name == "threads":
            held = self.layouts.bits(shape, axis) or _usual(size.bit_length() - 1)
            return Scanning(min(held.run, size), 1 << len(held.lanes))
        draw = random.Random(f"{self.name} {size}")
        run = 1 << draw.randrange(_MOST_OWN.bit_length())
        return Scanning(min(run, size), 1 << draw.randrange(1, _LANES.bit_length()))


@cache
def _by_halves(count: int) -> tuple[int, ...]:
    return tuple(range(count - 1, -1, -1))


def _usual(count: int) -> Bits:
    """Four elements of fp32 in a thread, and a warp of lanes."""
    return Bits((*range(2), *range(7, count)), tuple(range(2, 7)))


ORDER = Order()
"""Of this process."""
