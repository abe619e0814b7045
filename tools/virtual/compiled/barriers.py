"""Whether a compiled kernel can come from one access of global memory to another without a barrier between.

Triton puts barriers of its own where threads exchange values in shared memory: for sums over several warps, products,
changes of layout. They order global memory as well as `tl.debug_barrier()` does (PTX ISA, `bar.sync`: "memory accesses
requested by this thread prior to the barrier are performed relative to all threads participating in the barrier").
Read from the PTX, which has every load, store and barrier in the order in which a thread comes to them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from kernelagent.tools.virtual.executor.launch import AccessKind
from kernelagent.tools.virtual.executor.source import FILE_NAME

_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"')
_PLACE = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)")
_LABEL = re.compile(r"^(\$L__BB\w+):")
_JUMP = re.compile(r"^\s*(@!?%\w+\s+)?bra(?:\.uni)?\s+(\$[\w$]+)")
_END = re.compile(r"^\s*(?:ret|exit|trap)\b")
_TABLE = re.compile(r"\bbrx\.idx\b")
_ACCESS = re.compile(
    r"\b(?:(ld\.(?:\w+\.)*global|cp\.async\.c[ag]\.)|(st\.(?:\w+\.)*global|cp\.async\.bulk\.(?:tensor\.\dd\.)?(?:tile::\w+\.)?global)|((?:atom|red)\.(?:\w+\.)*global))"
)
_ACCESSES: tuple[AccessKind, ...] = ("load", "store", "atomic")
_Place = tuple[AccessKind, int | None]
"""Kind of an access and its line of the source."""
_BEGINS, _ENDS = "// begin inline asm", "// end inline asm"
_OF_A_BLOCK = re.compile(r"\b(?:bar|barrier)(?:\.cta)?\.(?:sync|red)\b|\bbarrier\.cluster\.wait\b")
_OF_A_CLUSTER = re.compile(r"\bbarrier\.cluster\.wait\b")
_COPIES_OUT = re.compile(r"\bcp\.async\.bulk\.(?:tensor\.\dd\.)?(?:tile::\w+\.)?global\b")
_COPIED = re.compile(r"\bcp\.async\.bulk\.wait_group\s+0\b")
_MEETING = re.compile(
    r"\b(?:bar|barrier|mbarrier|fence\.proxy|shfl|vote|match|redux|activemask|elect|brx)\b|\.shared\b|\bcp\.async\b"
)
_OF_A_WARP = re.compile(r"\b(?:shfl|vote|match|redux)\.sync\b|\bbar\.warp\.sync\b")


@dataclass(frozen=True)
class _Step:
    """One line of the PTX that matters."""

    kind: AccessKind | None = None
    line: int | None = None
    """Of the candidate's source, where it is an access."""
    copies: bool = False
    """Whether it is a store that goes on beside the program."""
    copied: bool = False
    """Whether the program waits here for the end of all such stores."""
    waits: bool = False
    """Whether all threads of the program wait for each other here."""
    waits_in_warp: bool = False
    label: str | None = None
    target: str | None = None
    goes_on: bool = True
    anywhere: bool = False
    """A jump by a table: to any label."""


@dataclass(frozen=True)
class Barriers:
    """Those of one compiled kernel; read when they are asked for."""

    ptx: str = ""
    num_warps: int = 4
    num_ctas: int = 1

    @cached_property
    def threads_meet(self) -> bool:
        """Whether threads wait for each other or hand values over anywhere; True where the code is not known."""
        return not self.ptx or self.num_ctas > 1 or _MEETING.search(self.ptx) is not None

    def missing(
        self,
        first: _Place,
        then: _Place,
        *,
        of_warps: bool = True,
    ) -> bool:
        """Whether some way leads from the first access to the other with no barrier on it; each is (kind, source line).

        True where the code has no such accesses. `of_warps`: only barriers between warps count; else also what the
        lanes of a warp exchange.
        """
        asked = first, then, of_warps
        if asked not in self._known:
            starts, ends = self._places(first), set(self._places(then))
            self._known[asked] = (
                not starts
                or not ends
                or any(
                    self._leads(at, ends, alike=first == then, of_warps=of_warps) for at in starts
                )
            )
        return self._known[asked]

    def _places(self, access: _Place) -> list[int]:
        """Where the code has it; an atomic that adds nothing is made a load, one that only replaces a store."""
        kind, line = access
        result = [at for at, step in enumerate(self._steps) if (step.kind, step.line) == access]
        if not result and kind == "atomic" and line is not None:
            return [at for at, step in enumerate(self._steps) if step.kind and step.line == line]
        return result

    def under_way(self, line: int | None, then: _Place) -> bool:
        """Whether a copy that a descriptor's store on this line begins may not have ended at a later access.

        That is where some way leads there on which the program does not wait for its end, with a barrier behind.
        True where the code has no such accesses.
        """
        steps, ends = self._steps, set(self._places(then))
        starts = [at for at, step in enumerate(steps) if step.copies and step.line == line]
        if not starts or not ends:
            return True
        alike = ("store", line) == then
        return any(self._leads(at, ends, alike=alike, of_warps=True) for at in starts)

    def _leads(self, start: int, ends: set[int], *, alike: bool, of_warps: bool) -> bool:
        steps = self._steps
        seen = set[tuple[int, bool]]()
        # Of a copy also whether it has ended there, without which no barrier counts.
        waiting = [(start + 1, not steps[start].copies)]
        # One access of a block is several instructions in a row, which need no barrier between them.
        own = set[int]()
        if alike:
            at = start
            while at < len(steps) and (steps[at].kind, steps[at].line) == (
                steps[start].kind,
                steps[start].line,
            ):
                own.add(at)
                at += 1
        while waiting:
            at, ended = waiting.pop()
            if (at, ended) in seen or at >= len(steps):
                continue
            seen.add((at, ended))
            step = steps[at]
            if at in ends and at not in own:
                return True
            ended = ended or step.copied
            waits = step.waits or (step.waits_in_warp and (not of_warps or self.num_warps == 1))
            if ended and waits:
                continue
            if step.target is not None:
                waiting.append((self._labels.get(step.target, len(steps)), ended))
            if step.anywhere:
                waiting += [(there, ended) for there in self._labels.values()]
            if step.goes_on:
                waiting.append((at + 1, ended))
        return alike and any(at == start for at, _ in seen)

    @cached_property
    def _known(self) -> dict[tuple[_Place, _Place, bool], bool]:
        """Answers so far: a loop asks of the same two lines at each of its steps."""
        return {}

    @cached_property
    def _steps(self) -> tuple[_Step, ...]:
        return tuple(self._read())

    @cached_property
    def _labels(self) -> dict[str, int]:
        return {step.label: at for at, step in enumerate(self._steps) if step.label is not None}

    def _read(self) -> Iterator[_Step]:
        waits = _OF_A_BLOCK if self.num_ctas == 1 else _OF_A_CLUSTER
        for line, code in _placed(self.ptx):
            if label := _LABEL.match(code):
                yield _Step(label=label[1])
            elif jump := _JUMP.match(code):
                yield _Step(target=jump[2], goes_on=jump[1] is not None)
            elif _TABLE.search(code):
                yield _Step(anywhere=True, goes_on=False)
            elif _END.match(code):
                yield _Step(goes_on=False)
            elif waits.search(code):
                yield _Step(waits=True)
            elif _OF_A_WARP.search(code):
                yield _Step(waits_in_warp=True)
            elif _COPIED.search(code):
                yield _Step(copied=True)
            elif access := _ACCESS.search(code):
                kind = next(k for k, part in zip(_ACCESSES, access.groups(), strict=True) if part)
                yield _Step(kind=kind, line=line, copies=bool(_COPIES_OUT.search(code)))


def _placed(ptx: str) -> Iterator[tuple[int | None, str]]:
    """Each line of the code with its source line; None: of no line of the candidate's.

    An access is several lines of assembly in one piece, and LLVM gives each of these the place of another
    instruction: the first is the access's own.
    """
    rows = ptx.splitlines()
    files = {match[1]: match[2] for row in rows if (match := _FILE.match(row))}
    line: int | None = None
    piece: int | None = None
    inside = placed = False
    for row in rows:
        if _BEGINS in row or _ENDS in row:
            inside, placed, piece = _BEGINS in row, False, line
            continue
        code = row.partition("//")[0]
        if place := _PLACE.match(code):
            own = files.get(place[1], "").endswith(FILE_NAME)
            line = int(place[2]) if own else None
            if inside and not placed:
                piece, placed = line, True
        elif code.strip():
            yield piece if inside else line, code
