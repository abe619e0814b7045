"""Whether a kernel adds up in 16 bits or fewer, by Triton's IR: torch adds up in fp32, and whole numbers in 64 bits.

A budget for rounding that is wide enough for a result in 16 bits has room for such sums while they are short: what
the kernel keeps them in says more than the error of the calls that were judged.
"""

from __future__ import annotations

import re
from functools import cache

_SHORT = re.compile(r"(?:x|<|\b)(bf16|f16|i16|i8)\b")
_PRODUCT = re.compile(r"tt\.dot\b.*->\s*tensor<[\dx]+x(bf16|f16)>")
_REDUCED = re.compile(r"\"tt\.reduce\"|tt\.reduce\b")
_SUM = re.compile(r"arith\.add[fi]\b.*:\s*(bf16|f16|i16|i8)\b")
_YIELD = re.compile(r"scf\.yield\s+(.*?)\s*:\s*(.*?)(?:\s+loc\(.*)?$")
_RETURN = re.compile(r"tt\.reduce\.return")
_NAMES = {"bf16": "bfloat16", "f16": "float16", "i16": "int16", "i8": "int8"}
_ADDED = ("arith.addf", "arith.addi", "arith.truncf", "math.fma", "arith.subf", "arith.mulf")


@cache
def sums_in_16_bits(ttir: str) -> str | None:
    """What is added up so, in words; None where nothing is."""
    made: dict[str, str] = {}
    reducing = False
    for line in ttir.splitlines():
        text = line.strip()
        name, equals, operation = text.partition(" = ")
        if equals:
            made[name.partition(":")[0]] = operation
        if (product := _PRODUCT.search(text)) is not None:
            return f"the products of tiles in {_NAMES[product[1]]}"
        reducing = (reducing or _REDUCED.search(text) is not None) and not _RETURN.search(text)
        if reducing and (summed := _SUM.search(text)) is not None:
            return f"rows in {_NAMES[summed[1]]}"
        if (carried := _carried(text, made)) is not None:
            return f"round after round of a loop in {_NAMES[carried]}"
    return None


def _carried(text: str, made: dict[str, str]) -> str | None:
    """The type of a sum of 16 bits that a loop hands on to its next round."""
    handed = _YIELD.search(text)
    if handed is None:
        return None
    names = [name.strip() for name in handed[1].split(",")]
    types = re.findall(r"tensor<[^>]*>|[\w!]+(?:<[^>]*>)?", handed[2])
    for name, kind in zip(names, types, strict=False):
        short = _SHORT.search(kind) if "ptr" not in kind else None
        if short is not None and made.get(name, "").startswith(_ADDED):
            return short[1]
    return None
