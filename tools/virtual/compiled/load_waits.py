"""How often machine code waits for what it loads from global memory, loop by loop.

A load is waited for by the first instruction that needs its register. What was loaded before that is taken to arrive
together with it, so that these are the fewest trips to memory that stand one after another. Whether a load may be
moved before an earlier store, and how many rounds ptxas unrolls, is seen in the order of the instructions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

_LOAD = "LDG"
_REGISTER = re.compile(r"\bR(\d+)(\.64)?")
_BITS = re.compile(r"\.[US]?(8|16|64|128)(?=\.|$)")
_OTHERWISE = 32
_PTX_LINE = re.compile(r"^\s*\.loc\s+\d+\s+(\d+)")
_PTX_LOAD = re.compile(r"\bld\.global\b[\w.:]*?(?:\.v(\d))?\.[a-z](\d+)\s")


@dataclass(frozen=True)
class Step:
    """One instruction."""

    mnemonic: str
    operands: str
    line: int | None
    """Of the source."""
    guard: str = ""
    """The predicate without which it is not done, as `P0` or `!P0`."""


@dataclass(frozen=True)
class LoadWaits:
    """Of one loop of the machine code, once round, or of what stands in no loop; by the places of the loads.

    A place is the line of the source as text, or, with commas between them, the lines that it may be.
    """

    bits: dict[str, int] = field(default_factory=dict)
    """What the loads of one thread ask for."""
    loads: dict[str, int] = field(default_factory=dict)
    waits: dict[str, int] = field(default_factory=dict)
    """How often something waits for one of these loads that nothing before has waited for."""


Places = Mapping[tuple[int, int], str]
"""By the line that machine code says of a load, and its bits: where it stands in the source."""


def places_of_loads(ptx: str) -> Places:
    """Triton writes a load as assembly of several lines, and LLVM counts the lines of the source on with them."""
    found: dict[tuple[int, int], set[int]] = {}
    line = base = 0
    begins = False
    for row in ptx.splitlines():
        place = _PTX_LINE.match(row)
        if place:
            line = int(place[1])
            base = line if begins else base
            begins = False
        elif "begin inline asm" in row:
            base, begins = line, True
        elif "ld.global" in row and (load := _PTX_LOAD.search(row)):
            found.setdefault((line, int(load[1] or 1) * int(load[2])), set()).add(base)
    return {key: ",".join(map(str, sorted(lines))) for key, lines in found.items()}


def is_load(mnemonic: str) -> bool:
    """Whether an instruction loads from global memory."""
    return mnemonic.partition(".")[0] == _LOAD


def place_of(mnemonic: str, line: int, places: Places) -> str:
    """Where a load stands in the source of which machine code says this line."""
    return places.get((line, _size(mnemonic)), str(line))


def _size(mnemonic: str) -> int:
    width = _BITS.search(mnemonic)
    return int(width[1]) if width else _OTHERWISE


def load_waits(
    steps: Sequence[Step], loops: Iterable[tuple[int, int]], places: Places
) -> tuple[LoadWaits, ...]:
    """`loops`: the first and the last instruction of each."""
    spans = sorted({(first, last) for first, last in loops if first < last}, key=_length)
    inner: dict[int, tuple[int, int]] = {}
    for first, last in spans:
        for at in range(first, last + 1):
            inner.setdefault(at, (first, last))
    parts: dict[tuple[int, int] | None, list[Step]] = {}
    for at, step in enumerate(steps):
        parts.setdefault(inner.get(at), []).append(step)
    found = (_of(held, places, again=span is not None) for span, held in parts.items())
    return tuple(item for item in found if item.bits)


def _length(span: tuple[int, int]) -> tuple[int, int]:
    return span[1] - span[0], span[0]


def _of(steps: Sequence[Step], places: Places, *, again: bool) -> LoadWaits:
    """`again`: they follow each other round after round, of which the second is counted."""
    if not any(is_load(step.mnemonic) for step in steps):
        return LoadWaits()
    bits, loads, waits = Counter[str](), Counter[str](), Counter[str]()
    pending: dict[int, str] = {}
    for turn in range(1 + again):
        counted = turn == again
        for step in steps:
            named = _registers(step.operands)
            first = next((pending[name] for name in named if name in pending), None)
            if first is not None:
                waits[first] += counted
                pending = {}
            if not is_load(step.mnemonic) or step.line is None or not named:
                continue
            size, line = _size(step.mnemonic), place_of(step.mnemonic, step.line, places)
            if counted:
                bits[line] += size
                loads[line] += 1
            pending |= dict.fromkeys(range(named[0], named[0] + max(1, size // _OTHERWISE)), line)
    return LoadWaits(dict(bits), dict(loads), {line: n for line, n in waits.items() if n})


def _registers(operands: str) -> list[int]:
    """Every register that is named, the upper halves of pairs of them too."""
    result: list[int] = []
    for number, pair in _REGISTER.findall(operands):
        result.append(int(number))
        if pair:
            result.append(int(number) + 1)
    return result
