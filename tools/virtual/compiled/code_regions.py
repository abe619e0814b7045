"""What one pass through each part of a compiled kernel takes, read from its TTGIR.

The TTGIR is the compiler's last form with blocks of lanes in it: each operation there has a layout, so that what
threads repeat is seen, and so are the changes of layout that stand in no candidate's text. A region is a loop's body,
one side of an `if`, or what is outside of both; how often a program passes it is what the interpreter counts.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from kernelagent.tools.virtual.compiled.layout_bits import (
    SHARED_BYTES_PER_CLOCK,
    SHUFFLES_PER_CLOCK,
    LayoutBits,
    conversion,
    layout_bits,
)
from kernelagent.tools.virtual.compiled.memory_operations import (
    LOCATION_AT_END,
    named_layouts,
    places_of,
)
from kernelagent.tools.virtual.compiled.unrolled_loops import FOR, Counters, quotient, steps_of
from kernelagent.tools.virtual.cost.combining import ACROSS_BLOCKS, Combining, combining_clocks

Side = Literal["loop", "then", "else"]
Taken = Literal[
    "issued_fp", "issued_int", "issued_special", "shared", "exchange", "loading", "combining"
]
"""`issued_*`: lanes' instructions, repeated ones included; `shared`: clocks of a multiprocessor's shared memory;
`exchange`: waits of threads for each other; `loading`: passes of a loop in which something is loaded; `combining`:
clocks of sums and running sums over several warps, of which none begins before the barriers of the one before."""
Pass = Mapping[Taken, int]
Asked = Mapping[str, int]
"""Bytes that the loads of one line ask for, by that line as text: of all threads, those that ask for the same included."""

_SPECIALISED = "ttg.warp_specialize"
_NAME = re.compile(r"^(?:%[^=]*= )?\"?([a-z_]+\.[a-z_0-9.]+)")
_WARPS = re.compile(r'"ttg\.num-warps" = (\d+)')
_SIZES = re.compile(r"((?:\d+x)*)(.*)", re.DOTALL)
_COMBINING = re.compile(r'"tt\.(reduce|scan)"\(.*axis = (\d+)')
_DIGITS = re.compile(r"\d+")
_POINTEE = re.compile(r"!tt\.ptr<[a-z]+(\d+)")
_LANES = 32
_COUNTED_BESIDE = 12
"""Clocks that each of them has as an exchange (`dataflow.EXCHANGE_CLOCKS`)."""
_FP = frozenset(
    ("arith.addf", "arith.subf", "arith.mulf", "arith.maxnumf", "arith.minnumf", "arith.maximumf", "arith.minimumf",
     "arith.negf", "arith.cmpf", "arith.truncf", "arith.extf", "tt.fp_to_fp", "math.absf", "math.floor", "math.ceil")
)  # fmt: skip
_INT = frozenset(
    ("arith.addi", "arith.subi", "arith.muli", "arith.andi", "arith.ori", "arith.xori", "arith.shli", "arith.shrsi",
     "arith.shrui", "arith.cmpi", "arith.minsi", "arith.maxsi", "arith.minui", "arith.maxui", "tt.mulhiui")
)  # fmt: skip
_SPECIAL = frozenset(
    ("math.exp", "math.exp2", "math.log", "math.log2", "math.sqrt", "math.rsqrt", "math.sin", "math.cos", "math.erf",
     "arith.divf", "tt.precise_sqrt", "tt.precise_divf", "tt.approx_divf")
)  # fmt: skip
_LOADS = frozenset(("tt.load", "tt.descriptor_load", "tt.descriptor_gather"))
_INTO_SHARED = frozenset(("ttg.local_alloc", "ttg.local_store"))
_FUSED = 2
"""A multiply-add counts twice, as peaks do."""
_STORE_AND_LOAD = 2
"""Waits of a change of layout through shared memory: for what others read from there before, and for what they store."""


@dataclass(frozen=True)
class Regions:
    """What a pass takes, by the line and the side of the loop or `if`; `outside`: what a program does once."""

    outside: Pass = field(default_factory=dict)
    inside: Mapping[tuple[int, Side], Pass] = field(default_factory=dict)
    gathers_in_shared: bool = False
    """Whether `tl.gather` goes through shared memory, not by shuffles."""
    asked: Mapping[tuple[int, Side] | None, Asked] = field(default_factory=dict)
    """What a pass loads; None: what a program loads once."""

    def at(self, first: int, last: int, side: Side) -> Pass:
        """Of what stands behind a head that has these lines."""
        for line in range(first, last + 1):
            result = self.inside.get((line, side))
            if result is not None:
                return result
        return {}

    def asked_at(self, first: int, last: int, side: Side) -> Asked:
        """What a pass loads of what stands behind a head that has these lines."""
        lines = range(first, last + 1)
        return next((self.asked[n, side] for n in lines if (n, side) in self.asked), {})


@dataclass
class _Region:
    """One that is being read; without a side it belongs to the one around it."""

    side: Side | None = None
    before: _Region | None = None
    """The first side of an `if`, where this is the other: where both stand is said behind the last."""
    line: int | None = None
    taken: Counter[Taken] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    combining: re.Match[str] | None = None
    """Of a sum or running sums that this says how to form."""
    parts: list[_Region] = field(default_factory=list)
    loop: re.Match[str] | None = None
    step: int | None = None
    """By how much the loop counts, where that is a number."""
    place: str = ""
    """Where it ends, by the name of the place: copies that were made of one loop have it in common."""
    left_over: _Region | None = None
    """A loop that begins where this one ends, and this one's step in steps of that one."""
    rounds: int = 1

    def passes(self, step: int | None) -> int:
        """Of the text, in one pass through this; `step`: of its loop before it was unrolled."""
        rounds, left = quotient(self.step, step), self.left_over
        if left is not None and left.place == self.place:
            # Of loops that only look like one that was unrolled, the first has no more in it than the other.
            rounds = max(rounds, min(self.rounds, self.taken.total() // max(1, left.taken.total())))
        return rounds

    def stands_at(self, line: int | None) -> None:
        self.line = line
        if self.before is not None:
            self.before.stands_at(line)


def regions_of(ttgir: str, file: str, source: str = "") -> Regions:
    """`file`: how the name of the kernel's file ends; `source`: the form before any pass, where nothing is unrolled.

    Where warps are specialised nothing is known.
    """
    warps = _WARPS.search(ttgir)
    if _SPECIALISED in ttgir or warps is None:
        return Regions()
    lines_at, reader = places_of(ttgir, file), _Reader(named_layouts(ttgir), int(warps[1]))
    outside, counters = _Region(), Counters()
    around = [outside]
    for raw in ttgir.splitlines():
        text = raw.strip()
        counters.read(text)
        closed = None
        if text.startswith("}") and len(around) > 1:
            closed = around.pop()
            around[-1].taken.update(reader.combined(closed.combining, text))
            end = LOCATION_AT_END.search(text)
            if end is not None:
                lines = lines_at(end[1])
                closed.place = end[1]
                closed.stands_at(lines[0] if lines else None)
        around[-1].taken.update(reader.taken(text))
        place = LOCATION_AT_END.search(text) if "tt.load " in text else None
        if place is not None and (lines := lines_at(place[1])):
            around[-1].asked[str(lines[0])] += reader.asked(text)
        if text.endswith("{"):
            opened = _Region(*_side(text, closed), combining=_COMBINING.search(text))
            if (loop := FOR.search(text)) is not None:
                opened.loop, opened.step = loop, counters.step(loop)
                before = around[-1].parts[-1] if around[-1].parts else opened
                # What was left over begins where the unrolled loop ends.
                if before.loop is not None and before.loop["end"] == loop["begin"]:
                    before.left_over = opened
                    before.rounds = counters.times(before.loop["step"], loop["step"])
            around[-1].parts.append(opened)
            around.append(opened)
    return _summed(outside, steps_of(source, file), gathers_in_shared=reader.gathers_in_shared)


def _side(text: str, closed: _Region | None) -> tuple[Side | None, _Region | None]:
    # The condition of a `while` stands before its rounds; what it takes is left to what is around.
    if "scf.for " in text or text.startswith("} do {"):
        return "loop", None
    if "scf.if " in text:
        return "then", None
    if text.startswith("} else {"):
        return "else", closed
    return None, None


def _summed(outside: _Region, steps: Mapping[int, int], *, gathers_in_shared: bool) -> Regions:
    """What copies that the compiler made of one place take counts as their mean: each runs its share of the passes.

    A copy of an unrolled loop is as many passes of the text as it has rounds.
    """
    result: dict[tuple[int, Side], list[_Region]] = {}

    def visit(region: _Region) -> None:
        for part in region.parts:
            visit(part)
            if part.side is None or part.line is None:
                region.taken.update(part.taken)
                region.asked.update(part.asked)
            else:
                result.setdefault((part.line, part.side), []).append(part)

    visit(outside)
    inside: dict[tuple[int, Side], Pass] = {}
    asked: dict[tuple[int, Side] | None, Asked] = {None: outside.asked}
    for place, copies in result.items():
        passes = sum(copy.passes(steps.get(place[0])) for copy in copies)
        taken = sum((copy.taken for copy in copies), Counter[Taken]())
        mean = {kind: math.ceil(number / passes) for kind, number in taken.items()}
        inside[place] = mean | ({"loading": int(place[1] == "loop")} if "loading" in mean else {})
        loaded = sum((copy.asked for copy in copies), Counter[str]())
        asked[place] = {line: number // passes for line, number in loaded.items()}
    return Regions(
        {kind: n for kind, n in outside.taken.items() if n and kind != "loading"},
        inside,
        gathers_in_shared,
        asked,
    )


@dataclass
class _Block:
    """The type of a block as an operation's line has it."""

    shape: tuple[int, ...]
    element: str
    layout: LayoutBits | None

    @property
    def bits(self) -> int:
        """Of one element."""
        digits = _DIGITS.search(self.element)
        return 64 if "ptr" in self.element or digits is None else int(digits[0])

    @property
    def held(self) -> int:
        """Elements of all threads together; at least each element once."""
        size = math.prod(self.shape)
        return size if self.layout is None else max(size, self.layout.held)


class _Reader:
    """Of one kernel's lines."""

    def __init__(self, layouts: Mapping[str, str], warps: int) -> None:
        self._layouts, self._warps = layouts, warps
        self._known: dict[tuple[str, tuple[int, ...]], LayoutBits | None] = {}
        self.gathers_in_shared = False

    def taken(self, text: str) -> Counter[Taken]:
        """What the operation on this line takes, once, of all threads of a program."""
        result, name = Counter[Taken](), _NAME.match(text)
        if name is None:
            return result
        if name[1] in _LOADS:
            result["loading"] += 1
        if "tensor<" in text:
            blocks = list(self._blocks(text))
            if blocks:
                self._of_blocks(name[1], text, blocks, result)
        return result

    def combined(self, what: re.Match[str] | None, text: str) -> Counter[Taken]:
        """Of a sum or running sums whose type is on this line."""
        result = Counter[Taken]()
        block = next(self._blocks(text), None) if what is not None else None
        if what is None or block is None or block.layout is None:
            return result
        axis, layout = int(what[2]), block.layout
        registers, lanes, warps, blocks = (
            sum(place[axis] > 0 for place in places)
            for places in (layout.registers, layout.lanes, layout.warps, layout.blocks)
        )
        if warps or blocks:
            kind: Combining = "scan" if what[1] == "scan" else "reduce"
            in_one = kind == "reduce" and block.element.startswith("i")
            clocks = combining_clocks(kind, registers, lanes, warps, in_one=in_one)
            clocks += ACROSS_BLOCKS if blocks else 0
            result["combining"] += max(0, clocks - _COUNTED_BESIDE)
        return result

    def asked(self, text: str) -> int:
        """Bytes that a load on this line asks for, of all threads."""
        pointee = _POINTEE.search(text)
        size = max(8, int(pointee[1])) // 8 if pointee else 0
        block = next(self._blocks(text), None)
        return size * (self._warps * _LANES if block is None else block.held)

    def _of_blocks(
        self, name: str, text: str, blocks: list[_Block], result: Counter[Taken]
    ) -> None:
        last = blocks[-1]
        size = math.prod(last.shape)
        if name == "ttg.convert_layout":
            change = conversion(blocks[0].layout, last.layout, last.shape, max(8, last.bits) / 8)
            result["shared"] += math.ceil(change.clocks)
            result["exchange"] += _STORE_AND_LOAD * change.through_shared
        elif name in _INTO_SHARED or name == "ttg.local_load":
            result["shared"] += math.ceil(size * last.bits / 8 / SHARED_BYTES_PER_CLOCK)
        elif name == "tt.histogram":
            # Threads add to the bins in shared memory one lane after another at worst, and side by side at best.
            result["shared"] += math.ceil(blocks[0].held / SHUFFLES_PER_CLOCK)
            result["exchange"] += _STORE_AND_LOAD
        elif name == "tt.gather":
            self._gathered(text, blocks, result)
        elif last.element == "f64" or last.bits == 1:
            return
        elif name in _SPECIAL:
            result["issued_special"] += last.held
        elif name in _FP or name == "math.fma":
            # Two of 16 bits go in one instruction.
            times = _FUSED if name == "math.fma" else 1
            result["issued_fp"] += times * last.held * min(32, last.bits) // 32
        elif name in _INT:
            result["issued_int"] += last.held * max(32, last.bits) // 32

    def _gathered(self, text: str, blocks: list[_Block], result: Counter[Taken]) -> None:
        source, last = blocks[0], blocks[-1]
        if "efficient_layout" in text:
            result["shared"] += math.ceil(last.held / SHUFFLES_PER_CLOCK)
            return
        self.gathers_in_shared = True
        both = math.prod(source.shape) + last.held
        result["shared"] += math.ceil(both * max(8, last.bits) / 8 / SHARED_BYTES_PER_CLOCK)

    def _blocks(self, text: str) -> Iterator[_Block]:
        """The types of blocks on this line, one after the other."""
        at = text.find("tensor<")
        while at >= 0:
            inner = _inside(text, at + len("tensor<"))
            sizes = _SIZES.match(inner)
            assert sizes is not None
            shape = tuple(int(size) for size in sizes[1].split("x") if size)
            element, _, layout = sizes[2].partition(", ")
            yield _Block(shape, element, self._layout(layout, shape))
            at = text.find("tensor<", at + len(inner))

    def _layout(self, text: str, shape: tuple[int, ...]) -> LayoutBits | None:
        key = text, shape
        if key not in self._known:
            self._known[key] = layout_bits(text, shape, self._layouts, self._warps)
        return self._known[key]


def _inside(text: str, begin: int) -> str:
    """Up to the bracket that closes what `begin` stands in."""
    depth, at = 1, begin
    while depth and at < len(text):
        arrow = text[at - 1] == "-"
        depth += (text[at] == "<") - (text[at] == ">" and not arrow)
        at += 1
    return text[begin : at - 1]
