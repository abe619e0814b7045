"""Whether a kernel computes a place in memory by floating point numbers, by Triton's IR.

A float32 has not every whole number beyond 2^24, and a quotient of two whole numbers may come out just below the one that it is: an
index that is right for all places of a small tensor is wrong for a few of a large one.
"""

from __future__ import annotations

from functools import cache

from kernelagent.tools.virtual.compiled.ir_lines import (
    MADE_FLOAT,
    MADE_WHOLE,
    IrLine,
    ir_lines,
)
from kernelagent.tools.virtual.compiled.memory_operations import places_of

_LOADS = ("tt.load", "tt.atomic", "tt.descriptor_load", "tt.descriptor_gather")


@cache
def places_by_floats(ttir: str) -> str | None:
    """The line of such a place, as text, empty where it is unknown; None: there is none.

    Places are what no load has a part in: coordinates that a caller gives as fractions are theirs.
    """
    known = _Known()
    # Twice: what a loop hands on to its next round is known at its end.
    return known.read(ttir) or known.read(ttir)


class _Known:
    """What is known of values, by their names."""

    def __init__(self) -> None:
        self._loaded: set[str] = set()
        self._fractions: set[str] = set()
        self._whole: dict[str, str] = {}
        """Whole numbers that fractions were made into, and the place where that was."""

    def read(self, ttir: str) -> str | None:
        """One pass over the text, up to the first such place."""
        for line in ir_lines(ttir):
            for name, other in line.given_by:
                self._same(name, other)
            if line.made and (where := self._operation(line)) is not None:
                return str(next(iter(places_of(ttir, "")(where)), ""))
        return None

    def _operation(self, line: IrLine) -> str | None:
        for carried, given in line.carried.items():
            # What a loop carries begins as what is given to it.
            self._same(carried, given)
        operands = line.operands
        if line.operation.startswith("tt.addptr"):
            return self._whole.get(operands[1]) if operands[1] not in self._loaded else None
        if line.operation.startswith(_LOADS):
            self._loaded.add(line.made)
        elif not line.operation.startswith(("arith.cmp", "scf.")):
            self._computed(line)
        return None

    def _computed(self, line: IrLine) -> None:
        made, operands = line.made, line.operands
        if any(operand in self._loaded for operand in operands):
            self._loaded.add(made)
        elif line.operation.startswith(MADE_FLOAT):
            self._fractions.add(made)
        elif line.operation.startswith(MADE_WHOLE):
            if operands[0] in self._fractions:
                self._whole[made] = line.location
        elif any(operand in self._fractions for operand in operands):
            self._fractions.add(made)
        else:
            begun = [self._whole[operand] for operand in operands if operand in self._whole]
            self._whole |= {made: begun[0]} if begun else {}

    def _same(self, name: str, other: str) -> None:
        """`name` may hold what `other` holds."""
        for held in (self._loaded, self._fractions):
            held |= {name} if other in held else set()
        if other in self._whole:
            self._whole[name] = self._whole[other]
