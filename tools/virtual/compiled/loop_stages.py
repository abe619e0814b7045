"""How many rounds ahead a kernel's loops load, by Triton's IR: a loop of `tl.range(..., num_stages=4)` has its own number."""

from __future__ import annotations

import re
from functools import cache

from kernelagent.tools.virtual.compiled.ir_lines import ir_lines

_OWN = re.compile(r"tt\.num_stages = (\d+)")


@cache
def loop_stages(ttir: str, given: int) -> int:
    """The fewest of the loops that multiply, else the most that a loop has of its own; `given`: with the launch."""
    of_products: list[int] = []
    of_others: list[int] = []
    multiplying: set[str] = set()
    for line in ir_lines(ttir):
        if line.operation.startswith("tt.dot"):
            around = [region.text for region in line.within if region.is_loop]
            multiplying.update(around[-1:])
        if line.closes and line.within and line.within[-1].is_loop:
            own = _OWN.search(line.text)
            if line.within[-1].text in multiplying:
                of_products.append(int(own[1]) if own else given)
            elif own:
                of_others.append(int(own[1]))
    return min(of_products) if of_products else max(of_others, default=given)
