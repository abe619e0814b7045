"""Whether a kernel adds up whole numbers in floating point and gives whole numbers back, by Triton's IR.

A float32 has every whole number up to 16,777,216: products of `int8` add up exactly for 1,024 of the largest, and for more
they do not, whatever the result of a shorter sum has shown.
"""

from __future__ import annotations

from functools import cache

from kernelagent.tools.virtual.compiled.ir_lines import ir_lines

_MADE_FLOAT, _MADE_WHOLE = ("arith.sitofp", "arith.uitofp"), ("arith.fptosi", "arith.fptoui")
_LOADS = ("tt.load", "tt.descriptor_load", "tt.descriptor_gather")
_WIDE = "f64"
"""It has every whole number up to 2^53."""


@cache
def sums_whole_numbers_in_floats(ttir: str) -> bool:
    """Whether one is added up over lanes or rounds in 32 bits or fewer, and made whole again."""
    loaded: set[str] = set()
    floats: set[str] = set()
    summed: set[str] = set()
    regions: list[tuple[str, bool]] = []
    """What each open region makes, and whether it is a loop."""
    reduced = ""
    for line in ir_lines(ttir):
        if line.closes and regions:
            regions.pop()
        made, operation = line.made, line.operation
        operands = line.handed_on or line.operands
        known = [any(operand in held for operand in operands) for held in (loaded, floats, summed)]
        if line.handed_on and regions:
            for held, any_of in zip((loaded, floats, summed), known, strict=True):
                held |= {regions[-1][0]} if any_of else set()
            continue
        if "tt.reduce" in operation and known[1]:
            reduced = made
        if reduced and operation.startswith("arith.addf") and not operation.endswith(_WIDE):
            summed.add(reduced)
        reduced = "" if "tt.reduce.return" in operation else reduced
        if made:
            if operation.startswith(_LOADS):
                loaded.add(made)
            elif operation.startswith(_MADE_FLOAT):
                floats |= {made} if known[0] else set()
            elif operation.startswith(_MADE_WHOLE) and known[2]:
                return True
            else:
                in_rounds = any(loop for _, loop in regions)
                narrow = not operation.endswith((_WIDE, f"{_WIDE}>"))
                if known[2] or (known[1] and narrow and _adds(operation, in_rounds)):
                    summed.add(made)
                floats |= {made} if known[1] else set()
                loaded |= {made} if known[0] else set()
        if line.opens:
            regions.append((made, line.is_loop))
    return False


def _adds(operation: str, in_rounds: bool) -> bool:
    """A product of tiles adds up by itself, a sum of two numbers round after round."""
    added = operation.startswith(("arith.addf", "math.fma"))
    return operation.startswith("tt.dot") or (added and in_rounds)
