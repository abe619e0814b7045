"""Which elements of a block one thread holds, read from the compiled kernel: what it decides is the order of sums.

Seen in the PTX that triton 3.9 gives for `tl.sum` and `tl.cumsum` (sm_90): a thread first combines its own elements,
neighbours in its registers first; then lanes of a warp are combined by halves (shfl.bfly 16, 8, ... 1), then warps.
Running sums begin within a thread one element after the other, go on over the lanes in steps of 1, 2, 4, ..., and
what came before a warp is added last.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice

_LAYOUT = re.compile(r"^(#\w+) = #ttg\.(blocked|nvidia_mma)<\{(.*)\}>", re.MULTILINE)
_NUMBERS = re.compile(r"(\w+) = \[([\d, ]*)\]")
_TENSOR = r"tensor<((?:\d+x)+)[^,>]*, (#\w+|#ttg\.slice<\{dim = \d+, parent = #\w+\}>)>"
_OPERATION = re.compile(
    r'"tt\.(?:reduce|scan)"\([^\n]*<\{axis = (\d+).*?\}\) : \(' + _TENSOR, re.DOTALL
)
_FLATTENED = re.compile(rf"tt\.reshape [^\n]*allow_reorder[^\n]* : {_TENSOR} ->")
_SLICE = re.compile(r"dim = (\d+), parent = (#\w+)")
_ROWS_OF_MMA, _COLUMNS_OF_MMA = 8, 4
"""How the lanes of a warp share the result of a matrix product (PTX ISA, fragments of mma.m16n8)."""


@dataclass(frozen=True)
class Bits:
    """The bits of an element's index along one axis, by what they select: a thread's register, its lane or its warp."""

    registers: tuple[int, ...] = ()
    lanes: tuple[int, ...] = ()
    warps: tuple[int, ...] = ()

    @property
    def in_order(self) -> tuple[int, ...]:
        """The bits as a reduction combines them: those of a thread's own elements first."""
        return (*self.registers, *reversed(self.lanes), *reversed(self.warps))

    @property
    def run(self) -> int:
        """How many elements that follow each other one thread holds."""
        length = 0
        while length in self.registers:
            length += 1
        return 1 << length


@dataclass(frozen=True)
class Layout:
    """How a block is shared out, axis by axis."""

    elements: tuple[int, ...]
    """Of one thread, next to each other."""
    lanes: tuple[int, ...]
    warps: tuple[int, ...]
    more_elements: tuple[int, ...] = ()
    """Of one thread, beyond the lanes and before the warps."""

    def along(self, axis: int, size: int) -> Bits:
        """The bits of an axis of this length; those beyond the whole layout are a thread's again."""
        places = iter(range(size.bit_length() - 1))

        def taken(counts: tuple[int, ...]) -> tuple[int, ...]:
            wanted = counts[axis].bit_length() - 1 if axis < len(counts) else 0
            return tuple(islice(places, wanted))

        own, lanes = taken(self.elements), taken(self.lanes)
        more, warps = taken(self.more_elements), taken(self.warps)
        return Bits((*own, *more, *places), lanes, warps)

    def without(self, axis: int) -> Layout:
        """Of what is left when the axis is reduced."""
        kept = (self.elements, self.lanes, self.warps, self.more_elements)
        return Layout(*(counts[:axis] + counts[axis + 1 :] for counts in kept))


@dataclass(frozen=True)
class Layouts:
    """Of the blocks that a kernel reduces or scans."""

    known: Mapping[tuple[tuple[int, ...], int | None], Bits] = field(default_factory=dict)

    def bits(self, shape: tuple[int, ...], axis: int | None) -> Bits | None:
        """Along an axis; None: of all elements, one after the other. None where that is not known."""
        result = self.known.get((shape, axis))
        if result is None and axis is None and len(shape) == 1:
            return self.known.get((shape, 0))
        return result


def layouts_of(ttgir: str) -> Layouts:
    """Those of a compiled kernel's own intermediate code."""
    named = {name: _layout(kind, text) for name, kind, text in _LAYOUT.findall(ttgir)}
    known: dict[tuple[tuple[int, ...], int | None], Bits] = {}
    for axis, sizes, name in _OPERATION.findall(ttgir):
        shape, layout = _shape(sizes), _named(named, name)
        if layout is not None:
            known.setdefault((shape, int(axis)), layout.along(int(axis), shape[int(axis)]))
    for sizes, name in _FLATTENED.findall(ttgir):
        shape, layout = _shape(sizes), _named(named, name)
        if layout is not None:
            known.setdefault((shape, None), _flat(layout, shape))
    return Layouts(known)


def _shape(sizes: str) -> tuple[int, ...]:
    return tuple(int(size) for size in sizes.split("x") if size)


def _layout(kind: str, text: str) -> Layout:
    numbers = {
        name: tuple(int(n) for n in listed.split(",")) for name, listed in _NUMBERS.findall(text)
    }
    if kind == "blocked":
        return Layout(numbers["sizePerThread"], numbers["threadsPerWarp"], numbers["warpsPerCTA"])
    columns = numbers["instrShape"][-2 if len(numbers["instrShape"]) > 2 else -1]
    return Layout(
        (1, 2),
        (_ROWS_OF_MMA, _COLUMNS_OF_MMA),
        numbers["warpsPerCTA"],
        (2, max(1, columns // (2 * _COLUMNS_OF_MMA))),
    )


def _named(layouts: Mapping[str, Layout], name: str) -> Layout | None:
    of_slice = _SLICE.search(name)
    if of_slice is None:
        return layouts.get(name)
    parent = layouts.get(of_slice[2])
    return None if parent is None else parent.without(int(of_slice[1]))


def _flat(layout: Layout, shape: tuple[int, ...]) -> Bits:
    """Of all elements, the last axis varying fastest."""
    registers: list[int] = []
    lanes: list[int] = []
    warps: list[int] = []
    below = 0
    for axis in reversed(range(len(shape))):
        item = layout.along(axis, shape[axis])
        registers += [below + bit for bit in item.registers]
        lanes += [below + bit for bit in item.lanes]
        warps += [below + bit for bit in item.warps]
        below += shape[axis].bit_length() - 1
    return Bits(tuple(registers), tuple(lanes), tuple(warps))
