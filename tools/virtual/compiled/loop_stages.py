"""How many rounds ahead a kernel's loops load, by Triton's IR: a loop of `tl.range(..., num_stages=4)` has its own number."""

from __future__ import annotations

import math
import re
from collections import Counter
from functools import cache

from kernelagent.tools.virtual.compiled.ir_lines import IrLine, ir_lines
from kernelagent.tools.virtual.compiled.unrolled_loops import FOR, Counters

_OWN = re.compile(r"tt\.num_stages = (\d+)")
_BLOCK = re.compile(r"tensor<((?:\d+x)+)")
_TELLING = 0.1
"""A loop with less of a kernel's products does not speak for the kernel."""


@cache
def loop_stages(ttir: str, given: int) -> int:
    """The fewest of the loops that multiply, else the most that a loop has of its own; `given`: with the launch.

    Of loops whose rounds are numbers, or whose unknown ones are around all of them, those count that multiply a tenth.
    """
    counters, stages = Counters(), dict[IrLine, int]()
    products: Counter[IrLine] = Counter()
    open_ended: dict[IrLine, frozenset[IrLine]] = {}
    of_others: list[int] = []
    for line in ir_lines(ttir):
        counters.read(line.text)
        around = [region for region in line.within if region.is_loop]
        if line.operation.startswith("tt.dot") and around:
            rounds = {region: counters.rounds(FOR.search(region.text)) for region in around}
            products[around[-1]] += _multiplied(line) * math.prod(filter(None, rounds.values()))
            open_ended[around[-1]] = frozenset(r for r, number in rounds.items() if number is None)
        if line.closes and line.within and line.within[-1].is_loop:
            own = _OWN.search(line.text)
            if line.within[-1] in products:
                stages[line.within[-1]] = int(own[1]) if own else given
            elif own:
                of_others.append(int(own[1]))
    if not stages:
        return max(of_others, default=given)
    least = _TELLING * products.total() if len({*open_ended.values()}) == 1 else 0
    return min(number for loop, number in stages.items() if products[loop] >= least)


def _multiplied(line: IrLine) -> int:
    """Multiply-adds of one product, by the blocks of its two operands."""
    left, right, *_ = [
        [int(size) for size in sizes.split("x") if size] for sizes in _BLOCK.findall(line.text)
    ]
    return math.prod(left) * right[-1]
