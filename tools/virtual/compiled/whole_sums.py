"""Whether a kernel adds up whole numbers in floating point and gives whole numbers back, by Triton's IR.

A float32 has every whole number up to 16,777,216: products of `int8` add up exactly for 1,024 of the largest, and for more
they do not, whatever the result of a shorter sum has shown.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

from kernelagent.tools.virtual.compiled.ir_lines import (
    MADE_FLOAT,
    MADE_WHOLE,
    IrLine,
    ir_lines,
)

_LOADS = ("tt.load", "tt.descriptor_load", "tt.descriptor_gather")
_AS_THEY_ARE = (
    "arith.extf", "arith.truncf", "tt.fp_to_fp", "arith.select", "tt.trans", "tt.reshape", "tt.broadcast", "tt.splat",
    "tt.expand_dims", "tt.split", "tt.join", "tt.cat",
)  # fmt: skip
"""What these make are the same numbers, elsewhere."""
_WIDE = "f64"
"""It has every whole number up to 2^53."""


@cache
def sums_whole_numbers_in_floats(ttir: str) -> bool:
    """Whether one is added up over lanes, tiles or rounds in 32 bits or fewer, and made whole again."""
    held = _Held()
    # Twice: what a loop hands on to its next round is known at its end.
    return any(held.finds_a_sum(ttir) for _ in range(2))


class _Held:
    """Which values, by their names, are loaded, are whole numbers in floats, and are sums of such."""

    def __init__(self) -> None:
        self._loaded: set[str] = set()
        self._floats: set[str] = set()
        self._summed: set[str] = set()
        self._reduced = ""

    def finds_a_sum(self, ttir: str) -> bool:
        """One pass over the text."""
        for line in ir_lines(ttir):
            for name, other in line.given_by:
                self._same(name, [other])
            self._reduces(line)
            if line.made and self._is_made_whole(line):
                return True
        return False

    def _same(self, name: str, others: Collection[str]) -> None:
        """`name` may hold what these hold."""
        for held in (self._loaded, self._floats, self._summed):
            held |= {name} if held.intersection(others) else set()

    def _reduces(self, line: IrLine) -> None:
        if "tt.reduce" in line.operation and self._floats.intersection(line.operands):
            self._reduced = line.made
        if self._reduced and line.operation.startswith("arith.addf") and _is_narrow(line):
            self._summed.add(self._reduced)
        if "tt.reduce.return" in line.operation:
            self._reduced = ""

    def _is_made_whole(self, line: IrLine) -> bool:
        """Whether this makes a sum whole again; else what it makes is taken in."""
        made, operation, operands = line.made, line.operation, line.operands
        if operation.startswith(_LOADS):
            self._loaded.add(made)
        elif operation.startswith(MADE_FLOAT):
            self._floats |= {made} if self._loaded.intersection(operands) else set()
        elif operation.startswith(MADE_WHOLE):
            return bool(self._summed.intersection(operands))
        elif operation.startswith(("tt.dot", "arith.addf")):
            rounds = {name for region in line.within for name in region.carried}
            adds = operation.startswith("tt.dot") or bool(rounds.intersection(operands))
            begun = self._summed.intersection(operands)
            if begun or (adds and _is_narrow(line) and self._floats.intersection(operands)):
                self._summed.add(made)
        elif operation.startswith(_AS_THEY_ARE):
            self._same(made, operands)
        elif self._loaded.intersection(operands):
            self._loaded.add(made)
        return False


def _is_narrow(line: IrLine) -> bool:
    return not line.operation.endswith((_WIDE, f"{_WIDE}>"))
