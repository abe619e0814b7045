"""How many rounds ahead a kernel's loops load, by Triton's IR: a loop of `tl.range(..., num_stages=4)` has its own number."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from kernelagent.tools.virtual.compiled.ir_lines import ir_lines

_OWN = re.compile(r"tt\.num_stages = (\d+)")


@dataclass
class _Region:
    """What is open at a line."""

    loops: bool
    multiplies: bool = False


@cache
def loop_stages(ttir: str, given: int) -> int:
    """The fewest of the loops that multiply, else the most that a loop has of its own; `given`: with the launch."""
    of_products: list[int] = []
    of_others: list[int] = []
    regions: list[_Region] = []
    for line in ir_lines(ttir):
        if line.closes and regions:
            region = regions.pop()
            own = _OWN.search(line.text)
            if region.loops and region.multiplies:
                of_products.append(int(own[1]) if own else given)
            elif region.loops and own:
                of_others.append(int(own[1]))
        if line.operation.startswith("tt.dot"):
            inner = next((region for region in reversed(regions) if region.loops), None)
            if inner is not None:
                inner.multiplies = True
        if line.opens:
            regions.append(_Region(line.is_loop))
    return min(of_products) if of_products else max(of_others, default=given)
