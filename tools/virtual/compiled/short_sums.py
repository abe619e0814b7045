"""Whether a kernel adds up in 16 bits or fewer, by Triton's IR: torch adds up in fp32, and whole numbers in 64 bits.

A budget for rounding that is wide enough for a result in 16 bits has room for such sums while they are short: what
the kernel keeps them in says more than the error of the calls that were judged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache

from kernelagent.tools.virtual.compiled.ir_lines import ir_lines

_SHORT = re.compile(r"(?:x|<|\b)(bf16|f16|i16|i8)\b")
_PRODUCT = re.compile(r"tt\.dot\b.*->\s*tensor<[\dx]+x(bf16|f16)>")
_REDUCED = re.compile(r"\"tt\.reduce\"|tt\.reduce\b")
_SUM = re.compile(r"arith\.add[fi]\b.*:\s*(bf16|f16|i16|i8)\b")
_YIELD = re.compile(r"scf\.yield\s+(.*?)\s*:\s*(.*?)(?:\s+loc\(.*)?$")
_RETURN = re.compile(r"tt\.reduce\.return")
_NAMES = {"bf16": "bfloat16", "f16": "float16", "i16": "int16", "i8": "int8"}
_ADDED = ("arith.addf", "arith.addi", "arith.subf", "arith.subi", "math.fma", "tt.dot")
_TAKEN_FROM = ("arith.subf", "arith.subi")
_OPERAND = re.compile(r"%[\w.$-]+")
_CONDITION = re.compile(r"scf\.condition\(%[\w.$-]+\)\s+(.*?)\s*:")
_ARGUMENT = re.compile(r"(%[\w.$-]+): ")


@cache
def sums_in_16_bits(ttir: str) -> str | None:
    """What is added up so, in words; None where nothing is."""
    made: dict[str, str] = {}
    reducing, goes_on = False, list[str]()
    for line in ir_lines(ttir):
        text = line.text
        if line.made:
            made[line.made] = line.operation
        if (product := _PRODUCT.search(text)) is not None:
            return f"the products of tiles in {_NAMES[product[1]]}"
        reducing = (reducing or _REDUCED.search(text) is not None) and not _RETURN.search(text)
        if reducing and (summed := _SUM.search(text)) is not None:
            return f"rows in {_NAMES[summed[1]]}"
        if line.within and (handed := _YIELD.search(text)) is not None:
            region = line.within[-1]
            if (carried := _carried(handed, made, list(region.carried))) is not None:
                return f"round after round of a loop in {_NAMES[carried]}"
            made[region.made] = f"{made.get(region.made, '')} {handed[1]}"
        if (condition := _CONDITION.search(text)) is not None:
            goes_on = _OPERAND.findall(condition[1])
        if text.startswith("^bb"):
            # The rounds of a `while` begin with what its condition hands on.
            made |= zip(_ARGUMENT.findall(text), goes_on, strict=False)
        if line.opens:
            made |= line.carried
    return None


def _carried(handed: re.Match[str], made: Mapping[str, str], carries: Sequence[str]) -> str | None:
    """The type of a sum of 16 bits that a loop hands on to its next round."""
    names = [name.strip() for name in handed[1].split(",")]
    types = re.findall(r"tensor<[^>]*>|[\w!]+(?:<[^>]*>)?", handed[2])
    for name, kind, begun in zip(names, types, carries, strict=False):
        short = _SHORT.search(kind) if "ptr" not in kind else None
        if short is not None and _adds_to(name, begun, made):
            return short[1]
    return None


def _adds_to(name: str, begun: str, made: Mapping[str, str]) -> bool:
    """Whether something is added to what the round began with, on the way to what it hands on."""
    waiting, seen = [(name, False)], set[tuple[str, bool]]()
    while waiting:
        value, added = waiting.pop()
        if value == begun and added:
            return True
        if (value, added) in seen or value not in made:
            continue
        seen.add((value, added))
        operation = made[value]
        added = added or operation.startswith(_ADDED)
        operands = _OPERAND.findall(operation)
        # From something less what the round began with nothing adds up.
        operands = operands[:1] if operation.startswith(_TAKEN_FROM) else operands
        waiting += [(operand, added) for operand in operands]
    return False
