"""Whether a kernel adds up whole numbers in floating point and gives whole numbers back, by Triton's IR.

A float32 has every whole number up to 16,777,216: products of `int8` add up exactly for 1,024 of the largest, and for more
they do not, whatever the result of a shorter sum has shown.
"""

from __future__ import annotations

import re
from functools import cache

_NAME = re.compile(r"%[\w.$-]+")
_PLACE = re.compile(r"\s*loc\([^()]*\)$")
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
    for line in ttir.splitlines():
        text = _PLACE.sub("", line.strip())
        if text.startswith("}") and regions:
            regions.pop()
        name, equals, operation = text.partition(" = ")
        made = name.partition(":")[0] if equals else ""
        operands = _NAME.findall(operation if equals else text)
        known = [any(operand in held for operand in operands) for held in (loaded, floats, summed)]
        if text.startswith("scf.yield") and regions:
            made = regions[-1][0]
            for held, any_of in zip((loaded, floats, summed), known, strict=True):
                held |= {made} if any_of else set()
            continue
        if "tt.reduce" in operation and known[1]:
            reduced = made
        if reduced and "arith.addf" in operation and _WIDE not in operation:
            summed.add(reduced)
        reduced = "" if "tt.reduce.return" in text else reduced
        if not equals:
            continue
        if operation.startswith(_LOADS):
            loaded.add(made)
        elif operation.startswith(_MADE_FLOAT):
            floats |= {made} if known[0] else set()
        elif operation.startswith(_MADE_WHOLE) and known[2]:
            return True
        else:
            adds = operation.startswith(("tt.dot", "arith.addf", "math.fma"))
            in_rounds = operation.startswith("tt.dot") or any(loop for _, loop in regions)
            narrow = not text.endswith(_WIDE) and f"{_WIDE}>" not in text
            if known[2] or (adds and in_rounds and known[1] and narrow):
                summed.add(made)
            floats |= {made} if known[1] else set()
            loaded |= {made} if known[0] else set()
        if text.endswith("{"):
            regions.append((made, operation.startswith(("scf.for", "scf.while"))))
    return False
