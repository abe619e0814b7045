"""Which elements of a block lie in which thread of a compiled kernel, and what it takes to lay them out otherwise.

A layout is linear in the bits of a thread's number and of its register's (Triton, `LinearLayout`): each bit adds one
offset to the place of the element. Where a lane's bit adds nothing, the lanes hold the same elements.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

_NUMBERS = re.compile(r"(\w+) = \[([\d, ]*)\]")
_BASES = re.compile(r"(register|lane|warp|block) = \[((?:\[[\d, ]*\](?:, )?)*)\]")
_BLOCKS = re.compile(r"CGALayout = \[((?:\[[\d, ]*\](?:, )?)*)\]")
_ONE_BASIS = re.compile(r"\[([\d, ]*)\]")
_SLICE = re.compile(r"#ttg\.slice<\{dim = (\d+), parent = (.*)\}>$")
_WARP = 32
BANKS = 32
"""Of shared memory, four bytes wide, all of which answer once a clock (CUDA C++ Programming Guide, shared memory)."""
_BANK_BYTES = 4
SHARED_BYTES_PER_CLOCK = BANKS * _BANK_BYTES
SHUFFLES_PER_CLOCK = 32
"""Lanes of warp shuffles a clock and multiprocessor (CUDA C++ Programming Guide, throughput of native instructions)."""
_TENSOR_CORES_OF_HOPPER = 3

Place = tuple[int, ...]


@dataclass(frozen=True)
class LayoutBits:
    """The offsets that bits of a register's, a lane's and a warp's number add, along each axis of a block."""

    registers: tuple[Place, ...]
    lanes: tuple[Place, ...]
    warps: tuple[Place, ...]
    blocks: tuple[Place, ...] = ()
    """Of a cluster of blocks of threads."""

    @property
    def elements(self) -> int:
        """Of each thread."""
        return 1 << len(self.registers)

    @property
    def held(self) -> int:
        """Elements of all threads together, each as often as it is held."""
        return self.elements << (len(self.lanes) + len(self.warps))


@dataclass(frozen=True)
class Conversion:
    """What a program does to lay a block out otherwise, at least."""

    clocks: float = 0.0
    """Of its multiprocessor's shared memory, or of its shuffles."""
    through_shared: bool = False


def layout_bits(
    text: str, shape: Sequence[int], named: Mapping[str, str], warps: int
) -> LayoutBits | None:
    """Of a layout as the TTGIR writes it, of a block of this shape; None for kinds that are not read."""
    text = named.get(text, text)
    of_slice = _SLICE.match(text)
    if of_slice:
        axis = int(of_slice[1])
        parent = layout_bits(of_slice[2], [*shape[:axis], 1, *shape[axis:]], named, warps)
        return None if parent is None else _without(parent, axis)
    if text.startswith("#ttg.linear<"):
        return _linear(text)
    numbers = {
        name: tuple(int(n) for n in listed.split(",") if n.strip())
        for name, listed in _NUMBERS.findall(text)
    }
    if text.startswith("#ttg.blocked<"):
        rows = [numbers["sizePerThread"], numbers["threadsPerWarp"], numbers["warpsPerCTA"]]
        orders = [numbers["order"]] * 3
    elif text.startswith("#ttg.nvidia_mma<"):
        rows, orders = _of_tensor_cores(text, numbers)
    else:
        return None
    if len(numbers["warpsPerCTA"]) != len(shape) or math.prod(numbers["warpsPerCTA"]) != warps:
        return None
    found = _BLOCKS.search(text)
    return replace(_spread(rows, orders, shape), blocks=_places(found[1]) if found else ())


def _of_tensor_cores(
    text: str, numbers: Mapping[str, tuple[int, ...]]
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """As blocked layouts in turn: two columns of a register pair, lanes, the lower rows, the further columns, warps."""
    hopper = f"versionMajor = {_TENSOR_CORES_OF_HOPPER}" in text
    columns = numbers["instrShape"][1]
    rest = max(1, columns // 8)
    rows = [(1, 2), (8, 4), (2, rest), numbers["warpsPerCTA"]]
    return rows, [(1, 0), (1, 0), (0, 1), (0, 1) if hopper else (1, 0)]


def _spread(
    rows: Sequence[Sequence[int]], orders: Sequence[Sequence[int]], shape: Sequence[int]
) -> LayoutBits:
    """Registers, lanes, (registers again,) warps take the next bits of each axis; the rest of a block is registers."""
    axes = len(shape)
    at = [0] * axes
    most = [size.bit_length() - 1 for size in shape]
    taken: list[list[Place]] = []
    for sizes, order in zip(rows, orders, strict=True):
        places: list[Place] = []
        for axis in order:
            for _ in range(sizes[axis].bit_length() - 1):
                offset = 1 << at[axis] if at[axis] < most[axis] else 0
                places.append(tuple(offset if a == axis else 0 for a in range(axes)))
                at[axis] += 1
        taken.append(places)
    registers = [*taken[0], *(place for more in taken[2:-1] for place in more)]
    for axis in orders[0]:
        for bit in range(at[axis], most[axis]):
            registers.append(tuple(1 << bit if a == axis else 0 for a in range(axes)))
    return LayoutBits(tuple(filter(any, registers)), tuple(taken[1]), tuple(taken[-1]))


def _linear(text: str) -> LayoutBits:
    outcome = {name: _places(listed) for name, listed in _BASES.findall(text)}
    registers = tuple(filter(any, outcome.get("register", ())))
    others = (outcome.get(name, ()) for name in ("lane", "warp", "block"))
    return LayoutBits(registers, *others)


def _places(listed: str) -> tuple[Place, ...]:
    return tuple(tuple(int(n) for n in single.split(",")) for single in _ONE_BASIS.findall(listed))


def _without(layout: LayoutBits, axis: int) -> LayoutBits:
    def cut(places: Iterable[Place]) -> tuple[Place, ...]:
        return tuple(place[:axis] + place[axis + 1 :] for place in places)

    return LayoutBits(
        tuple(filter(any, cut(layout.registers))),
        cut(layout.lanes),
        cut(layout.warps),
        cut(layout.blocks),
    )


def conversion(
    given: LayoutBits | None, wanted: LayoutBits | None, shape: Sequence[int], item_bytes: float
) -> Conversion:
    """Free where each thread holds what it needs; shuffles where its warp does; else a way through shared memory."""
    if given is None or wanted is None:
        return Conversion()
    if len(given.lanes) != len(wanted.lanes) or len(given.warps) != len(wanted.warps):
        return Conversion()
    widths = [size.bit_length() for size in shape]

    def flat(places: Iterable[Place]) -> list[int]:
        result = []
        for place in places:
            value = 0
            for offset, width in zip(place, widths, strict=True):
                value = value << width | offset
            result.append(value)
        return result

    own, lanes, warps = flat(given.registers), flat(given.lanes), flat(given.warps)
    to_own, to_lanes, to_warps = flat(wanted.registers), flat(wanted.lanes), flat(wanted.warps)
    moved_lanes = [a ^ b for a, b in zip(lanes, to_lanes, strict=True)]
    moved_warps = [a ^ b for a, b in zip(warps, to_warps, strict=True)]
    if _reached(own, [*to_own, *moved_lanes, *moved_warps]):
        return Conversion()
    if _reached([*own, *lanes], [*to_own, *to_lanes, *moved_warps]):
        words = wanted.held * item_bytes / _BANK_BYTES
        return Conversion(words / SHUFFLES_PER_CLOCK)
    size = math.prod(shape) * item_bytes
    return Conversion(2 * size / SHARED_BYTES_PER_CLOCK, through_shared=True)


def _reached(by: Iterable[int], wanted: Iterable[int]) -> bool:
    """Whether each of these is a sum, bit by bit, of some of the others."""
    pivots: dict[int, int] = {}

    def rest(value: int) -> int:
        while value and value.bit_length() in pivots:
            value ^= pivots[value.bit_length()]
        return value

    for item in by:
        left = rest(item)
        if left:
            pivots[left.bit_length()] = left
    return all(not rest(item) for item in wanted)
