"""Loads, stores and atomics of a compiled kernel as its TTGIR has them: where they stand, and which thread has which lane.

TTGIR is the compiler's last form with blocks of lanes in it: each block there has the layout by which its lanes are
spread over threads. Triton's `Coalesce` pass picks one for each access by itself, from the block's shape, the number
of warps and what is known of its addresses, and later passes change some of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from kernelagent.tools.virtual.compiled.barriers import Barriers
from kernelagent.tools.virtual.executor.launch import AccessKind
from kernelagent.tools.virtual.executor.source import FILE_NAME

Lines = tuple[int, ...]
"""Of the candidate's source: where an operation stands, then where the function around it is called, and so on."""
_ATTRIBUTE = re.compile(r"^(#[\w.]+) = (#.+)$", re.MULTILINE)
_NAMED = re.compile(r"^(#loc\d*) = loc\((.*)\)$", re.MULTILINE)
_PLACE = re.compile(r'^"([^"]*)":(\d+):\d+')
_LOCATION = re.compile(r"#loc\d*")
LOCATION_AT_END = re.compile(r"loc\((#loc\d*)\)$")
_POINTERS = re.compile(r"tensor<((?:\d+x)+)!tt\.ptr<[^<>]*>, ")
_OPERATION = re.compile(
    r"(tt\.load|tt\.store|tt\.atomic_\w+|async_copy_global_to_local|async_tma_copy_global_to_local|"
    r"async_tma_gather|async_tma_copy_local_to_global|async_tma_reduce|async_tma_scatter|tt\.descriptor_\w+|"
    r"tt\.call)\b"
)
_COPIES = ("async_copy_global_to_local", "async_tma_copy_global_to_local", "async_tma_gather")
_IN_BULK = (
    "async_tma_copy_global_to_local", "async_tma_gather", "async_tma_copy_local_to_global", "async_tma_scatter",
)  # fmt: skip
_LOADS = ("tt.load", "tt.descriptor_load", "tt.descriptor_gather", *_COPIES)
_SPECIALISED = "ttg.warp_specialize"
_NUMBERS = re.compile(r"\d+")
_BLOCKED = re.compile(
    r"#ttg\.blocked<\{sizePerThread = \[(.*?)\], threadsPerWarp = \[(.*?)\], warpsPerCTA = \[(.*?)\], "
    r"order = \[[\d, ]*\]\}>"
)
_LINEAR = re.compile(
    r"#ttg\.linear<\{register = .*?, lane = \[(.*)\], warp = \[(.*)\], block = \[\]\}>"
)
_BASIS = re.compile(r"\[([\d, ]+)\]")


@dataclass(frozen=True)
class MemoryOperation:
    """One that stands in the TTGIR."""

    name: str
    lines: Lines
    location: str
    """Equal for copies that the compiler made of one operation."""
    shape: tuple[int, ...]
    """Of its block; empty for a single number, and where it has no block of pointers."""
    layout: str
    """How its lanes are spread over threads; empty without a block of pointers."""
    loops: tuple[int, ...]
    """The loops that it stands in, from the outermost, by number."""

    @property
    def kind(self) -> AccessKind:
        """A call counts as a store: what it does is not looked at."""
        if self.name in _LOADS:
            return "load"
        return "atomic" if self.name.startswith("tt.atomic") else "store"


@dataclass(frozen=True)
class MemoryOperations:
    """All of a kernel's, in the order of its text."""

    every: tuple[MemoryOperation, ...]
    loops: Mapping[int, Lines]
    """Where each loop stands, by its number."""
    specialised: bool
    """Whether some warps do other operations than others."""

    def fetched_ahead(self) -> frozenset[tuple[Lines, int]]:
        """Loads that a loop that stores makes rounds before they are used: where they stand, and the line of the loop.

        They are asynchronous copies; or they stand before the loop as well, which they do for the first rounds.
        """
        outside: set[tuple[str, int]] = set()
        result: set[tuple[Lines, int]] = set()
        for item in self.every:
            if item.kind != "load":
                continue
            if not item.loops:
                outside.add((item.location, 0))
                continue
            before = any((item.location, depth) in outside for depth in range(len(item.loops)))
            outside.add((item.location, len(item.loops)))
            loop = item.loops[-1]
            moved = item.name in _COPIES or before
            if moved and self._stores(loop) and item.lines and self.loops.get(loop):
                result.add((item.lines, self.loops[loop][0]))
        return frozenset(result)

    def _stores(self, loop: int) -> bool:
        stores = [store for store in self.every if store.kind != "load"]
        return any(self.specialised or loop in store.loops for store in stores)


def named_layouts(ttgir: str) -> Mapping[str, str]:
    """What each name of a layout stands for."""
    return dict(_ATTRIBUTE.findall(ttgir))


def places_of(ttgir: str, file: str) -> Callable[[str], Lines]:
    """The lines of a location by its name, in the file whose name ends so, innermost first."""
    places = dict(_NAMED.findall(ttgir))
    return lambda name: _lines(name, places, file)


def memory_operations(ttgir: str) -> MemoryOperations:
    """Read from the text, an operation on each line."""
    places = dict(_NAMED.findall(ttgir))
    layouts = dict(_ATTRIBUTE.findall(ttgir))
    every: list[MemoryOperation] = []
    loops: dict[int, Lines] = {}
    around: list[int | None] = []
    count = 0
    for line in ttgir.splitlines():
        text = line.strip()
        end = LOCATION_AT_END.search(text)
        name = end[1] if end else ""
        if text.startswith("}") and around:
            number = around.pop()
            if number is not None:
                loops[number] = _lines(name, places)
        match = _OPERATION.search(text)
        if match:
            shape, layout = _block(text, layouts)
            inside = tuple(number for number in around if number is not None)
            every.append(
                MemoryOperation(match[1], _lines(name, places), name, shape, layout, inside)
            )
        if text.endswith("{"):
            loop = "scf.for " in text or "scf.while " in text or text.startswith("} do {")
            around.append(count if loop else None)
            count += 1
    return MemoryOperations(tuple(every), loops, _SPECIALISED in ttgir)


def _lines(name: str, places: Mapping[str, str], file: str = FILE_NAME) -> Lines:
    """Of `loc("name"(#loc3))` and `callsite(#loc3 at #loc4)` the lines in the candidate's file, innermost first."""
    text = places.get(name, "")
    place = _PLACE.match(text)
    if place:
        return (int(place[2]),) if place[1].endswith(file) else ()
    inner = [item for item in _LOCATION.findall(text) if item != name]
    if not text.startswith("callsite"):
        inner = inner[:1]
    return tuple(line for item in inner for line in _lines(item, places, file))


def _block(text: str, layouts: Mapping[str, str]) -> tuple[tuple[int, ...], str]:
    """Shape and layout of an operation's first block of pointers."""
    match = _POINTERS.search(text)
    if not match:
        return (), ""
    rest, depth, size = text[match.end() :], 1, 0
    while depth and size < len(rest):
        depth += (rest[size] == "<") - (rest[size] == ">")
        size += 1
    size -= 1
    shape = tuple(int(number) for number in _NUMBERS.findall(match[1]))
    return shape, layouts.get(rest[:size], rest[:size])


def one_thread_each(shape: tuple[int, ...], layout: str) -> bool:
    """Whether each lane is in one thread alone; False where that is not plain.

    A block with fewer lanes than threads, as every single number, is in several of them: all load it, and one of
    them stores it (`freeVarMasks` and `threadPred` in Triton's `LoadStoreOpToLLVM.cpp`).
    """
    blocked = _BLOCKED.fullmatch(layout)
    if blocked:
        rows = [[int(n) for n in _NUMBERS.findall(part)] for part in blocked.groups()]
        tile = [math.prod(axis) for axis in zip(*rows, strict=True)]
        return len(tile) == len(shape) and all(t <= n for t, n in zip(tile, shape, strict=True))
    linear = _LINEAR.fullmatch(layout)
    if linear:
        bases = [basis for part in linear.groups() for basis in _BASIS.findall(part)]
        return all(any(int(n) for n in _NUMBERS.findall(basis)) for basis in bases)
    return False


@dataclass(frozen=True)
class Threads:
    """Which threads of a program have the lanes of its accesses, as far as that is plain."""

    layouts: Mapping[tuple[AccessKind, int, tuple[int, ...]], str] = field(default_factory=dict)
    """By kind of access, line and shape of its block: how its lanes are spread, each done by one thread."""
    barriers_for_all: bool = True
    """Whether a barrier keeps all threads of a program; in a cluster of blocks it keeps those of one block."""
    copied: frozenset[int] = frozenset()
    """Lines where loads through a tensor descriptor are copies, which see memory through a proxy of their own."""
    in_bulk: frozenset[int] = frozenset()
    """Lines where stores through one are such copies; on targets without them both are loads and stores as others."""
    ways: Mapping[tuple[AccessKind, int, tuple[int, ...]], frozenset[str]] = field(
        default_factory=dict
    )
    """As `layouts`, but all that an access has, those too that spread a lane over several threads."""
    barriers: Barriers = field(default_factory=Barriers)
    """Those that stand in the code, the compiler's own among them."""

    @classmethod
    def of(
        cls,
        operations: Iterable[MemoryOperation],
        num_ctas: int,
        barriers: Barriers | None = None,
    ) -> Threads:
        """Of a compiled kernel's."""
        outcome: dict[tuple[AccessKind, int, tuple[int, ...]], set[str]] = {}
        shared = set()
        copied, in_bulk = set[int](), set[int]()
        for operation in operations:
            if not operation.lines:
                continue
            if operation.name in _IN_BULK:
                (copied if operation.kind == "load" else in_bulk).add(operation.lines[0])
            key = operation.kind, operation.lines[0], _without_ones(operation.shape)
            outcome.setdefault(key, set()).add(operation.layout)
            # Of several threads with one lane all load, and always the same one stores.
            if operation.kind == "load" and not one_thread_each(operation.shape, operation.layout):
                shared.add(key)
        plain = {
            key: next(iter(layouts))
            for key, layouts in outcome.items()
            if len(layouts) == 1 and key not in shared
        }
        ways = {key: frozenset(layouts) for key, layouts in outcome.items()}
        return cls(
            plain,
            num_ctas == 1,
            frozenset(copied),
            frozenset(in_bulk),
            ways,
            barriers or Barriers(),
        )

    def spread(self, kind: AccessKind, line: int | None, shape: tuple[int, ...]) -> str | None:
        """How the lanes of an access are spread over threads; None where that is not plain.

        Of two accesses with the same shape and the same spread, equal lanes are in the same thread.
        """
        return None if line is None else self.layouts.get((kind, line, _without_ones(shape)))

    def ways_of(self, kind: AccessKind, line: int | None, shape: tuple[int, ...]) -> frozenset[str]:
        """Each layout that such accesses of this line have; none where the compiled code names none."""
        return (
            frozenset()
            if line is None
            else self.ways.get((kind, line, _without_ones(shape)), frozenset())
        )


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    """One number is a block of one lane to the interpreter."""
    return shape if math.prod(shape) > 1 else ()
